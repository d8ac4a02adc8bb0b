"""The derivatives of functions and reductions, as texts of the language.

In the texts a function's arguments have the names of its parameters, and `f` is its value. A truth stands for 1 or 0
where `where` has these two for values.
"""

from __future__ import annotations

DERIVATIVES: dict[str, tuple[str | None, ...]] = {
    "where": (None, "where(c, 1, 0)", "where(c, 0, 1)"),
    "minimum": ("where(x < y, 1, where(x == y, 0.5, 0))", "where(y < x, 1, where(x == y, 0.5, 0))"),
    "maximum": ("where(x > y, 1, where(x == y, 0.5, 0))", "where(y > x, 1, where(x == y, 0.5, 0))"),
    "exp": ("f",),
    "log": ("1 / x",),
    "sqrt": ("0.5 / f",),
    "rsqrt": ("-0.5 * f ** 3",),
    "tanh": ("1 - f * f",),
    "sigmoid": ("f * (1 - f)",),
    "relu": ("where(x > 0, 1, 0)",),
    "abs": ("where(x > 0, 1, where(x < 0, -1, 0))",),
    "gelu": ("where(x == 0, 0.5, f / x) + 0.3989422804014327 * x * exp(-0.5 * x * x)",),
    "silu": ("sigmoid(x) * (1 + x * (1 - sigmoid(x)))",),
    "gelu_tanh": (
        "sigmoid(x * (1.5957691216057308 + 0.07135481627260025 * x * x))"
        " * (1 + x * (1 - sigmoid(x * (1.5957691216057308 + 0.07135481627260025 * x * x)))"
        " * (1.5957691216057308 + 0.21406444881780076 * x * x))",
    ),
    "exp2": ("f * 0.6931471805599453",),
    "expm1": ("f + 1",),
    "log2": ("1.4426950408889634 / x",),
    "log10": ("0.4342944819032518 / x",),
    "log1p": ("1 / (1 + x)",),
    "logaddexp": ("sigmoid(x - y)", "sigmoid(y - x)"),
    "sin": ("cos(x)",),
    "cos": ("-sin(x)",),
    "tan": ("1 + f * f",),
    "asin": ("rsqrt(1 - x * x)",),
    "acos": ("-rsqrt(1 - x * x)",),
    "atan": ("1 / (1 + x * x)",),
    "sinh": ("cosh(x)",),
    "cosh": ("sinh(x)",),
    "asinh": ("rsqrt(1 + x * x)",),
    "acosh": ("rsqrt(x * x - 1)",),
    "atanh": ("1 / (1 - x * x)",),
    "erf": ("1.1283791670955126 * exp(-x * x)",),
    "erfc": ("-1.1283791670955126 * exp(-x * x)",),
    "hypot": ("x / f", "y / f"),
    "pow": ("where(y == 0, 0, y * pow(x, y - 1))", "where(x == 0 and y >= 0, 0, f * log(x))"),
    "fmod": ("1", "-trunc(x / y)"),
    "remainder": ("1", "-floor_divide(x, y)"),
    "softplus": ("where(x > 20, 1, sigmoid(x))",),
    "logsigmoid": ("sigmoid(-x)",),
    "mish": ("tanh(softplus(x)) + x * sigmoid(x) * (1 - tanh(softplus(x)) ** 2)",),
    "elu": ("where(x > 0, 1, alpha * exp(x))", "where(x <= 0, expm1(x), 0)"),
    "fmin": ("where(x <= y or isnan(y), 1, 0)", "where(x <= y or isnan(y), 0, 1)"),
    "fmax": ("where(x >= y or isnan(y), 1, 0)", "where(x >= y or isnan(y), 0, 1)"),
    "clamp": (
        "where(x >= min and x <= max, 1, 0)",
        "where(min < max and x < min, 1, 0)",
        "where(x > max or max < min, 1, 0)",
    ),
    "clamp_min": ("where(x >= min, 1, 0)", "where(x < min, 1, 0)"),
    "clamp_max": ("where(x <= max, 1, 0)", "where(x > max, 1, 0)"),
    "square": ("2 * x",),
    "reciprocal": ("-f * f",),
    "leaky_relu": ("where(x > 0, 1, negative_slope)", "where(x > 0, 0, x)"),
    "hardswish": ("where(x >= 3, 1, where(x <= -3, 0, x / 3 + 0.5))",),
}
"""Function -> its derivative by each argument, as torch has it: of two that are equal, `maximum` and `minimum` give
half to each; `fmax` and `fmin` give all to the first, and `clamp` to its first argument; `relu` and `abs` have 0 at 0.
None: there is no derivative by that argument. A function that is not here (`round`, `sign`, a comparison) is constant
where it has a derivative.

The derivative of `gelu` is the normal distribution's function, `gelu(x) / x`, and x times its density.
"""

OF_REDUCTIONS = {
    "logsumexp": "exp(x - f)",
    "var": "2 * (x - mean(x, N)) / (n - 1)",
    "std": "where(f == 0, 0, (x - mean(x, N)) / (f * (n - 1)))",
    "prod": "where(x == 0, where(sum(where(x == 0, 1, 0), N) == 1, prod(where(x == 0, 1, x), N), 0), f / x)",
}
"""Reduction -> its derivative by each element x of the n along N, as torch has it: nothing where values are all equal,
of a standard deviation; of a product with one zero only by that zero. The places of extremes and truths are constant
where they have a derivative; sums, means and extremes have their own rules.
"""
CONSTANT = ("argmax", "argmin", "any", "all")
"""Reductions without a derivative."""
