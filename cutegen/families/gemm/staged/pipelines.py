"""The stages of a gemm's shared memory over time, as its prologue and mainloop fill and use them."""

from __future__ import annotations

from cutegen.drawing.model import Figure, Subject
from cutegen.drawing.timelines import PALETTE, STORED, Sheet, hue
from cutegen.families.gemm.staged.plan import MultistagePlan

MOST_TILES = 12  # along k: then it repeats


def draw_pipeline(plan: MultistagePlan) -> Figure:
    """The timeline of a gemm's stages: each waits for a tile, then holds it.

    Steps are the prologue's copies and the mainloop's iterations.
    """
    stages, ahead = plan.stages, plan.stages - 1
    tiles = plan.k_tiles if plan.k_tiles is not None else stages + 4
    counted = min(tiles, MOST_TILES + ahead)  # those that are on their way when the picture ends, too
    sheet = Sheet()
    sheet.mark("prologue")
    for copy in range(ahead):
        sheet.step(f"copy {copy}")
    sheet.mark("mainloop")
    for tile in range(counted):
        if tile == tiles - ahead > 0:
            sheet.mark("drain")
        sheet.step(f"k={tile}")
        _draw_tile(sheet, plan, tile)
    if counted == tiles:
        sheet.mark("epilogue")
        end = sheet.step("end")
        sheet.bar("multiply-add", end, end + 1, "store", STORED, f"{plan.spec.lead.name} is written")
    timeline = sheet.timeline("stages", (*map(_stage, range(stages)), "multiply-add"), ahead + tiles + 1)
    return Figure(
        "pipeline",
        f"{stages} stages of shared memory over time",
        (timeline if tiles <= MOST_TILES else timeline.first(ahead + MOST_TILES),),
        PALETTE,
        caption=_caption(plan),
        notes=_notes(plan, tiles),
        subjects=(Subject(("schedule", "pipeline")),),
    )


def _stage(number: int) -> str:
    return f"stage {number}"


def _draw_tile(sheet: Sheet, plan: MultistagePlan, tile: int) -> None:
    """Draws the bars of a tile along k: on its way to its stage, used there, multiplied.

    It is issued `stages` - 1 steps ahead.
    """
    ahead, stage, colour = plan.stages - 1, tile % plan.stages, hue(tile)
    use = ahead + tile
    where = f"in the prologue's copy {tile}" if tile < ahead else f"at the start of k={tile - ahead}"
    waits = "after the prologue" if tile == 0 else f"at the end of k={tile - 1}"
    kind = "in flight" if plan.uses_cp_async else "there"
    way = f"tile {tile} is copied to stage {stage} {where}, and waited for {waits}"
    read = f"k={tile}: the multiply-add reads stage {stage}"
    sheet.bar(_stage(stage), tile, use, f"{tile} {kind}", colour, way, faint=True)
    sheet.bar(_stage(stage), use, use + 1, f"use {tile}", colour, read)
    sheet.bar("multiply-add", use, use + 1, f"tile {tile}", colour, f"k={tile}: {plan.tile[plan.k]} of {plan.k}")


def _caption(plan: MultistagePlan) -> str:
    ahead = plan.stages - 1
    text = f"Copies run {ahead} tile{'s' * (ahead > 1)} of {plan.tile[plan.k]} along {plan.k} ahead."
    if not plan.uses_cp_async:
        return (
            f"{text} They wait in registers while a tile is multiplied and are written to their stage {_stored(plan)}; "
            "a barrier before each tile tells that its stage is full."
        )
    if plan.uses_registers:
        (waiting,) = (x.tensor.name for x in (plan.a, plan.b) if x.through_registers)  # the other travels by cp.async
        text += f" {waiting} waits in registers meanwhile, and is written to its stage {_stored(plan)}."
    return (
        f"{text} Before a tile is used, cp.async.wait_group {plan.stages - 2} waits for its copy and leaves "
        f"{plan.stages - 2} younger in flight; a barrier then frees the stage that was used before."
    )


def _stored(plan: MultistagePlan) -> str:
    return f"before step {plan.store} of 0 to {plan.tile[plan.k] - 1}" if plan.stores_early else "at its end"


def _notes(plan: MultistagePlan, tiles: int) -> tuple[str, ...]:
    notes = []
    if plan.residue:
        notes.append(f"Tile 0 is the one that may be ragged: {plan.k} is counted from its end.")
    if plan.k_tiles is None:
        notes.append(f"Drawn for {tiles} tiles along {plan.k}, as an example.")
    return tuple(notes)
