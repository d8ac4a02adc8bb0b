"""Matrix products with scales for blocks of what is summed, and the bounds of kernels that sum them in two levels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.expressions.tree import MatMul
from cutegen.reference import fused_sums
from cutegen.reference.asked import family_of
from cutegen.reference.masks import every
from cutegen.reference.placing import letters, placed, widened
from cutegen.reference.products import Call, gamma, matmul, nan_among
from cutegen.reference.rounding import PRECISION, Bounded, half_subnormal, overflow, settle

if TYPE_CHECKING:
    import torch

    Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

FEWEST = 16  # terms of an instruction along the summed mode, at least


def product(node: MatMul, dtype: Dtype, call: Call) -> Bounded:
    """A matrix product, whose operands have scales or not."""
    return scaled_matmul(node, dtype, call) if node.scales else matmul(node, dtype, call)


def scaled_matmul(node: MatMul, dtype: Dtype, call: Call) -> Bounded:
    """The sum of `A * sA * B * sB` over the mode that is contracted, where scales are the same along blocks of it.

    A kernel sums the products of each block, or of parts of it, from zero, multiplies by both scales, and adds that to
    a sum in f32. Within a block it is off as a product of so many terms is; this counts times the scales. The product
    of the scales rounds, so does its product with the block's sum, and each addition: with n parts of blocks by
    gamma(n + 3) of |A sA| |B sB|^T and of what blocks are off. A product of scales that underflows loses half a
    subnormal times |A| |B|^T of its block. Whole numbers stay whole as far as each level has bits for them.

    A NaN among the terms of an element is certain. What an infinite scale gives is not, since a block's sum may be
    zero or not; nor is a result where the sum of a block, or the product of its scales, may overflow.
    """
    import torch

    spec = call.spec
    operands = left, right = spec.tensor(node.a), spec.tensor(node.b)
    factors = [widened(call.tensors[t.name], t.dtype).to(torch.float64) for t in operands]
    names = (node.a_scale, node.b_scale)
    scales = [_scale(call, name, t.shape, x) for name, t, x in zip(names, operands, factors, strict=True)]
    modes = {m: chr(ord("a") + i) for i, m in enumerate(dict.fromkeys((*left.shape, *right.shape)))}
    kept = [m for m in spec.lead.shape if m in modes]
    (mode,) = (m for m in left.shape if m in right.shape and m not in spec.lead.shape)
    text = f"{letters(left.shape, modes)},{letters(right.shape, modes)}->{letters(kept, modes)}"
    axes = left.shape.index(mode), right.shape.index(mode)

    def multiplied(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return placed(torch.einsum(text, x, y), tuple(kept), spec.lead.shape)

    scaled = [x * s for x, s in zip(factors, scales, strict=True)]
    value = multiplied(*scaled)
    finite = [_finite(x) for x in factors]
    sizes = [_finite(s).abs() for s in scales]
    magnitude = multiplied(*(x.abs() * s for x, s in zip(finite, sizes, strict=True)))
    orders = family_of(spec).sum_orders(spec)
    bits = min((order.fused.whole_bits for order in orders), default=PRECISION[dtype])
    whole = all(every(x == x.floor()) for x in finite)
    exact = torch.full_like(value, whole and all(every(s == s.floor()) for s in sizes), dtype=torch.bool)
    off, lost, largest, most = (torch.zeros_like(value) for _ in range(4))
    terms, depth = call.mode_sizes[mode], next(one.size for one in spec.declared_modes if one.blocks == mode)
    coordinates = call.coordinates.get(mode, range(terms))
    for start, stop in _runs(coordinates, depth):
        x, y = (t.narrow(axis, start, stop - start) for t, axis in zip(finite, axes, strict=True))
        scale = multiplied(*(s.narrow(axis, start, 1) for s, axis in zip(sizes, axes, strict=True)))
        size = multiplied(x.abs(), y.abs())
        within = gamma(stop - start + 1, dtype) * size + (stop - start) * 2 * half_subnormal(dtype)
        if orders:
            inside = [c % depth for c in coordinates[start:stop]]
            (fused,) = {order.fused for order in orders}
            shares = fused_sums.spans(type(orders[0])(fused), depth, inside)
            least = left.dtype.least_normal, right.dtype.least_normal
            within = fused_sums.error(x, y, axes, least, multiplied, fused, shares)
        fits = (size <= 2.0**bits) & whole
        exact, off = exact & fits, off + scale * torch.where(fits, 0.0, within)
        lost, largest = lost + half_subnormal(dtype) * (size + 2), torch.maximum(largest, scale)
        most = torch.maximum(most, size + within)
    rounds = gamma(terms // FEWEST + 4, dtype)
    exact = exact & (magnitude <= 2.0 ** PRECISION[dtype]) & (largest <= 2.0 ** PRECISION[dtype])
    error = (magnitude + off) * (rounds + gamma(terms + 4, Dtype.f64)) + off + lost
    error = torch.where(exact | ((magnitude == 0) & (off == 0)), 0.0, error)
    stays = ((magnitude + off) * (1 + rounds) < overflow(dtype)) & (torch.maximum(largest, most) < overflow(dtype))
    error = torch.where(stays, error, torch.inf)

    def certain() -> torch.Tensor:
        x, y = (_nans(x, s) for x, s in zip(factors, scales, strict=True))
        return value.isnan() & nan_among(x, y, multiplied)

    return settle(value, error, torch.zeros_like(error), dtype, certain)


def _scale(call: Call, name: str | None, shape: tuple[str, ...], like: torch.Tensor) -> torch.Tensor:
    """The scale of each element of an operand, which has that shape and is `like`."""
    import torch

    if name is None:
        return torch.ones_like(like)
    tensor = call.spec.tensor(name)
    return placed(widened(call.tensors[name], tensor.dtype), tensor.shape, shape).expand(like.shape)


def _runs(coordinates: Sequence[int], depth: int) -> Iterator[tuple[int, int]]:
    """The ranges of coordinates, by number, that are in one block."""
    start = 0
    for at in range(1, len(coordinates) + 1):
        if at == len(coordinates) or coordinates[at] // depth != coordinates[start] // depth:
            yield start, at
            start = at


def _finite(x: torch.Tensor) -> torch.Tensor:
    return x.detach().masked_fill(~x.isfinite(), 0.0)


def _nans(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """An operand times its scale, NaN where and only where one of both is."""
    nans = x.isnan() | scale.isnan()
    return nans.double().masked_fill(nans, float("nan"))
