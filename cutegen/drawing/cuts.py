"""Cutting a grid to what a page or a terminal has room for; the grid itself then says what is missing."""

from __future__ import annotations

from cutegen.drawing.model import Axis, Grid

ROUND = (16, 8, 4, 2)  # a cut is best at a multiple of one of these


def cut(grid: Grid, rows: int, columns: int) -> Grid:
    """The part of a grid with at most so many rows and columns of cells, and at least one of each."""
    return grid.first(_room(grid.rows, rows), _room(grid.columns, columns))


def _room(axis: Axis, limit: int) -> int:
    """How many labels of an axis are kept: all if there is room for them, else `limit` or a little less.

    Less is to end where a mode starts anew, or at a round number, if that loses a third of the room at most.
    """
    if len(axis.labels) <= limit:
        return len(axis.labels)
    good = [b for b in reversed(axis.breaks) if b <= limit] + [limit // step * step for step in ROUND]
    return next((count for count in good if count > 0 and 3 * count >= 2 * limit), max(1, limit))
