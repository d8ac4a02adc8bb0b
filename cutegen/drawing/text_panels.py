"""Grids and timelines as lines of styled text."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from cutegen.drawing.colours import ink_on
from cutegen.drawing.model import Bar, Cell, Grid, Timeline

DIM, BOLD = Style(dim=True), Style(bold=True)
GOES_ON = " …"  # right of a row that is cut


def cell_label(cell: Cell) -> str:
    return " ".join(cell.lines)


def cell_width(grid: Grid) -> int:
    """The characters of a cell: its widest label with spaces around it, and no less than a column's own label."""
    labels = (cell_label(cell) for row in grid.cells for cell in row)
    around = 1 if _is_numbers(grid) else 2
    return max(around + max(map(cell_len, labels), default=0), 1 + max(map(cell_len, grid.columns.labels), default=0))


def _is_numbers(grid: Grid) -> bool:
    """Whether cells hold numbers, which stand to the right."""
    return all(line.isdigit() for row in grid.cells for cell in row for line in cell.lines)


def left_width(grid: Grid) -> int:
    """The characters before the first cell: row labels or the axis' name, and a line."""
    return max(cell_len(grid.rows.heading), *map(cell_len, grid.rows.labels)) + 2


def grid_width(grid: Grid, columns: int) -> int:
    """The characters that so many columns of a grid take."""
    breaks = sum(at < columns for at in grid.columns.breaks)
    cut = columns < len(grid.columns.labels) or not grid.columns.whole
    return left_width(grid) + columns * cell_width(grid) + breaks + (len(GOES_ON) if cut else 0)


def grid_lines(grid: Grid, palette: Sequence[str]) -> list[Text]:
    """A grid as lines: column labels, a rule, rows with rules where a mode starts anew, and `…` where something goes
    on.
    """
    wide, left = cell_width(grid), left_width(grid)
    numbers = _is_numbers(grid)

    def placed(label: str) -> str:
        return label.rjust(wide) if numbers else label.center(wide)

    breaks = set(grid.columns.breaks)
    head = Text(" " * left)
    rule = Text().append("─" * (left - 1) + "┼", DIM)
    for j, label in enumerate(grid.columns.labels):
        head.append(" " * (j in breaks) + placed(label), DIM)
        rule.append("┼" * (j in breaks) + "─" * wide, DIM)
    names = Text().append(grid.rows.heading.rjust(left - 2) + "  " + grid.columns.heading, DIM)
    lines = [names, head, rule]
    for i, (label, row) in enumerate(zip(grid.rows.labels, grid.cells, strict=True)):
        if i in grid.rows.breaks:
            lines.append(rule.copy())
        line = Text().append(label.rjust(left - 2) + " │", DIM)
        for j, cell in enumerate(row):
            line.append("│" * (j in breaks), DIM)
            line.append(placed(cell_label(cell)), _style(cell.colour, palette))
        line.append("" if grid.columns.whole else GOES_ON, DIM)
        lines.append(line)
    if not grid.rows.whole:
        lines.append(Text().append("…".rjust(left - 2) + " │", DIM))
    return lines


def _style(colour: int | None, palette: Sequence[str]) -> Style:
    if colour is None:
        return DIM
    return Style(color=ink_on(palette[colour]), bgcolor=palette[colour])


def tick_width(timeline: Timeline) -> int:
    """The characters that a step takes, with room in every bar for its label and its ends."""
    bars = (-(-(cell_len(bar.label) + 2) // (bar.end - bar.start)) for bar in timeline.bars)
    return max(*bars, *(cell_len(tick) + 1 for tick in timeline.ticks))


def lane_width(timeline: Timeline) -> int:
    return max(map(cell_len, timeline.lanes)) + 2


def timeline_lines(timeline: Timeline, palette: Sequence[str]) -> list[Text]:
    """A timeline as lines: the ticks, a rule, and a line for each lane, with `[work]` and `(waiting)` in brackets."""
    wide, left = tick_width(timeline), lane_width(timeline)
    head = Text(" " * left + "".join(tick.center(wide) for tick in timeline.ticks), DIM)
    lines = [head, Text("─" * (left - 1) + "┼" + "─" * (wide * len(timeline.ticks)), DIM)]
    for i, lane in enumerate(timeline.lanes):
        line = Text(lane.rjust(left - 2) + " ")
        line.append("│", DIM)
        at = 0
        for bar in sorted((bar for bar in timeline.bars if bar.lane == i), key=lambda bar: bar.start):
            line.append(" " * (wide * (bar.start - at)))
            line.append(_bar(bar, wide * (bar.end - bar.start)), _bar_style(bar, palette))
            at = bar.end
        lines.append(line)
    for mark in timeline.marks:
        lines.append(Text().append(f"{'':{left - 1 + wide * mark.at}}│ {mark.label}", DIM))
    return lines


def _bar(bar: Bar, width: int) -> str:
    ends = "()" if bar.faint else "[]"
    return ends[0] + set_cell_size(bar.label.center(width - 2), width - 2) + ends[1]


def _bar_style(bar: Bar, palette: Sequence[str]) -> Style:
    fill = palette[bar.colour]
    return Style() if bar.faint else Style(color=ink_on(fill), bgcolor=fill)
