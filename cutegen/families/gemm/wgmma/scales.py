"""Scales of a gemm's operands, one for each block along k: which there are, and how a thread's elements share them.

The products of one step along k go to accumulators of their own. A thread multiplies them by the scales of their block
and adds them to its sums, so that a sum has two levels. In the first one tensor cores sum one step, in the second
threads sum in all bits of f32.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from cutegen.families.gemm.wgmma.product import columns_of, product_of
from cutegen.families.gemm.wgmma.schedule import Spec
from cutegen.families.gemm.words import tile_of
from cutegen.language.model import Tensor


@dataclass(frozen=True)
class Scale:
    """The scales of one operand."""

    tensor: Tensor
    along: str | None  # the mode of the output that it has besides k; None where all of that share one
    unit: int  # elements along it that share one
    depth: int  # elements along k that share one

    @property
    def of_each(self) -> bool:
        """Whether each element along the output's mode has scales of its own."""
        return self.along is not None and self.unit == 1


def scales_of(spec: Spec) -> tuple[Scale | None, Scale | None]:
    """The scales of the product's A and B, which are those of the spec in the other order where rows are exchanged."""
    product = spec.compute.products[0]
    names = {product.a: product.a_scale, product.b: product.b_scale}
    of = product_of(spec)
    a, b = (_scale(spec, names.get(tensors[0].name), mode, of.k) for tensors, mode in ((of.a, of.m), (of.b, of.n)))
    return a, b


def is_scaled(spec: Spec) -> bool:
    """Whether operands have scales."""
    return any(product.scales for product in spec.compute.products)


def chunk_of(spec: Spec) -> int:
    """Neighbouring columns of the tile that share a scale, wherever the tile is."""
    scale, columns = scales_of(spec)[1], tile_of(spec.schedule, product_of(spec).n)
    return columns if scale is None or scale.along is None else gcd(columns, scale.unit)


def step_of(spec: Spec, wanted: int) -> int:
    """The elements of a step along k: as many as are wanted, or as many of them as divide the blocks."""
    return gcd(wanted, *(scale.depth for scale in scales_of(spec) if scale is not None))


def block_sums(spec: Spec) -> int:
    """Accumulators of a thread for the products of one step, of 64 rows, beside those of its sums; 0 without scales."""
    return columns_of(spec) // 2 if is_scaled(spec) else 0


def _scale(spec: Spec, name: str | None, mode: str, k: str) -> Scale | None:
    if name is None:
        return None
    tensor = spec.tensor(name)
    units = {block.of: block.size for block in tensor.blocks}
    along = mode if mode in tensor.spread else None
    return Scale(tensor, along, units.get(mode, 1), units[k])
