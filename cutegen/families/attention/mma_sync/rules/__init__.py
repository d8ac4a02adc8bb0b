"""The rules of contractions on tensor cores."""

from __future__ import annotations

from cutegen.analysis.words import count
from cutegen.atoms.targets import WARP
from cutegen.families.attention.mma_sync.plan import ROWS_OF_WARP, shared_keys
from cutegen.families.attention.mma_sync.room import copies_fit, registers_of, smem_bytes
from cutegen.families.attention.mma_sync.schedule import Spec
from cutegen.families.attention.operand_rules import rows
from cutegen.families.attention.operands import (
    UNIT,
    extents,
    is_fixed,
    least_room,
    more_than_one,
    moved_in_tiles,
    multiplied,
    rows_key,
    stored_with_columns,
)
from cutegen.lint.rule import Rule, Say
from cutegen.lint.trial import changed, first_that_works, written
from cutegen.ops.contract import walked_of

MOST_REGISTERS = 255  # of a thread: arrays that need more are in local memory, 30 times as slow or worse


def one_pair(spec: Spec, say: Say) -> None:
    """A walk that is split, or whose tiles have rows of several modes, has one product of two tensors, one along the
    walked mode, and one output of that.
    """
    found, schedule = walked_of(spec), spec.schedule
    several, key = more_than_one(found, spec.outputs), rows_key(schedule.tiler or {}, found)
    if several is not None and schedule.split:
        message = f"statements have {several}, and a split walk multiplies one pair of tensors, then one tensor"
        say(message, "schedule", "split", help="leave `split` out: a block then walks all tiles")
    if several is not None and key != found.rows[0]:
        message = f"statements have {several}, and rows of `{key}` are for one pair of tensors, then one tensor"
        say(message, "schedule", "tiler", key, help=f"write `{found.rows[0]}` for `{key}` in the tiler")


def tile(spec: Spec, say: Say) -> None:
    """Warps have 16 rows of a tile each, or several times as many; products take 16 elements of the walked mode."""
    found = walked_of(spec)
    (m, n), warps = extents(spec, found), spec.schedule.mma.warps or 1
    key = rows_key(spec.schedule.tiler or {}, found)
    of_rows, of_keys = units(spec, m, warps)
    if m % of_rows:
        warps = of_rows // ROWS_OF_WARP
        message = f"{count(warps, 'warp')} cannot share {m} rows: each has a multiple of {ROWS_OF_WARP}"
        near = -(-m // (ROWS_OF_WARP * warps)) * ROWS_OF_WARP * warps
        notes = (f"{m} = {m // (ROWS_OF_WARP * warps)} * {ROWS_OF_WARP * warps} + {m % (ROWS_OF_WARP * warps)}",)
        say(
            message,
            "schedule",
            "tiler",
            key,
            notes=notes,
            help=f"write `{key}: {near}` in the tiler",
        )
    if n % of_keys:
        message = f"a tile has {n} along {found.walked}, and products take multiples of {UNIT}"
        if of_keys > UNIT:
            message += f", in each of {of_keys // UNIT} warps"
        help = f"write `{found.walked}: {-(-n // of_keys) * of_keys}` in the tiler"
        say(message, "schedule", "tiler", found.walked, help=help)
    if m % of_rows == 0 and n % of_keys == 0 and is_fixed(spec, found):
        for mode, rows, length in _copied(spec):
            if not copies_fit(warps * WARP, rows, length):
                message = f"{warps * WARP} threads do not copy a tile of {rows} rows of {length} in whole rows"
                say(message, "schedule", "tiler", mode, help=f"write `{mode}: {warps * WARP // 2}` in the tiler")
                return


def units(spec: Spec, rows: int, warps: int) -> tuple[int, int]:
    """The numbers that the rows and the walked elements of a tile are multiples of. If the walk is split, warps for
    which there are too few rows share the elements.
    """
    if spec.schedule.split and shared_keys(rows, warps) > 1:
        return ROWS_OF_WARP, UNIT * warps
    return ROWS_OF_WARP * warps, UNIT


def registers(spec: Spec, say: Say) -> None:
    """Scores, factors and sums of a tile fit the registers of a thread."""
    found = walked_of(spec)
    (m, n), warps = extents(spec, found), spec.schedule.mma.warps or 1
    sharing = shared_keys(m, warps)
    rows, keys = m * sharing // warps, n // sharing
    scores, factors, sums = registers_of(spec, found, rows, keys)
    needed = scores + factors + sums
    if needed <= MOST_REGISTERS:
        return
    trials = [
        (written(f"write `{found.walked}: {fewer}` in the tiler"), changed(spec, {f"tiler.{found.walked}": fewer}))
        for fewer in range(n - UNIT * sharing, 0, -UNIT * sharing)
    ]
    trials += [
        (written(f"write `warps: {more}`"), changed(spec, {"mma.warps": more}))
        for more in range(warps + 1, 17)
        if not any(extent % unit for extent, unit in zip((m, n), units(spec, m, more), strict=True))
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
    key = rows_key(spec.schedule.tiler or {}, found)
    stages = spec.schedule.pipeline.stages or 1
    trials = [
        (written(f"write `stages: {fewer}`"), changed(spec, {"pipeline.stages": fewer}))
        for fewer in range(stages - 1, 0, -1)
    ]
    for mode, extent in ((found.walked, n), (key, m)):
        less = extent // 2
        while less >= UNIT:
            fields = {f"tiler.{mode}": less} | ({"mma.warps": None} if mode == key else {})
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
    key = rows_key(tiler, found)
    if (schedule.split or key != found.rows[0]) and more_than_one(found, spec.outputs) is not None:
        return False
    m, n = tiler.get(key, ROWS_OF_WARP * warps), tiler.get(found.walked, UNIT)
    of_rows, of_keys = units(spec, m, warps)
    if m % of_rows or n % of_keys:
        return False
    if len(tiler) < 2 or schedule.mma.warps is None:
        return True
    stored = [(m, spec.static[column]) for _, column in stored_with_columns(spec, found) if not schedule.split]
    copied = [(rows, length) for _, rows, length in _copied(spec)]
    return all(copies_fit(warps * WARP, *one) for one in (*copied, *stored))


def _copied(spec: Spec) -> tuple[tuple[str, int, int], ...]:
    """The tiles that are loaded: the mode of their rows, how many these are, and how long."""
    found = walked_of(spec)
    lefts, rights = multiplied(found)
    (m, n), depths = extents(spec, found), moved_in_tiles(spec, found)
    key = rows_key(spec.schedule.tiler or {}, found)
    rows = [(key, m, spec.static[depths[name]]) for name in lefts]
    walked = [(found.walked, n, spec.static[depths[name]]) for name in rights]
    return (*dict.fromkeys((*rows, *walked)),)


RULES: tuple[Rule, ...] = (
    Rule("CG267", rows, basic=True),
    Rule("CG318", one_pair, basic=True),
    Rule("CG268", tile, basic=True),
    Rule("CG317", registers),
    Rule("CG269", shared_memory),
)
