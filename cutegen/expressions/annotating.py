"""Types of `compute`: a dtype on every node and a `Cast` wherever a value changes type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cutegen.dtypes import Dtype
from cutegen.expressions.constants import check_constants, folded
from cutegen.expressions.tree import (
    COMPARISONS,
    TO_WHOLE,
    TYPE_PRESERVING,
    Assignment,
    Binary,
    Call,
    Cast,
    Compute,
    Coord,
    Expr,
    ExpressionError,
    Literal_,
    Local,
    MatMul,
    Name,
    Reduce,
    Typed,
    Unary,
)


def annotate(compute: Compute, types: Mapping[str, Dtype], accumulator: Dtype | None = None) -> tuple[Typed, ...]:
    """The statements with a dtype on every node and every conversion spelled out, each stored in its tensor's dtype.

    `types` maps each tensor and scalar to its dtype; a target that is not there is a local value. `accumulator` is the
    dtype of the matrix product. What was assigned stands later for what was computed, in the type of the computation.
    Raises `ExpressionError` where the types do not fit, `NumberError` where a number does not fit its type.
    """
    computed: dict[str, Dtype] = {}
    found = []
    for number, statement in enumerate(compute.statements):
        try:
            typed = _typed(statement, types, accumulator, computed)
        except ExpressionError as error:
            error.statement = number
            raise
        assert typed.value.dtype is not None
        computed[statement.target] = typed.value.dtype
        found.append(typed)
    return tuple(found)


def _typed(
    assignment: Assignment, types: Mapping[str, Dtype], accumulator: Dtype | None, computed: Mapping[str, Dtype]
) -> Typed:
    value = _Annotator(types, accumulator, computed).expr(assignment.value)
    stored = _stored(assignment, value, types[assignment.target]) if assignment.target in types else None
    check_constants(value if stored is None else stored)
    return Typed(assignment.target, value, stored)


def _stored(assignment: Assignment, value: Expr, out: Dtype) -> Expr:
    """The value as its tensor's type; from float to integer or to bool only where that was asked for."""
    assert value.dtype is not None
    if isinstance(value, Literal_) and _holds(out, value.value):
        return convert(value, out)
    if isinstance(value, Literal_) and value.dtype.is_integer and out.is_integer:
        raise ExpressionError(f"{value.value} does not fit in {out.value}", assignment.value.place)
    narrowing = (value.dtype.is_float and not out.is_float) or (value.dtype is not Dtype.bool and out is Dtype.bool)
    if narrowing:
        raise ExpressionError(
            f"compute gives {value.dtype.value} and {assignment.target} holds {out.value}",
            assignment.value.place,
            f"say so with cast(..., {out.value})" if out is not Dtype.bool else "compare with 0",
        )
    return convert(value, out)


def convert(x: Expr, dtype: Dtype) -> Expr:
    """`x` as `dtype`: itself, a literal of that type, or an implicit cast. Raises `NumberError`."""
    if x.dtype is dtype:
        return x
    if isinstance(x, Literal_):
        number = float(x.value) if dtype.is_float else (bool(x.value) if dtype is Dtype.bool else int(x.value))
        return replace(x, value=number, dtype=dtype)
    return folded(Cast(x, dtype=dtype, place=x.place))


def _holds(dtype: Dtype, value: float | bool) -> bool:
    """Whether a literal can be written as `dtype` without changing its kind or value."""
    if dtype.is_float:
        return True
    if isinstance(value, float):
        return False
    if dtype is Dtype.bool:
        return isinstance(value, bool)
    low, high = dtype.range
    return low <= value <= high


class _Annotator:
    def __init__(self, types: Mapping[str, Dtype], accumulator: Dtype | None, computed: Mapping[str, Dtype]) -> None:
        """`computed` has the types of what earlier statements computed."""
        self.types, self.accumulator, self.computed = types, accumulator, computed

    def expr(self, node: Expr) -> Expr:
        return folded(self.typed(node))

    def typed(self, node: Expr) -> Expr:
        match node:
            case Literal_():
                return replace(node, dtype=_of_number(node.value))
            case Name() if node.id in self.computed:
                return Local(node.id, dtype=self.computed[node.id], place=node.place)
            case Name():
                return replace(node, dtype=self.types[node.id])
            case Local():
                return node
            case Coord():
                return replace(node, dtype=Dtype.i32)
            case MatMul():
                return replace(node, dtype=self.accumulator or self.types[node.a].compute)
            case Unary(op="-"):
                x = self.expr(node.x)
                if isinstance(x, Literal_):
                    negated = _of(x) if _of(x).is_float else _of_number(-x.value)
                    return replace(x, value=-x.value, dtype=negated, place=node.place)
                return replace(node, x=convert(x, _of(x).compute), dtype=_of(x).compute)
            case Unary():
                return replace(node, x=self.truth(self.expr(node.x)), dtype=Dtype.bool)
            case Binary(op="and" | "or"):
                left, right = self.truth(self.expr(node.left)), self.truth(self.expr(node.right))
                return replace(node, left=left, right=right, dtype=Dtype.bool)
            case Binary(op="**"):
                base = self.expr(node.left)
                common = _of(base).compute
                exponent = replace(node.right, dtype=Dtype.i32)  # a count of factors, not an operand
                return replace(node, left=convert(base, common), right=exponent, dtype=common)
            case Binary():
                left, right, common = self.promote(self.expr(node.left), self.expr(node.right), node.op == "/")
                return replace(node, left=left, right=right, dtype=Dtype.bool if node.op in COMPARISONS else common)
            case Call():
                return self.call(node)
            case Reduce():
                x = self.expr(node.x)
                common = Dtype.f32 if node.function == "mean" and not _of(x).is_float else _of(x).compute
                return replace(node, x=convert(x, common), dtype=common)
            case Cast():
                return replace(node, x=self.expr(node.x))

    def call(self, node: Call) -> Expr:
        arguments = [self.expr(a) for a in node.arguments]
        if node.function == "where":
            left, right, common = self.promote(arguments[1], arguments[2], False)
            return replace(node, arguments=(self.truth(arguments[0]), left, right), dtype=common)
        if len(arguments) == 2:
            left, right, common = self.promote(arguments[0], arguments[1], False)
            return replace(node, arguments=(left, right), dtype=common)
        x = arguments[0]
        kept = node.function in TYPE_PRESERVING or _of(x).is_float
        common = _of(x).compute if kept else Dtype.f32
        if node.function in TO_WHOLE and not common.is_float:
            return convert(x, common)
        return replace(node, arguments=(convert(x, common),), dtype=common)

    def promote(self, left: Expr, right: Expr, divide: bool) -> tuple[Expr, Expr, Dtype]:
        """Both in their common compute type. A literal starts as the narrowest that arithmetic happens in, f32, i32 or
        i64, so it takes the type of what it meets.
        """
        first, second = _of(left).compute, _of(right).compute
        if Dtype.f64 in (first, second):
            common = Dtype.f64
        elif Dtype.f32 in (first, second) or divide:
            common = Dtype.f32
        else:
            common = Dtype.i64 if Dtype.i64 in (first, second) else Dtype.i32
        return convert(left, common), convert(right, common), common

    def truth(self, x: Expr) -> Expr:
        if x.dtype is not Dtype.bool:
            raise ExpressionError(f"a condition is needed here, not {_of(x).value}", x.place, "compare it: `x != 0`")
        return x


def _of_number(value: float | bool) -> Dtype:
    """The type that a number starts with."""
    if isinstance(value, float):
        return Dtype.f32
    if isinstance(value, bool):
        return Dtype.bool
    low, high = Dtype.i32.range
    return Dtype.i32 if low <= value <= high else Dtype.i64


def _of(x: Expr) -> Dtype:
    assert x.dtype is not None
    return x.dtype
