"""Grids and timelines as SVG: each knows its size before it is drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from cutegen.drawing.colours import PAPER, ink_on
from cutegen.drawing.model import Cell, Grid, Timeline
from cutegen.drawing.svg_parts import SOFT_INK, dots, group, line, rect, text, text_width

TITLE, LABEL, FIRST, FURTHER = 13.0, 11.0, 12.0, 10.5  # font sizes in pixels: titles, axes, lines of a cell
LEAST_SIDE, PADDING, DOTS = 28.0, 4.0, 18.0  # of a cell; of its text; of the place for three dots
BOLD = 1.15  # how much wider titles are for their weight
HEADING = 24.0  # the height of a panel's title
LANE, TICK = 34.0, 24.0  # heights of a lane and of the row of ticks
BLANK = "#f2f2f2"  # a cell that is nobody's


@dataclass(frozen=True)
class GridBox:
    """A grid with its measures in pixels. `titled`: its own title is written over it."""

    grid: Grid
    titled: bool

    @cached_property
    def cell_width(self) -> float:
        sizes = (FIRST, *(FURTHER for _ in self.grid.line_names[1:]))
        widest = max(
            (text_width(s, z) for row in self.grid.cells for c in row for s, z in zip(c.lines, sizes, strict=False)),
            default=0.0,
        )
        labels = max((text_width(label, LABEL) for label in self.grid.columns.labels), default=0.0)
        return max(LEAST_SIDE, widest + 2 * PADDING, labels + 3)

    @cached_property
    def cell_height(self) -> float:
        lines = max(len(cell.lines) for row in self.grid.cells for cell in row)
        return LEAST_SIDE if lines < 2 else 36.0

    @cached_property
    def left(self) -> float:
        """The width in pixels of the row labels and of the axis' name, which stands upright."""
        return 20 + max((text_width(label, LABEL) for label in self.grid.rows.labels), default=0.0) + 6

    @property
    def top(self) -> float:
        return 2 * 17 + (HEADING if self.titled else 0)

    @property
    def width(self) -> float:
        cells = self.cell_width * len(self.grid.columns.labels) + (0 if self.grid.columns.whole else DOTS)
        title = BOLD * text_width(self.grid.title, TITLE) if self.titled else 0
        return max(self.left + cells, title, text_width(self.grid.columns.heading, LABEL))

    @property
    def height(self) -> float:
        return self.top + self.cell_height * len(self.grid.rows.labels) + (0 if self.grid.rows.whole else DOTS)

    def draw(self, parent: ET.Element, x: float, y: float, palette: Sequence[str]) -> None:
        """Draws the grid with its upper left corner at (x, y)."""
        grid, wide, high = self.grid, self.cell_width, self.cell_height
        left, top = x + self.left, y + self.top
        across, down = wide * len(grid.columns.labels), high * len(grid.rows.labels)
        if self.titled:
            text(parent, x, y + 8, grid.title, TITLE, anchor="start", font_weight="600")
        middle = max(left + across / 2, x + text_width(grid.columns.heading, LABEL) / 2)  # it may be the wider one
        text(parent, middle, top - 26, grid.columns.heading, LABEL, fill=SOFT_INK)
        turned = f"rotate(-90 {x + 8:.1f} {top + down / 2:.1f})"
        text(parent, x + 8, top + down / 2, grid.rows.heading, LABEL, fill=SOFT_INK, transform=turned)
        for j, label in enumerate(grid.columns.labels):
            text(parent, left + (j + 0.5) * wide, top - 9, label, LABEL, fill=SOFT_INK)
        for i, label in enumerate(grid.rows.labels):
            text(parent, left - 6, top + (i + 0.5) * high, label, LABEL, anchor="end", fill=SOFT_INK)
        for i, row in enumerate(grid.cells):
            for j, cell in enumerate(row):
                _cell(parent, left + j * wide, top + i * high, wide, high, cell, palette)
        for at in grid.rows.breaks:
            line(parent, left, top + at * high, left + across, top + at * high, 2)
        for at in grid.columns.breaks:
            line(parent, left + at * wide, top, left + at * wide, top + down, 2)
        if not grid.columns.whole:
            dots(parent, left + across + DOTS / 2 + 1, top + down / 2, 5, 0)
        if not grid.rows.whole:
            dots(parent, left + across / 2, top + down + DOTS / 2 + 1, 0, 5)


def _cell(parent: ET.Element, x: float, y: float, wide: float, high: float, cell: Cell, palette: Sequence[str]) -> None:
    if cell.colour is None and not cell.lines:
        return
    fill = BLANK if cell.colour is None else palette[cell.colour]
    ink = ink_on(fill)
    place = group(parent, cell.about)
    rect(place, x, y, wide, high, fill, stroke=PAPER)
    count = len(cell.lines)
    for i, string in enumerate(cell.lines):
        size = FIRST if i == 0 else FURTHER
        text(place, x + wide / 2, y + high / 2 + (i - (count - 1) / 2) * 14, string, size, fill=ink)


@dataclass(frozen=True)
class TimelineBox:
    """A timeline with its measures in pixels."""

    timeline: Timeline
    titled: bool

    @property
    def tick_width(self) -> float:
        """The width of a tick in pixels, with which every bar can hold its label, and no two marks meet."""
        bars = max((text_width(b.label, LABEL) + 2 * PADDING) / (b.end - b.start) for b in self.timeline.bars)
        ticks = max(text_width(tick, LABEL) + PADDING for tick in self.timeline.ticks)
        marks = (
            (text_width(mark.label, LABEL) + 2 * PADDING) / (following.at - mark.at)
            for mark, following in pairwise(self.timeline.marks)
            if following.at > mark.at
        )
        return max(LEAST_SIDE, bars, ticks, *marks)

    @property
    def left(self) -> float:
        return max(text_width(lane, FIRST) for lane in self.timeline.lanes) + 10

    @property
    def top(self) -> float:
        return (HEADING if self.titled else 0) + (TICK if self.timeline.marks else 0) + TICK

    @property
    def width(self) -> float:
        title = BOLD * text_width(self.timeline.title, TITLE) if self.titled else 0
        marks = (self.tick_width * mark.at + 3 + text_width(mark.label, LABEL) for mark in self.timeline.marks)
        return max(self.left + max([self.tick_width * len(self.timeline.ticks), *marks]), title)

    @property
    def height(self) -> float:
        return self.top + LANE * len(self.timeline.lanes)

    def draw(self, parent: ET.Element, x: float, y: float, palette: Sequence[str]) -> None:
        """Draws the timeline with its upper left corner at (x, y)."""
        left, top, wide = x + self.left, y + self.top, self.tick_width
        right = left + wide * len(self.timeline.ticks)
        if self.titled:
            text(parent, x, y + 8, self.timeline.title, TITLE, anchor="start", font_weight="600")
        for i, lane in enumerate(self.timeline.lanes):
            if i % 2 == 0:
                rect(parent, left, top + i * LANE, right - left, LANE, "#f6f6f6")
            text(parent, left - 10, top + (i + 0.5) * LANE, lane, FIRST, anchor="end")
        for j, tick in enumerate(self.timeline.ticks):
            text(parent, left + (j + 0.5) * wide, top - TICK / 2, tick, LABEL, fill=SOFT_INK)
        for mark in self.timeline.marks:
            at = left + mark.at * wide
            line(parent, at, top - TICK, at, top + LANE * len(self.timeline.lanes), 1.5, SOFT_INK)
            text(parent, at + 3, top - 1.5 * TICK, mark.label, LABEL, anchor="start")
        for bar in self.timeline.bars:
            place = group(parent, bar.about)
            fill, start, width = palette[bar.colour], left + bar.start * wide, (bar.end - bar.start) * wide
            upper, high = top + bar.lane * LANE + 4, LANE - 8
            if bar.faint:
                rect(place, start + 1.5, upper, width - 3, high, PAPER, rx="4", stroke=fill, stroke_width="2",
                     stroke_dasharray="5 3")  # fmt: skip
            else:
                rect(place, start + 1, upper, width - 2, high, fill, rx="4")
            ink = ink_on(PAPER if bar.faint else fill)
            text(place, start + width / 2, upper + high / 2, bar.label, LABEL, fill=ink)
