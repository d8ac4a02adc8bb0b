"""How the blocks of a multistage gemm walk the tiles of its output, and how many tiles and elements can be counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cutegen.families.common import raster
from cutegen.families.gemm.staged.plan import MultistagePlan
from cutegen.language.model import KernelSpec
from cutegen.planning.batches import batch_of

MAX_TILES = 2**31 - 1  # that 32 bits can number


def tile_order(spec: KernelSpec[Any]) -> tuple[int, int]:
    """The modes of the output by number: that along which consecutive blocks walk, then the other."""
    return raster.tile_order(spec, spec.schedule.scheduler.raster)


def is_plane(spec: KernelSpec[Any]) -> bool:
    """Whether blocks have a pair of numbers, one along each mode of the output; else one for all tiles."""
    return spec.schedule.scheduler.swizzle == 1 and batch_of(spec.lead) is None


def tile_of_batch(spec: KernelSpec[Any], tile: Mapping[str, int]) -> Mapping[str, int]:
    """The tile of a block with the mode of the batch, 1 matrix."""
    batch = batch_of(spec.lead)
    return tile if batch is None else {batch: 1, **tile}


def largest_across(spec: KernelSpec[Any]) -> tuple[str, int] | None:
    """The mode across the raster and the largest size of it that a grid counts; None where a fixed size is less."""
    across = spec.lead.shape[tile_order(spec)[1]]
    return raster.largest_across(spec, across, spec.schedule.tiler[across])


def largest(plan: MultistagePlan, beside: Mapping[str, int] | None = None) -> dict[str, int]:
    """The largest sizes that the grids of the kernel and of what fills its workspaces can count, by mode. The other
    modes have the sizes of `beside`, or one tile.
    """
    of_output = () if plan.largest is None else (plan.largest,)
    of_workspaces = [(x.k, x.largest) for x in plan.workspaces if x.largest is not None]
    found: dict[str, int] = {}
    if plan.most_tiles is not None:
        along, across = (plan.spec.lead.shape[i] for i in plan.tile_order)
        bands = {along: plan.tile[along], across: plan.tile[across] * plan.swizzle}
        found = raster.counted_sizes(plan.most_tiles // plan.swizzle, tile_of_batch(plan.spec, bands), beside)
    for mode, most in (*of_output, *of_workspaces):
        found[mode] = min(most, found.get(mode, most))
    return found


def banded_tiles(spec: KernelSpec[Any], sizes: Mapping[str, int]) -> int:
    """Tiles of an output of those sizes, with the last band filled up: what the numbers of tiles stay below.

    Of a batch they are those of all matrices.
    """
    swizzle: int = spec.schedule.scheduler.swizzle
    tiler: Mapping[str, int] = spec.schedule.tiler
    along, across = (spec.lead.shape[i] for i in tile_order(spec))
    bands = -(-sizes[across] // (tiler[across] * swizzle))
    batch = batch_of(spec.lead)
    return -(-sizes[along] // tiler[along]) * bands * swizzle * (1 if batch is None else sizes[batch])


def most_tiles(spec: KernelSpec[Any]) -> int | None:
    """The tiles that one number counts at most; None where sizes are fixed and have fewer."""
    if all(mode in spec.static for mode in spec.lead.shape) and banded_tiles(spec, spec.static) <= MAX_TILES:
        return None
    return MAX_TILES
