"""How far from a module's `reference` its program lets a right kernel be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cutegen.codegen.asked import family_of
from cutegen.codegen.exactness import NARROW, inexact, is_exact
from cutegen.dtypes import Dtype
from cutegen.expressions.functions import TO_WHOLE
from cutegen.expressions.parsing import Binary, Call, Cast, Expr, Local, MatMul, Reduce, Typed, walk
from cutegen.expressions.reducing import without_definitions
from cutegen.expressions.tree import COMPARISONS, ON_FLOATS, Select
from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan

_STEP = {  # from 1 to the next number, as a power of two
    Dtype.f64: -52,
    Dtype.f32: -23,
    Dtype.f16: -10,
    Dtype.bf16: -7,
    Dtype.f8e4m3: -3,
    Dtype.f8e5m2: -2,
}
_SUMS = 12  # doublings of a step that sums in another order, and functions of such sums, may differ by
_FUSED_SUMS = 7  # the same of tensor cores that cut each term of a sum


def tolerance(plan: Plan) -> int | None:
    """The relative error that correct kernels may have besides the last bits of outputs, as an exponent of two.

    None where all correct kernels compute every output identically.
    """
    if not plan.statements:  # all that such a family computes is taken for f32
        return _STEP[Dtype.f32] + _SUMS
    found: list[int] = []
    for typed, exact in _known(without_definitions(plan.statements)):
        whole = typed.value if typed.stored is None else typed.stored
        nodes = [node for node in inexact(whole, exact) if not isinstance(node, Local)]
        found += [_of(plan.spec, node, typed.stored is not None and node is whole) for node in nodes]
    return max(found, default=None)


def jumps(plan: Plan) -> bool:
    """Whether the last bits of what is computed decide what an element is: where numbers are made whole or compared, or
    have a place found.
    """
    return any(_jumps(node) or _is_made_whole(node) for node in _computed(plan))


def steps(plan: Plan) -> bool:
    """Whether computed numbers are made whole: many may be halfway between two, as the half of a row's largest is."""
    return any(_is_made_whole(node) for node in _computed(plan))


def borders(plan: Plan) -> bool:
    """Whether such numbers decide between values that may be far apart. Values that are made whole as they are stored,
    and read by no other statement, are next to each other.
    """
    for number, (typed, exact) in enumerate(_known(plan.statements)):
        later = (node for other in plan.statements[number + 1 :] for node in walk(other.value))
        read = any(isinstance(node, Local) and node.id == typed.target for node in later)
        node = typed.value if typed.stored is None else typed.stored
        while typed.stored is not None and not read and _is_made_whole(node):
            (node,) = node.children
        if any(_jumps(x) or _is_made_whole(x) for x in walk(node) if not is_exact(x, exact)):
            return True
    return False


def _computed(plan: Plan) -> Iterator[Expr]:
    """All parts of statements that right kernels may compute otherwise, as `compute` has them."""
    for typed, exact in _known(plan.statements):
        whole = typed.value if typed.stored is None else typed.stored
        yield from (node for node in walk(whole) if not is_exact(node, exact))


def _known(statements: Sequence[Typed]) -> Iterator[tuple[Typed, set[str]]]:
    """Each statement, and the targets up to it that have the same value in every right kernel."""
    exact: set[str] = set()
    for typed in statements:
        exact.discard(typed.target)
        if is_exact(typed.value, exact):
            exact.add(typed.target)
        yield typed, exact


def _jumps(node: Expr) -> bool:
    match node:
        case Binary(op=op):
            return op in (*COMPARISONS, *ON_FLOATS)
        case Cast(dtype=Dtype.bool, x=x):
            return x.dtype is not None and x.dtype.is_float
        case Call(function=name) | Reduce(function=name):
            return name in (*ON_FLOATS.values(), "argmax", "argmin", "sign")
        case Select(function="argtopk"):
            return True
    return False


def _is_made_whole(node: Expr) -> bool:
    match node:
        case Call(function=name):
            return name in TO_WHOLE
        case Cast(dtype=Dtype() as dtype, x=x):
            return dtype.is_integer and x.dtype is not None and x.dtype.is_float
    return False


def _of(spec: KernelSpec, node: Expr, last: bool) -> int:
    """The same of one node; `last` is what an output stores, whose last bits are counted apart."""
    assert node.dtype is not None
    if node.dtype in NARROW and isinstance(node, Cast) and not last:
        return _STEP[node.dtype] + 1
    least = _STEP[Dtype.f64 if node.dtype.is_integer or node.dtype is Dtype.f64 else Dtype.f32] + _SUMS
    if not isinstance(node, MatMul):
        return least
    fused = [1 - order.fused.whole_bits + _FUSED_SUMS for order in family_of(spec).sum_orders(spec)]
    bits = family_of(spec).factor_bits(spec)
    more = 4 if last else 6  # what follows may multiply it by numbers of some size, where the product is small
    return max([least, *fused, *([] if bits is None else [more - bits])])


def tolerance_context(plan: Plan) -> dict[str, object]:
    """The variables of `templates/main.j2` that concern the comparison: the tolerance, jumps, and kinds of outputs."""
    power = tolerance(plan)
    return {
        "tolerance": "" if power is None else f"2**{power}",
        "jumps": jumps(plan),
        "borders": borders(plan),
        "steps": steps(plan),
        "whole_outputs": any(not t.dtype.is_float for t in plan.spec.outputs),
        "float_outputs": any(t.dtype.is_float for t in plan.spec.outputs),
    }
