"""The functions of `compute`: their arguments, result types and definitions.

A function with a `definition` is one of other functions. Kernels, error bounds and gradients follow from that text;
what verification compares with, and a module's `reference`, call torch's function of that name instead, so that a
definition which is not torch's is found. The others are primitives: each room that prints, evaluates or differentiates
knows them itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Gives = Literal["float", "same", "truth"]
"""The type of a value: a float, integers becoming f32; the arguments' own; bool."""


@dataclass(frozen=True)
class Function:
    """A function of `compute`.

    `defaults` are those of the last parameters. Parameters with a name of more than a letter may be given by that name,
    as in torch. A primitive of one argument is monotone, or `even` and monotone from 0 on, or has a `slope`: the most
    that a change of the argument is multiplied by. What is `late` came when specs had tensors and values of that name,
    which stay allowed.
    """

    parameters: tuple[str, ...] = ("x",)
    defaults: tuple[float, ...] = ()
    gives: Gives = "float"
    definition: str | None = None
    slope: float | None = None
    even: bool = False
    late: bool = True

    @property
    def most(self) -> int:
        """The largest number of arguments."""
        return len(self.parameters)

    @property
    def least(self) -> int:
        """The smallest number of arguments."""
        return self.most - len(self.defaults)

    @property
    def keywords(self) -> tuple[str, ...]:
        return tuple(name for name in self.parameters if len(name) > 1)


def _first(parameters: tuple[str, ...] = ("x",), gives: Gives = "float") -> Function:
    return Function(parameters, gives=gives, late=False)


_TWO = ("x", "y")

FUNCTIONS: dict[str, Function] = {
    "where": _first(("c", "x", "y"), "same"),
    "minimum": _first(_TWO, "same"),
    "maximum": _first(_TWO, "same"),
    "exp": _first(),
    "log": _first(),
    "sqrt": _first(),
    "rsqrt": _first(),
    "tanh": _first(),
    "sigmoid": _first(),
    "relu": _first(gives="same"),
    "gelu": _first(),
    "silu": _first(),
    "abs": _first(gives="same"),
    "gelu_tanh": Function(),
    "round": Function(gives="same"),
    "floor": Function(gives="same"),
    "ceil": Function(gives="same"),
    "trunc": Function(gives="same"),
    # exponentials and logarithms
    "exp2": Function(),
    "expm1": Function(),
    "log2": Function(),
    "log10": Function(),
    "log1p": Function(),
    "logaddexp": Function(
        _TWO, definition="where(x == y and abs(x) == inf, x, maximum(x, y) + log1p(exp(-abs(x - y))))"
    ),
    # trigonometric and hyperbolic functions, and the error function
    "sin": Function(slope=1.0),
    "cos": Function(slope=1.0),
    "tan": Function(definition="sin(x) / cos(x)"),
    "asin": Function(),
    "acos": Function(),
    "atan": Function(),
    "sinh": Function(),
    "cosh": Function(even=True),
    "asinh": Function(),
    "acosh": Function(),
    "atanh": Function(),
    "erf": Function(),
    "erfc": Function(),
    # powers, quotients and remainders
    "square": Function(gives="same", definition="x * x"),
    "reciprocal": Function(definition="1 / x"),
    "hypot": Function(
        _TWO,
        definition="where(isinf(x) or isinf(y), inf, _hypotenuse(maximum(abs(x), abs(y)), minimum(abs(x), abs(y))))",
    ),
    "pow": Function(_TWO),
    "fmod": Function(_TWO),
    "remainder": Function(_TWO, definition="_from_below(fmod(x, y), y)"),
    "floor_divide": Function(_TWO, definition="_signed_quotient(x / y, y, _whole_quotient(x, y, fmod(x, y)))"),
    # tests and choices
    "isnan": Function(gives="truth", definition="x != x"),
    "isinf": Function(gives="truth", definition="abs(x) == inf"),
    "isfinite": Function(gives="truth", definition="abs(x) < inf"),
    "sign": Function(gives="same", definition="where(x > 0, 1, where(x < 0, -1, 0))"),
    "fmin": Function(_TWO, gives="same", definition="where(x <= y, x, where(y == y, y, x))"),
    "fmax": Function(_TWO, gives="same", definition="where(x >= y, x, where(y == y, y, x))"),
    "clamp": Function(("x", "min", "max"), gives="same", definition="minimum(maximum(x, min), max)"),
    "clamp_min": Function(("x", "min"), gives="same", definition="maximum(x, min)"),
    "clamp_max": Function(("x", "max"), gives="same", definition="minimum(x, max)"),
    # activations
    "softplus": Function(definition="where(x > 20, x, log1p(exp(x)))"),
    "logsigmoid": Function(definition="minimum(x, 0) - log1p(exp(-abs(x)))"),
    "mish": Function(definition="x * tanh(softplus(x))"),
    "elu": Function(("x", "alpha"), (1.0,), definition="where(x > 0, x, alpha * expm1(x))"),
    "leaky_relu": Function(("x", "negative_slope"), (0.01,), definition="where(x > 0, x, x * negative_slope)"),
    "hardswish": Function(definition="x * (minimum(maximum(x + 3, 0), 6) / 6)"),
}
"""Name -> the function."""

PARTS: dict[str, Function] = {
    "_hypotenuse": Function(("a", "b"), definition="where(a == 0, a, a * sqrt(1 + square(b / a)))"),
    "_from_below": Function(("r", "y"), definition="where((r < 0 and y > 0) or (r > 0 and y < 0), r + y, r)"),
    "_signed_quotient": Function(("d", "y", "q"), definition="where(y == 0, d, where(q == 0, d * 0, q))"),
    "_whole_quotient": Function(
        ("x", "y", "r"),
        definition="round((x - r) / y) - where((r < 0 and y > 0) or (r > 0 and y < 0), 1, 0)",
    ),
    "_whole_fmod": Function(_TWO, gives="same", definition="_toward_zero(x % y, x, y)"),  # of integers
    "_toward_zero": Function(
        ("r", "x", "y"), gives="same", definition="where((r > 0 and x < 0) or (r < 0 and x > 0), r - y, r)"
    ),
}
"""Functions for definitions only: each takes as an argument a value that a definition needs several times."""

WAYS = {
    "silu": "x * sigmoid(x)",
    "gelu_tanh": "x * sigmoid(x * (1.5957691216057308 + 0.07135481627260025 * x * x))",
}
"""Primitive -> the same, written with another primitive."""

NO_NAMES = frozenset(name for name, function in FUNCTIONS.items() if not function.late)
"""Functions that nothing of a spec may be named like; the others came later, when specs had such names."""
TO_WHOLE = ("round", "floor", "ceil", "trunc")
"""To a whole number: the nearest (of two the even one), the one below, the one above, the one toward 0."""
TYPE_PRESERVING = tuple(name for name, function in FUNCTIONS.items() if function.gives == "same")


def function_of(name: str) -> Function:
    """A function, or a part of a definition."""
    return FUNCTIONS[name] if name in FUNCTIONS else PARTS[name]
