"""The picture of a row that waits in shared memory: which block has which piece, and what its barrier waits for."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.analysis.words import count
from cutegen.atoms.copies import MBARRIER
from cutegen.drawing.colours import MOST_STEPS, ramp
from cutegen.drawing.grids import MOST_COLUMNS, NOBODY, number_axis, scale
from cutegen.drawing.model import Axis, Cell, Figure, Grid, Subject
from cutegen.families.rowwise.order import pieces_of
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.rows import longest

KEPT = ("neighbours along a row", "rows to shared memory", "shared memory", "start of the copies", "wait for the row")


def draw_pieces(plan: RowwisePlan) -> tuple[Figure, ...]:
    """The figure of a row's pieces in shared memory; none where rows wait elsewhere."""
    if not plan.kept:
        return ()
    size = _size(plan)
    pieces = -(-size // plan.tile[plan.row])
    shares = [pieces_of(plan, 0, block, pieces) for block in range(plan.cluster)]
    steps = min(pieces, MOST_STEPS)
    whose = f"blocks of a cluster of {plan.cluster} take turns" if plan.cluster > 1 else "a block has all"
    return (
        Figure(
            "pieces",
            f"Which block has which piece of {'a' if plan.row in plan.flat.static else 'the longest'} row of {size} in "
            "shared memory",
            (_places(plan, shares, steps), _copies(plan, shares)),
            ramp(steps),
            scale("pieces", "first", "last", steps),
            caption=f"{count(pieces, 'piece')} of {plan.tile[plan.row]}, of which {whose}. Thread 0 of a block starts "
            f"its bulk copies (cp.async.bulk) of {' and '.join(plan.kept)}, and one mbarrier of {MBARRIER} bytes says "
            "that all bytes have come.",
            notes=_notes(plan),
            subjects=tuple(Subject(("schedule", "keep"), name) for name in KEPT),
        ),
    )


def _notes(plan: RowwisePlan) -> tuple[str, ...]:
    notes = []
    if plan.persistent:
        notes.append("A barrier of the block (bar.sync) ends each row, before the next one is copied over it.")
    if plan.flat.schedule.narrows:
        notes.append("Where accesses are narrow, each thread brings there what it reads, without bulk copies.")
    return tuple(notes)


def _elements(plan: RowwisePlan, piece: int) -> int:
    """Those of a piece: the last one may not be whole."""
    return min(plan.tile[plan.row], _size(plan) - piece * plan.tile[plan.row])


def _size(plan: RowwisePlan) -> int:
    """Elements of a row, or of the longest one that a call can have."""
    size = longest(plan.flat)
    assert size is not None
    return size


def _places(plan: RowwisePlan, shares: Sequence[Sequence[int]], steps: int) -> Grid:
    """Where in its shared memory each block has which piece."""
    pieces = sum(map(len, shares))
    columns = number_axis("piece of the block", plan.slots, 1, MOST_COLUMNS)

    def cell(block: int, slot: int) -> Cell:
        if slot >= len(shares[block]):
            return NOBODY
        piece = shares[block][slot]
        size, start = _elements(plan, piece), piece * plan.tile[plan.row]
        place = slot * plan.tile[plan.row]
        about = f"piece {piece}, {plan.row} {start}-{start + size - 1}, from element {place} on in block {block}"
        facts = {"block": block, "piece": piece, "start": start, "size": size, "place": place}
        return Cell((f"piece {piece}", str(size)), piece * steps // pieces, about, facts)

    cells = tuple(tuple(cell(block, slot) for slot in range(columns.drawn)) for block in range(len(shares)))
    return Grid("Pieces in shared memory", _blocks(shares), columns, cells, ("piece", "elements"))


def _copies(plan: RowwisePlan, shares: Sequence[Sequence[int]]) -> Grid:
    """How many bulk copies each block starts, and for how many bytes its barrier waits."""
    each = sum(o.tensor.dtype.bytes for o in plan.operands if o.tensor.name in plan.kept)

    def cells(block: int) -> tuple[Cell, Cell]:
        copies, bytes_ = len(shares[block]) * len(plan.kept), each * sum(_elements(plan, i) for i in shares[block])
        facts = {"block": block, "copies": copies, "bytes": bytes_}
        return (
            Cell((str(copies),), None, f"block {block} starts {count(copies, 'bulk copy')}", facts),
            Cell((str(bytes_),), None, f"the mbarrier of block {block} waits for {bytes_} bytes", facts),
        )

    columns = Axis("of each block", 2, ("bulk copies", "bytes"))
    return Grid(
        "What its mbarrier waits for", _blocks(shares), columns, tuple(map(cells, range(len(shares)))), ("count",)
    )


def _blocks(shares: Sequence[Sequence[int]]) -> Axis:
    return number_axis("block", len(shares), 1, len(shares))
