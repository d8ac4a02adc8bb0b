"""The nodes of `compute`: a small expression tree, with places, and with dtypes once annotated."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from cutegen.dtypes import Dtype
from cutegen.expressions.functions import function_of

REDUCTIONS = ("sum", "mean", "max", "min", "prod", "var", "std", "logsumexp", "any", "all", "argmax", "argmin")
"""Functions of a value and a mode, which they make one of all values along that mode."""
SCANS = ("cumsum", "cumprod")
"""Functions of a value and a mode, which give each element what comes of all values along that mode up to it."""
SELECTIONS = ("topk", "argtopk")
"""Functions of a value and two modes: the largest values along the first, or their places, along the second."""
ALONG = (*REDUCTIONS, *SCANS, *SELECTIONS)
OVER_SEVERAL = ("sum", "mean", "max", "min", "prod")  # of which one after another along two modes is one over both
BinaryOp = Literal[
    "+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "<", "<=", ">", ">=", "==", "!=", "and", "or"
]  # fmt: skip
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
QUOTIENTS = ("//", "%")
ON_FLOATS = {"//": "floor_divide", "%": "remainder"}  # the functions that quotients are on floats
"""The quotient rounded down and what it leaves; of integers they are 0 where the divisor is."""
SHIFTS = ("<<", ">>")
BITWISE = ("&", "|", "^")
"""Operators on the bits of integers; between conditions `and`, `or` and `!=`."""
MAX_DEPTH = 64
MAX_POWER = 16


@dataclass(frozen=True)
class Place:
    """Columns of the text of `compute`, from 0."""

    start: int = 0
    end: int = 0


@dataclass(frozen=True, kw_only=True)
class Node:
    dtype: Dtype | None = None  # None until annotated
    place: Place = field(default=Place(), compare=False, repr=False)

    @property
    def children(self) -> tuple[Expr, ...]:
        return ()


@dataclass(frozen=True)
class Literal_(Node):
    value: int | float | bool


@dataclass(frozen=True)
class Name(Node):
    """A tensor's element or a scalar."""

    id: str


@dataclass(frozen=True)
class Local(Node):
    """The value of an earlier statement, before rounding to a tensor's type; `annotate` replaces names by these."""

    id: str


@dataclass(frozen=True)
class Coord(Node):
    """`coord(N)`: the element's coordinate along a mode, counted from 0."""

    mode: str


@dataclass(frozen=True)
class Len(Node):
    """`len(N)`: the size of a mode."""

    mode: str


@dataclass(frozen=True)
class Unary(Node):
    """A sign, `not` or `~`, which `annotate` turns into one of the others."""

    op: Literal["-", "not", "~"]
    x: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.x,)


@dataclass(frozen=True)
class Binary(Node):
    op: BinaryOp
    left: Expr
    right: Expr

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Call(Node):
    """A function of its arguments.

    Once annotated, a function that is defined by others has a `body`: what it comes to, with a `Local` in the place of
    each argument that is no number, as `bound` pairs them.
    """

    function: str
    arguments: tuple[Expr, ...]
    body: Expr | None = field(default=None, compare=False, repr=False)

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.arguments

    @property
    def bound(self) -> Iterator[tuple[str, Expr]]:
        """The names of the `Local`s in `body`, and the arguments that they stand for."""
        parameters = function_of(self.function).parameters
        pairs = zip(parameters, self.arguments, strict=True)
        return ((parameter_of(self.function, name), x) for name, x in pairs if not isinstance(x, Literal_))


@dataclass(frozen=True)
class Along(Node):
    """A function that goes along a mode: each of its values is computed from all values along that mode."""

    function: str
    x: Expr
    mode: str
    mode_place: Place = field(default=Place(), compare=False, repr=False)

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.x,)


@dataclass(frozen=True)
class Reduce(Along):
    """`sum(x, N)` and the like: all values along a mode as one, which broadcasts along it where it is used.

    A mean is the sum divided by the size of the mode. Of sums the order is open, and the mean of a mean is one over
    both modes: a kernel may add all before it divides. The extremes of values with a NaN are NaN, as in torch. All
    others are torch's of that name too: `argmax` is the first place of the largest value, or of a NaN, and `var`
    divides by one less than the size. `reducing` says what comes to the same.
    """

    @property
    def nested(self) -> tuple[Reduce, ...]:
        """This reduction and those directly inside it that are one with it, outer ones first.

        They are of one function and of different modes: `mean(mean(x, M), B)` is the mean over M and B.
        """
        found, x = [self], self.x
        if self.function not in OVER_SEVERAL:
            return (self,)
        while isinstance(x, Reduce) and x.function == self.function and x.mode not in {r.mode for r in found}:
            found.append(x)
            x = x.x
        return tuple(found)


@dataclass(frozen=True)
class Scan(Along):
    """`cumsum(x, N)` and the like: at each place of a mode, all values up to that place as one."""


@dataclass(frozen=True)
class Select(Along):
    """`topk(x, N, K)`: the K largest values along N, the largest first, along a mode K of fixed size instead of N.

    `argtopk` is their places along N. NaN is above all numbers, and of equal values the first one comes first.
    """

    kept: str = ""
    kept_place: Place = field(default=Place(), compare=False, repr=False)


@dataclass(frozen=True)
class Cast(Node):
    """A change of type to `dtype`. `explicit` ones were written by the user and round in the reference too.

    From float to integer it goes toward zero and saturates: what is out of range becomes the nearest number of the
    type, NaN becomes 0. From integer to integer it wraps around, to bool it asks for what is not 0.
    To a float of 8 bits it rounds and saturates too, but NaN stays.
    """

    x: Expr
    explicit: bool = False

    @property
    def saturates(self) -> bool:
        """Whether it goes from a float to an integer."""
        return bool(self.dtype and self.dtype.is_integer and self.x.dtype and self.x.dtype.is_float)

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.x,)


@dataclass(frozen=True)
class MatMul(Node):
    """`A @ B.T`, contracted over their common mode; its dtype is the accumulator's. An operand may have a scale, as in
    `(A * sA) @ (B * sB).T`.
    """

    a: str
    b: str
    a_place: Place = field(default=Place(), compare=False, repr=False)
    b_place: Place = field(default=Place(), compare=False, repr=False)
    a_scale: str | None = None
    b_scale: str | None = None
    a_scale_place: Place = field(default=Place(), compare=False, repr=False)
    b_scale_place: Place = field(default=Place(), compare=False, repr=False)

    @property
    def scales(self) -> tuple[tuple[str, Place], ...]:
        """The names of the scales, with their places."""
        pairs = ((self.a_scale, self.a_scale_place), (self.b_scale, self.b_scale_place))
        return tuple((name, place) for name, place in pairs if name is not None)


Expr = Literal_ | Name | Local | Coord | Len | Unary | Binary | Call | Reduce | Scan | Select | Cast | MatMul


@dataclass(frozen=True)
class Assignment:
    target: str
    value: Expr
    text: str  # as printed by `str(...)` of the parsed tree: normalised
    target_place: Place = field(default=Place(), compare=False, repr=False)

    def names(self) -> tuple[str, ...]:
        """Every name that the right side reads, in order of first use."""
        return tuple(dict.fromkeys(n for n, _ in uses(self.value)))

    @property
    def matmul(self) -> MatMul | None:
        return next((n for n in walk(self.value) if isinstance(n, MatMul)), None)


@dataclass(frozen=True)
class Part:
    """An element of a tensor: its coordinate along each mode of what selections keep."""

    tensor: str
    at: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Typed:
    """A statement with a dtype on every node and every conversion spelled out.

    `value` is what later statements mean by the target; `stored` is the same converted to the tensor's type, None where
    the target is a local value. A `part` of a tensor is stored under a target of its own.
    """

    target: str
    value: Expr
    stored: Expr | None
    part: Part | None = None

    @property
    def tensor(self) -> str:
        """The tensor that is stored to, if one is."""
        return self.part.tensor if self.part else self.target


def is_scalar(node: Expr, scalars: Collection[str]) -> bool:
    """Whether an expression is one of these scalars, or a number other than 0."""
    return (isinstance(node, Name) and node.id in scalars) or (isinstance(node, Literal_) and node.value != 0)


def walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    for child in expr.children:
        yield from walk(child)


def parameter_of(function: str, name: str) -> str:
    """The name of the `Local` that stands for an argument in a function's body; none of a spec has a dot."""
    return f"{function}.{name}"


def walk_bodies(expr: Expr) -> Iterator[Expr]:
    """All of an annotated expression and what its functions come to, without the `Local`s of their arguments."""
    yield expr
    for child in expr.children:
        yield from walk_bodies(child)
    if isinstance(expr, Call) and expr.body is not None:
        own = {name for name, _ in expr.bound}
        yield from (node for node in walk_bodies(expr.body) if not (isinstance(node, Local) and node.id in own))


def coords(expr: Expr) -> Iterator[Coord]:
    """The coordinates that an expression asks for."""
    return (node for node in walk(expr) if isinstance(node, Coord))


def lengths(expr: Expr) -> Iterator[Len]:
    """The sizes of modes that an expression asks for."""
    return (node for node in walk(expr) if isinstance(node, Len))


def reductions(expr: Expr) -> Iterator[Reduce]:
    """The reductions in an expression, outer ones before those in what they reduce."""
    return (node for node in walk(expr) if isinstance(node, Reduce))


def along(expr: Expr) -> Iterator[Reduce | Scan | Select]:
    """The functions along a mode in an expression, outer ones before those in what they go over."""
    return (node for node in walk(expr) if isinstance(node, Reduce | Scan | Select))


def uses(expr: Expr) -> Iterator[tuple[str, Place]]:
    for node in walk(expr):
        if isinstance(node, Name):
            yield node.id, node.place
        elif isinstance(node, MatMul):
            yield node.a, node.a_place
            yield node.b, node.b_place
            yield from node.scales


@dataclass(frozen=True)
class Compute:
    """The statements of `compute`, in their order.

    A name that is assigned and is no tensor is a local value. `listed`: they were written as a list, not as one text.
    """

    statements: tuple[Assignment, ...]
    listed: bool = False

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.statements, self.listed))

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """The names that are assigned to, tensors and local values."""
        return tuple(statement.target for statement in self.statements)

    def names(self) -> tuple[str, ...]:
        """Every name that a right side reads, tensors, scalars and local values, in order of first use."""
        return tuple(dict.fromkeys(name for statement in self.statements for name in statement.names()))

    @property
    def values(self) -> tuple[Expr, ...]:
        """The right sides of the statements."""
        return tuple(statement.value for statement in self.statements)

    @property
    def single(self) -> Assignment | None:
        """The only statement; None if there are several."""
        return self.statements[0] if len(self.statements) == 1 else None

    @cached_property
    def products(self) -> tuple[MatMul, ...]:
        """The matrix products in order of first use, each once however often it is written."""
        nodes = (node for value in self.values for node in walk(value))
        return tuple(dict.fromkeys(node for node in nodes if isinstance(node, MatMul)))

    @property
    def matmul(self) -> MatMul | None:
        """The first matrix product."""
        return next(iter(self.products), None)

    @property
    def text(self) -> str:
        """The statements, normalised, a line each."""
        return "\n".join(statement.text for statement in self.statements)

    def as_data(self) -> str | list[str]:
        """The statements as a spec writes them: a text, or a list of texts."""
        return [statement.text for statement in self.statements] if self.listed else self.text
