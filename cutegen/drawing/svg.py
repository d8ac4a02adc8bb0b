"""Figures as SVG that reads well at 100 %, on any background, and without colours.

They are drawn by ourselves and not by `tensor_layouts.viz`: that takes matplotlib 4 seconds and 1.8 MB for one
thread-value map of 16 x 128. The algebra is all tensor-layouts'.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace

from cutegen.drawing.colours import INK, PAPER, ink_on
from cutegen.drawing.cuts import cut
from cutegen.drawing.model import Figure, Grid, Legend, Panel, Swatch, Timeline
from cutegen.drawing.svg_panels import DOTS, LABEL, GridBox, TimelineBox
from cutegen.drawing.svg_parts import FONTS, SOFT_INK, line, number, rect, text, text_width, wrap

MARGIN, GAP, LINE = 24.0, 28.0, 18.0  # around a figure; between its parts; of text
ARROW, REACH = 76.0, 16.0  # the room of an arrow between two panels, and how far it stays away from them
HEADLINE, REMARK, SWATCH = 17.0, 12.0, 22.0  # font sizes, and the side of a legend's box
MOST_WIDTH, BARE_WIDTH = 1760.0, 1540.0  # of panels in a row, and of one; where code stands beside them
BARE_ALONE = 980.0  # of a panel alone, where code stands beside it
BARE_HALF = 690.0  # of a panel of several that an arrow joins, where code stands beside them
LEAST_COLUMNS = 8  # of a grid that is cut so that two stand side by side
MOST_ROWS, FEWER_ROWS = 32, 16  # of cells, in a panel alone and in one of several
LEAST_WIDTH, TITLE_WIDTH = 400.0, 760.0  # so that captions are no columns; that titles and legends may ask for

Box = GridBox | TimelineBox


def render_svg(figure: Figure) -> str:
    """The figure as a standalone SVG document. Grids are cut to fit."""
    return svg_text(svg_element(figure))


def svg_text(element: ET.Element) -> str:
    return ET.tostring(element, encoding="unicode") + "\n"


def svg_element(figure: Figure) -> ET.Element:
    """The figure as an element with its size in pixels."""
    between = arrow_room(figure) if figure.arrows else GAP
    figure = fitted(figure, MOST_WIDTH, (MOST_WIDTH - between * len(figure.arrows)) / len(figure.panels))
    boxes = _boxes(figure)
    across = sum(box.width for box in boxes) + between * (len(boxes) - 1)
    side_by_side = across <= MOST_WIDTH
    inner = max(
        max(LEAST_WIDTH, min(TITLE_WIDTH, text_width(figure.title, HEADLINE))),
        min(TITLE_WIDTH, _legend_width(figure.legend)),
        across if side_by_side else max(box.width for box in boxes),
    )

    root = _root(figure.name, figure.title, " ".join(figure.remarks()))
    background = rect(root, 0, 0, 0, 0, PAPER)
    y = _lines(root, wrap(figure.title, inner, HEADLINE), MARGIN, HEADLINE, 24, INK, "600") + GAP / 2
    y = _panels(root, figure, boxes, y, between, side_by_side)
    if figure.legend is not None:
        y = _legend(root, figure.legend, figure.palette, y + GAP, inner)
    if figure.remarks():
        lines = [part for remark in figure.remarks() for part in wrap(remark, inner, REMARK)]
        y = _lines(root, lines, y + GAP / 2, REMARK, LINE, SOFT_INK, "400")
    _size(inner + 2 * MARGIN, y + MARGIN, root, background)
    return root


def panel_elements(figure: Figure) -> list[ET.Element]:
    """Each panel of a figure that is `fitted`, as an element with its size in pixels.

    All that is around panels (title, legend, arrows and remarks) is left to whoever places them.
    """
    elements = []
    for i, (panel, box) in enumerate(zip(figure.panels, _boxes(figure), strict=True)):
        about = " ".join(figure.remarks()) if i == 0 else ""
        root = _root(f"{figure.name}-{i}", panel.title, about)
        box.draw(root, 1, 1, figure.palette)
        _size(box.width + 2, box.height + 2, root)
        elements.append(root)
    return elements


def arrow_room(figure: Figure) -> float:
    """The pixels between panels that an arrow joins: enough for its tip and for the longest word of its label."""
    words = [word for label in figure.arrows for word in label.split()]
    return max([ARROW, *(text_width(word, LABEL) + 2 * REACH for word in words)])


def fitted(figure: Figure, most: float, side: float) -> Figure:
    """The figure with its panels cut to at most so many pixels: `most` for a panel alone, `side` for each of several.

    Only panels that arrows join are cut to stand side by side, as far as that leaves enough of them.
    """
    titled = len(figure.panels) > 1
    wide = tuple(_fit(panel, titled, most) for panel in figure.panels)
    if not figure.arrows:
        return replace(figure, panels=wide)
    narrow = tuple(_fit(panel, titled, side) for panel in wide)
    enough = all(
        isinstance(n, Grid)
        and isinstance(w, Grid)
        and len(n.columns.labels) >= min(LEAST_COLUMNS, len(w.columns.labels))
        for n, w in zip(narrow, wide, strict=True)
    )
    return replace(figure, panels=narrow if enough else wide)


def _size(width: float, height: float, root: ET.Element, *others: ET.Element) -> None:
    for element in (root, *others):
        element.set("width", number(width))
        element.set("height", number(height))
    root.set("viewBox", f"0 0 {number(width)} {number(height)}")


def _boxes(figure: Figure) -> list[Box]:
    titled = len(figure.panels) > 1
    return [GridBox(p, titled) if isinstance(p, Grid) else TimelineBox(p, titled) for p in figure.panels]


def _root(name: str, title: str, description: str) -> ET.Element:
    """The root element of a picture, with a title and a description for those who do not see it."""
    names = f"{name}-title", f"{name}-desc"
    about = {"role": "img", "aria-labelledby": " ".join(names), "font-family": FONTS}
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **about})
    ET.SubElement(root, "title", {"id": names[0]}).text = title
    ET.SubElement(root, "desc", {"id": names[1]}).text = description or title
    return root


def _fit(panel: Panel, titled: bool, most: float) -> Panel:
    if isinstance(panel, Timeline):
        line_up = TimelineBox(panel, titled)
        return panel.first(max(1, int((most - line_up.left) / line_up.tick_width)))
    box = GridBox(panel, titled)
    return cut(panel, FEWER_ROWS if titled else MOST_ROWS, max(1, int((most - box.left - DOTS) / box.cell_width)))


def _lines(root: ET.Element, lines: Sequence[str], y: float, size: float, step: float, ink: str, weight: str) -> float:
    """Draws lines of text from the height `y` on; gives the height below them."""
    for part in lines:
        text(root, MARGIN, y + step / 2, part, size, anchor="start", fill=ink, font_weight=weight)
        y += step
    return y


def _panels(
    root: ET.Element, figure: Figure, boxes: Sequence[Box], y: float, between: float, side_by_side: bool
) -> float:
    x, high = MARGIN, max(box.height for box in boxes)
    for i, box in enumerate(boxes):
        box.draw(root, x, y, figure.palette)
        if i + 1 == len(boxes):
            break
        label = figure.arrows[i] if figure.arrows else None
        if side_by_side:
            x += box.width + between
            if label is not None:
                _arrow(root, x - between + REACH, y + high / 2, x - REACH, y + high / 2, label)
        else:
            y += box.height + between
            if label is not None:
                _arrow(root, MARGIN + 40, y - between + REACH, MARGIN + 40, y - REACH, label)
    return y + (high if side_by_side else boxes[-1].height)


def _arrow(root: ET.Element, x1: float, y1: float, x2: float, y2: float, label: str) -> None:
    """Draws an arrow to the right with its label above, or down with its label beside."""
    line(root, x1, y1, x2, y2, 2)
    down = x1 == x2
    tips = [(x2 - 6, y2 - 8), (x2 + 6, y2 - 8)] if down else [(x2 - 8, y2 - 6), (x2 - 8, y2 + 6)]
    points = " ".join(f"{number(x)},{number(y)}" for x, y in ((x2, y2), *tips))
    ET.SubElement(root, "polygon", {"points": points, "fill": INK})
    if label and down:
        text(root, x1 + 14, (y1 + y2) / 2, label, REMARK, anchor="start")
    elif label:
        parts = wrap(label, x2 - x1 + 1, LABEL)
        for i, part in enumerate(reversed(parts)):
            text(root, (x1 + x2) / 2, y1 - 14 - i * 14, part, LABEL)


def _legend_width(legend: Legend | None) -> float:
    """The width of a legend in one row, in pixels."""
    if legend is None:
        return 0
    return text_width(legend.title, REMARK) + 12 + sum(_patch(swatch) + 4 for swatch in legend.swatches)


def _patch(swatch: Swatch) -> float:
    return max(SWATCH, text_width(swatch.text, LABEL) + 10)


def _legend(root: ET.Element, legend: Legend, palette: Sequence[str], y: float, width: float) -> float:
    """Draws a legend, boxes with what their colour means, in rows; gives the height below them."""
    x = MARGIN
    text(root, x, y + SWATCH / 2, legend.title, REMARK, anchor="start", fill=SOFT_INK)
    x += text_width(legend.title, REMARK) + 12
    for swatch in legend.swatches:
        fill = palette[swatch.colour]
        room, gap = _patch(swatch), 4 if legend.apart else 0
        if x + room > MARGIN + width:
            x, y = MARGIN, y + SWATCH + 4
        rect(root, x, y, room, SWATCH, fill, **{"rx": "3"} if legend.apart else {})
        text(root, x + room / 2, y + SWATCH / 2, swatch.text, LABEL, fill=ink_on(fill))
        x += room + gap
    return y + SWATCH
