"""Shared parts of pictures of steps over time: their colours, and a sheet that is filled from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cutegen.drawing.colours import OKABE_ITO, SHADES, mix
from cutegen.drawing.model import Bar, Mark, Timeline

PALETTE = tuple(mix(hue, SHADES[0]) for hue in OKABE_ITO)
STORED = len(OKABE_ITO) - 1  # the colour of what is written to global memory: black


def hue(number: int) -> int:
    """The colour of a tile, a row or a walk of that number: after seven they come again."""
    return number % STORED


class Sheet:
    """A timeline as it is written, step by step; lanes are named by their bars."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.marks: list[Mark] = []
        self._bars: list[tuple[str, Bar]] = []

    @property
    def now(self) -> int:
        """The number of the step that comes next."""
        return len(self.steps)

    def step(self, name: str) -> int:
        """Adds a step at the end, and gives its number."""
        self.steps.append(name)
        return len(self.steps) - 1

    def mark(self, label: str) -> None:
        """Says that something begins for all lanes with the step that comes next."""
        self.marks.append(Mark(self.now, label))

    def bar(self, lane: str, start: int, end: int, label: str, colour: int, about: str, *, faint: bool = False) -> None:
        """Adds what takes a lane from one step up to another one; nothing where that is not a time."""
        if start < end:
            self._bars.append((lane, Bar(0, start, end, label, colour, about, faint)))

    def has(self, lane: str) -> bool:
        """Whether a lane has a bar."""
        return any(name == lane for name, _ in self._bars)

    def timeline(self, title: str, lanes: Sequence[str], size: int | None = None) -> Timeline:
        """All of it with these lanes. `size` is the number of steps where there are more than were written."""
        bars = tuple(replace(bar, lane=lanes.index(lane)) for lane, bar in self._bars)
        return Timeline(title, tuple(lanes), tuple(self.steps), size or self.now, bars, tuple(self.marks))
