"""Figures for a terminal, in colour where there is one, and as plain text elsewhere. Nothing rests on colour alone."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from cutegen.drawing.colours import ink_on
from cutegen.drawing.cuts import cut
from cutegen.drawing.model import Figure, Grid, Legend, Panel
from cutegen.drawing.text_panels import (
    BOLD,
    cell_width,
    grid_lines,
    grid_width,
    lane_width,
    tick_width,
    timeline_lines,
)

MOST_ROWS = 32  # of a grid: more would not stay in sight
LEAST_COLUMNS = 4  # that are drawn with all lines of their labels
BETWEEN = "    "  # two panels side by side
PLAIN = str.maketrans({"│": "|", "─": "-", "┼": "+", "·": ".", "…": "~", "→": ">", "↓": "v"})


def render_text(figure: Figure, width: int, encoding: str = "utf-8", rows: int = MOST_ROWS) -> list[Text]:
    """The lines of a figure, each at most `width` characters where that can be; what does not fit is cut, and said.
    Grids are cut to so many `rows` of cells.

    Where `encoding` lacks the characters of boxes, ASCII stands for them.
    """
    fitted, notes = zip(*(_fit(panel, width, rows) for panel in figure.panels), strict=True)
    figure = replace(figure, panels=fitted, notes=(*figure.notes, *dict.fromkeys(note for note in notes if note)))
    lines = [Text(part, BOLD) for part in _wrap(figure.title, width)]
    lines += [Text(""), *_panels(figure, width)]
    if figure.legend is not None:
        lines += [Text(""), *_legend(figure.legend, figure.palette, width)]
    remarks = [Text(part) for remark in figure.remarks() for part in _wrap(remark, width)]
    lines += [Text(""), *remarks] if remarks else []
    return lines if _writes_boxes(encoding) else [_in_ascii(line) for line in lines]


def _writes_boxes(encoding: str) -> bool:
    try:
        "".join(map(chr, PLAIN)).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _in_ascii(line: Text) -> Text:
    return Text(line.plain.translate(PLAIN), style=line.style, spans=list(line.spans))


def _wrap(string: str, width: int) -> list[str]:
    return textwrap.wrap(string, max(20, width))


def _fit(panel: Panel, width: int, rows: int) -> tuple[Panel, str]:
    """A panel that fits, and what else was left out of it.

    Columns are cut; but where hardly any would be left, labels lose all but their first line if all columns fit then.
    """
    if not isinstance(panel, Grid):
        return panel.first(max(1, (width - lane_width(panel)) // tick_width(panel))), ""
    count, note = len(panel.columns.labels), ""
    if grid_width(panel, min(count, LEAST_COLUMNS)) > width and len(panel.line_names) > 1:
        cells = tuple(tuple(replace(cell, lines=cell.lines[:1]) for cell in row) for row in panel.cells)
        short = replace(panel, cells=cells, line_names=panel.line_names[:1])
        if grid_width(short, count) <= width:
            panel, note = short, f"For want of width, labels lack the {' and the '.join(panel.line_names[1:])}."
    while count > 1 and grid_width(panel, count) > width:
        count -= max(1, (grid_width(panel, count) - width) // cell_width(panel))
    return cut(panel, rows, max(1, count)), note


def _panels(figure: Figure, width: int) -> list[Text]:
    """The panels as lines, side by side if there is room, else one above the other."""
    blocks = [_block(panel, figure) for panel in figure.panels]
    arrows = [f" {label}{' ' * bool(label)}→ " for label in figure.arrows] or [BETWEEN] * (len(blocks) - 1)
    widths = [max(cell_len(line.plain) for line in block) for block in blocks]
    if sum(widths) + sum(map(cell_len, arrows)) > width:
        result = blocks[0]
        for i, block in enumerate(blocks[1:]):
            down = f"↓ {figure.arrows[i]}".rstrip() if figure.arrows else ""
            result = [*result, Text(""), *([Text(f"  {down}"), Text("")] if down else []), *block]
        return result
    high = max(map(len, blocks))
    lines = []
    for i in range(high):
        line = Text("")
        for j, block in enumerate(blocks):
            part = block[i] if i < len(block) else Text("")
            line.append_text(part)
            if j + 1 < len(blocks):
                line.append(" " * (widths[j] - cell_len(part.plain)))
                line.append(arrows[j] if i == high // 2 else " " * cell_len(arrows[j]))
        lines.append(line)
    return lines


def _block(panel: Panel, figure: Figure) -> list[Text]:
    title = [Text(panel.title, Style(italic=True))] if len(figure.panels) > 1 else []
    body = grid_lines(panel, figure.palette) if isinstance(panel, Grid) else timeline_lines(panel, figure.palette)
    return [*title, *body]


def _legend(legend: Legend, palette: Sequence[str], width: int) -> list[Text]:
    """The legend as lines: its title, then a patch of each colour; in several lines if one is too short."""
    lines = [Text(legend.title)]
    for i, swatch in enumerate(legend.swatches):
        fill = palette[swatch.colour]
        gap = "  " if i == 0 else " " * legend.apart
        patch = f" {swatch.text} "
        if cell_len(lines[-1].plain) + len(gap) + cell_len(patch) > width:
            lines.append(Text(""))
            gap = ""
        lines[-1].append(gap)
        lines[-1].append(patch, Style(color=ink_on(fill), bgcolor=fill))
    return lines
