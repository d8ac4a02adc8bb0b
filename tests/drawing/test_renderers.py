"""Text, SVG and PNG show what the picture holds, all of it, where it fits, legibly."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from drawing_kit import SVG, cells, decode_png, figure, figures, grids, layouts, module, quick, texts
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from specs_kit import ROOT
from tensor_layouts import Layout

from cutegen.drawing.colours import PAPER, contrast
from cutegen.drawing.cuts import cut
from cutegen.drawing.data import as_json
from cutegen.drawing.files import render
from cutegen.drawing.model import Axis, Bar, Cell, Figure, Grid, Legend, Mark, Swatch, Timeline
from cutegen.drawing.png import ZOOM, render_png
from cutegen.drawing.requests import draw_layouts
from cutegen.drawing.svg import MOST_ROWS, MOST_WIDTH, render_svg
from cutegen.drawing.svg_parts import text_width, wrap
from cutegen.drawing.text import PLAIN, render_text

NARROW = Grid(
    "a", Axis("", 1, ("",)), Axis("what is wider than its cells", 1, ("0",)), ((Cell(("0",), 0, "0"),),), ("",)
)
BUSY = Timeline("b", ("c",), ("0", "1"), 2, (Bar(0, 0, 2, "d", 0, "d"),), (Mark(0, "a long beginning"), Mark(1, "end")))


NAMES = (
    "layout",
    "nested",
    "one mode",
    "large",
    "threads",
    "warps",
    "broadcast",
    "banks",
    "copy",
    "thread copy",
    "gemm tile-walk",
    "gemm pipeline",
    "gemm copy-a",
    "gemm copy-b",
    "gemm banks-a",
    "gemm banks-b",
    "gemm accumulators",
    "row threads",
    "row walks",
    "row reduction",
    "row pieces",
    "long names",
    "vector copy",
)


@cache
def all_figures() -> dict[str, Figure]:
    """By name; those of kernels are drawn only where tests of this file run."""
    made = {
        "layout": draw_layouts(["(4,8):(8,1)"]),
        "nested": draw_layouts(["((2,2),(2,4)):((1,4),(2,8))"]),
        "one mode": draw_layouts(["24:3"]),
        "large": draw_layouts(["(500,300)"]),
        "threads": draw_layouts(["((2,2),(2,3)):((2,12),(1,4))"], threads=True),
        "warps": draw_layouts(["((32,4),(4,4)):((64,4),(16,1))"], threads=True),
        "broadcast": draw_layouts(["((4,8),(2,2)):((0,1),(16,8))"], threads=True, tile="16,4"),
        "banks": draw_layouts(["(32,32):(33,1)"], element_bytes=4),
        "copy": draw_layouts(["(4,8):(8,1)", "(4,8):(1,5)"]),
        "thread copy": draw_layouts(["(8,4):(4,1)", "(8,4):(1,8)"], threads=True, tile="8,4"),
    }
    made |= {f"gemm {drawn.name}": drawn for drawn in figures(module("sgemm", "sgemm_kkm"))}
    made |= {f"row {drawn.name}": drawn for drawn in figures(module("rms_norm_bwd"))}
    made["row pieces"] = figure(module("cross_entropy_vocabulary"), "pieces")
    made["long names"] = Figure("names", "Names longer than what they name", (NARROW, BUSY), ("#0072b2",))
    made["vector copy"] = figure(module("sgemm_mmajor"), "copy-a")
    return made


@cache
def svg(name: str) -> ET.Element:
    return ET.fromstring(render_svg(all_figures()[name]))


def drawn(name: str) -> Figure:
    """The figure as far as its SVG goes: that cuts after so many rows and columns."""
    whole = all_figures()[name]
    tooltips = {title.text for title in svg(name).iter(f"{SVG}title")}

    def seen(grid: Grid) -> Grid:
        rows = [row for row in grid.cells if row[0].about in tooltips]
        return grid.first(len(rows), sum(cell.about in tooltips for cell in grid.cells[0] if cell.about != "nothing"))

    return replace(whole, panels=tuple(seen(p) if isinstance(p, Grid) else p for p in whole.panels))


# ---------------------------------------------------------------------------------------------------------- svg


@pytest.mark.parametrize("name", NAMES)
def test_svg_is_wellformed_and_tells_what_it_shows(name: str) -> None:
    figure, root = all_figures()[name], svg(name)
    assert root.tag == f"{SVG}svg" and root.get("role") == "img"
    names = (root.get("aria-labelledby") or "").split()
    by_id = {element.get("id"): element.text for element in root if element.get("id")}
    assert by_id[names[0]] == figure.title and by_id[names[1]]
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    ground = next(root.iter(f"{SVG}rect"))
    assert (ground.get("fill"), ground.get("width"), ground.get("height")) == (
        PAPER,
        root.get("width"),
        root.get("height"),
    )
    for rect in root.iter(f"{SVG}rect"):
        x, y, w, h = (float(rect.get(key, "")) for key in ("x", "y", "width", "height"))
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height


@pytest.mark.parametrize("name", NAMES)
def test_svg_holds_every_label_and_remark(name: str) -> None:
    figure, root = all_figures()[name], svg(name)
    found, shown = texts(root), drawn(name)
    for grid in grids(shown):
        labels = [line for _, _, cell in cells(grid) for line in cell.lines]
        written, counts = Counter(labels), Counter(found)
        for label in (*written, *grid.rows.labels, *grid.columns.labels):
            assert counts[label] >= max(1, written[label])
        for heading in (grid.rows.heading, grid.columns.heading):
            assert heading in found
    for panel in figure.panels:
        if isinstance(panel, Timeline):
            assert {*panel.lanes, *panel.ticks, *(bar.label for bar in panel.bars)} <= set(found)
    whole = " ".join(found)
    assert all(word in whole for label in figure.arrows for word in label.split())
    assert all(" ".join(remark.split()) in whole for remark in (figure.title, *shown.remarks()))
    if figure.legend is not None:
        assert all(swatch.text in found for swatch in figure.legend.swatches)


@pytest.mark.parametrize("name", NAMES)
def test_svg_says_what_it_cuts(name: str) -> None:
    figure, root = all_figures()[name], svg(name)
    text = " ".join(texts(root))
    for grid, shown in zip(grids(figure), grids(drawn(name)), strict=True):
        for axis, count in ((grid.rows, len(shown.cells)), (grid.columns, len(shown.cells[0]))):
            last = min(count * axis.step, axis.size) - 1
            assert (f"0-{last} of {axis.size} ({axis.name})" in text) == (last + 1 < axis.size)
    assert float(root.get("width", "")) <= MOST_WIDTH + 100
    assert all(len(grid.cells) <= MOST_ROWS for grid in grids(drawn(name)))


@pytest.mark.parametrize("name", NAMES)
def test_text_of_an_svg_can_be_read(name: str) -> None:
    """Large enough, on a ground that contrasts, and within its cell."""
    root = svg(name)
    assert min(float(text.get("font-size", "")) for text in root.iter(f"{SVG}text")) >= 10
    for text in root.findall(f"{SVG}text"):
        own = [r for r in root.findall(f"{SVG}rect") if _inside(text, r)]  # the innermost ground is drawn last
        assert contrast(text.get("fill", ""), own[-1].get("fill", "")) >= 4.5
    for place in root.iter(f"{SVG}g"):
        (rect,), labels = place.findall(f"{SVG}rect"), place.findall(f"{SVG}text")
        for label in labels:
            assert contrast(label.get("fill", ""), rect.get("fill", "")) >= 4.5
            assert text_width(label.text or "", float(label.get("font-size", ""))) <= float(rect.get("width", ""))
            assert _inside(label, rect)


def _inside(text: ET.Element, rect: ET.Element) -> bool:
    x, y, w, h = (float(rect.get(key, "")) for key in ("x", "y", "width", "height"))
    return x <= float(text.get("x", "")) <= x + w and y <= float(text.get("y", "")) <= y + h


@pytest.mark.parametrize("name", NAMES)
def test_no_two_texts_meet_and_none_is_cut_off(name: str) -> None:
    """Apart from text itself, which may be a little wider than it is drawn, nothing is measured here as it is there."""
    root, found = svg(name), []
    for text in root.iter(f"{SVG}text"):
        size, x, y = (float(text.get(key, "")) for key in ("font-size", "x", "y"))
        if turned := text.get("transform"):
            _, x, y = map(float, re.findall(r"-?[\d.]+", turned))
        wide, middle = 0.95 * text_width(text.text or "", size), y - (0 if turned else 0.365 * size)
        left = {"middle": x - wide / 2, "end": x - wide}.get(text.get("text-anchor", "start"), x)
        box = (left, left + wide, middle - 0.365 * size, middle + 0.365 * size)
        if turned:
            box = (x - 0.365 * size, x + 0.365 * size, y - wide / 2, y + wide / 2)
        found.append((text.text, *box))
    for i, (text_a, left, right, top, bottom) in enumerate(found):
        assert left >= 0 and right <= float(root.get("width", "")), text_a
        for text_b, other_left, other_right, other_top, other_bottom in found[:i]:
            apart = right <= other_left or other_right <= left or bottom <= other_top or other_bottom <= top
            assert apart, (text_a, text_b)


def test_text_is_never_wider_than_thought() -> None:
    """Measured with the font itself: the advance of every printable character."""
    import ziafont

    font = ziafont.Font()
    for letter in map(chr, range(32, 127)):
        assert font.glyph(letter).advance() / font.info.layout.unitsperem <= text_width(letter, 1) + 1e-9, letter


@quick
@given(st.text("abc ,()0129", max_size=80), st.integers(30, 300))
def test_wrapped_text_loses_nothing_and_fits(text: str, width: int) -> None:
    lines = wrap(text, width, 12)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(text_width(line, 12) <= width for line in lines)


def test_markup_in_names_is_escaped() -> None:
    grid = Grid("<b>", Axis("&", 1, ("<",)), Axis("", 1, ("",)), ((Cell(("a<b",), 0, '"<&'),),), ("x",))
    figure = Figure("x", "<title> & more", (grid,), ("#440154",), Legend("<", (Swatch(0, "&"),)))
    assert {"<title> & more", "a<b", "&", "<"} <= set(texts(ET.fromstring(render_svg(figure))))


# ---------------------------------------------------------------------------------------------------------- png


@pytest.mark.parametrize("name", ["layout", pytest.param("gemm pipeline", marks=pytest.mark.sweep), "long names"])
def test_png_is_the_svg_with_its_text_drawn(name: str) -> None:
    figure, root = all_figures()[name], svg(name)
    image = decode_png(render_png(figure), 300)
    width, height = (float(root.get(key, "")) for key in ("width", "height"))
    assert abs(image.width - ZOOM * width) <= 1 and abs(image.height - ZOOM * height) <= 1
    ground = image.colours(0, 0, 8, 8)
    assert ground == {(255, 255, 255, 255)}
    # The title has ink, and so has a cell's label on the cell's colour.
    title = root.find(f"{SVG}text")
    assert title is not None
    x, y, size = (float(title.get(key, "")) for key in ("x", "y", "font-size"))
    box = [round(ZOOM * v) for v in (x, y - size, x + text_width(figure.title, size) / 2, y)]
    assert len(image.colours(*box)) > 10  # letters have soft edges
    place = next(iter(root.iter(f"{SVG}g")))
    rect = place.find(f"{SVG}rect")
    assert rect is not None
    x, y, w, h = (ZOOM * float(rect.get(key, "")) for key in ("x", "y", "width", "height"))
    found = image.colours(*(round(v) for v in (x + 4, y + 4, x + w - 4, y + h - 4)))
    fill = tuple(int((rect.get("fill") or "")[i : i + 2], 16) for i in (1, 3, 5))
    assert (*fill, 255) in found and len(found) > 10


def test_png_needs_no_font_of_the_machine() -> None:
    """The same bytes where fontconfig finds nothing."""
    script = (
        "import sys; from cutegen.drawing.requests import draw_layouts; from cutegen.drawing.png import render_png;"
        "sys.stdout.buffer.write(render_png(draw_layouts(['(4,8):(8,1)'])))"
    )
    bare = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "FONTCONFIG_FILE": "/nowhere", "HOME": "/nowhere"}
    made = subprocess.run([sys.executable, "-c", script], env=bare, capture_output=True, check=True)
    assert made.stdout == render_png(all_figures()["layout"])


# --------------------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("name", NAMES)
def test_text_fits_and_its_columns_stand_below_each_other(name: str, width: int) -> None:
    lines = [line.plain.rstrip() for line in render_text(all_figures()[name], width)]
    assert max(map(cell_len, lines)) <= width
    for i, line in enumerate(lines):
        if set(line) <= {"─", "┼", " "} and "┼" in line:  # a rule: every bar below it stands at one of its crosses
            crosses = [at for at, letter in enumerate(line) if letter == "┼"]
            bars = [at for at, letter in enumerate(lines[i + 1]) if letter == "│"]
            assert bars == crosses


@quick
@given(layouts(least=1, most=2), st.integers(30, 160))
def test_text_holds_what_it_does_not_declare_cut(layout: tuple[object, object], width: int) -> None:
    from cutegen.drawing.offsets import draw_layout

    figure = draw_layout(Layout(*layout))
    (grid,) = grids(figure)
    text = "\n".join(line.plain for line in render_text(figure, width))
    rows = [line.split("│", 1)[1].replace("│", " ") for line in text.splitlines() if "│" in line]
    expected = [[c.lines[0] for c in row if c.lines] for row in grid.cells]
    found = [row.replace("…", "").split() for row in rows if "…" not in row or row.split() != ["…"]]
    found = [row for row in found if row]
    said = " ".join(text.split())
    if "are drawn." not in said:
        assert found == expected
    else:
        columns = len(found[0])
        assert found == [row[:columns] for row in expected[: len(found)]]
        size = len(found) * grid.rows.step, columns * grid.columns.step
        for count, axis in zip(size, (grid.rows, grid.columns), strict=True):
            assert (f"0-{min(count, axis.size) - 1} of {axis.size} ({axis.name})" in said) == (count < axis.size)


def test_columns_are_cut_before_labels_lose_lines() -> None:
    def text(width: int) -> str:
        return "\n".join(line.plain for line in render_text(all_figures()["threads"], width))

    assert "T3 V5" in text(60) and "are drawn" not in text(60)
    assert "T2 V0" in text(44) and "Only 0-3 of 6 (mode 1) are" in text(44)
    # Hardly a column would be left.
    assert " T3 " in text(34) and "V5" not in text(34) and "labels lack the" in text(34)


@pytest.mark.parametrize("name", ["copy", "thread copy", "gemm copy-a", "vector copy"])
def test_a_copy_has_its_source_and_destination_side_by_side(name: str) -> None:
    """Cells of the destination stand right of all of the source's, from the same height on."""
    sides = [
        [(float(r.get("x", "")), float(r.get("y", "")), float(r.get("width", ""))) for r in rects]
        for rects in _cells_by_panel(name)
    ]
    source, destination = sides
    assert max(x + width for x, _, width in source) + 40 < min(x for x, _, _ in destination)
    assert min(y for _, y, _ in source) == min(y for _, y, _ in destination)


def _cells_by_panel(name: str) -> list[list[ET.Element]]:
    """Cells are drawn in order, panel by panel."""
    places = [rect for place in svg(name).findall(f"{SVG}g") for rect in place.findall(f"{SVG}rect")]
    counts = [sum(bool(cell.lines) for _, _, cell in cells(grid)) for grid in grids(drawn(name))]
    assert sum(counts) == len(places)
    return [places[: counts[0]], places[counts[0] :]]


def test_nothing_is_cut_where_there_is_room() -> None:
    assert tuple(all_figures()) == NAMES
    of_one_panel = {name: drawn for name, drawn in all_figures().items() if len(drawn.panels) == 1}
    assert len(of_one_panel) > 10
    for name, drawn in of_one_panel.items():
        whole = [line.plain for line in render_text(drawn, 4000, rows=1000)]
        grid_only = [line for line in whole if "│" in line]
        exactly = render_text(drawn, max(map(cell_len, grid_only)), rows=1000)
        assert [line.plain for line in exactly if "│" in line.plain] == grid_only, name


def test_labels_of_columns_stand_over_them() -> None:
    lines = [line.plain.rstrip() for line in render_text(draw_layouts(["((2,2),(2,2)):((1,4),(2,8))"]), 80)]
    assert lines[2:9] == [
        "mode 0  mode 1",
        "         (0,0) (1,0)  (0,1) (1,1)",
        "───────┼────────────┼────────────",
        " (0,0) │     0     2│     8    10",
        " (1,0) │     1     3│     9    11",
        "───────┼────────────┼────────────",
        " (0,1) │     4     6│    12    14",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_text_without_the_characters_of_boxes_is_ascii(name: str) -> None:
    lines = [line.plain for line in render_text(all_figures()[name], 100, "ascii")]
    assert all(line.isascii() for line in lines)
    assert lines == [line.plain.translate(PLAIN) for line in render_text(all_figures()[name], 100, "utf-8")]


@pytest.mark.parametrize("name", ["layout", "threads", "banks"])
def test_colours_of_the_terminal_are_those_of_the_figure(name: str) -> None:
    figure = all_figures()[name]
    used = {str(span.style) for line in render_text(figure, 120) for span in line.spans}
    colours = {match for style in used for match in re.findall(r"on (#[0-9a-f]{6})", style)}
    (grid,) = grids(figure)
    assert colours >= {figure.palette[c.colour] for _, _, c in cells(grid) if c.colour is not None}


# ------------------------------------------------------------------------------------------------- data, cutting


@pytest.mark.parametrize("name", NAMES)
def test_data_is_json_and_has_every_cell(name: str) -> None:
    figure = all_figures()[name]
    data = json.loads(json.dumps(as_json(figure)))
    assert data["title"] == figure.title and data["remarks"] == list(figure.remarks())
    for panel, found in zip(figure.panels, data["panels"], strict=True):
        if isinstance(panel, Grid):
            labels = [[cell["label"] for cell in row] for row in found["cells"]]
            assert labels == [[list(cell.lines) for cell in row] for row in panel.cells]
            assert found["rows"]["size"] == panel.rows.size and found["columns"]["drawn"] == panel.columns.drawn
        else:
            assert [bar["label"] for bar in found["bars"]] == [bar.label for bar in panel.bars]


def _plain_grid(rows: int, columns: int, breaks: tuple[int, ...] = ()) -> Grid:
    cell = Cell(("x",), 0, "x")
    down = Axis("down", rows, tuple(map(str, range(rows))), breaks=breaks)
    across = Axis("across", columns, tuple(map(str, range(columns))))
    return Grid("", down, across, ((cell,) * columns,) * rows, ("x",))


@quick
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 50), st.integers(1, 50))
def test_a_cut_is_within_its_limits_and_loses_little(
    rows: int, columns: int, most_rows: int, most_columns: int
) -> None:
    found = cut(_plain_grid(rows, columns), most_rows, most_columns)
    for axis, size, most in ((found.rows, rows, most_rows), (found.columns, columns, most_columns)):
        assert axis.drawn == size if size <= most else 2 * most <= 3 * axis.drawn <= 3 * most
        assert (f"({axis.name})" in found.left_out) == (axis.drawn < size)
    assert (len(found.cells), len(found.cells[0])) == (found.rows.drawn, found.columns.drawn)


def test_a_cut_prefers_the_end_of_a_mode_then_round_numbers() -> None:
    found = cut(_plain_grid(40, 40, breaks=(9, 18, 27)), 20, 37).rows
    assert found.drawn == 18 and found.breaks == (9,)
    assert cut(_plain_grid(40, 40), 20, 37).columns.drawn == 32
    assert cut(_plain_grid(40, 40), 7, 7).rows.drawn == 6
    assert cut(_plain_grid(40, 40), 1, 1).rows.drawn == 1


def test_a_timeline_is_cut_with_its_bars() -> None:
    (panel,) = all_figures()["gemm pipeline"].panels
    assert isinstance(panel, Timeline) and panel.left_out == ""
    part = panel.first(4)
    assert part.left_out == f"Only the first 4 of {panel.size} steps are drawn."
    assert max(bar.end for bar in part.bars) == 4 and all(mark.at < 4 for mark in part.marks)
    assert len(part.bars) == sum(bar.start < 4 for bar in panel.bars)


@pytest.mark.parametrize("kind", [".svg", ".png", ".txt"])
def test_files_are_the_same_each_time(kind: str) -> None:
    figure = all_figures()["threads"]
    assert render([figure], kind) == render([draw_layouts([figure.title.split(" on ")[0]], threads=True)], kind)
