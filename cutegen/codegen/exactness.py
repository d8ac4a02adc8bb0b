"""Which values every right kernel computes alike, and what the class `_Near` of a module needs for the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from cutegen.dtypes import Dtype
from cutegen.expressions.functions import TO_WHOLE
from cutegen.expressions.parsing import Binary, Call, Cast, Expr, Local, MatMul, Reduce, Typed, Unary

# Functions without a rounding error: they give one of their arguments, its size or a whole number near it
_SELECTIONS = ("where", "minimum", "maximum", "relu", "abs", *TO_WHOLE)
NARROW = (Dtype.f16, Dtype.bf16, Dtype.f8e4m3, Dtype.f8e5m2)
_SINGLE = (Dtype.f32, *NARROW)  # types whose numbers f32 holds
LARGEST = {Dtype.f64: "1.79e308", Dtype.f32: "3.4e38", Dtype.f16: "65500", Dtype.bf16: "3.38e38"}  # numbers, about


@dataclass(frozen=True)
class Near:
    """What the class `_Near` of one module must have.

    `dtypes` are those that its operations round to; there is one in nearly all modules.
    """

    used: frozenset[str] = frozenset()  # operators, functions and methods; `axes` where sums are over several
    dtypes: tuple[Dtype, ...] = ()
    integers: bool = False  # whether there are integers whose value is not sure
    has_i64: bool = False  # whether there are some of 64 bits
    sure_conditions: bool = True  # whether all conditions of `where` are plain tensors

    @property
    def default(self) -> Dtype:
        """The type that results are rounded to where nothing else is said."""
        return next((dtype for dtype in self.dtypes if dtype.is_float), Dtype.f32)

    @property
    def largest(self) -> str:
        """The text of about the largest number of that type."""
        return LARGEST[self.default]

    @property
    def has_f64(self) -> bool:
        """Whether results are rounded to the type that the values themselves are in."""
        return Dtype.f64 in self.dtypes

    @property
    def mixed(self) -> bool:
        """Whether each value must know its type."""
        return self.integers or len(self.dtypes) > 1


def is_exact(node: Expr, local_values: Collection[str] = ()) -> bool:
    """Whether every right kernel computes the same value: each step is exact, or converts what is exact.

    A sum or product of floats is not, as it may become one fma with what is around it. `local_values` are the targets
    of earlier statements of which that is known.
    """
    match node:
        case MatMul():
            return False
        case Local():
            return node.id in local_values
        case Cast(x=x):
            if rounds_twice(_of(x), _of(node)):
                return False
        case Binary(op="+" | "-" | "*" | "/" | "**") if _of(node).is_float:
            return False
        case Call() if node.body is not None:
            return is_exact_body(node, local_values)
        case Call(function=name) if name not in _SELECTIONS:
            return False
        case Reduce() if _rounds(node):
            return False
    return all(is_exact(child, local_values) for child in node.children)


def is_exact_body(node: Call, local_values: Collection[str]) -> bool:
    """Whether a function that is defined by others is exact of its arguments."""
    assert node.body is not None
    return all(is_exact(x, local_values) for x in node.arguments) and is_exact(node.body, _inside(node, local_values))


def _inside(node: Call, local_values: Collection[str]) -> frozenset[str]:
    """The values that are known exactly in the body of a function: those, and its arguments of which that is known."""
    return frozenset(local_values) | {name for name, x in node.bound if is_exact(x, local_values)}


def _inexact(node: Expr, local_values: Collection[str]) -> Iterator[Expr]:
    """All parts of an expression, and of what its functions come to, that are not exact."""
    if is_exact(node, local_values):
        return
    yield node
    if isinstance(node, Call) and node.body is not None:
        yield from _inexact(node.body, _inside(node, local_values))
    for child in node.children:
        yield from _inexact(child, local_values)


def _rounds(node: Reduce) -> bool:
    """Whether the order of a reduction may decide what comes."""
    return node.function in ("sum", "mean", "prod", "var") and _of(node).is_float


def rounds_twice(source: Dtype, dtype: Dtype) -> bool:
    """Whether a conversion may go by way of f32, and round there too."""
    return dtype in NARROW and source not in _SINGLE


def near_of(statements: Sequence[Typed]) -> Near:
    """What the class needs for the types of these statements, before it is known which operations it needs."""
    sure = exact_targets(statements)
    values = [value for typed in statements for value in (typed.value, typed.stored) if value is not None]
    parts = [node for value in values for node in _inexact(value, sure)]
    nodes = [node for node in parts if not isinstance(node, Call) or node.body is None]  # what is computed
    operations = [n for n in nodes if isinstance(n, Unary | Binary | Call | Reduce) and _of(n) is not Dtype.bool]
    chosen = [n for n in operations if isinstance(n, Call) and n.function in _SELECTIONS]
    rounding = [n for n in operations if n not in chosen and (not isinstance(n, Reduce) or _rounds(n))]
    conditions = {n.arguments[0] for n in nodes if isinstance(n, Call) and n.function == "where"}
    return Near(
        dtypes=tuple(dict.fromkeys(_of(node) for node in rounding)),
        integers=any(_of(node).is_integer for node in nodes),
        has_i64=any(_of(node) is Dtype.i64 for node in nodes),
        sure_conditions=not conditions & set(parts),
    )


def exact_targets(statements: Sequence[Typed]) -> frozenset[str]:
    """The targets whose values are exact."""
    found: set[str] = set()
    for typed in statements:
        if is_exact(typed.value, found):
            found.add(typed.target)
    return frozenset(found)


def _of(node: Expr) -> Dtype:
    assert node.dtype is not None
    return node.dtype
