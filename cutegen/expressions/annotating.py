"""Types of `compute`: a dtype on every node and a `Cast` at every change of type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from cutegen.dtypes import Dtype
from cutegen.expressions.constants import check_constants, folded
from cutegen.expressions.defining import definition
from cutegen.expressions.errors import ExpressionError
from cutegen.expressions.functions import TO_WHOLE, function_of
from cutegen.expressions.tree import (
    BITWISE,
    COMPARISONS,
    ON_FLOATS,
    QUOTIENTS,
    SHIFTS,
    Assignment,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Compute,
    Coord,
    Expr,
    Len,
    Literal_,
    Local,
    MatMul,
    Name,
    Reduce,
    Scan,
    Select,
    Typed,
    Unary,
    parameter_of,
    walk,
)
from cutegen.expressions.widths import Asked, Span, asked_of, asked_of_children, is_whole, multiplied, span, summed

_FLOATING = ("mean", "var", "std", "logsumexp")
"""Reductions of integers that make them f32."""


def annotate(
    compute: Compute, types: Mapping[str, Dtype], accumulator: Dtype | None = None, *, narrowed: bool = True
) -> tuple[Typed, ...]:
    """The statements with a dtype on every node and every conversion spelled out, each stored in its tensor's dtype.

    `types` maps each tensor and scalar to its dtype; a target that is not there is a local value. `accumulator` is the
    dtype of the matrix product. What was assigned stands later for what was computed, in the type of the computation.
    The types are those of a kernel: integers are `narrowed` to 32 bits where that gives what 64 would. A reference has
    the types that the language gives them (see `widths`), so that it tells a kernel whose arithmetic is too narrow.
    Raises `ExpressionError` where the types do not fit, `NumberError` where a number does not fit its type.
    """
    annotator = _Annotator(types, accumulator, narrowed)
    asked = asked_of(compute, types)
    found = []
    for number, statement in enumerate(compute.statements):
        try:
            typed = _typed(statement, types, annotator, asked[statement.target])
        except ExpressionError as error:
            error.statement = number
            raise
        annotator.keep(statement.target, typed.value)
        found.append(typed)
    return tuple(found)


def _typed(assignment: Assignment, types: Mapping[str, Dtype], annotator: _Annotator, asked: Asked) -> Typed:
    value = annotator.expr(assignment.value, asked)
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
            _narrowing_help(value, out),
        )
    return convert(value, out)


def _narrowing_help(value: Expr, out: Dtype) -> str:
    """A help text for a value whose type is not converted to its tensor's type implicitly."""
    if out is Dtype.bool:
        return "compare with 0"
    help = f"say so with cast(..., {out.value})"
    if any(isinstance(node, Call) and node.function == "pow" and _of_whole_numbers(node) for node in walk(value)):
        help += "; `pow` of integers is an f32, exact below 2^24: write `x ** 2` to `x ** 16`, or `1 << n` for `2 ** n`"
    return help


def _of_whole_numbers(call: Call) -> bool:
    """Whether all arguments of a call on floats are integers that became floats for it."""
    return all(
        float(x.value).is_integer() if isinstance(x, Literal_) else isinstance(x, Cast) and not _of(x.x).is_float
        for x in call.arguments
    )


def convert(x: Expr, dtype: Dtype) -> Expr:
    """`x` as `dtype`: itself, a literal of that type, or an implicit cast. Raises `NumberError`."""
    if x.dtype is dtype:
        return x
    if isinstance(x, Literal_):
        number = float(x.value) if dtype.is_float else (bool(x.value) if dtype is Dtype.bool else int(x.value))
        return replace(x, value=number, dtype=dtype)
    return folded(Cast(x, dtype=dtype, place=x.place))


def _inside(x: Expr, dtype: Dtype, count: int) -> Expr:
    """`x` as `dtype`, where it is inside a reduction. So many reductions are one with that, and have its type."""
    if not count or not isinstance(x, Reduce):
        return convert(x, dtype)
    return replace(x, x=_inside(x.x, dtype, count - 1), dtype=dtype)


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
    def __init__(
        self,
        types: Mapping[str, Dtype],
        accumulator: Dtype | None,
        narrowed: bool,
        arguments: Mapping[str, Expr] = MappingProxyType({}),
        numbers: Dtype | None = None,
    ) -> None:
        """In the definition of a function `arguments` stand for the names of its parameters, and all numbers have the
        type `numbers`.
        """
        self.types, self.accumulator, self.narrowed = types, accumulator, narrowed
        self.arguments, self.numbers = arguments, numbers
        self.computed: dict[str, Dtype] = {}  # the types of what earlier statements computed
        self.spans: dict[str, Span] = {}  # the integers that those can be

    def keep(self, target: str, value: Expr) -> None:
        """Later statements may read this value by the name of its target."""
        self.computed[target] = _of(value)
        if not _of(value).is_float:
            self.spans[target] = span(value, self.spans)

    def expr(self, node: Expr, asked: Asked) -> Expr:
        return folded(self.typed(node, asked))

    def children(self, node: Expr, asked: Asked) -> list[Expr]:
        known = {name: not dtype.is_float for name, dtype in self.computed.items()}
        wanted = asked_of_children(node, asked, lambda x: is_whole(x, self.types, known))
        return [self.expr(child, below) for child, below in zip(node.children, wanted, strict=True)]

    def typed(self, node: Expr, asked: Asked) -> Expr:
        match node:
            case Literal_() if self.numbers is not None and _holds(self.numbers, node.value):
                return convert(replace(node, dtype=_of_number(node.value)), self.numbers)
            case Literal_():
                return replace(node, dtype=_of_number(node.value))
            case Name() if node.id in self.arguments:
                return self.arguments[node.id]
            case Name() if node.id in self.computed:
                return Local(node.id, dtype=self.computed[node.id], place=node.place)
            case Name():
                return replace(node, dtype=self.types[node.id])
            case Local():
                return node
            case Coord() | Len():
                return replace(node, dtype=Dtype.i32 if self.narrowed else Dtype.i64)
            case MatMul():
                return replace(node, dtype=self.accumulator or self.types[node.a].compute)
            case Unary():
                return self.unary(node, self.children(node, asked)[0], asked)
            case Binary():
                left, right = self.children(node, asked)
                return self.binary(node, left, right, asked)
            case Call():
                return self.call(node, self.children(node, asked), asked)
            case Reduce():
                return self.reduction(node, self.children(node, asked)[0], asked)
            case Scan():
                return self.scan(node, self.children(node, asked)[0], asked)
            case Select():
                return self.selected(node, self.children(node, asked)[0])
            case Cast():
                return replace(node, x=self.children(node, asked)[0])

    def unary(self, node: Unary, x: Expr, asked: Asked) -> Expr:
        if node.op == "not" or (node.op == "~" and x.dtype is Dtype.bool):
            return Unary("not", self.truth(x), dtype=Dtype.bool, place=node.place)
        if node.op == "~":
            self.refuse_floats(node.op, x)
            ones = Literal_(-1, dtype=Dtype.i32, place=node.place)
            return self.binary(Binary("^", node.x, ones, place=node.place), x, ones, asked)
        if isinstance(x, Literal_):
            negated = _of(x) if _of(x).is_float else _of_number(-x.value)
            return replace(x, value=-x.value, dtype=negated, place=node.place)
        whole = replace(node, x=x, dtype=_of(x).compute)
        common = self.width(_of(x).compute, asked, lambda: span(whole, self.spans))
        return replace(node, x=convert(x, common), dtype=common)

    def binary(self, node: Binary, left: Expr, right: Expr, asked: Asked) -> Expr:
        if node.op in ("and", "or"):
            return replace(node, left=self.truth(left), right=self.truth(right), dtype=Dtype.bool)
        if node.op in BITWISE and left.dtype is Dtype.bool and right.dtype is Dtype.bool:
            return self.logical(node, left, right)
        if node.op in (*BITWISE, *SHIFTS):
            self.refuse_floats(node.op, left, right)
        if node.op == "**":
            common, exponent = _of(left).compute, replace(node.right, dtype=Dtype.i32)  # a count of factors
            whole = replace(node, left=left, right=exponent, dtype=common)
            common = self.width(common, asked, lambda: span(whole, self.spans))
            return replace(node, left=convert(left, common), right=exponent, dtype=common)
        first, second, common = self.promote(left, right, node.op == "/")
        if node.op in COMPARISONS:
            return replace(node, left=first, right=second, dtype=Dtype.bool)
        if node.op in QUOTIENTS and common.is_float:
            return self.quotient(node, left, right, asked)
        whole = replace(node, left=left, right=right, dtype=common)
        common = self.width(common, asked, lambda: span(whole, self.spans))
        return replace(node, left=convert(first, common), right=convert(second, common), dtype=common)

    def width(self, dtype: Dtype, asked: Asked, found: Callable[[], Span]) -> Dtype:
        """The type that arithmetic happens in whose operands meet in `dtype`, and which gives what `found` says."""
        if dtype is not Dtype.i32:
            return dtype
        if asked is Asked.WIDE:
            return Dtype.i64
        if asked is Asked.LOW_BITS and self.narrowed:
            return Dtype.i32
        return Dtype.i64 if found().needs_64_bits else Dtype.i32

    def logical(self, node: Binary, left: Expr, right: Expr) -> Expr:
        """An operator on bits between conditions."""
        if node.op == "^":
            left, right = convert(left, Dtype.i32), convert(right, Dtype.i32)
            return replace(node, op="!=", left=left, right=right, dtype=Dtype.bool)
        return replace(node, op="and" if node.op == "&" else "or", left=left, right=right, dtype=Dtype.bool)

    def refuse_floats(self, op: str, *operands: Expr) -> None:
        for x in operands:
            if _of(x).is_float:
                what = "integers" if op in SHIFTS else "integers and conditions"
                binds = f"; comparisons bind weaker than `{op}`: write `(x > 0) {op} (y > 0)`" if op in BITWISE else ""
                help = f"write `cast(x, i32)` for its whole part{binds}"
                raise ExpressionError(f"`{op}` is for {what}, not {_of(x).value}", x.place, help)

    def quotient(self, node: Binary, left: Expr, right: Expr, asked: Asked) -> Expr:
        """`//` or `%` of floats, which are functions."""
        return self.call(Call(ON_FLOATS[node.op], (node.left, node.right), place=node.place), [left, right], asked)

    def reduction(self, node: Reduce, x: Expr, asked: Asked) -> Expr:
        common = Dtype.f32 if node.function in _FLOATING and not _of(x).is_float else _of(x).compute
        if node.function in ("sum", "prod"):
            common = self.accumulated(x, node.function == "sum", asked)
        result = Dtype.bool if node.function in ("any", "all") else common
        if node.function in ("argmax", "argmin"):
            result = Dtype.i32 if self.narrowed else Dtype.i64
        return replace(node, x=_inside(x, common, len(node.nested) - 1), dtype=result)

    def accumulated(self, x: Expr, adds: bool, asked: Asked) -> Dtype:
        """The type in which many values are added, or multiplied."""
        common = _of(x).compute
        if common is not Dtype.i32:
            return common
        made = summed if adds else multiplied
        common = self.width(common, asked, lambda: made(span(x, self.spans)))
        return common if self.narrowed else Dtype.i64

    def scan(self, node: Scan, x: Expr, asked: Asked) -> Expr:
        common = self.accumulated(x, node.function == "cumsum", asked)
        return replace(node, x=convert(x, common), dtype=common)

    def selected(self, node: Select, x: Expr) -> Expr:
        """The largest values, or their places. Values of 64 bits have no keys that threads could exchange at once."""
        common = _of(x).compute
        if common.bits == 64:
            message = f"`{node.function}` orders values of 32 bits, not {common.value}"
            help = f"write `{node.function}(cast(x, {'f32' if common.is_float else 'i32'}), {node.mode}, {node.kept})`"
            raise ExpressionError(message, x.place, help)
        place = Dtype.i32 if self.narrowed else Dtype.i64
        return replace(node, x=convert(x, common), dtype=common if node.function == "topk" else place)

    def call(self, node: Call, arguments: list[Expr], asked: Asked) -> Expr:
        if node.function == "where":
            left, right, common = self.promote(arguments[1], arguments[2], False)
            return replace(node, arguments=(self.truth(arguments[0]), left, right), dtype=common)
        if node.function in ON_FLOATS.values() and not any(_of(x).is_float for x in arguments):
            op: BinaryOp = "//" if node.function == ON_FLOATS["//"] else "%"
            return self.binary(Binary(op, *node.arguments, place=node.place), arguments[0], arguments[1], asked)
        if node.function == "fmod" and not any(_of(x).is_float for x in arguments):
            return self.call(replace(node, function="_whole_fmod"), arguments, asked)
        common = _common(map(_of, arguments))
        if function_of(node.function).gives == "float" and not common.is_float:
            common = Dtype.f32
        if node.function in TO_WHOLE and not common.is_float:
            return convert(arguments[0], common)
        if node.function == "abs":
            whole = replace(node, arguments=tuple(arguments), dtype=common)
            common = self.width(common, asked, lambda: span(whole, self.spans))
        found = self.defined(node, arguments, common, asked)
        wide = common is Dtype.i32 and found.dtype is Dtype.i64  # as the product of a square can be
        return self.defined(node, arguments, Dtype.i64, asked) if wide else found

    def defined(self, node: Call, arguments: list[Expr], common: Dtype, asked: Asked) -> Call:
        """A call whose arguments are computed with in the type `common`."""
        dtype = Dtype.bool if function_of(node.function).gives == "truth" else common
        found = replace(node, arguments=tuple(convert(x, common) for x in arguments), dtype=dtype)
        body = self.body(found, common, asked)
        return found if body is None else replace(found, body=body, dtype=body.dtype)

    def body(self, node: Call, common: Dtype, asked: Asked) -> Expr | None:
        """The definition of a called function for arguments that are all of the type `common`; None for a primitive."""
        tree = definition(node.function)
        if tree is None:
            return None
        own: dict[str, Expr] = {}
        parameters = function_of(node.function).parameters
        inner = _Annotator(dict.fromkeys(parameters, common), None, self.narrowed, own, common)
        for name, x in zip(parameters, node.arguments, strict=True):
            local = parameter_of(node.function, name)
            own[name] = x if isinstance(x, Literal_) else Local(local, dtype=common, place=x.place)
            if not common.is_float:
                inner.spans[local] = span(x, self.spans)
        body = inner.expr(tree, max(asked, Asked.VALUE))
        return body if body.dtype is Dtype.bool or not common.is_float else convert(body, common)

    def promote(self, left: Expr, right: Expr, divide: bool) -> tuple[Expr, Expr, Dtype]:
        """Both in their common compute type. A literal starts as the narrowest that arithmetic happens in, f32, i32 or
        i64, so it takes the type of what it meets.
        """
        common = _common((_of(left), _of(right)))
        if divide and not common.is_float:
            common = Dtype.f32
        return convert(left, common), convert(right, common), common

    def truth(self, x: Expr) -> Expr:
        if x.dtype is not Dtype.bool:
            raise ExpressionError(f"a condition is needed here, not {_of(x).value}", x.place, "compare it: `x != 0`")
        return x


def _common(types: Iterable[Dtype]) -> Dtype:
    """The type that values of several are computed in together."""
    computed = {dtype.compute for dtype in types}
    return next(dtype for dtype in (Dtype.f64, Dtype.f32, Dtype.i64, Dtype.i32) if dtype in computed)


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
