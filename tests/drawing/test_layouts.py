"""Cells show the values of the layout: every picture of a layout, compared with counting by hand."""

from __future__ import annotations

from math import gcd
from typing import Any

import pytest
from drawing_kit import cells, extent, grids, layouts, quick, value_at
from hypothesis import assume, given
from hypothesis import strategies as st
from tensor_layouts import Layout, Swizzle, compose

from cutegen.drawing.colours import thread_colours
from cutegen.drawing.copies import draw_copy, draw_thread_copy
from cutegen.drawing.grids import MOST_COLUMNS, MOST_ROWS, DrawingError
from cutegen.drawing.model import Figure
from cutegen.drawing.offsets import draw_banks, draw_layout
from cutegen.drawing.requests import draw_layouts
from cutegen.drawing.threads import Partition, draw_thread_values, tile_grid
from cutegen.layouts import make_layout_tv


def coordinate_of(shape: Any, index: int) -> Any:
    if isinstance(shape, int):
        return index
    parts = []
    for part in shape:
        parts.append(coordinate_of(part, index % extent(part)))
        index //= extent(part)
    return tuple(parts)


@quick
@given(layouts(least=2))
def test_cells_of_a_layout_hold_its_offsets(layout: tuple[Any, Any]) -> None:
    shape, stride = layout
    figure = draw_layout(Layout(shape, stride))
    (grid,) = grids(figure)
    rows, columns = extent(shape[0]), extent(shape[1])
    assert (grid.rows.size, grid.columns.size) == (rows, columns)
    assert (len(grid.cells), len(grid.cells[0])) == (min(rows, MOST_ROWS), min(columns, MOST_COLUMNS))
    for i, j, cell in cells(grid):
        offset = value_at(shape[:2], stride[:2], i + rows * j)
        assert cell.facts["offset"] == offset and cell.lines == (str(offset),)
        coord = coordinate_of(shape[:2], i + rows * j)
        assert cell.facts["coordinate"][:2] == coord
        assert all(extent(part) == 1 or x == coordinate_of(part, 0)
                   for part, x in zip(shape[2:], cell.facts["coordinate"][2:], strict=True))  # fmt: skip
    hidden = [part for part in shape[2:] if extent(part) > 1]
    assert bool(figure.notes) == bool(hidden)


@quick
@given(layouts(least=1, most=1, sizes=9))
def test_a_layout_of_one_mode_is_wrapped(layout: tuple[Any, Any]) -> None:
    shape, stride = layout
    (grid,) = grids(draw_layout(Layout(shape, stride)))
    found = [cell.facts["offset"] for _, _, cell in cells(grid) if cell.facts]
    assert found == [value_at(shape, stride, i) for i in range(extent(shape))]
    assert all(not cell.lines for _, _, cell in cells(grid) if not cell.facts)


@quick
@given(layouts(least=2, most=2))
def test_colours_rise_with_offsets(layout: tuple[Any, Any]) -> None:
    figure = draw_layout(Layout(*layout))
    (grid,) = grids(figure)
    found = sorted((cell.facts["offset"], cell.colour) for _, _, cell in cells(grid))
    colours = [colour for _, colour in found]
    assert colours == sorted(colours) and max(colours) < len(figure.palette)


def test_heavier_lines_stand_where_a_mode_starts_anew() -> None:
    (grid,) = grids(draw_layout(Layout(((2, 3), (4, 2)))))
    assert grid.rows.breaks == (2, 4) and grid.columns.breaks == (4,)
    assert grid.rows.labels == ("(0,0)", "(1,0)", "(0,1)", "(1,1)", "(0,2)", "(1,2)")


@quick
@given(layouts(least=2, most=2), st.sampled_from([1, 2, 4, 8]))
def test_banks_are_those_of_the_bytes(layout: tuple[Any, Any], width: int) -> None:
    (grid,) = grids(draw_banks(Layout(*layout), width))
    for _, _, cell in cells(grid):
        start = cell.facts["offset"] * width
        assert set(cell.facts["banks"]) == {byte // 4 % 32 for byte in range(start, start + width)}
        assert cell.colour == start // 4 % 32


@pytest.mark.parametrize(
    ("layout", "width", "down", "across"),
    [
        ("(32,32):(32,1)", 4, "a 32-way bank conflict", "no bank conflict"),
        ("(32,32):(33,1)", 4, "no bank conflict", "no bank conflict"),
        ("(32,32):(32,1)", 2, "a 16-way bank conflict", "no bank conflict"),
        ("S<5,0,5> o 0 o (32,32):(32,1)", 4, "no bank conflict", "no bank conflict"),
        ("(32,32):(1,16)", 8, "a 2-way bank conflict", "a 32-way bank conflict"),
    ],
)
def test_the_caption_says_how_many_lanes_meet_in_a_bank(layout: str, width: int, down: str, across: str) -> None:
    caption = draw_layouts([layout], element_bytes=width).caption
    assert caption == f"32 lanes along mode 0: {down}. 32 lanes along mode 1: {across}."


def owners_by_hand(shape: Any, stride: Any) -> dict[int, list[list[int]]]:
    threads, values = extent(shape[0]), extent(shape[1])
    found: dict[int, list[list[int]]] = {}
    for value in range(values):
        for thread in range(threads):
            place = value_at(shape[0], stride[0], thread) + value_at(shape[1], stride[1], value)
            found.setdefault(place, []).append([thread, value])
    return found


@quick
@given(layouts(least=2, most=2, sizes=4), st.integers(1, 12))
def test_an_element_names_all_its_owners(layout: tuple[Any, Any], rows: int) -> None:
    shape, stride = layout
    expected = owners_by_hand(shape, stride)
    columns = -(-(max(expected) + 1) // rows)
    assume(rows > 1 and 1 < columns <= 32)
    figure = draw_thread_values(Layout(shape, stride), (rows, columns))
    (grid,) = grids(figure)
    assert (len(grid.cells), len(grid.cells[0])) == (rows, columns)
    for i, j, cell in cells(grid):
        mine = expected.get(i + rows * j, [])
        assert cell.facts == {"elements": 1, "owners": mine}
        assert (cell.colour is None) == (not mine) == (cell.lines == ("·",))
    text = " ".join(figure.notes)
    assert ("meet in one element" in text) == any(len(mine) > 1 for mine in expected.values())
    assert ("nobody's" in text) == (len(expected) < rows * columns)


PAIRS = st.tuples(st.integers(0, 3), st.integers(0, 3))


@quick
@given(PAIRS, PAIRS, st.booleans())
def test_cells_that_elements_share_lose_none(
    threads: tuple[int, int], values: tuple[int, int], last_first: bool
) -> None:
    t, v = ([2**x for x in extents] for extents in (threads, values))

    def compact(shape: list[int]) -> Layout:
        return Layout(tuple(shape), (shape[1], 1) if last_first else (1, shape[0]))

    tiler, tv = make_layout_tv(compact(t), compact(v))
    expected = owners_by_hand(tv.shape, tv.stride)
    (grid,) = grids(draw_thread_values(tv, tiler))
    met = [tuple(owner) for _, _, cell in cells(grid) for owner in cell.facts.get("owners", [])]
    assert len(met) == len(set(met)) == len(expected)
    for _, _, cell in cells(grid):
        if cell.facts and cell.facts["elements"] > 1:
            assert len({thread for thread, _ in cell.facts["owners"]}) == 1


@quick
@given(
    st.sampled_from([(64, 40), (48, 96), (1, 128), (192, 1), (34, 5), (8, 72)]),
    st.sampled_from([(1, 1), (2, 4), (4, 2), (1, 8)]),
    st.lists(st.tuples(st.integers(0, 200), st.sampled_from(["nobody", "another", "both"])), max_size=2),
    st.sampled_from(["alone", "alone", "shared", "gaps"]),
)
def test_elements_share_cells_only_where_one_thread_has_them(
    shape: tuple[int, int], block: tuple[int, int], odd: list[tuple[int, str]], all_over: str
) -> None:
    """Threads have blocks of a tile, alone or not, but in some places nobody, another thread, or two of them."""
    rows, columns = shape
    owners = {
        i + rows * j: [(i // block[0] + 64 * (j // block[1]), i % block[0] + block[0] * (j % block[1]))]
        for j in range(columns)
        for i in range(rows)
    }
    for place, met in owners.items():
        if all_over == "shared":
            met.append((9999, place))
        elif all_over == "gaps" and place // rows % 16 < 8:
            met.clear()
    for place, what in odd:
        place %= rows * columns
        owners[place] = {"nobody": [], "another": [(9999, 0)], "both": [(0, 77), (9999, 1)]}[what]
    found = Partition(10000, shape, {place: tuple(met) for place, met in owners.items() if met})
    grid = tile_grid("", found, thread_colours(10000), ("i", "j"))
    for _, _, cell in cells(grid):
        if cell.facts and cell.facts["elements"] > 1 and cell.facts["owners"]:
            (first, *_), values = zip(*cell.facts["owners"], strict=True)
            assert [list(owner) for owner in cell.facts["owners"]] == [
                [first, values[0] + i] for i in range(len(values))
            ]
            assert cell.facts["elements"] == len(values)
    drawn = [tuple(owner) for _, _, cell in cells(grid) for owner in cell.facts.get("owners", [])]
    if grid.left_out == "":
        assert sorted(drawn) == sorted(owner for met in owners.values() for owner in met)
    if not odd and all_over == "alone" and min(shape) > 1:  # as many as may, where single elements have no room
        runs = (gcd(block[0], rows), 1) if block[0] > 1 else (1, gcd(block[1], columns))
        steps = [run if side > 32 else 1 for run, side in zip(runs, shape, strict=True)]
        assert [grid.rows.step, grid.columns.step] == steps


def test_the_map_of_the_add_notebook_is_drawn_whole() -> None:
    figure = draw_layouts(["((32,4),(4,4)):((64,4),(16,1))"], threads=True, tile="16,128")
    (grid,) = grids(figure)
    assert (grid.rows.step, grid.columns.step) == (1, 4) and grid.left_out == ""
    for i, j, cell in cells(grid):
        assert cell.lines == (f"T{i // 4 * 32 + j}", f"V{i % 4 * 4}-{i % 4 * 4 + 3}")
    assert "A cell is 4 consecutive values of one thread." in figure.notes


@pytest.mark.parametrize(
    ("layout", "tile"),
    [
        ("((2,2),(2,3)):((2,12),(1,4))", "4 x 6"),
        ("((32,4),(4,4)):((64,4),(16,1))", "16 x 128"),
        ("(8,4):(4,1)", "32 x 1"),
    ],
)
def test_a_tile_that_was_not_given_is_guessed_and_said(layout: str, tile: str) -> None:
    figure = draw_layouts([layout], threads=True)
    assert figure.title == f"{layout} on a tile of {tile}"
    assert figure.notes[0] == f"The width of the tile is unknown: {tile} is assumed, see --tile."


def test_make_layout_tv_says_its_tile() -> None:
    figure = draw_layouts(["make_layout_tv((4,32):(32,1), (4,4):(4,1))"])
    assert figure.title == "((32,4),(4,4)):((64,4),(16,1)) on a tile of 16 x 128"
    assert not any("assumed" in note for note in figure.notes)


def test_modes_after_the_second_are_told_to_be_at_0() -> None:
    figure = draw_layouts(["(8,(2,2,2)):(1,(8,16,32))"], threads=True, tile="8,1,2,4")
    (grid,) = grids(figure)
    assert (grid.rows.name, grid.columns.name) == ("mode 0", "mode 2")
    assert "A slice: only coordinate 0 of mode 3 (size 4) is drawn." in figure.notes
    assert [cell.lines for _, _, cell in cells(grid)][:2] == [("T0", "V0"), ("T0", "V1")]


def test_a_layout_of_more_modes_says_what_slice_is_drawn() -> None:
    assert draw_layouts(["(2,2,2):(1,2,4)"]).notes == ("A slice: only coordinate 0 of mode 2 (size 2) is drawn.",)
    (note,) = draw_layouts(["(2,2,3,1,(2,2))"]).notes
    assert note == "A slice: only coordinate 0 of mode 2 (size 3) and of mode 4 (size 4) is drawn."


@quick
@given(layouts(least=2, most=2, sizes=4))
def test_memory_of_a_copy_holds_what_the_layout_puts_there(layout: tuple[Any, Any]) -> None:
    shape, stride = layout
    compact = Layout(shape)
    figure = draw_copy(Layout(shape, stride), compact)
    for grid, (its_shape, its_stride) in zip(
        grids(figure), ((shape, stride), (compact.shape, compact.stride)), strict=True
    ):
        assume(grid.left_out == "")
        found = {c.facts["offset"]: c.facts["coordinates"] for _, _, c in cells(grid) if c.facts}
        expected: dict[int, list[Any]] = {}
        for i in range(extent(shape)):
            expected.setdefault(value_at(its_shape, its_stride, i), []).append(coordinate_of(shape, i))
        assert {offset: coords for offset, coords in found.items() if coords} == expected
        assert sorted(found) == list(range(max(expected) + 1))


def test_an_element_keeps_its_colour_in_a_copy() -> None:
    source, destination = grids(draw_copy(Layout((4, 8), (8, 1)), Layout((4, 8), (1, 5))))

    def colours(grid: Any) -> dict[Any, Any]:
        return {c.facts["coordinates"][0]: c.colour for _, _, c in cells(grid) if c.facts.get("coordinates")}

    assert colours(source) == colours(destination) and len(colours(source)) == 32


def test_a_copy_by_threads_has_one_palette() -> None:
    figure = draw_thread_copy(Layout((8, 4), (4, 1)), Layout((8, 4), (1, 8)), (8, 4))
    source, destination = grids(figure)
    hues = {cell.lines[0]: cell.colour for _, _, cell in cells(source)}
    assert len(hues) == 8 and all(hues[cell.lines[0]] == cell.colour for _, _, cell in cells(destination))


def test_a_swizzle_moves_what_it_should() -> None:
    layout = compose(Swizzle(3, 0, 3), Layout((8, 8), (8, 1)))
    (grid,) = grids(draw_layout(layout))
    assert [[cell.facts["offset"] for cell in row] for row in grid.cells] == [
        [8 * i + (i ^ j) for j in range(8)] for i in range(8)
    ]


def test_what_is_cut_is_said() -> None:
    figure = draw_layout(Layout((1000, 300)))
    (grid,) = grids(figure)
    assert (len(grid.cells), len(grid.cells[0])) == (MOST_ROWS, MOST_COLUMNS)
    assert figure.remarks()[-1] == "Only 0-63 of 1000 (mode 0) and 0-127 of 300 (mode 1) are drawn."


@pytest.mark.parametrize(
    ("texts", "options", "message", "help"),
    [
        (["(4,8):(8,1"], {}, "never closed", ""),
        (["size((4,8))"], {}, "not a layout", "a layout is written"),
        (["(4,8)"], {"threads": True, "tile": "4,4"}, "reaches place 31 and a tile of 4 x 4 has 16", "larger --tile"),
        (["4:1"], {"threads": True}, "not a thread-value layout", "leave out --tv"),
        (["(4,8)"], {"threads": True, "tile": "4,x"}, "is not the shape of a tile", "16,128"),
        (["(4,8)"], {"threads": True, "tile": "0,8"}, "is not the shape of a tile", "16,128"),
        (["(4,8)"], {"tile": "4,8"}, "a tile is for thread-value layouts", "--tv"),
        (["(4,8)", "(4,8)"], {"element_bytes": 4}, "banks are drawn of one layout", "leave out"),
        (["(4,8)", "(4,4)"], {}, "32 coordinates", "as many"),
        (["(4,8)", "(8,4)"], {"threads": True}, "has 4 threads and the destination 8", "the same threads"),
        (["(4,8)"] * 3, {}, "one or two layouts", None),
        (["(4096,4096)"], {"threads": True}, "16777216 coordinates", "a part"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    texts: list[str], options: dict[str, Any], message: str, help: str | None
) -> None:
    with pytest.raises(DrawingError, match=message) as caught:
        draw_layouts(texts, **options)
    assert caught.value.help is None if help is None or not caught.value.help else help in caught.value.help


def test_pictures_are_the_same_each_time() -> None:
    def draw() -> list[Figure]:
        return [draw_layouts(["(4,8):(8,1)"]), draw_layouts(["((2,2),(2,3)):((2,12),(1,4))"], threads=True)]

    assert draw() == draw()
