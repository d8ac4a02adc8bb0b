"""The rules of contractions by warpgroups."""

from __future__ import annotations

from cutegen.families.attention.operand_rules import rows
from cutegen.families.attention.operands import UNIT, extents, is_fixed, least_room
from cutegen.families.attention.plan import comes_by_turns
from cutegen.families.attention.wgmma.allocation import OTHERS, most_rows, registers_of, smem_bytes
from cutegen.families.attention.wgmma.plan import REGISTERS, ROWS
from cutegen.families.attention.wgmma.schedule import Spec
from cutegen.lint.rule import Rule, Say
from cutegen.lint.trial import changed, first_that_works, written
from cutegen.ops.contract import walked_of

MOST_KEYS = 256  # columns of one product


def tile(spec: Spec, say: Say) -> None:
    """Warpgroups have 64 rows of a tile each, up to three of them; products take multiples of 16 elements of the walked
    mode, up to 256.
    """
    found = walked_of(spec)
    m, n = extents(spec, found)
    where = ("schedule", "tiler")
    if m % ROWS or not ROWS <= m <= ROWS * len(REGISTERS):
        near = min(max(-(-m // ROWS), 1), len(REGISTERS)) * ROWS
        message = f"a tile has {m} rows along {found.rows[0]}, and one to three warpgroups have {ROWS} each"
        say(message, *where, found.rows[0], help=f"write `{found.rows[0]}: {near}` in the tiler")
    elif m > (most := most_rows(spec, found)):
        message = f"a tile has {m} rows along {found.rows[0]}, of which there are {spec.static[found.rows[0]]}"
        say(message, *where, found.rows[0], help=f"write `{found.rows[0]}: {most}` in the tiler")
    if n % UNIT or not UNIT <= n <= MOST_KEYS:
        near = min(max(-(-n // UNIT) * UNIT, UNIT), MOST_KEYS)
        message = f"a tile has {n} along {found.walked}, and products take multiples of {UNIT} up to {MOST_KEYS}"
        say(message, *where, found.walked, help=f"write `{found.walked}: {near}` in the tiler")


def registers(spec: Spec, say: Say) -> None:
    """Scores, factors and sums of a tile fit the registers of a thread."""
    found = walked_of(spec)
    m, n = extents(spec, found)
    needed, room = registers_of(spec), REGISTERS[m // ROWS][1]
    if needed + OTHERS <= room:
        return
    columns = sum(spec.static[found.columns_of(one)] for one in found.outer)
    scores, factors = (f"{count} * " * (count > 1) + str(n) for count in (len(found.products), len(found.outer)))
    of_factors = f"{factors} / 4 of factors, " * comes_by_turns(found)
    notes = (
        f"{scores} / 2 scores, {of_factors}{columns} / 2 sums: {needed}; about {OTHERS} more; the limit is {room}",
    )
    trials = [
        (written(f"write `{found.walked}: {fewer}` in the tiler"), changed(spec, {f"tiler.{found.walked}": fewer}))
        for fewer in range(n - UNIT, 0, -UNIT)
    ]
    if m > 2 * ROWS:
        trials.append(
            (
                written(f"write `{found.rows[0]}: {2 * ROWS}` in the tiler"),
                changed(spec, {f"tiler.{found.rows[0]}": 2 * ROWS}),
            )
        )
    message = f"a thread needs {needed + OTHERS} registers, and {m // ROWS} warpgroups that multiply have {room} each"
    say(message, "schedule", "tiler", found.walked, notes=notes, help=lambda: first_that_works(say.code, trials))


def shared_memory(spec: Spec, say: Say) -> None:
    """The tiles and stages fit what a block can have."""
    found = walked_of(spec)
    needed, (target, room) = smem_bytes(spec), least_room(spec)
    if needed <= room:
        return
    _, n = extents(spec, found)
    stages = spec.schedule.pipeline.stages or 2
    trials = [
        (written(f"write `stages: {fewer}`"), changed(spec, {"pipeline.stages": fewer}))
        for fewer in range(stages - 1, 1, -1)
    ]
    trials += [
        (written(f"write `{found.walked}: {fewer}` in the tiler"), changed(spec, {f"tiler.{found.walked}": fewer}))
        for fewer in range(n - UNIT, 0, -UNIT)
    ]
    notes = (f"{needed} > {room} bytes",)
    message = f"a block needs {needed} bytes of shared memory, and has {room} on {target}"
    say(message, "schedule", "pipeline", "stages", notes=notes, help=lambda: first_that_works(say.code, trials))


def is_sound(spec: Spec) -> bool:
    """Whether a plan can be made; what is not filled in yet passes."""
    found, schedule = walked_of(spec), spec.schedule
    if not is_fixed(spec, found):
        return False
    tiler = schedule.tiler or {}
    m, n = tiler.get(found.rows[0], ROWS), tiler.get(found.walked, UNIT)
    return m % ROWS == 0 and ROWS <= m <= ROWS * len(REGISTERS) and n % UNIT == 0 and UNIT <= n <= MOST_KEYS


RULES: tuple[Rule, ...] = (
    Rule("CG267", rows, basic=True),
    Rule("CG316", tile, basic=True),
    Rule("CG317", registers),
    Rule("CG269", shared_memory),
)
