"""A picture as data: what is drawn where, in which colour, and what was left out. Renderers add nothing to it.

Sizes count cells, coordinates, or ticks of time; renderers choose characters or pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Cell:
    """A cell of a grid. `lines` is what is written in it, what matters most first. Without a colour it is nobody's
    place.
    """

    lines: tuple[str, ...]
    colour: int | None  # in the figure's palette
    about: str  # a sentence: the tooltip
    facts: Mapping[str, Any] = field(default_factory=dict)  # the same for machines


@dataclass(frozen=True)
class Axis:
    """One side of a grid. Only its first coordinates are drawn: those that have `labels`."""

    name: str
    size: int  # coordinates, drawn or not
    labels: tuple[str, ...]
    step: int = 1  # coordinates that one row or column of cells stands for
    breaks: tuple[int, ...] = ()  # rows or columns of cells before which a mode starts anew: a heavier line
    note: str = ""  # how to read the labels

    @property
    def heading(self) -> str:
        return f"{self.name}, {self.note}" if self.note else self.name

    @property
    def drawn(self) -> int:
        """How many coordinates are drawn."""
        return min(self.size, len(self.labels) * self.step)

    @property
    def whole(self) -> bool:
        return self.drawn == self.size

    def first(self, count: int) -> Axis:
        return replace(self, labels=self.labels[:count], breaks=tuple(b for b in self.breaks if b < count))


@dataclass(frozen=True)
class Grid:
    """Rows of cells. `line_names` says what the lines of a cell's label are, as in ("thread", "value")."""

    title: str
    rows: Axis
    columns: Axis
    cells: tuple[tuple[Cell, ...], ...]
    line_names: tuple[str, ...]
    caption: str = ""

    def first(self, rows: int, columns: int) -> Grid:
        """The upper left part of the grid."""
        cells = tuple(row[:columns] for row in self.cells[:rows])
        return replace(self, rows=self.rows.first(rows), columns=self.columns.first(columns), cells=cells)

    @property
    def left_out(self) -> str:
        """A sentence about what is not drawn; empty if all is."""
        cut = [axis for axis in (self.rows, self.columns) if not axis.whole]
        parts = [f"0-{axis.drawn - 1} of {axis.size} ({axis.name})" for axis in cut]
        return f"Only {' and '.join(parts)} are drawn." if parts else ""


@dataclass(frozen=True)
class Bar:
    """Something that takes from tick `start` up to tick `end` of a timeline."""

    lane: int
    start: int
    end: int
    label: str
    colour: int
    about: str
    faint: bool = False  # waiting or in flight, not work


@dataclass(frozen=True)
class Mark:
    """A moment that all lanes share, at the start of a tick."""

    at: int
    label: str


@dataclass(frozen=True)
class Timeline:
    """Lanes over time. `ticks` are the names of the first steps of `size`; bars of one lane never overlap."""

    title: str
    lanes: tuple[str, ...]
    ticks: tuple[str, ...]
    size: int
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...] = ()

    def first(self, ticks: int) -> Timeline:
        """The timeline up to some tick; a bar that goes on has no room for its label."""
        bars = tuple(b if b.end <= ticks else replace(b, end=ticks, label="…") for b in self.bars if b.start < ticks)
        marks = tuple(mark for mark in self.marks if mark.at < ticks)
        return replace(self, ticks=self.ticks[:ticks], bars=bars, marks=marks)

    @property
    def left_out(self) -> str:
        """A sentence about what is not drawn; empty if all is."""
        drawn = len(self.ticks)
        return "" if drawn == self.size else f"Only the first {drawn} of {self.size} steps are drawn."


Panel = Grid | Timeline


@dataclass(frozen=True)
class Swatch:
    """A colour of the palette, and what it means."""

    colour: int
    text: str


@dataclass(frozen=True)
class Legend:
    """The meaning of colours: kinds of objects, or a scale with some steps shown and only the ends named."""

    title: str
    swatches: tuple[Swatch, ...]
    apart: bool = True  # False: a scale


@dataclass(frozen=True)
class Subject:
    """The generated code that a figure shows: regions whose path starts with `path`, of this `name` if there is one."""

    path: tuple[str | int, ...] = ()
    name: str | None = None


@dataclass(frozen=True)
class Figure:
    """Panels side by side in one palette. `arrows[i]` says what happens from panel i to panel i + 1."""

    name: str  # lower case, unique on a page: `copy-a`
    title: str
    panels: tuple[Panel, ...]
    palette: tuple[str, ...]  # #rrggbb
    legend: Legend | None = None
    arrows: tuple[str, ...] = ()
    caption: str = ""
    notes: tuple[str, ...] = ()  # what the reader must know to read it right
    subjects: tuple[Subject, ...] = ()
    shared: tuple[Subject, ...] = ()  # of another case, whose lines are shown where those of the subjects are none

    def remarks(self) -> tuple[str, ...]:
        """The texts below the panels: captions, then notes, then the omissions of each panel."""
        panels = [panel for panel in self.panels if panel.left_out]
        cuts = [f"{panel.title}: {panel.left_out}" if len(self.panels) > 1 else panel.left_out for panel in panels]
        captions = (panel.caption for panel in self.panels if isinstance(panel, Grid))
        return tuple(text for text in (self.caption, *captions, *self.notes, *cuts) if text)
