"""Candidates that tuning tries for a multistage gemm on tensor cores without `tune:`: tiles in all combinations, then
one field at a time around the best of those (`refinements`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from cutegen.families.gemm.mma_sync.product import depth_of
from cutegen.families.gemm.mma_sync.schedule import Spec
from cutegen.families.gemm.staged.product import product_of

if TYPE_CHECKING:
    from cutegen.tuning.choice import Choice

TILES = (64, 128, 256)  # along m and n
STEPS = (2, 4)  # products of a tile along k
WARPS = ((2, 2), (2, 4), (4, 2))  # along m and n
STAGES = (2, 3, 4, 5, 6)
SWIZZLES = (1, 4, 8, 16)  # tiles


def axes(specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
    """The names and choices of what is combined, for resolved kernels that share their schedule."""
    a, _, m, n, k = product_of(specs[0])
    depths = [steps * depth_of(a) for steps in STEPS]
    tilers = [dict(zip((m, n, k), sizes, strict=True)) for sizes in product(TILES, TILES, depths)]
    yield "tiler", [{("tiler",): tiler} for tiler in tilers]
    yield "mma.atom_layout", [{}, *(_warps(x, y) for x, y in WARPS)]


def _warps(m: int, n: int) -> Choice:
    return {("mma", "atom_layout"): f"({m},{n},1):(1,{m},0)"}


def refinements(spec: Spec) -> Iterator[Choice]:
    """Changes of one field each, to a resolved kernel."""
    for stages in STAGES:
        yield {("pipeline", "stages"): stages}
    for raster, swizzle in product(spec.lead.shape[-2:], SWIZZLES):
        yield {("scheduler",): {"raster": raster, "swizzle": swizzle}}
