"""The operations and functions of the expression language on `Bounded` values.

Errors of operands propagate by the exact formulas below (no first-order approximation); then the operation's own
rounding is added. Operands arrive in the node's dtype, as `expressions.annotate` leaves them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.expressions.functions import FUNCTIONS, TO_WHOLE
from cutegen.reference import ordinary
from cutegen.reference.fast_exponentials import as_power_of_2
from cutegen.reference.masks import equal, is_finite, is_nan, largest, some
from cutegen.reference.rounding import (
    Bounded,
    of_open_sign,
    overflow,
    product_is_exact,
    rounding,
    settle,
    settle_integer,
    smallest_normal,
    sum_is_exact,
    unit,
)

if TYPE_CHECKING:
    import torch

# Allowance for the functions of CUDA's and torch's libraries, in ulps of the result. CUDA C++ Programming Guide,
# mathematical functions: expf, logf, tanhf, rsqrtf, erff 2 ulp or less, sqrtf 0 to 1, double precision 2 or less;
# composed ones (sigmoid, silu) add a handful of roundings.
FUNCTION_ULPS = 8


def negate(x: Bounded) -> Bounded:
    return settle_integer(-x.value, x.error, x.dtype) if not x.dtype.is_float else replace(x, value=-x.value)


def add(a: Bounded, b: Bounded, dtype: Dtype, sign: int = 1) -> Bounded:
    """The sum or difference: |(a' +- b') - (a +- b)| <= ea + eb."""
    if ordinary.possible(dtype, a, b):
        return ordinary.add(a, b, dtype, sign, lambda a, b: add_fully(a, b, dtype, sign))
    return add_fully(a, b, dtype, sign)


def add_fully(a: Bounded, b: Bounded, dtype: Dtype, sign: int = 1) -> Bounded:
    """The result of `add` for elements of any kind, not only `ordinary` ones."""
    import torch

    value, error = a.value + sign * b.value, a.error + b.error
    if not dtype.is_float:
        return settle_integer(value, error, dtype, a.value.double() + sign * b.value.double())
    exact = sum_is_exact(a.value, sign * b.value) if dtype is Dtype.f64 else None

    def certain() -> torch.Tensor:
        infinite = (a.value.isinf() | b.value.isinf()) & error.isfinite()  # stays so for any other factor
        return _certain(a, b) | infinite

    result = settle(value, error, rounding(value, error, dtype, exact), dtype, certain)
    if a.overflowed is None and b.overflowed is None:
        return result
    fused = _fused_otherwise(a, sign * b.value) | _fused_otherwise(b, sign * a.value)
    return replace(result, error=torch.where(fused & ~_nan(a) & ~_nan(b), torch.inf, result.error))


def _fused_otherwise(product: Bounded, other: torch.Tensor) -> torch.Tensor:
    """Where a sum is another one if its product, which overflowed, is not rounded before."""
    import torch

    if product.overflowed is None:
        return torch.zeros_like(other, dtype=torch.bool)
    least, most = product.overflowed, 2 * overflow(product.dtype)
    infinite = other.isinf() & (other != product.value)
    less = other.isfinite() & (other * least.sign() < 0) & ((least.abs() < most) | least.isinf())
    return (least != 0) & (infinite | less)


def multiply(a: Bounded, b: Bounded, dtype: Dtype) -> Bounded:
    """The product: |a'b' - ab| <= |a| eb + |b| ea + ea eb.

    A zero times what may have either sign is a zero of either, which the smallest error tells.
    """
    if ordinary.possible(dtype, a, b):
        return ordinary.multiply(a, b, dtype, lambda a, b: multiply_fully(a, b, dtype))
    return multiply_fully(a, b, dtype)


def multiply_fully(a: Bounded, b: Bounded, dtype: Dtype) -> Bounded:
    """The result of `multiply` for elements of any kind, not only `ordinary` ones."""
    value = a.value * b.value
    error = a.value.abs() * b.error + b.value.abs() * a.error + a.error * b.error
    if not dtype.is_float:
        return settle_integer(value, error, dtype, a.value.double() * b.value.double())
    exact = product_is_exact(a.value, b.value) if dtype is Dtype.f64 else None

    def certain() -> torch.Tensor:
        infinite = a.value.isinf() & a.exact & (b.value.abs() > b.error)
        infinite |= b.value.isinf() & b.exact & (a.value.abs() > a.error)
        return _certain(a, b) | infinite

    result = settle(value, error, rounding(value, error, dtype, exact), dtype, certain)
    for zero, other in ((a, b), (b, a)):
        if some(none := equal(zero.value, 0.0) & zero.exact):
            either = none & (other.error >= other.value.abs()) & ~other.exact
            result = replace(result, error=of_open_sign(result.error, either, dtype))
    finite = is_finite(a.value) & is_finite(b.value)
    return replace(result, overflowed=_overflowed(finite, value, error, result))


def _overflowed(finite: torch.Tensor, value: torch.Tensor, error: torch.Tensor, result: Bounded) -> torch.Tensor | None:
    """The least magnitude, signed, of each result before it overflowed, where its operands are `finite`; else 0."""
    import torch

    if not some(result.value.isinf()):
        return None
    least = (value.abs() - error).clamp_min(overflow(result.dtype)).copysign(value)
    return torch.where(finite & result.value.isinf(), least, 0.0)


def divide(a: Bounded, b: Bounded, dtype: Dtype) -> Bounded:
    """The quotient: |a'/b' - a/b| <= (ea + |a/b| eb) / (|b| - eb) where |b| > eb; correctly rounded, as IEEE 754 has
    it.
    """
    if ordinary.possible(dtype, a, b):
        return ordinary.divide(a, b, dtype, lambda a, b: divide_fully(a, b, dtype))
    return divide_fully(a, b, dtype)


def scale_by_reciprocal(a: Bounded, b: Bounded, dtype: Dtype) -> Bounded:
    """The quotient with the error of a product with the reciprocal, which is rounded before."""
    import torch

    quotient, one = divide(a, b, dtype), torch.ones((), dtype=torch.float64, device=b.value.device)
    product = multiply(a, divide(Bounded(one, torch.zeros_like(one), dtype), b, dtype), dtype)
    return replace(quotient, error=torch.maximum(quotient.error, product.error))


def divide_fully(a: Bounded, b: Bounded, dtype: Dtype) -> Bounded:
    """The result of `divide` for elements of any kind, not only `ordinary` ones."""
    import torch

    value = a.value / b.value
    room = b.value.abs() - b.error
    error = torch.where(b.exact, a.error / b.value.abs(), (a.error + value.abs() * b.error) / room)
    error = torch.where((room > 0) | b.exact, error, torch.inf)
    exact = product_is_exact(value, b.value) & (value * b.value == a.value) if dtype is Dtype.f64 else None
    return settle(value, error, rounding(value, error, dtype, exact), dtype, lambda: _certain(a, b))


def power(x: Bounded, exponent: int, dtype: Dtype) -> Bounded:
    """x to a whole power by exponent - 1 multiplications one after the other: no other order of them amplifies more."""
    result = x
    for _ in range(exponent - 1):
        result = multiply(result, x, dtype)
    return result


def compare(op: str, a: Bounded, b: Bounded) -> Bounded:
    """A comparison, 0 or 1; its error is 1 where |a - b| <= ea + eb and that is not 0, as the answer could be the
    other.
    """
    import torch

    left, right = a.value, b.value
    value = {
        "<": torch.lt,
        "<=": torch.le,
        ">": torch.gt,
        ">=": torch.ge,
        "==": torch.eq,
        "!=": torch.ne,
    }[op](left, right)
    error = a.error + b.error
    apart = _apart(a, b) > error
    sure = (error == 0) | (apart & error.isfinite()) | _nan(a) | _nan(b)
    return Bounded(value.to(torch.int64), torch.where(sure, 0.0, 1.0), Dtype.bool)


def logical(op: str, a: Bounded, b: Bounded) -> Bounded:
    """The logical `and` or `or`, uncertain if an operand is, unless the other one decides alone."""
    import torch

    decides = 0 if op == "and" else 1
    value = a.value & b.value if op == "and" else a.value | b.value
    decided = (a.exact & (a.value == decides)) | (b.exact & (b.value == decides))
    return Bounded(value, torch.where((a.exact & b.exact) | decided, 0.0, 1.0), Dtype.bool)


def invert(x: Bounded) -> Bounded:
    return Bounded(1 - x.value, x.error, Dtype.bool)


def where(condition: Bounded, a: Bounded, b: Bounded) -> Bounded:
    """The side that the condition chooses; if it could be the other way, the bound reaches over the other side too."""
    import torch

    chosen = condition.value != 0
    value = torch.where(chosen, a.value, b.value)
    error = torch.where(chosen, a.error, b.error)
    other = torch.where(chosen, b.error, a.error)
    apart = _distance(a, b) * (1 + 2.0**-50 * (a.dtype is Dtype.i64))
    same = (a.value == b.value) | (a.value.isnan() & b.value.isnan())
    reach = torch.maximum(error, torch.where(same, 0.0, apart) + other).nan_to_num(torch.inf, torch.inf)
    # an infinity or NaN on one side only: anything may come
    reach = torch.where(~same & ~apart.isfinite(), torch.inf, reach)
    if a.dtype.is_float:
        reach = of_open_sign(reach, (a.value == 0) & (a.value.signbit() != b.value.signbit()), a.dtype)
    return Bounded(value, torch.where(condition.exact, error, reach), a.dtype)


def extremum(function: str, a: Bounded, b: Bounded) -> Bounded:
    """The minimum or maximum: |min(a', b') - min(a, b)| <= max(ea, eb), or the winner's error if it surely wins.

    NaN wins, as in torch.
    """
    import torch

    pick = torch.minimum if function == "minimum" else torch.maximum
    value = pick(a.value, b.value)
    nan = _nan(a) | _nan(b)
    error = torch.maximum(a.error, b.error)
    apart = _apart(a, b) > a.error + b.error
    winner = torch.where(value == a.value, a.error, b.error)
    error = torch.where(apart | (a.exact & b.exact), winner.expand_as(value), error.expand_as(value))
    unknown = torch.isinf(a.error) | torch.isinf(b.error)  # NaN may be among what it stands for
    error = torch.where(nan, 0.0, torch.where(unknown, torch.inf, error))
    return Bounded(value, error, a.dtype)


def relu(x: Bounded) -> Bounded:
    """x where it is above 0, else 0; the error of x counts where x may be above 0. NaN stays NaN, as in torch."""
    import torch

    if not x.dtype.is_float:
        return Bounded(x.value.clamp_min(0), torch.where(x.value + x.error > 0, x.error, 0.0), x.dtype)
    surely_zero = (x.value + x.error <= 0) & x.error.isfinite()
    return Bounded(x.value.clamp_min(0), torch.where(surely_zero, 0.0, x.error), x.dtype)


def absolute(x: Bounded) -> Bounded:
    """The absolute value: ||x'| - |x|| <= ex."""
    if x.dtype.is_float:
        return Bounded(x.value.abs(), x.error, x.dtype)
    return settle_integer(x.value.abs(), x.error, x.dtype)


def function(name: str, x: Bounded, dtype: Dtype, fast_math: bool = False, base: Bounded | None = None) -> Bounded:
    """The value of a function of one float, by name: any but relu and abs. With `fast_math` exp of f32 has the error of
    a power of 2, with a `base` that of one whose two parts are rounded apart.
    """
    import torch

    if name in TO_WHOLE:
        return _whole(getattr(torch, name), x)
    if name == "gelu":
        return _gelu(x, dtype)
    if name == "gelu_tanh":
        return _gelu_tanh(x, dtype)
    if name == "silu":
        return _silu(x, dtype)
    kind = FUNCTIONS[name]
    if kind.slope is not None:
        return _sloped(getattr(torch, name), kind.slope, x, dtype)
    result = _monotone(getattr(torch, name), absolute(x) if kind.even else x, dtype)
    if name == "exp" and fast_math and dtype is Dtype.f32:
        result = as_power_of_2(x, result, base)
    if name in ("exp", "exp2") and some(result.value.isinf()):
        # It ends with a multiplication by a power of two, which what follows may be fused with
        value, least = (getattr(torch, name)(one) for one in (x.value, x.value - x.error))
        return replace(result, overflowed=_overflowed(x.value.isfinite(), value, (value - least).nan_to_num(0), result))
    return result


def _monotone(f: Callable[[torch.Tensor], torch.Tensor], x: Bounded, dtype: Dtype) -> Bounded:
    """The result of a monotone function, which lies between its values at both ends of x.

    To that come 8 ulp, and the smallest normal number for implementations that flush subnormal intermediate results.
    """
    import torch

    value = f(x.value)
    if x.known:
        return settle(value, x.error, allowance(value, x.error, dtype), dtype, lambda: x.exact.expand_as(value))
    # one float64 further out: x + e may round inward
    up = torch.full((), torch.inf, dtype=torch.float64, device=value.device)
    low, high = f(torch.nextafter(x.value - x.error, -up)), f(torch.nextafter(x.value + x.error, up))
    known = x.exact
    if some(known):
        low, high = torch.where(known, value, low), torch.where(known, value, high)
    error = torch.maximum((high - value).abs(), (value - low).abs())
    same = known  # which is of no account where all are finite
    if value.requires_grad or not _all_finite(error) or not _all_finite(x.error):
        same = ((low == value) & (high == value)) | (low.isnan() & value.isnan() & high.isnan())
        same &= x.error.isfinite()
        error = torch.where(same, 0.0, error.nan_to_num(torch.inf, torch.inf))
        error = torch.where(x.error.isfinite(), error, torch.inf)
    return settle(value, error, allowance(value, error, dtype), dtype, lambda: same)


def _all_finite(x: torch.Tensor) -> bool:
    """Whether numbers that are not negative are all finite."""
    return x.numel() > 0 and largest(x.detach()) < math.inf  # which no NaN is


def _sloped(f: Callable[[torch.Tensor], torch.Tensor], slope: float, x: Bounded, dtype: Dtype) -> Bounded:
    """The result of a function that changes at most `slope` times as much as its argument."""
    value, error = f(x.value), slope * x.error
    return settle(value, error, allowance(value, error, dtype), dtype, lambda: x.exact)


def _whole(f: Callable[[torch.Tensor], torch.Tensor], x: Bounded) -> Bounded:
    """A whole number near x, exactly: between those of both ends of x where that is not known exactly."""
    import torch

    value, least, most = f(x.value), f(x.value - x.error), f(x.value + x.error)
    error = torch.maximum(most - value, value - least).nan_to_num(torch.inf, torch.inf)
    error = of_open_sign(error, least.signbit() != most.signbit(), x.dtype)
    return Bounded(value, torch.where(x.exact, 0.0, error), x.dtype)


def _gelu(x: Bounded, dtype: Dtype) -> Bounded:
    """The exact gelu, x/2 (1 + erf(x / sqrt 2)), with |gelu'| < 1.13 (largest at x = sqrt 2).

    For negative x the sum cancels, so that its error is absolute: the allowance is 8 ulp of x rather than of the
    result.
    """
    import torch

    value = 0.5 * x.value * torch.erfc(-x.value * 0.5**0.5)
    error = 1.13 * x.error
    return settle(value, error, allowance(x.value.abs() + value.abs(), error, dtype), dtype, lambda: x.exact)


def _gelu_tanh(x: Bounded, dtype: Dtype) -> Bounded:
    """x/2 (1 + tanh(t)), t = sqrt(2 / pi) (x + 0.044715 x^3), which is x / (1 + exp(-2 t)); its slope is below 1.13.

    In the kernel's own formula 8 roundings lead to t, without cancellation, and |t| (1 - tanh(t)^2) < 0.45: they change
    tanh(t) by 3.6 u at most, beside its own 8 ulp, which are 16 u. The sum cancels for negative x, so that this counts
    against x/2: 10 u |x|, and 3 u more for its own roundings. Allowed are 8 ulp of x, which are 16 u |x|.
    """
    import torch

    twice = (8 / torch.pi) ** 0.5 * (x.value + 0.044715 * x.value**3)
    value = x.value / (1 + torch.exp(-twice))
    error = 1.13 * x.error
    return settle(value, error, allowance(x.value.abs() + value.abs(), error, dtype), dtype, lambda: x.exact)


def _silu(x: Bounded, dtype: Dtype) -> Bounded:
    """The silu x / (1 + exp(-x)), with |silu'| < 1.1 (largest at x = 2.4).

    Where exp(-x) overflows the result is flushed: the floor of the sigmoid's allowance times |x|.
    """
    import torch

    value = x.value / (1 + torch.exp(-x.value))
    error = 1.1 * x.error
    floor = x.value.abs() * smallest_normal(dtype)
    return settle(value, error, allowance(value, error, dtype) + floor, dtype, lambda: x.exact)


def allowance(magnitude: torch.Tensor, error: torch.Tensor, dtype: Dtype) -> torch.Tensor:
    """The error that library functions may add to a result of that magnitude, which has an `error` already."""
    return FUNCTION_ULPS * 2 * unit(dtype) * (magnitude.abs() + error) + smallest_normal(dtype)


def _distance(a: Bounded, b: Bounded) -> torch.Tensor:
    """How far two values are from each other, in float64: of i64 it may be rounded."""
    if a.dtype is Dtype.i64:
        return (a.value.double() - b.value.double()).abs()
    return (a.value - b.value).abs().double()


def _apart(a: Bounded, b: Bounded) -> torch.Tensor:
    """How far two values are from each other at least."""
    distance = _distance(a, b)
    if a.dtype is Dtype.i64:
        distance = distance - (a.value.double().abs() + b.value.double().abs()) * 2.0**-52
    return distance


def _nan(x: Bounded) -> torch.Tensor:
    return is_nan(x.value) & x.exact


def _certain(a: Bounded, b: Bounded) -> torch.Tensor:
    """Where a result that is not finite is known: where both operands are exact, or one is NaN."""
    return (a.exact & b.exact) | _nan(a) | _nan(b)
