"""Rules about what a grid counts, and advice on how a kernel fills the machine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from cutegen.families.common.rules import grids, machine
from cutegen.families.common.rules.candidates import several_in_tiler
from cutegen.families.common.rules.limits import MAX_COUNT, register_limit
from cutegen.families.gemm.staged.plan import MultistagePlan
from cutegen.families.gemm.staged.product import product_of
from cutegen.families.gemm.staged.tile_walk import banded_tiles, is_plane, tile_order
from cutegen.families.gemm.words import tile_of
from cutegen.language.model import KernelSpec
from cutegen.lint.rule import Accesses, Candidate, Finding, Say
from cutegen.lint.trial import first_that_works

Spec = KernelSpec[Any]


def grid(spec: Spec, say: Say) -> None:
    """Fixed sizes need no more tiles across the raster than a grid has blocks along y; in bands, than 31 bits count."""
    swizzle, mode = spec.schedule.scheduler.swizzle, spec.lead.shape[tile_order(spec)[1]]
    if is_plane(spec):
        grids.across(spec, say, mode, tile_of(spec.schedule, mode))
    elif all(x in spec.static for x in spec.lead.shape) and (found := banded_tiles(spec, spec.static)) > MAX_COUNT:
        bands = f" in bands of {swizzle}" if swizzle > 1 else ""
        say(f"the fixed sizes make {found} tiles{bands}; the limit is {MAX_COUNT}", "static", mode)


def smaller_tiles(spec: Spec, most: int) -> Iterator[Candidate]:
    """Changed kernels whose tile is halved along the longer one of m and n, again and again while it is longer than
    `most` there.
    """
    tile = {mode: tile_of(spec.schedule, mode) for mode in product_of(spec).sides}
    while max(tile.values()) > most:
        wide = max(tile, key=lambda mode: tile[mode])
        tile = {**tile, wide: tile[wide] // 2}
        yield several_in_tiler(spec, tile)


def accumulated(spec: Spec, say: Say, threads: int, needed: int, what: str, take: str, most: int) -> None:
    """So many registers as are `needed` are those of a thread; `what` it accumulates, and what that and other things
    `take`, in words. Tiles are suggested that are longer than `most` before they are halved.
    """
    limit = register_limit(threads)
    if needed > limit:
        m, n = (tile_of(spec.schedule, mode) for mode in product_of(spec).sides)
        notes = f"{m} * {n} / {threads} threads = {m * n // threads}", f"{take}, and a thread of {threads} has {limit}"
        message = f"{what} do not fit a thread's registers"
        help = partial(first_that_works, say.code, smaller_tiles(spec, most))
        say(message, "schedule", "tiler", notes=notes, help=help)


def needless_predicate(spec: Spec, plan: MultistagePlan, _: Accesses) -> Iterator[Finding]:
    """Coordinates are compared with a size only where a tile may reach beyond it."""
    return machine.needless_predicate(spec, plan, spec.schedule.predication)


def small_grid(spec: Spec, plan: MultistagePlan, _: Accesses, most: int) -> Iterator[Finding]:
    """Where all sizes are fixed, every SM of the chip has a block."""
    return machine.small_grid(spec, plan, smaller_tiles(spec, most))
