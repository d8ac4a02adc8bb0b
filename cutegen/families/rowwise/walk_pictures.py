"""The picture of a row kernel over time: what a block does with its rows, walk by walk."""

from __future__ import annotations

from cutegen.analysis.words import count
from cutegen.drawing.model import Figure, Subject
from cutegen.drawing.timelines import PALETTE
from cutegen.families.rowwise.order import exchanges_of
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.walk_sheet import timeline_of
from cutegen.families.rowwise.walk_steps import pieces_drawn, rows_drawn


def draw_walks(plan: RowwisePlan) -> tuple[Figure, ...]:
    """The figure of a kernel over time, and that of its kernel for rows that no block holds."""
    found = [_draw(plan, "walks", "What a block does with a row, over time")]
    if plan.longer is not None:
        title = "What a block does with a row that it cannot hold, over time"
        found.append(_draw(plan.longer, "walks-longer", title))
    return tuple(found)


def _draw(plan: RowwisePlan, name: str, title: str) -> Figure:
    tensors = [tensor.name for tensor in plan.flat.tensors]
    walks = ("walk over the rows", "walk over the row", "elements", "of the row", "before the rows")
    around = ("start of the copies", "wait for the row", "reduction across threads")
    subjects = (
        Subject(("schedule", "pipeline")),
        *(Subject(name=name) for name in (*walks, *around)),
        *(Subject(name=f"{what} of {tensor}") for tensor in tensors for what in ("copy", "value", "sums")),
    )
    timeline = timeline_of(plan)
    return Figure(name, title, (timeline,), PALETTE, caption=_caption(plan), notes=_notes(plan), subjects=subjects)


def _caption(plan: RowwisePlan) -> str:
    walks, exchanges = plan.program.walks, len(exchanges_of(plan))
    how = f"{count(len(walks), 'walk')}, {count(exchanges, 'exchange')}"
    if plan.kept:
        names = " and ".join(plan.kept)
        text = f"Bulk copies bring {names} to shared memory, once; an mbarrier says that all is there; then {how}."
    elif plan.walked:
        often = max(sum(o.tensor.name in one.reads for one in walks) for o in plan.operands)
        text = f"A row is walked in pieces of {plan.tile[plan.row]}, and read {count(often, 'time')}: {how}."
        if len(walks) > 1:
            text += " Every second walk goes backwards: a cache still has what was read last."
    else:
        text = f"A row is loaded once and stays in registers: {how}."
    if plan.ahead:
        text += " The next row is in flight once the first walk has emptied the registers."
    return text


def _notes(plan: RowwisePlan) -> tuple[str, ...]:
    notes = []
    if plan.cluster > 1 and plan.walked:
        notes.append(f"Drawn for block 0 of the {plan.cluster} that share a row.")
    if plan.walked and plan.row not in plan.flat.static:
        notes.append(f"Drawn for a row of {count(pieces_drawn(plan), 'piece')}, as an example.")
    if plan.persistent:
        unit = "row" if plan.rows == 1 else "tile"
        each = "" if plan.rows == 1 else f" of {plan.rows} rows"
        notes.append(f"Drawn for a block that has {count(rows_drawn(plan), unit)}{each}, as an example.")
    if plan.program.columns:
        names = " and ".join(column.tensor for column in plan.program.columns)
        notes.append(f"A second kernel adds up what all blocks have of {names}.")
    return tuple(notes)
