"""Rules about what a grid and registers hold, and advice on how a kernel fills the machine."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.families.common.rules import grids, machine
from cutegen.families.common.rules.candidates import halved_in_tiler, several_in_tiler
from cutegen.families.common.rules.limits import MAX_COUNT, register_limit
from cutegen.families.gemm.mma_sync.plan import MmaSyncPlan
from cutegen.families.gemm.mma_sync.product import PAIR, ROWS, accumulators, product_of, threads_of, tile_of
from cutegen.families.gemm.mma_sync.schedule import Spec
from cutegen.families.gemm.staged.tile_walk import banded_tiles, is_plane, tile_order
from cutegen.lint.rule import Accesses, Candidate, Finding, Say
from cutegen.lint.trial import first_that_works

BESIDE = 64  # registers of a thread besides its accumulators: fragments of two steps, and addresses


def grid(spec: Spec, say: Say) -> None:
    """Fixed sizes need no more tiles across the raster than a grid has blocks along y; in bands, than 31 bits count."""
    swizzle, mode = spec.schedule.scheduler.swizzle, spec.output.shape[tile_order(spec)[1]]
    assert swizzle is not None
    if is_plane(spec):
        grids.across(spec, say, mode, tile_of(spec.schedule, mode))
    elif all(x in spec.static for x in spec.output.shape) and (found := banded_tiles(spec, spec.static)) > MAX_COUNT:
        bands = f" in bands of {swizzle}" if swizzle > 1 else ""
        message = f"the fixed sizes make {found} tiles{bands}, and {MAX_COUNT} are the most"
        say(message, "static", mode)


def registers(spec: Spec, say: Say) -> None:
    """A thread's accumulators and fragments should fit its registers."""
    _, _, m, n, _ = product_of(spec)
    count, threads = accumulators(spec), threads_of(spec.schedule)
    limit = register_limit(threads)
    if count + BESIDE <= limit:
        return
    tile = {mode: tile_of(spec.schedule, mode) for mode in (m, n)}
    trials = []
    smaller = tile
    while max(smaller.values()) > PAIR:
        wide = max(smaller, key=lambda mode: smaller[mode])
        smaller = {**smaller, wide: smaller[wide] // 2}
        trials.append(several_in_tiler(spec, smaller))
    say(
        f"{count} accumulators do not fit a thread's registers",
        *("schedule", "tiler"),
        notes=(
            f"{tile[m]} * {tile[n]} / {threads} threads = {count}",
            f"fragments and addresses take some {BESIDE} more, and a thread of {threads} has {limit}",
        ),
        help=lambda: first_that_works(say.code, trials),
    )


def unfilled_tiles(spec: Spec, plan: MmaSyncPlan, _: Accesses) -> Iterator[Finding]:
    """Sizes that are fixed fill their tiles."""
    least = {plan.m: ROWS, plan.n: PAIR}
    return machine.unfilled_tiles(
        spec, plan, lambda mode: halved_in_tiler(spec, mode, plan.tile[mode], least=least[mode])
    )


def needless_predicate(spec: Spec, plan: MmaSyncPlan, _: Accesses) -> Iterator[Finding]:
    """Coordinates are compared with a size only where a tile may reach beyond it."""
    return machine.needless_predicate(spec, plan, spec.schedule.predication)


def small_grid(spec: Spec, plan: MmaSyncPlan, _: Accesses) -> Iterator[Finding]:
    """Where all sizes are fixed, every SM of the chip has a block."""
    return machine.small_grid(spec, plan, _smaller_tiles(spec, plan))


def _smaller_tiles(spec: Spec, plan: MmaSyncPlan) -> Iterator[Candidate]:
    tile = {mode: plan.tile[mode] for mode in (plan.m, plan.n)}
    while max(tile.values()) > 2 * PAIR:
        wide = max(tile, key=lambda mode: tile[mode])
        tile = {**tile, wide: tile[wide] // 2}
        yield several_in_tiler(spec, tile)
