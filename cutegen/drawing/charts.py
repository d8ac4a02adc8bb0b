"""Charts of measured values: axes, curves and markers that differ by shape as well as by colour."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from cutegen.drawing.colours import INK, OKABE_ITO, PAPER
from cutegen.drawing.svg_parts import FONTS, SOFT_INK, line, number, rect, text, text_width, wrap

GRID = "#d9d9d9"
SMALL, LABEL, TITLE = 12.0, 13.0, 17.0  # font sizes
MARGIN = 24.0
# Okabe and Ito's yellow is too light for a line on white
HUES = tuple(hue for hue in OKABE_ITO if hue != "#f0e442")
SHAPES = ("circle", "square", "diamond", "triangle", "down", "cross")


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high` with a label. `ticks` are pairs of a place on it and the text that stands there."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def part(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high one."""
        if self.log:
            return log10(value / self.low) / log10(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def linear(label: str, high: float, low: float = 0.0, unit: str = "") -> Axis:
    """An axis that ends at a round number, with four to nine ticks."""
    step = 10 ** floor(log10((high - low) / 4))
    step *= next(f for f in (1, 2, 5, 10) if (high - low) / (step * f) <= 8)
    count = max(1, ceil((high - low) / step - 1e-9))
    return Axis(
        label, low, low + count * step, tuple((low + i * step, f"{low + i * step:g}{unit}") for i in range(count + 1))
    )


def decades(label: str, low: float, high: float) -> Axis:
    """A logarithmic axis over whole decades, at least one."""
    first, last = floor(log10(low)), ceil(log10(high))
    last = max(last, first + 1)
    ticks = tuple((10.0**k, f"{10.0**k:g}") for k in range(first, last + 1))
    return Axis(label, 10.0**first, 10.0**last, ticks, log=True)


def at_values(label: str, values: Sequence[float], names: Sequence[str]) -> Axis:
    """A logarithmic axis with a tick at each value."""
    low, high = min(values), max(values)
    return Axis(label, low / 1.15, high * 1.15, tuple(zip(values, names, strict=True)), log=True)


@dataclass(frozen=True)
class Plot:
    """A rectangle of the picture with two axes, drawn as it is made."""

    root: ET.Element
    x: Axis
    y: Axis
    left: float
    top: float
    width: float
    height: float

    def draw_axes(self) -> None:
        bottom = self.top + self.height
        across = 0.0
        for value, name in self.x.ticks:
            place = self.across(value)
            line(self.root, place, self.top, place, bottom, 1, GRID)
            # Names that would meet are left out, the grid stays
            if place - text_width(name, SMALL) / 2 >= across:
                text(self.root, place, bottom + 14, name, SMALL)
                across = place + text_width(name, SMALL) / 2 + 6
        for value, name in self.y.ticks:
            place = self.down(value)
            line(self.root, self.left, place, self.left + self.width, place, 1, GRID)
            text(self.root, self.left - 6, place, name, SMALL, anchor="end")
        line(self.root, self.left, bottom, self.left + self.width, bottom, 1.5)
        line(self.root, self.left, self.top, self.left, bottom, 1.5)
        text(self.root, self.left + self.width / 2, bottom + 36, self.x.label, LABEL)
        text(self.root, self.left, self.top - 16, self.y.label, LABEL, anchor="start")

    def across(self, value: float) -> float:
        return self.left + self.width * self.x.part(value)

    def down(self, value: float) -> float:
        return self.top + self.height * (1 - self.y.part(value))

    def curve(self, points: Sequence[tuple[float, float]], stroke: str, *, dashed: bool = False) -> None:
        places = " ".join(f"{number(self.across(x))},{number(self.down(y))}" for x, y in points)
        more = {"stroke-dasharray": "6 4"} if dashed else {}
        style = {"points": places, "fill": "none", "stroke": stroke, "stroke-width": "2", **more}
        ET.SubElement(self.root, "polyline", style)

    def mark(self, x: float, y: float, shape: str, fill: str, tooltip: str, *, hollow: bool = False) -> None:
        marker(self.root, self.across(x), self.down(y), shape, fill, tooltip, hollow=hollow)


def marker(
    root: ET.Element, x: float, y: float, shape: str, colour: str, tooltip: str = "", *, hollow: bool = False
) -> None:
    """One of `SHAPES` around a place, filled or as an outline."""
    style = {"fill": PAPER if hollow else colour, "stroke": colour if hollow else PAPER, "stroke-width": "1.6"}
    r = 5.5
    corners = {
        "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
        "triangle": ((0, -1.2), (1.2, 1), (-1.2, 1)),
        "down": ((0, 1.2), (1.2, -1), (-1.2, -1)),
        "cross": ((-1.2, -0.4), (-0.4, -0.4), (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4),
                  (0.4, 0.4), (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4)),
    }  # fmt: skip
    if shape == "circle":
        element = ET.SubElement(root, "circle", {"cx": number(x), "cy": number(y), "r": number(r), **style})
    else:
        places = " ".join(f"{number(x + a * r)},{number(y + b * r)}" for a, b in corners[shape])
        element = ET.SubElement(root, "polygon", {"points": places, **style})
    if tooltip:
        ET.SubElement(element, "title").text = tooltip


@dataclass(frozen=True)
class Key:
    """A line of a legend."""

    name: str
    shape: str
    colour: str
    hollow: bool = False
    dashed: bool = False  # a line without a marker


def draw_keys(root: ET.Element, keys: Sequence[Key], left: float, top: float, width: float) -> float:
    """Draws a legend in rows of that width; gives the height at which it ends."""
    x, y = left, top
    for key in keys:
        room = 26 + text_width(key.name, SMALL) + 18
        if x > left and x + room > left + width:
            x, y = left, y + 20
        if key.dashed:
            style = {"stroke": key.colour, "stroke-width": "2", "stroke-dasharray": "6 4"}
            places = {"x1": number(x), "y1": number(y), "x2": number(x + 20), "y2": number(y)}
            ET.SubElement(root, "line", places | style)
        else:
            marker(root, x + 10, y, key.shape, key.colour, hollow=key.hollow)
        text(root, x + 26, y, key.name, SMALL, anchor="start")
        x += room
    return y + 12


def picture(title: str, remarks: Sequence[str], width: float, height: float) -> ET.Element:
    """An empty picture with its title on top and remarks at the foot; `height` is between the two."""
    lines = [part for remark in remarks for part in wrap(remark, width - 2 * MARGIN, SMALL)]
    whole = height + 44 + 18 * len(lines) + MARGIN
    root = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": number(width),
            "height": number(whole),
            "viewBox": f"0 0 {number(width)} {number(whole)}",
            "font-family": FONTS,
            "role": "img",
        },
    )
    ET.SubElement(root, "title").text = title
    rect(root, 0, 0, width, whole, PAPER)
    text(root, MARGIN, 30, title, TITLE, anchor="start", fill=INK, font_weight="600")
    for i, string in enumerate(lines):
        text(root, MARGIN, 44 + height + 12 + 18 * i, string, SMALL, anchor="start", fill=SOFT_INK)
    return root


def render(root: ET.Element, kind: str) -> bytes:
    """A chart as the bytes of a file of kind `.svg` or `.png`."""
    from cutegen.drawing.png import rasterise
    from cutegen.drawing.svg import svg_text

    drawn = svg_text(root)
    return rasterise(drawn) if kind == ".png" else drawn.encode()
