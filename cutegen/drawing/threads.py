"""Thread-value layouts on the tile they partition: who has which element, as which of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tensor_layouts import rank, size

from cutegen import layouts
from cutegen.algebra.values import text_of
from cutegen.drawing.colours import ThreadColours, thread_colours
from cutegen.drawing.grids import (
    NOBODY,
    DrawingError,
    LayoutExpr,
    check_places,
    images,
    shape_text,
)
from cutegen.drawing.model import Cell, Figure, Grid, Legend, Swatch
from cutegen.drawing.tiles import NOBODYS, SEVERAL, code, slice_note, spread

Owner = tuple[int, int]  # thread, value
MOST_LISTED = 8  # owners that a tooltip names


@dataclass(frozen=True)
class Partition:
    """A tile of that shape, in elements, and `owners`: the (thread, value) pairs that have the element in each place.

    Places count the tile's elements, first mode fastest. Of a place's owners the first in (value, thread) comes first.
    """

    threads: int
    shape: tuple[int, ...]
    owners: Mapping[int, tuple[Owner, ...]]


def partition_of(layout: LayoutExpr, shape: Sequence[int]) -> Partition:
    """The partition of a tile by a layout (thread, value) -> place.

    Raises DrawingError for a layout that has not two modes or that leaves the tile.
    """
    _check_modes(layout)
    check_places(images(layout), shape, text_of(layout))
    return partition(int(size(layout.shape[0])), images(layout), shape)


def _check_modes(layout: LayoutExpr) -> None:
    if isinstance(layout.shape, int) or rank(layout) != 2:
        message = f"{text_of(layout)} is not a thread-value layout: it must have two modes, (thread, value)"
        raise DrawingError(message, "write it as (threads,values):(..,..), or leave out --tv")


def partition(threads: int, places: Sequence[int], shape: Sequence[int]) -> Partition:
    """The partition of a tile from its `places`, one for each (thread, value), thread fastest."""
    found: dict[int, list[Owner]] = {}
    for index, place in enumerate(places):
        found.setdefault(place, []).append((index % threads, index // threads))
    return Partition(threads, tuple(shape), {place: tuple(met) for place, met in found.items()})


def guess_shape(layout: LayoutExpr) -> tuple[int, int]:
    """A tile (rows, columns) that a thread-value layout may be meant for, if none is given.

    In a tile that `make_layout_tv` made, the values of a thread are innermost along each mode; so the second mode
    starts where, in the order of strides, values follow threads. Without such a place: one column.

    Raises DrawingError for a layout of other than two modes.
    """
    _check_modes(layout)
    reach = 1 + max(images(layout))
    steps = [(stride, extent, side) for side in (0, 1) for extent, stride in _leaves(layout, side)]
    steps = sorted(step for step in steps if step[0] > 0 and step[1] > 1)
    for (_, _, before), (stride, _, after) in zip(steps, steps[1:], strict=False):
        if (before, after) == (0, 1) and reach % stride == 0:
            return stride, reach // stride
    return reach, 1


def _leaves(layout: LayoutExpr, side: int) -> list[tuple[int, int]]:
    inner = getattr(layout, "inner", layout)  # a composed layout permutes what its inner one reaches
    return list(layouts.leaves(layouts.modes_of(inner)[side]))


def draw_thread_values(layout: LayoutExpr, tile: Sequence[int] | None = None) -> Figure:
    """The figure of a tile with the thread and value of each element.

    `tile` is its shape in elements, first mode fastest; without it the shape is guessed.
    """
    shape = tuple(tile) if tile else guess_shape(layout)
    modes = mode_names(shape)
    met = partition_of(layout, shape)
    colours = thread_colours(met.threads)
    title = f"{text_of(layout)} on a tile of {shape_text(shape)}"
    grid = tile_grid(title, met, colours, modes)
    notes = []
    if not tile:
        notes.append(f"The width of the tile is unknown: {shape_text(shape)} is assumed, see --tile.")
    values = int(size(layout.shape[1]))
    return Figure(
        "threads",
        title,
        (grid,),
        colours.palette,
        thread_legend(met.threads, colours),
        caption=f"{met.threads} threads with {values} values each; the tile has {prod(shape)} elements.",
        notes=(*notes, *slice_note(shape, modes), *sharing_notes([grid])),
    )


def mode_names(shape: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"mode {i}" for i in range(len(shape)))


def tile_grid(
    title: str,
    partition: Partition,
    colours: ThreadColours,
    modes: Sequence[str],
    vector: int | None = None,
) -> Grid:
    """The grid of a tile with its owners. `modes` names its modes; `vector` is the elements of an access, if known."""
    owners = partition.owners
    values = 1 + max((value for met in owners.values() for _, value in met), default=0)
    codes = [NOBODYS] * prod(partition.shape)
    for place, met in owners.items():
        codes[place] = code(*met[0], values) if len(met) == 1 else SEVERAL
    view = spread(partition.shape, modes, codes, vector)

    def cell(row: int, column: int) -> Cell:
        places = view.places(row, column)
        if not places:
            return NOBODY
        corners = [layouts.coordinates(place, partition.shape) for place in (places[0], places[-1])]
        where = ", ".join(f"{m} {a}-{b}" if a < b else f"{m} {a}" for m, a, b in zip(modes, *corners, strict=False))
        return owner_cell([owners.get(place, ()) for place in places], where, colours)

    rows, columns = range(len(view.down)), range(len(view.across))
    cells = tuple(tuple(cell(row, column) for column in columns) for row in rows)
    return Grid(title, view.rows, view.columns, cells, ("thread", "value"))


def owner_cell(elements: Sequence[tuple[Owner, ...]], where: str, colours: ThreadColours) -> Cell:
    """The cell of some elements that share it. `where` says which elements they are."""
    met = [owner for owners in elements for owner in owners]
    if not met:
        return Cell(("·",), None, f"{where}: nobody's", {"elements": len(elements), "owners": []})
    threads, values = (list(dict.fromkeys(owner[i] for owner in met)) for i in (0, 1))
    listed = ", ".join(f"thread {t} value {v}" for t, v in met[:MOST_LISTED])
    if len(met) > MOST_LISTED:
        listed += f" and {len(met) - MOST_LISTED} more"
    label = f"T{numbers(threads)}", f"V{numbers(values)}"
    facts = {"elements": len(elements), "owners": [list(owner) for owner in met]}
    return Cell(label, colours.of(threads[0]), f"{where}: {listed}", facts)


def numbers(found: Sequence[int]) -> str:
    """A few numbers as a label: `3`, `0-3`, `0,8`, or the first one and how many more there are."""
    ordered = sorted(found)
    if len(ordered) > 1 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]}-{ordered[-1]}"
    if len(ordered) <= 2:
        return ",".join(map(str, ordered))
    return f"{ordered[0]}+{len(ordered) - 1}"


def thread_legend(threads: int, colours: ThreadColours) -> Legend:
    """The legend of threads: what hues mean; shades only tell neighbours apart."""
    group, groups = colours.group, -(-threads // colours.group)
    if group == 1:
        return Legend("thread", tuple(Swatch(colours.of(t), f"T{t}") for t in range(threads)))
    name = {4: "quads", 32: "warps", 128: "warpgroups"}.get(group, f"groups of {group} threads")
    firsts = [group * i for i in range(groups)]
    swatches = (Swatch(colours.of(t), f"T{t}-{min(t + group, threads) - 1}") for t in firsts)
    return Legend(f"{name} (shades tell neighbours apart)", tuple(swatches))


def _owned(grid: Grid) -> list[Cell]:
    return [cell for row in grid.cells for cell in row if "owners" in cell.facts]


def sharing_notes(grids: Sequence[Grid]) -> tuple[str, ...]:
    """Remarks on cells that stand for several elements, and on elements with several owners or none."""
    cells = [cell for grid in grids for cell in _owned(grid)]
    sizes = {grid.title: sorted({cell.facts["elements"] for cell in _owned(grid)} - {1}) for grid in grids}
    alike = len({tuple(of_grid) for of_grid in sizes.values()}) <= 1
    notes = [
        f"{'A' if alike else f'{title}: a'} cell is {count} consecutive values of one thread."
        for title, of_grid in list(sizes.items())[: 1 if alike else None]
        for count in of_grid
    ]
    if any(cell.facts["elements"] < len(cell.facts["owners"]) for cell in cells):
        notes.append("Several threads or values meet in one element.")
    more = next((line for cell in cells for line in cell.lines if "+" in line), "")
    if more:
        first, others = more.split("+")
        notes.append(f"{more} is {first} and {others} more.")
    if any(not cell.facts["owners"] for cell in cells):
        notes.append("Elements with a dot are nobody's.")
    return tuple(notes)
