"""The rules of contractions on tensor cores."""

from __future__ import annotations

from cutegen.atoms.targets import WARP
from cutegen.families.attention.mma_sync.planning import (
    ACCESS,
    MOST_DEPTH,
    ROWS_OF_WARP,
    UNIT,
    copies_fit,
    depths,
    extents,
    least_room,
    operands_of,
    smem_bytes,
)
from cutegen.families.attention.mma_sync.schedule import Spec
from cutegen.lint.rule import Rule, Say
from cutegen.lint.trial import changed, first_that_works, written
from cutegen.ops.contract import walked_of


def rows(spec: Spec, say: Say) -> None:
    """Rows of the tensors that are multiplied, and of the output, are contiguous, of a fixed size that products divide,
    and aligned as copies of 16 bytes are."""
    found = walked_of(spec)
    for tensor, mode in zip(operands_of(spec, found), depths(found), strict=True):
        if tensor.major not in (None, mode):
            message = f"`{tensor.name}` is contiguous along {tensor.major}, and its rows along {mode} are copied whole"
            say(message, "tensors", tensor.name, "major", help=f"write `major: {mode}`")
        if tensor.align is not None and tensor.align % ACCESS:
            message = f"copies move {ACCESS} bytes, and `{tensor.name}` is aligned to {tensor.align}"
            say(message, "tensors", tensor.name, "align", help=f"write `align: {ACCESS}`")
    for mode in dict.fromkeys((found.scores.mode, found.columns)):
        size = spec.static.get(mode)
        if size is None:
            message = f"the size of {mode} is not fixed, and registers hold whole rows along it"
            say(message, "static", mode, help=f"write `static: {{{mode}: 128}}`, or what it is")
        elif size % UNIT or not 2 * UNIT <= size <= MOST_DEPTH:
            near = min(max(-(-size // UNIT) * UNIT, 2 * UNIT), MOST_DEPTH)
            message = f"{mode} is {size}, and products take multiples of {UNIT} from {2 * UNIT} to {MOST_DEPTH}"
            say(message, "static", mode, help=f"{near} would work, with zeros behind its rows")


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
    if m % (ROWS_OF_WARP * warps) == 0 and n % UNIT == 0 and _is_fixed(spec):
        depth, columns = spec.static[found.scores.mode], spec.static[found.columns]
        for mode, rows, length in ((found.rows[0], m, depth), (found.walked, n, depth), (found.walked, n, columns)):
            if not copies_fit(warps * WARP, rows, length):
                message = f"{warps * WARP} threads do not copy a tile of {rows} rows of {length} in whole rows"
                say(message, "schedule", "tiler", mode, help=f"write `{mode}: {warps * WARP // 2}` in the tiler")
                return


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


def _is_fixed(spec: Spec) -> bool:
    """Whether rows have sizes that products and registers take."""
    found = walked_of(spec)
    sizes = [spec.static.get(mode, 0) for mode in (found.scores.mode, found.columns)]
    return all(size % UNIT == 0 and 2 * UNIT <= size <= MOST_DEPTH for size in sizes)


def is_sound(spec: Spec) -> bool:
    """Whether a plan can be made; what is not filled in yet passes."""
    found, schedule = walked_of(spec), spec.schedule
    if not _is_fixed(spec):
        return False
    tiler, warps = schedule.tiler or {}, schedule.mma.warps or 1
    m, n = tiler.get(found.rows[0], ROWS_OF_WARP * warps), tiler.get(found.walked, UNIT)
    if m % (ROWS_OF_WARP * warps) or n % UNIT:
        return False
    if len(tiler) < 2 or schedule.mma.warps is None:
        return True
    depth, columns = spec.static[found.scores.mode], spec.static[found.columns]
    return all(copies_fit(warps * WARP, *one) for one in ((m, depth), (n, depth), (n, columns), (m, columns)))


RULES: tuple[Rule, ...] = (
    Rule("CG267", rows, basic=True),
    Rule("CG268", tile, basic=True),
    Rule("CG269", shared_memory),
)
