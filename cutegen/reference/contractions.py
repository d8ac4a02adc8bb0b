"""Sums of products of two values, each of which lacks modes of the other: matrix products of tensors, or of what was
computed, with the bounds of kernels that sum them in any order.
"""

from __future__ import annotations

import math
from dataclasses import replace
from string import ascii_letters
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cutegen.dtypes import Dtype
from cutegen.expressions.spans import Spans, span
from cutegen.expressions.tree import Binary, Cast, Expr, Name, Reduce
from cutegen.reference.masks import every, some
from cutegen.reference.products import gamma
from cutegen.reference.rounding import PRECISION, Bounded, half_subnormal, overflow, settle, unit

if TYPE_CHECKING:
    import torch

_SIXTEEN = (Dtype.f16, Dtype.bf16)


class Evaluating(Protocol):
    """An evaluator of a spec's expressions."""

    axes: tuple[str, ...]

    def expr(self, node: Expr) -> Bounded:
        """The value of an expression."""

    def size(self, mode: str) -> int:
        """The size of a mode."""


def is_contraction(node: Reduce, spans: Spans) -> bool:
    """Whether a reduction is a sum of products of floats that are wider together than either is."""
    product = node.nested[-1].x
    if node.function != "sum" or not isinstance(product, Binary) or product.op != "*":
        return False
    assert node.dtype is not None
    one, other = (span(x, spans) for x in product.children)
    summed = {reduction.mode for reduction in node.nested}
    return node.dtype.is_float and summed <= one & other and bool(one - other) and bool(other - one)


class _Factor(NamedTuple):
    """A factor of products: what it is, and whether a kernel computes it, so that it may leave out what is 0."""

    x: Bounded
    computed: bool


def contraction(node: Reduce, evaluator: Evaluating) -> Bounded:
    """The sum of products, accumulated in the type of `node`.

    |s' - s| <= gamma(K + 1) |A| |B| plus the errors of the factors, as `products.matmul` has it for tensors. Where a
    computed factor is 0, its product with an infinity or NaN is NaN, or is left out with all that is 0 beside it:
    nothing is known of such a sum.
    """
    import torch

    product, dtype = node.nested[-1].x, node.dtype
    assert isinstance(product, Binary) and dtype is not None
    lead = evaluator.axes
    axes = tuple(lead.index(reduction.mode) for reduction in node.nested)
    (a, a_computed), (b, b_computed) = (_factor(x, axes, evaluator) for x in product.children)
    terms = math.prod(evaluator.size(lead[axis]) for axis in axes)
    labels = ascii_letters[: len(lead)]
    text = f"{labels},{labels}->{''.join(label for at, label in enumerate(labels) if at not in axes)}"

    def multiplied(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        found = torch.einsum(text, *(_whole_rank(z, len(lead)).to(torch.float64) for z in (x, y)))
        for axis in sorted(axes):
            found = found.unsqueeze(axis)
        return found

    value = multiplied(a.value, b.value)
    finite = [x.value.masked_fill(~x.value.isfinite(), 0.0).abs() for x in (a, b)]
    errors = [x.error.expand_as(x.value) for x in (a, b)]
    known = [error.isfinite() for error in errors]
    off = [error.masked_fill(~one, 0.0) for error, one in zip(errors, known, strict=True)]
    magnitude = multiplied(finite[0] + off[0], finite[1] + off[1])
    propagated = multiplied(off[0], finite[1] + off[1]) + multiplied(finite[0], off[1])
    rounds = gamma(terms + 1, dtype)
    summing = (rounds + gamma(terms + 1, Dtype.f64)) * magnitude + terms * 2 * half_subnormal(dtype)
    whole = a.known and b.known and all(every(x == x.floor()) for x in finite)
    exact = (magnitude <= 2.0 ** PRECISION[dtype]) & (propagated == 0) if whole else magnitude == 0
    # What the order decides: whether a partial sum overflows, unless those of one sign alone must
    stays = magnitude * (1 + rounds) < overflow(dtype)
    unsure = 2 * gamma(terms + 1, Dtype.f64) * magnitude  # of their difference
    against = (magnitude - value.abs() + unsure + propagated) * (1 + rounds) < overflow(dtype)
    propagated = torch.where(stays | against, propagated, torch.inf)
    error = torch.where(exact, 0.0, summing)
    error = torch.where(stays, error, torch.inf)
    unknown = _among(multiplied, ~known[0], ~known[1])
    counts = [
        x.value != 0 if computed else torch.ones_like(x.value, dtype=torch.bool)
        for x, computed in ((a, a_computed), (b, b_computed))
    ]
    strange = [~x.value.isfinite() for x in (a, b)]
    if some(strange[1]) and not every(counts[0]):
        unknown = unknown | (multiplied((~counts[0]).double(), strange[1].double()) > 0)
    if some(strange[0]) and not every(counts[1]):
        unknown = unknown | (multiplied(strange[0].double(), (~counts[1]).double()) > 0)
    certain_nan = [x.value.isnan() & (e == 0) for x, e in zip((a, b), errors, strict=True)]
    nan = _among(multiplied, certain_nan[0], certain_nan[1], counts[0], counts[1])
    error = torch.where(nan, 0.0, torch.where(unknown, torch.inf, error))
    infinite = [x.value.isinf() for x in (a, b)]
    inexact = [e > 0 for e in errors]
    wavering = multiplied(infinite[0].double(), inexact[1].double()) + multiplied(
        inexact[0].double(), infinite[1].double()
    )
    value = torch.where(nan, torch.nan, value)

    def certain() -> torch.Tensor:
        return nan | (~value.isfinite() & stays & ~unknown & (wavering == 0))

    return settle(value, torch.where(nan, 0.0, torch.where(unknown, torch.inf, propagated)), error, dtype, certain)


def _whole_rank(x: torch.Tensor, rank: int) -> torch.Tensor:
    return x.reshape([1] * rank) if x.dim() == 0 else x


def _among(
    multiplied: _Product,
    one: torch.Tensor,
    other: torch.Tensor,
    one_counts: torch.Tensor | None = None,
    other_counts: torch.Tensor | None = None,
) -> torch.Tensor:
    """Where a term of the sum has a factor of which something is true, beside one that `counts`."""
    import torch

    found = torch.zeros((), dtype=torch.bool, device=one.device)
    if some(one):
        beside = torch.ones_like(other) if other_counts is None else other_counts
        found = found | (multiplied(one.double(), beside.double()) > 0)
    if some(other):
        beside = torch.ones_like(one) if one_counts is None else one_counts
        found = found | (multiplied(beside.double(), other.double()) > 0)
    return found


class _Product(Protocol):
    """Sums products of two tensors along the axes of a contraction."""

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor: ...


def _factor(node: Expr, axes: tuple[int, ...], evaluator: Evaluating) -> _Factor:
    """A factor. One that is computed, and rounded to 16 bits, may be rounded before it is scaled: of `exp(x - m)` a
    kernel knows a smaller m at first.
    """
    inner = node
    while isinstance(inner, Cast) and not inner.explicit:
        inner = inner.x
    if isinstance(inner, Name):
        return _Factor(evaluator.expr(node), computed=False)
    if not isinstance(inner, Cast) or inner.dtype not in _SIXTEEN:
        return _Factor(evaluator.expr(node), computed=True)
    assert node.dtype is not None
    found = _rounded_anywhere(evaluator.expr(inner.x), inner.dtype, axes)
    return _Factor(replace(found, dtype=node.dtype), computed=True)


def _rounded_anywhere(x: Bounded, dtype: Dtype, axes: tuple[int, ...]) -> Bounded:
    """x rounded to 16 bits, or x times some number rounded and divided by that again, the same number along axes.

    |x' - x| <= u |x|, plus half a subnormal. Rows whose elements are all powers of two, up to errors that rounding
    removes, stay exact: they differ by powers of two from those that are rounded.
    """
    import torch

    value, error = x.value.to(torch.float64), x.error.expand_as(x.value)
    size = value.abs() + error
    added = unit(dtype) * size + half_subnormal(dtype)
    fraction, exponent = torch.frexp(value)
    power = torch.ldexp(torch.ones_like(value), exponent - (fraction.abs() < 0.75).int())
    nearest = torch.copysign(power, value)
    least = 2.0**-14 if dtype is Dtype.f16 else 2.0**-126
    telling = ((value - nearest).abs() + error < unit(dtype) / 4 * power) & (power >= least)
    zero = (value == 0) & (error == 0)
    whole = (telling | zero).all(axes, True).expand_as(value)
    added = torch.where(zero | whole, 0.0, added)
    propagated = torch.where(whole, 0.0, error)
    value = torch.where(whole & ~zero, nearest, value)
    return settle(value, propagated, added, dtype, lambda: x.exact.expand_as(value))
