"""How far a module's program lets outputs be from its `reference`: a few numbers, chosen by the types on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cutegen.codegen.asked import family_of
from cutegen.codegen.exactness import NARROW, inexact, is_exact
from cutegen.codegen.formatting import display, python_tuple
from cutegen.dtypes import Dtype
from cutegen.expressions.functions import TO_WHOLE
from cutegen.expressions.parsing import Binary, Call, Cast, Expr, Literal_, Local, MatMul, Unary
from cutegen.expressions.reducing import without_definitions
from cutegen.expressions.tree import walk
from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan

_STEP = {  # from 1 to the next number, as a power of two
    **{Dtype.f64: -52, Dtype.f32: -23, Dtype.f16: -10, Dtype.bf16: -7},
    **{Dtype.f8e4m3: -3, Dtype.f8e5m2: -2},
}
_LEAST = {Dtype.f16: -24, Dtype.f8e4m3: -9, Dtype.f8e5m2: -16}  # the smallest number, where it may matter
_SUMS = 10  # doublings of a step that sums in another order, and functions of such sums, may differ by
_FUSED_SUMS = 7  # the same of tensor cores that cut each term of a sum
_ONE_OF_127 = -6  # a step of a number that is rounded to a whole one of 8 bits
_CHOICES = ("where", "maximum", "minimum", "fmax", "fmin", "clamp", "clamp_min", "clamp_max")
_LARGE = 1000  # where other elements are as large as random data
TIES = 0.01  # of comparisons of rounded values, those that may go either way


@dataclass(frozen=True)
class Tolerance:
    """How far elements of an output may be off, as powers of two, where None is 0: in parts of the element itself, in
    parts of the largest one, and at all. `ties`: whether some may be anything.
    """

    of_itself: int | None = None
    of_largest: int | None = None
    at_all: int | None = None
    ties: bool = False

    @property
    def text(self) -> str:
        """The numbers as a tuple of Python's."""
        powers = (self.of_itself, self.of_largest, self.at_all)
        return f"({', '.join('0' if n is None else f'2**{n}' if n else '1' for n in powers)})"


@dataclass(frozen=True)
class _Found:
    """What was found on the way to a value: the coarsest step in parts of the largest value, and whether a number was
    rounded to a whole one.
    """

    step: int | None = None
    whole: bool = False

    def __or__(self, other: _Found) -> _Found:
        steps = [step for step in (self.step, other.step) if step is not None]
        return _Found(max(steps, default=None), self.whole or other.whole)


def tolerances(plan: Plan) -> dict[str, Tolerance]:
    """The tolerance of each output, by its name."""
    found: dict[str, Tolerance] = {}
    known: dict[str, _Found] = {}  # by the target of an earlier statement that is not exact
    exact: set[str] = set()
    for typed in without_definitions(plan.statements):
        exact.discard(typed.target)
        parts = list(inexact(typed.value, exact))
        if not parts:
            exact.add(typed.target)
        way = _Found()
        for node in parts:
            way |= known.get(node.id, way) if isinstance(node, Local) else _on_the_way(plan.spec, node)
        known[typed.target] = way
        if typed.stored is not None:
            sure = is_exact(typed.stored, exact)
            found[typed.target] = Tolerance() if sure else _stored(way, plan.spec.tensor(typed.target).dtype)
    for output in plan.spec.outputs:  # of a family whose plan has no statements all is taken for computed
        computed = _Found(_STEP[output.dtype] + _SUMS if output.dtype.is_float else None, not output.dtype.is_float)
        found.setdefault(output.name, _stored(computed, output.dtype))
    return found


def _stored(way: _Found, dtype: Dtype) -> Tolerance:
    if dtype is Dtype.bool:
        return Tolerance(ties=True)
    if dtype.is_integer or way.whole:
        steps = [step for step in (way.step, None if dtype.is_integer else _ONE_OF_127) if step is not None]
        return Tolerance(_STEP.get(dtype), max(steps, default=None), 0)
    return Tolerance(_STEP[dtype], way.step, _LEAST.get(dtype))


def _on_the_way(spec: KernelSpec, node: Expr) -> _Found:
    """What one operation adds, whose result is not the same in all right kernels."""
    dtype = node.dtype
    assert dtype is not None
    if isinstance(node, MatMul):
        return _product(spec, dtype)
    if dtype in NARROW:
        return _Found(_STEP[dtype])
    whole = (
        (isinstance(node, Cast) and dtype.is_integer)
        or (isinstance(node, Call) and node.function in TO_WHOLE)
        or (isinstance(node, Binary) and node.op in ("//", "%"))
    )
    if whole:
        return _Found(whole=True)
    return _Found(_STEP[dtype] + _SUMS if dtype.is_float else None)


def _product(spec: KernelSpec, dtype: Dtype) -> _Found:
    """What a matrix product adds: its sums, and the bits that tensor cores leave out of factors or of sums."""
    steps = [_STEP[dtype] + _SUMS]
    bits = family_of(spec).factor_bits(spec)
    if bits is not None:
        steps.append(2 - bits)
    steps += [1 - order.fused.bits + _FUSED_SUMS for order in family_of(spec).sum_orders(spec)]
    return _Found(max(steps))


def fills(spec: KernelSpec) -> list[str]:
    """The large numbers that a spec takes where it chooses, as text without their signs: where something is masked,
    outputs are filled with one, and beside that all others are as nothing.
    """
    choices = (node for value in spec.compute.values for node in walk(value) if isinstance(node, Call))
    taken = [x for node in choices if node.function in _CHOICES for x in node.arguments]
    numbers = [x.x if isinstance(x, Unary) else x for x in taken]
    found = [float(x.value) for x in numbers if isinstance(x, Literal_) and _LARGE <= abs(x.value) < math.inf]
    return [repr(number).replace("e+", "e") for number in dict.fromkeys(found)]


def tolerance_context(plan: Plan) -> dict[str, object]:
    """What `templates/main.j2` prints of the tolerances."""
    found = tolerances(plan)
    outputs = plan.spec.outputs
    rows = [f'"{t.argument}": {found[t.name].text}' for t in outputs]
    ties = [f'"{t.argument}"' for t in outputs if found[t.name].ties]
    floats = {t.dtype.is_float for t in outputs}
    compared = ".double()" if floats == {True} else ".long()"
    return {
        "tolerances": display("TOLERANCES = {", rows, "}", 0),
        "ties": display("TIES = [", ties, "]", 0) if ties else "",
        "share_of_ties": TIES,
        "fills": python_tuple(found_fills) if (found_fills := fills(plan.spec)) else "",
        "compared": compared if len(floats) == 1 else "",
    }
