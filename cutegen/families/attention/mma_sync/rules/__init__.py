"""The rules of contractions on tensor cores."""

from __future__ import annotations

from cutegen.atoms.targets import WARP
from cutegen.families.attention.mma_sync.planning import (
    ROWS_OF_WARP,
    copies_fit,
    multiplied,
    smem_bytes,
)
from cutegen.families.attention.mma_sync.schedule import Spec
from cutegen.families.attention.operand_rules import rows
from cutegen.families.attention.operands import UNIT, extents, is_fixed, least_room, moved_in_tiles, stored_with_columns
from cutegen.lint.rule import Rule, Say
from cutegen.lint.trial import changed, first_that_works, written
from cutegen.ops.contract import walked_of

MOST_REGISTERS = 255  # of a thread: arrays that need more are in local memory, some 50 times as slow


def tile(spec: Spec, say: Say) -> None:
    """Warps have 16 rows of a tile each, or several times as many; products take 16 elements of the walked mode."""
    found = walked_of(spec)
    (m, n), warps = extents(spec, found), spec.schedule.mma.warps or 1
    if m % (ROWS_OF_WARP * warps):
        message = f"{warps} warps cannot share {m} rows: each has a multiple of {ROWS_OF_WARP}"
        near = -(-m // (ROWS_OF_WARP * warps)) * ROWS_OF_WARP * warps
        notes = (f"{m} = {m // (ROWS_OF_WARP * warps)} * {ROWS_OF_WARP * warps} + {m % (ROWS_OF_WARP * warps)}",)
        say(
            message,
            "schedule",
            "tiler",
            found.rows[0],
            notes=notes,
            help=f"write `{found.rows[0]}: {near}` in the tiler",
        )
    if n % UNIT:
        message = f"a tile has {n} along {found.walked}, and products take multiples of {UNIT}"
        help = f"write `{found.walked}: {-(-n // UNIT) * UNIT}` in the tiler"
        say(message, "schedule", "tiler", found.walked, help=help)
    if m % (ROWS_OF_WARP * warps) == 0 and n % UNIT == 0 and is_fixed(spec, found):
        for mode, rows, length in _copied(spec):
            if not copies_fit(warps * WARP, rows, length):
                message = f"{warps * WARP} threads do not copy a tile of {rows} rows of {length} in whole rows"
                say(message, "schedule", "tiler", mode, help=f"write `{mode}: {warps * WARP // 2}` in the tiler")
                return


def registers(spec: Spec, say: Say) -> None:
    """Scores, factors and sums of a tile fit the registers of a thread."""
    found = walked_of(spec)
    (m, n), warps = extents(spec, found), spec.schedule.mma.warps or 1
    rows = m // warps
    columns = sum(spec.static[found.columns_of(one)] for one in found.outer)
    scores, sums = rows * n * len(found.products) // WARP, rows * columns // WARP
    factors = rows * n * len(found.outer) // (2 * WARP)
    needed = scores + factors + sums
    if needed <= MOST_REGISTERS:
        return
    trials = [
        (written(f"write `{found.walked}: {fewer}` in the tiler"), changed(spec, {f"tiler.{found.walked}": fewer}))
        for fewer in range(n - UNIT, 0, -UNIT)
    ]
    trials += [
        (written(f"write `warps: {more}`"), changed(spec, {"mma.warps": more}))
        for more in range(warps + 1, 17)
        if m % (ROWS_OF_WARP * more) == 0
    ]

    def advice() -> str | None:
        found_one = first_that_works(say.code, trials)
        return found_one or ("write a kernel for each output" if len(found.outer) > 1 else None)

    notes = (f"{rows} rows of a warp's 32 threads: {scores} scores, {factors} of factors, {sums} sums",)
    message = f"a thread needs {needed} registers for a tile, and has {MOST_REGISTERS}"
    say(message, "schedule", "tiler", found.walked, notes=notes, help=advice)


def shared_memory(spec: Spec, say: Say) -> None:
    """The stages fit what a block can have on every target."""
    found = walked_of(spec)
    needed, (target, room) = smem_bytes(spec, found), least_room(spec)
    if needed <= room:
        return
    m, n = extents(spec, found)
    stages = spec.schedule.pipeline.stages or 1
    trials = [
        (written(f"write `stages: {fewer}`"), changed(spec, {"pipeline.stages": fewer}))
        for fewer in range(stages - 1, 0, -1)
    ]
    for mode, extent in ((found.walked, n), (found.rows[0], m)):
        less = extent // 2
        while less >= UNIT:
            fields = {f"tiler.{mode}": less} | ({"mma.warps": None} if mode == found.rows[0] else {})
            trials.append((written(f"write `{mode}: {less}` in the tiler"), changed(spec, fields)))
            less //= 2
    notes = (f"{needed} > {room} bytes",)
    message = f"a block needs {needed} bytes of shared memory, and has {room} on {target}"
    say(message, "schedule", "pipeline", "stages", notes=notes, help=lambda: first_that_works(say.code, trials))


def is_sound(spec: Spec) -> bool:
    """Whether a plan can be made; what is not filled in yet passes."""
    found, schedule = walked_of(spec), spec.schedule
    if not is_fixed(spec, found):
        return False
    tiler, warps = schedule.tiler or {}, schedule.mma.warps or 1
    m, n = tiler.get(found.rows[0], ROWS_OF_WARP * warps), tiler.get(found.walked, UNIT)
    if m % (ROWS_OF_WARP * warps) or n % UNIT:
        return False
    if len(tiler) < 2 or schedule.mma.warps is None:
        return True
    stored = [(m, spec.static[column]) for _, column in stored_with_columns(spec, found)]
    copied = [(rows, length) for _, rows, length in _copied(spec)]
    return all(copies_fit(warps * WARP, *one) for one in (*copied, *stored))


def _copied(spec: Spec) -> tuple[tuple[str, int, int], ...]:
    """The tiles that are loaded: the mode of their rows, how many these are, and how long."""
    found = walked_of(spec)
    lefts, rights = multiplied(found)
    (m, n), depths = extents(spec, found), moved_in_tiles(spec, found)
    rows = [(found.rows[0], m, spec.static[depths[name]]) for name in lefts]
    walked = [(found.walked, n, spec.static[depths[name]]) for name in rights]
    return (*dict.fromkeys((*rows, *walked)),)


RULES: tuple[Rule, ...] = (
    Rule("CG267", rows, basic=True),
    Rule("CG268", tile, basic=True),
    Rule("CG317", registers),
    Rule("CG269", shared_memory),
)
