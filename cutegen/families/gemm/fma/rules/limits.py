"""Rules about what a grid and 32 bits count, and what registers hold."""

from __future__ import annotations

from cutegen.families.common.rules import grids
from cutegen.families.common.rules.candidates import several_in_tiler
from cutegen.families.common.rules.limits import MAX_COUNT, register_limit
from cutegen.families.gemm.staged import product as gemm
from cutegen.families.gemm.staged.schedule import Spec
from cutegen.families.gemm.staged.tile_walk import banded_tiles, is_plane, tile_order
from cutegen.lint.rule import Say
from cutegen.lint.trial import first_that_works


def grid(spec: Spec, say: Say) -> None:
    """Fixed sizes need no more tiles across the raster than a grid has blocks along y; in bands, than 31 bits count."""
    schedule, order = spec.schedule, tile_order(spec)
    assert schedule.scheduler.swizzle is not None
    if not is_plane(spec):
        if all(mode in spec.static for mode in spec.output.shape):
            _bands(spec, say)
        return
    mode = spec.output.shape[order[1]]
    grids.across(spec, say, mode, gemm.tile_of(schedule, mode))


def _bands(spec: Spec, say: Say) -> None:
    found = banded_tiles(spec, spec.static)
    if found > MAX_COUNT:
        swizzle, mode = spec.schedule.scheduler.swizzle, spec.output.shape[tile_order(spec)[1]]
        bands = f" in bands of {swizzle}" if swizzle and swizzle > 1 else ""
        message = f"the fixed sizes make {found} tiles{bands}, and {MAX_COUNT} are the most"
        say(message, "static", mode)


def registers(spec: Spec, say: Say) -> None:
    """A thread's accumulators should fit its registers."""
    schedule = spec.schedule
    _, _, m, n, _ = gemm.product_of(spec)
    threads = gemm.threads_of(schedule)
    count = gemm.tile_of(schedule, m) * gemm.tile_of(schedule, n) // threads
    assert schedule.mma.accumulator is not None
    needed, limit = count * schedule.mma.accumulator.bytes // 4, register_limit(threads)
    if needed <= limit:
        return

    def help() -> str | None:
        tile, trials = {mode: gemm.tile_of(schedule, mode) for mode in (m, n)}, []
        while max(tile.values()) > 1:
            wide = max(tile, key=lambda mode: tile[mode])
            tile = {**tile, wide: tile[wide] // 2}
            trials.append(several_in_tiler(spec, tile))
        return first_that_works(say.code, trials)

    say(
        f"{count} accumulators of {schedule.mma.accumulator.value} do not fit a thread's registers",
        *("schedule", "tiler"),
        notes=(
            f"{gemm.tile_of(schedule, m)} * {gemm.tile_of(schedule, n)} / {threads} threads = {count}",
            f"they take {needed} registers, and a thread of {threads} has {limit}",
        ),
        help=help,
    )
