"""Colours that colour-blind readers tell apart, and text on them that all can read.

Up to eight things take the hues of Okabe and Ito (Color Universal Design, 2008); quantities take viridis (Smith and van
der Walt, 2015), which also stays in order in grey. Both are given by their published anchors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

OKABE_ITO = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
VIRIDIS = (
    *("#440154", "#482878", "#3e4989", "#31688e", "#26828e"),
    *("#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"),
)
SHADES = (0.15, 0.5, 0.3, 0.65)  # white in a hue, so that neighbours among the threads of a group differ
INK, PAPER = "#1a1a1a", "#ffffff"
MOST_STEPS = 256  # of a ramp: finer ones look the same


@dataclass(frozen=True)
class ThreadColours:
    """A hue for every group of `group` threads, and within a group a shade for every thread, in turn."""

    group: int
    palette: tuple[str, ...]
    shades: int

    def of(self, thread: int) -> int:
        """The place in the palette of a thread, 0, 1, ..."""
        return thread // self.group % len(OKABE_ITO) * self.shades + thread % self.group % self.shades


def thread_colours(threads: int) -> ThreadColours:
    """Hues for threads if there are at most 8, else for quads, warps, warpgroups, or as many as make 8 groups."""
    if threads <= len(OKABE_ITO):
        return ThreadColours(1, tuple(mix(hue, SHADES[0]) for hue in OKABE_ITO), 1)
    least = -(-threads // len(OKABE_ITO))
    group = next((size for size in (4, 32, 128) if size >= least), least)
    palette = tuple(mix(hue, white) for hue in OKABE_ITO for white in SHADES)
    return ThreadColours(group, palette, len(SHADES))


@lru_cache(maxsize=64)
def ramp(steps: int) -> tuple[str, ...]:
    """`steps` colours of viridis, dark to light."""
    if steps == 1:
        return (VIRIDIS[len(VIRIDIS) // 2],)
    places = [i * (len(VIRIDIS) - 1) / (steps - 1) for i in range(steps)]
    return tuple(_between(*VIRIDIS[int(p) : int(p) + 2], part=p % 1) if p % 1 else VIRIDIS[int(p)] for p in places)


def mix(colour: str, white: float) -> str:
    """A colour with so much white in it, 0 to 1."""
    return _between(colour, PAPER, part=white)


def _between(start: str, end: str, *, part: float) -> str:
    channels = zip(_channels(start), _channels(end), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in channels)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


@lru_cache(maxsize=4096)
def luminance(colour: str) -> float:
    """Relative luminance, 0 to 1 (WCAG 2.2, definition of the term)."""

    def linear(channel: int) -> float:
        value = channel / 255
        return float(value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4)

    red, green, blue = map(linear, _channels(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2, definition of the term)."""
    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def ink_on(colour: str) -> str:
    """Black or white, whichever is read better; one of them always has a contrast of 4.5 or more."""
    return max("#000000", PAPER, key=lambda ink: contrast(ink, colour))
