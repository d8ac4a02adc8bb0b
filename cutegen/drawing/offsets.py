"""A layout as a grid of what it maps to: offsets, or the banks of shared memory that these fall into."""

from __future__ import annotations

from collections.abc import Callable

from tensor_layouts import cosize, rank, size
from tensor_layouts.analysis import bank_conflicts

from cutegen.algebra.values import text_of
from cutegen.atoms.targets import BANK_BYTES, BANKS, WARP
from cutegen.drawing.colours import MOST_STEPS, ramp
from cutegen.drawing.grids import NOBODY, LayoutExpr, Sheet, coordinate, scale
from cutegen.drawing.model import Cell, Figure, Grid, Legend, Swatch


def draw_layout(layout: LayoutExpr) -> Figure:
    """The figure of a layout's offset at every coordinate, in elements, from dark to light."""
    sheet, reach = Sheet(layout), int(cosize(layout))
    steps = min(reach, MOST_STEPS)

    def cell(row: int, column: int) -> Cell:
        place = sheet.place(row, column)
        if place is None:
            return NOBODY
        coord, offset = place
        facts = {"coordinate": coord, "offset": offset}
        return Cell((str(offset),), offset * steps // reach, f"coordinate {coordinate(coord)}: offset {offset}", facts)

    legend = scale("offset", "0", str(reach - 1), steps)
    caption = f"{size(layout)} coordinates, offsets up to {reach - 1}."
    grid = _grid(text_of(layout), sheet, cell, ("offset",))
    return Figure("layout", text_of(layout), (grid,), ramp(steps), legend, caption=caption, notes=sheet.notes)


def banks_of(offset: int, element_bytes: int) -> tuple[int, ...]:
    """The banks of shared memory that an element lies in, of a buffer that starts at bank 0."""
    first = offset * element_bytes // BANK_BYTES
    last = (offset * element_bytes + element_bytes - 1) // BANK_BYTES
    return tuple(word % BANKS for word in range(first, last + 1))


def draw_banks(layout: LayoutExpr, element_bytes: int) -> Figure:
    """A figure of the bank at every coordinate, and how many of a warp's lanes meet in one along a mode."""
    sheet = Sheet(layout)

    def cell(row: int, column: int) -> Cell:
        place = sheet.place(row, column)
        if place is None:
            return NOBODY
        (coord, offset), banks = place, banks_of(place[1], element_bytes)
        label = str(banks[0]) if len(banks) == 1 else f"{banks[0]}-{banks[-1]}"
        about = f"coordinate {coordinate(coord)}: offset {offset}, bank {label}"
        facts = {"coordinate": coord, "offset": offset, "banks": list(banks)}
        return Cell((label,), banks[0], about, facts)

    legend = Legend("bank", tuple(Swatch(bank, str(bank)) for bank in range(BANKS)))
    title = f"Shared-memory banks of {text_of(layout)}, {element_bytes}-byte elements"
    grid = _grid(title, sheet, cell, ("bank",))
    caption = " ".join(_walks(layout, element_bytes))
    return Figure("banks", title, (grid,), ramp(BANKS), legend, caption=caption, notes=sheet.notes)


def _walks(layout: LayoutExpr, element_bytes: int) -> list[str]:
    """Sentences about a warp whose lanes walk along a mode, an element each; one for each drawn mode."""
    if isinstance(layout.shape, int) or rank(layout) == 1:
        lines = [("", layout)]
    else:
        rest = (0,) * (rank(layout) - 2)
        lines = [(" along mode 0", layout((None, 0, *rest))), (" along mode 1", layout((0, None, *rest)))]
    found = []
    for where, line in lines:
        lanes = min(WARP, int(size(line)))
        if lanes > 1:
            ways = bank_conflicts(line, element_bytes=element_bytes)["max_ways"]
            verdict = "no bank conflict" if ways == 1 else f"a {ways}-way bank conflict"
            found.append(f"{lanes} lanes{where}: {verdict}.")
    return found


def _grid(title: str, sheet: Sheet, cell: Callable[[int, int], Cell], lines: tuple[str, ...]) -> Grid:
    rows, columns = range(len(sheet.rows.labels)), range(len(sheet.columns.labels))
    cells = tuple(tuple(cell(row, column) for column in columns) for row in rows)
    return Grid(title, sheet.rows, sheet.columns, cells, lines)
