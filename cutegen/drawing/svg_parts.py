"""The few shapes that pictures are made of, and how much room text takes without a font to measure it by."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from cutegen.drawing.colours import INK

FONTS = "'DejaVu Sans', Verdana, 'Segoe UI', Helvetica, Arial, sans-serif"
SOFT_INK = "#555555"  # 7.5 : 1 on white
# Advances of DejaVu Sans in em, rounded up to five classes; the other fonts are hardly wider, most are narrower.
_ADVANCES = {
    letter: advance
    for letters, advance in (
        ("'ijlIJ ,.·/:;\\|f-()[]t!r", 0.42),
        ('abcdeghknopqsuvxyz0123456789_*`"?$', 0.64),
        ("ABCEFKLPRSTVXYZ{}", 0.7),
        ("%mMW@…", 1.0),
    )
    for letter in letters
}
_OTHERS = 0.84


def text_width(string: str, size: float) -> float:
    """Pixels that a line of text takes, or a little more."""
    return size * sum(_ADVANCES.get(letter, _OTHERS) for letter in string)


def wrap(string: str, width: float, size: float) -> list[str]:
    """A text broken into lines of at most `width` pixels: between words, and within words that find no room."""
    lines: list[str] = []
    for word in string.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
            continue
        lines.append("")
        for letter in word:
            if text_width(lines[-1] + letter, size) > width:
                lines.append("")
            lines[-1] += letter
    return lines


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def rect(parent: ET.Element, x: float, y: float, width: float, height: float, fill: str, **more: str) -> ET.Element:
    places = {"x": number(x), "y": number(y), "width": number(width), "height": number(height), "fill": fill}
    return ET.SubElement(parent, "rect", places | {key.replace("_", "-"): value for key, value in more.items()})


def line(parent: ET.Element, x1: float, y1: float, x2: float, y2: float, width: float, stroke: str = INK) -> None:
    ends = {"x1": number(x1), "y1": number(y1), "x2": number(x2), "y2": number(y2)}
    ET.SubElement(parent, "line", ends | {"stroke": stroke, "stroke-width": number(width)})


def text(
    parent: ET.Element,
    x: float,
    middle: float,
    string: str,
    size: float,
    *,
    anchor: str = "middle",
    fill: str = INK,
    **more: str,
) -> None:
    """Draws a line of text whose figures and capitals are centred on the height `middle`."""
    # Half the height of DejaVu's capitals, 0.73 em; `dominant-baseline` is not drawn alike everywhere.
    places = {"x": number(x), "y": number(middle + 0.365 * size), "font-size": number(size), "fill": fill}
    if anchor != "start":
        places["text-anchor"] = anchor
    element = ET.SubElement(parent, "text", places | {key.replace("_", "-"): value for key, value in more.items()})
    element.text = string


def dots(parent: ET.Element, x: float, y: float, dx: float, dy: float) -> None:
    """Draws three dots around a place, which say that something goes on there."""
    for i in (-1, 0, 1):
        at = {"cx": number(x + i * dx), "cy": number(y + i * dy), "r": "1.8", "fill": SOFT_INK}
        ET.SubElement(parent, "circle", at)


def group(parent: ET.Element, tooltip: str) -> ET.Element:
    element = ET.SubElement(parent, "g")
    ET.SubElement(element, "title").text = tooltip
    return element
