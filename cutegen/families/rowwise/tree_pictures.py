"""The picture of how the threads of a row put together what each has: lanes, then warps, then blocks of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.analysis.words import count
from cutegen.atoms.targets import WARP
from cutegen.drawing.colours import thread_colours
from cutegen.drawing.grids import MOST_COLUMNS, MOST_ROWS, number_axis
from cutegen.drawing.model import Axis, Cell, Figure, Grid, Subject
from cutegen.drawing.threads import numbers
from cutegen.families.rowwise.order import Exchange, exchanges_of
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.trees import (
    Barrier,
    Held,
    Tree,
    exchange_barriers,
    lanes_of,
    readers_of,
    tree_of,
)
from cutegen.families.rowwise.walks import Reduction

COLOURS = thread_colours(WARP)
SUBJECTS = (
    Subject(name="reduction across threads"),
    Subject(("schedule", "threads_per_row"), "shared memory"),
    Subject(name="start of the cluster"),
    Subject(name="end of the cluster"),
)


def draw_trees(plan: RowwisePlan) -> tuple[Figure, ...]:
    """The figure of the tree of a row's reductions; none where a thread has a row for itself."""
    found = exchanges_of(plan)
    if not found:
        return ()
    tree, barriers = tree_of(plan), exchange_barriers(plan)
    panels = [_lanes(tree)]
    if tree.reading != "no":
        panels += [_memory(plan, tree), _readers(tree)]
    panels.append(_exchanges("What is put together in one exchange", found))
    if plan.longer is not None:
        title = "What is put together in one exchange, of longer rows"
        panels.append(_exchanges(title, exchanges_of(plan.longer)))
    panels += [_barriers(barriers)] if barriers else []
    title = "How the threads of a row put together what each has of a reduction"
    return (
        Figure(
            "reduction",
            title,
            tuple(panels),
            COLOURS.palette,
            caption=_caption(plan, tree, len(found)),
            notes=_notes(plan, tree),
            subjects=SUBJECTS,
        ),
    )


def word(reduction: Reduction) -> str:
    """The name of a reduction in a picture."""
    if reduction.around is not None:
        return "sum of squares"
    return reduction.function if reduction.above is None else "sum of exp"


def _lanes(tree: Tree) -> Grid:
    held = lanes_of(tree)
    labels = ["start", *(f"with lane ^ {1 << step}" for step in range(tree.steps))]
    return _held("Lanes of a warp: whose values each has", labels, held, "lane", 0)


def _readers(tree: Tree) -> Grid:
    """A grid that shows how threads combine the partial results once these are all in shared memory."""
    held = readers_of(tree)
    if tree.reading == "each":
        columns = number_axis("result read last", tree.results, 1, MOST_COLUMNS)
        made = tuple(_cell(one[0], f"once it has read result {i}, any thread", None) for i, one in enumerate(held))
        title = "What a thread has as it reads one result after another"
        return Grid(title, Axis("", 1, ("",)), columns, (made[: len(columns.labels)],), ("warps",))
    labels = [f"read {number}" if tree.rounds > 1 else "read" for number in range(tree.rounds)]
    labels += [f"with lane ^ {1 << step}" for step in range(tree.result_steps)]
    return _held("Lanes of every warp: whose partial results each has", labels, held, "lane", tree.rounds - 1)


def _held(title: str, labels: Sequence[str], held: Sequence[Held], name: str, last: int) -> Grid:
    """A row for each step; from `last` on, lanes exchange at a distance of 1, 2, 4, ..."""
    columns = number_axis(name, len(held[0]), 1, MOST_COLUMNS)
    cells = []
    for number, (label, one) in enumerate(zip(labels, held, strict=True)):
        distance = 1 << number - last - 1 if number > last else 0
        row = (_cell(has, f"{label}: lane {i}", i ^ distance if distance else None) for i, has in enumerate(one))
        cells.append(tuple(row))
    return Grid(title, Axis("", len(labels), tuple(labels)), columns, tuple(cells), ("values",))


def _cell(has: frozenset[int], who: str, partner: int | None) -> Cell:
    facts = {"has": sorted(has), "partner": partner}
    if not has:
        return Cell(("none",), None, f"{who} has none, which changes nothing", facts)
    about = f"{who} has {', '.join(map(str, sorted(has)))}" + (f", some from lane {partner}" * (partner is not None))
    return Cell((numbers(sorted(has)),), COLOURS.of(min(has) % WARP), about, facts)


def _memory(plan: RowwisePlan, tree: Tree) -> Grid:
    """Who wrote each partial result, in the shared memory of each block of a cluster, or for each row of a block."""
    warps, alike = plan.warps_per_row, plan.cluster if plan.cluster > 1 else plan.rows

    def cell(side: int, place: int) -> Cell:
        if plan.cluster > 1:
            block, warp = place // warps, place % warps
            about = (
                f"warp {warp} of block {block} writes result {place} to block {side} of the cluster, by its lane {side}"
            )
            return Cell((f"W{warp}", f"B{block}"), COLOURS.of(place % WARP), about, {"block": block, "warp": warp})
        warp = side * warps + place
        about = f"warp {warp} writes result {place} of the block's row {side}, by its lane 0"
        return Cell((f"W{warp}",), COLOURS.of(place % WARP), about, {"block": 0, "warp": warp})

    name = "block" if plan.cluster > 1 else "row"
    rows, columns = number_axis(name, alike, 1, MOST_ROWS), number_axis("partial result", tree.results, 1, MOST_COLUMNS)
    cells = tuple(tuple(cell(i, j) for j in range(columns.drawn)) for i in range(rows.drawn))
    where = "Shared memory of each block" if plan.cluster > 1 else "Shared memory"
    lines = ("warp", "block") if plan.cluster > 1 else ("warp",)
    return Grid(f"{where}: who wrote which result", rows, columns, cells, lines)


def _exchanges(title: str, found: Sequence[Exchange]) -> Grid:
    labels = tuple(f"{i}, after walk {one.walk}" for i, one in enumerate(found))
    cells, names = [], []
    for number, exchange in enumerate(found):
        for one in exchange.reductions:
            about = f"{one.name}, the {word(one)} of {one.dtype.value}, in exchange {number} after walk {exchange.walk}"
            facts = {"reduction": one.name, "exchange": number, "walk": exchange.walk}
            here = Cell((word(one), one.dtype.value), COLOURS.of(4 * number % WARP), about, facts)
            names.append(one.name)
            nothing = Cell((), None, "not in this exchange")
            cells.append(tuple(here if i == number else nothing for i in range(len(found))))
    rows = Axis("", len(names), tuple(names))
    return Grid(title, rows, Axis("exchange", len(found), labels), tuple(cells), ("what", "type"))


def _barriers(found: Sequence[Barrier]) -> Grid:
    def cells(one: Barrier) -> tuple[Cell, Cell]:
        colour = None if one.exchange is None else COLOURS.of(4 * one.exchange % WARP)
        facts = {"barrier": one.name, "exchange": one.exchange}
        counts = {"arrivals": one.arrivals, "bytes": one.bytes}
        first, second = (Cell((str(n),), colour, f"{one.name}: {one.about}", facts | {k: n}) for k, n in counts.items())
        return first, second

    rows = Axis("", len(found), tuple(one.name for one in found))
    columns = Axis("a phase ends with", 2, ("arrivals", "bytes"))
    return Grid("What is waited for", rows, columns, tuple(map(cells, found)), ("count",))


def _caption(plan: RowwisePlan, tree: Tree, exchanges: int) -> str:
    text = f"{count(exchanges, 'exchange')} for a row{', all alike' * (exchanges > 1)}: "
    text += f"{count(tree.lanes, 'lane')} of a warp exchange in {count(tree.steps, 'step')} (shfl.sync.bfly)"
    if tree.reading == "no":
        return f"{text}, after which each has the result."
    if plan.cluster > 1:
        text += f"; then each of {count(tree.results, 'warp')} of {plan.cluster} blocks tells all blocks (st.async), "
        text += "a lane each, and an mbarrier in each block says that all have come"
    else:
        text += f"; then lane 0 of each of {count(tree.results, 'warp')} writes to shared memory, and a barrier follows"
    if tree.reading == "each":
        return f"{text}; each thread then reads all."
    return f"{text}; lanes read {count(tree.rounds, 'result')} each and exchange in {count(tree.result_steps, 'step')}."


def _notes(plan: RowwisePlan, tree: Tree) -> tuple[str, ...]:
    notes = ["A cell names the lanes or results that a value is made of; lane ^ 4 differs in bit 2 of its number."]
    if tree.rounds > 1:
        notes.append("0+3 is 0 and 3 more.")
    alike = min(WARP, plan.threads) // tree.lanes
    if alike > 1:
        notes.append(f"A warp has {alike} rows, whose lanes do the same beside one another.")
    if plan.fewer_threads and plan.threads_per_row > 1:
        notes.append(f"Drawn with {plan.threads_per_row} threads a row, the most that a launch gives it.")
    return tuple(notes)
