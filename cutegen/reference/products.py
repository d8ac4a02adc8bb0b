"""Matrix products with the bounds of kernels that sum them in any order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from cutegen.dtypes import Dtype
from cutegen.expressions.tree import MatMul
from cutegen.language.model import KernelSpec
from cutegen.reference import factors, fused_sums
from cutegen.reference.asked import family_of
from cutegen.reference.masks import every, some
from cutegen.reference.placing import letters, placed, widened
from cutegen.reference.rounding import PRECISION, Bounded, half_subnormal, overflow, settle, settle_integer, unit
from cutegen.reference.segmented import each_segment

if TYPE_CHECKING:
    import torch


class Call(Protocol):
    """The call of a kernel: its spec, its tensors, and how much of its modes they have."""

    spec: KernelSpec
    tensors: Mapping[str, torch.Tensor]
    mode_sizes: dict[str, int]
    coordinates: Mapping[str, Sequence[int]]
    whole: Mapping[str, int]


def matmul(node: MatMul, dtype: Dtype, call: Call) -> Bounded:
    """The sum over the modes that both operands have and the output lacks, accumulated in `dtype`.

    In any order of summation, with products fused or not, |s' - s| <= gamma(K + 1) |A| |B|^T with gamma(n) =
    n u / (1 - n u), plus half a subnormal for each product that underflows. Source: Higham, section 3.1, eq.
    (3.5); the one more for operands that are wider than the accumulator. The reference's own float64 sum adds the
    same with its u, and `factors.cut` is for operands that are cut. Whole numbers with |A| |B|^T <= 2^p stay whole
    at every step: no error. Where the accumulator has fewer bits than its type, `fused_sums` says how far off it
    is. An infinity or NaN is known where no partial sum of what is finite can overflow.
    """
    import torch

    left, right = call.spec.tensor(node.a), call.spec.tensor(node.b)
    a, b = widened(call.tensors[node.a], left.dtype), widened(call.tensors[node.b], right.dtype)
    modes = {m: chr(ord("a") + i) for i, m in enumerate(dict.fromkeys((*left.shape, *right.shape)))}
    kept = [m for m in call.spec.lead.shape if m in modes]
    contracted = [m for m in left.shape if m in right.shape and m not in call.spec.lead.shape]
    terms = 1
    for mode in contracted:
        terms *= call.mode_sizes[mode]
    of_segments = {segments.of for segments in left.segments}  # of which one segment has one
    factors_of_one = [m for m in right.shape if m not in of_segments]
    text = f"{letters(left.shape, modes)},{letters(factors_of_one, modes)}->{letters(kept, modes)}"

    def multiplied(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return placed(torch.einsum(text, x, y), tuple(kept), call.spec.lead.shape)

    product = each_segment(call.spec, left, right, call.tensors, multiplied)

    if not dtype.is_float:
        zero = torch.zeros((), dtype=torch.float64, device=a.device)
        return settle_integer(exact_integer_product(a, b, product), zero, dtype)
    a, b = a.to(torch.float64), b.to(torch.float64)
    value = product(a, b)
    finite_a, finite_b = (x.detach().masked_fill(~x.isfinite(), 0.0) for x in (a, b))
    magnitude = product(finite_a.abs(), finite_b.abs())
    whole = every(finite_a == finite_a.floor()) and every(finite_b == finite_b.floor())
    cut = factors.cut(finite_a, finite_b, family_of(call.spec).factor_bits(call.spec), product)
    orders = family_of(call.spec).sum_orders(call.spec)
    bits = min((order.fused.whole_bits for order in orders), default=PRECISION[dtype])
    exact = whole & (magnitude <= 2.0**bits) & (cut == 0)
    rounds = gamma(terms + 1, dtype)
    wide = any(not t.dtype.is_f8 and PRECISION[t.dtype] > PRECISION[dtype] for t in (left, right))
    wide = wide or some(cut != 0)
    if wide:
        rounds = gamma(terms + 3, dtype)
    error = (rounds + gamma(terms + 1, Dtype.f64)) * magnitude + terms * 2 * half_subnormal(dtype)
    if orders:
        (mode,) = contracted
        axes = left.shape.index(mode), right.shape.index(mode)
        least = left.dtype.least_normal, right.dtype.least_normal
        error = torch.zeros_like(value)
        for order in orders:
            shares = fused_sums.spans(order, call.whole.get(mode, terms), call.coordinates.get(mode))
            found = fused_sums.error(finite_a, finite_b, axes, least, product, order.fused, shares)
            error = torch.maximum(error, found)
    error = torch.where(exact | (magnitude == 0), 0.0, error + cut * (1 + rounds))
    # What the order decides: whether a partial sum overflows, unless those of one sign alone must
    stays = magnitude * (1 + rounds) < overflow(dtype)
    unsure = 2 * gamma(terms + 1, Dtype.f64) * magnitude  # of their difference
    against = (magnitude - value.abs() + unsure) * (1 + rounds) < overflow(dtype)
    surely = value.isfinite() & against & (value.abs() - error >= overflow(dtype))
    error = torch.where(stays | surely, error, torch.inf)

    def certain() -> torch.Tensor:
        return value.isnan() & (stays | nan_among(a, b, product)) | value.isinf() & stays & (not wide)

    return settle(value, error, torch.zeros_like(error), dtype, certain)


def nan_among(
    a: torch.Tensor, b: torch.Tensor, product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Whether the terms of each element include a NaN."""
    import torch

    return product(a.isnan().double(), torch.ones_like(b)) + product(torch.ones_like(a), b.isnan().double()) > 0


def gamma(n: int, dtype: Dtype) -> float:
    """n u / (1 - n u), of n roundings of a type whose unit roundoff is u; infinite where that says nothing."""
    nu = n * unit(dtype)
    return nu / (1 - nu) if nu < 0.5 else float("inf")


def exact_integer_product(
    a: torch.Tensor, b: torch.Tensor, product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """A @ B.T modulo 2^32 from float64 products of 16-bit halves, each of which is exact for K below 2^21.

    It also works without an integer matrix product, as on a GPU.
    """
    import torch

    def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x >> 16).to(torch.float64), (x & 0xFFFF).to(torch.float64)

    (ah, al), (bh, bl) = halves(a), halves(b)
    middle = product(ah, bl).to(torch.int64) + product(al, bh).to(torch.int64)
    return ((middle % 2**16) << 16) + product(al, bl).to(torch.int64) % 2**32
