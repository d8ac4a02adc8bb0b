"""How the elements of a tile are spread over rows and columns of cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from cutegen.drawing.grids import MOST_COLUMNS, MOST_ROWS, number_axis
from cutegen.drawing.model import Axis

ROOM = 32  # rows or columns of single elements; of more, several elements share a cell where one thread has them
MOST_STEP = 16  # elements that may share a cell along one side

Places = tuple[int, ...]  # of elements in a tile, first mode fastest
Soles = Sequence[int]  # for each place of a tile the one thread that has it, or NOBODY_ALONE
NOBODY_ALONE = -1


@dataclass(frozen=True)
class View:
    """Rows and columns of cells over a tile: the cell (i, j) has the elements at `down[i]` + `across[j]`."""

    rows: Axis
    columns: Axis
    down: tuple[Places, ...]
    across: tuple[Places, ...]
    count: int  # places of the tile: what is beyond is no element

    def places(self, row: int, column: int) -> list[int]:
        places = (a + d for a in self.across[column] for d in self.down[row])
        return [place for place in places if place < self.count]


def spread(shape: Sequence[int], modes: Sequence[str], soles: Soles) -> View:
    """Over the first two modes that extend, the others at 0; one that extends along one mode only is wrapped like text.

    Where there are many rows or columns, neighbours share cells if everywhere in the tile one thread has them alone.
    """
    longer = [i for i, extent in enumerate(shape) if extent > 1]
    if len(longer) < 2:
        return _line(modes[longer[0] if longer else 0], prod(shape), soles)
    return _plane(shape, modes, longer[0], longer[1], soles)


def slice_note(shape: Sequence[int], modes: Sequence[str]) -> tuple[str, ...]:
    """What must be said of modes that `spread` leaves at 0."""
    hidden = [i for i, extent in enumerate(shape) if extent > 1][2:]
    return (f"A slice: {', '.join(f'{modes[i]} at 0 of {shape[i]}' for i in hidden)}.",) if hidden else ()


def _line(name: str, count: int, soles: Soles) -> View:
    alone, step = NOBODY_ALONE not in soles, 1
    # Cells of `step` elements are known to be one thread's: only their first elements are compared.
    while count > ROOM and step < MOST_STEP and alone and soles[:: 2 * step] == soles[step :: 2 * step]:
        step *= 2
    width = min(count, ROOM * step)
    starts = range(0, min(count, MOST_ROWS * width), width)
    columns = number_axis(name, width, step, MOST_COLUMNS)
    rows = Axis("", 1, ("",))
    if count > width:
        rows = Axis(name, count, tuple(map(str, starts)), width)
        columns = replace(columns, name=f"{name} + column", labels=tuple(f"+{label}" for label in columns.labels))
    return View(rows, columns, tuple((start,) for start in starts), _groups(columns, 1), count)


def _plane(shape: Sequence[int], modes: Sequence[str], first: int, second: int, soles: Soles) -> View:
    rows, columns = shape[first], shape[second]
    across = prod(shape[:second])  # places from a column to the next; from a row to the next it is one
    drawn = [soles[across * j : across * j + rows] for j in range(columns)]
    alone = not any(NOBODY_ALONE in column for column in drawn)

    row_step = column_step = 1
    while columns // column_step > ROOM and column_step < MOST_STEP and alone:
        if drawn[:: 2 * column_step] != drawn[column_step :: 2 * column_step]:
            break
        column_step *= 2
    while rows // row_step > ROOM and row_step < MOST_STEP and alone:
        if any(c[:: 2 * row_step] != c[row_step :: 2 * row_step] for c in drawn[::column_step]):
            break
        row_step *= 2
    left = number_axis(modes[first], rows, row_step, MOST_ROWS)
    top = number_axis(modes[second], columns, column_step, MOST_COLUMNS)
    return View(left, top, _groups(left, 1), _groups(top, across), prod(shape))


def _groups(axis: Axis, stride: int) -> tuple[Places, ...]:
    starts = range(0, axis.drawn, axis.step)
    return tuple(tuple(stride * i for i in range(start, min(start + axis.step, axis.size))) for start in starts)
