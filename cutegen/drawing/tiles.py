"""How the elements of a tile are spread over rows and columns of cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from cutegen.drawing.grids import MOST_COLUMNS, MOST_ROWS, number_axis, slice_text
from cutegen.drawing.model import Axis

ROOM = 32  # rows or columns of single elements; of more, the consecutive values of a thread share a cell
MOST_RUN = 16  # values that may share a cell if the width of an access is unknown

Places = tuple[int, ...]  # of elements in a tile, first mode fastest
Codes = Sequence[int]  # for each place of a tile `code` of who has it, or NOBODYS, or SEVERAL
NOBODYS, SEVERAL = -1, -2


def code(thread: int, value: int, values: int) -> int:
    """A number for the only owner of an element.

    Of `values` values of a thread the next one has the next number, and no other owner is within a cell's reach of
    these.
    """
    return thread * 2 * (values + MOST_RUN) + value


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


def spread(shape: Sequence[int], modes: Sequence[str], codes: Codes, vector: int | None = None) -> View:
    """The view of a tile over its first two modes that extend, the others at 0; a single one is wrapped like text.

    A cell is the elements of one access: `vector` consecutive values of a thread, along the mode in which they are
    neighbours. Without a `vector` these are as many as there are, but only along a mode too long for single elements.
    Fewer share a cell where anywhere in the tile they are no neighbours, or not that thread's alone.
    """
    longer = [i for i, extent in enumerate(shape) if extent > 1]
    if len(longer) < 2:
        return _line(modes[longer[0] if longer else 0], prod(shape), codes, vector)
    return _plane(shape, modes, longer[0], longer[1], codes, vector)


def slice_note(shape: Sequence[int], modes: Sequence[str]) -> tuple[str, ...]:
    """The remark on modes that `spread` leaves at 0; nothing if there are none."""
    hidden = [i for i, extent in enumerate(shape) if extent > 1][2:]
    return slice_text([modes[i] for i in hidden], [shape[i] for i in hidden])


def _run(lines: Sequence[Codes], vector: int | None) -> int:
    """How many neighbours in a line are consecutive values of one thread or nobody's, in all lines: a power of 2."""
    extent, step = len(lines[0]), 1
    most = vector or (MOST_RUN if extent > ROOM else 1)
    if any(SEVERAL in line for line in lines):
        return 1
    # Runs of `step` are known: two of them make a longer one if the second continues the first.
    while 2 * step <= most and extent % (2 * step) == 0:
        ahead = ([c if c == NOBODYS else c + step for c in line[:: 2 * step]] for line in lines)
        if any(list(line[step :: 2 * step]) != found for line, found in zip(lines, ahead, strict=True)):
            break
        step *= 2
    return step


def _line(name: str, count: int, codes: Codes, vector: int | None) -> View:
    step = _run([codes], vector)
    width = min(count, ROOM * step)
    starts = range(0, min(count, MOST_ROWS * width), width)
    columns = number_axis(name, width, step, MOST_COLUMNS)
    rows = Axis("", 1, ("",))
    if count > width:
        rows = Axis(name, count, tuple(map(str, starts)), width)
        columns = replace(columns, name=f"{name} + column", labels=tuple(f"+{label}" for label in columns.labels))
    return View(rows, columns, tuple((start,) for start in starts), _groups(columns, 1), count)


def _plane(
    shape: Sequence[int], modes: Sequence[str], first: int, second: int, codes: Codes, vector: int | None
) -> View:
    rows, columns = shape[first], shape[second]
    across = prod(shape[:second])  # places from a column to the next; from a row to the next it is one
    row_step = _run([codes[across * j : across * j + rows] for j in range(columns)], vector)
    # Values are consecutive along one mode only, if along any.
    column_step = 1 if row_step > 1 else _run([codes[i : i + across * columns : across] for i in range(rows)], vector)
    left = number_axis(modes[first], rows, row_step, MOST_ROWS)
    top = number_axis(modes[second], columns, column_step, MOST_COLUMNS)
    return View(left, top, _groups(left, 1), _groups(top, across), prod(shape))


def _groups(axis: Axis, stride: int) -> tuple[Places, ...]:
    starts = range(0, axis.drawn, axis.step)
    return tuple(tuple(stride * i for i in range(start, min(start + axis.step, axis.size))) for start in starts)
