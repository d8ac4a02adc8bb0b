"""The pictures of kernels, held to what the kernels do: counted by hand, or step by step as the mainloop goes."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from drawing_kit import ROOT, SVG, cells, grids, module
from hypothesis import HealthCheck, given, settings
from planning_specs import VALID, document
from rich.cells import cell_len

from cutegen.analysis import Access, accesses, conflicts
from cutegen.codegen import Module, generate
from cutegen.drawing.grids import MOST_COLUMNS, MOST_ROWS
from cutegen.drawing.kernels import draw_kernel
from cutegen.drawing.model import Figure, Grid, Timeline
from cutegen.drawing.pages import places_of
from cutegen.drawing.shared import draw_bank_use
from cutegen.drawing.svg import render_svg
from cutegen.drawing.text import render_text
from cutegen.drawing.walks import TILES, example_sizes, walk_of
from cutegen.language import SpecError
from cutegen.language.dtypes import Dtype
from cutegen.language.layouts import parse_layout

SPECS = sorted(path.stem for path in (ROOT / "specs").glob("*.yaml"))
GEMM: dict[str, Any] = {
    "cutegen": 1,
    "kernel": "work",
    "op": "gemm",
    "tensors": {
        "A": {"shape": ["M", "K"], "dtype": "f32", "major": "M"},
        "B": {"shape": ["N", "K"], "dtype": "f32", "major": "N"},
        "C": {"shape": ["M", "N"], "dtype": "f32", "major": "M", "role": "out"},
    },
    "compute": "C = A @ B.T",
}


def gemm(schedule: dict[str, Any], **more: Any) -> Module:
    """An m-major gemm with these keys in its schedule and these others."""
    return generate(yaml.safe_dump({**GEMM, "schedule": schedule, **more}), "x.yaml").modules[0]


def figure(of: Module, name: str) -> Figure:
    return next(figure for figure in draw_kernel(of.plan) if figure.name == name)


def grid_of(of: Module, name: str, panel: int = 0) -> Grid:
    found = figure(of, name).panels[panel]
    assert isinstance(found, Grid)
    return found


@pytest.mark.parametrize("spec", SPECS)
def test_every_kernel_has_pictures_that_all_renderers_draw(spec: str) -> None:
    figures = draw_kernel(module(spec).plan)
    assert figures and len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        assert re.fullmatch(r"[a-z0-9-]+", figure.name)
        assert figure.title in " ".join(render_svg(figure).split()) or "'" in figure.title
        assert render_text(figure, 100)[0].plain.startswith(figure.title[:20])
        for grid in grids(figure):
            assert all(cell.colour is None or cell.colour < len(figure.palette) for _, _, cell in cells(grid))
    assert draw_kernel(module(spec).plan) == figures


def one_access_to_a_cell(of: Module, drawn: Figure) -> list[int]:
    """Holds cells of threads and values to one access of every tensor that the figure shows, and their labels to what
    they are; how many elements cells have."""
    tensor = {"copy-a": "a", "copy-b": "b"}.get(drawn.name)
    operands = {side: getattr(of.plan, side).tensor.name for side in "ab" if of.plan.spec.op == "gemm"}
    shown = [operands[tensor]] if tensor else [t.name for t in of.plan.spec.tensors if t.name not in operands.values()]
    made = [a for a in accesses(of.plan) if a.path[1] != "workspace"]
    widths = {a.vector for a in made if a.tensor in shown and (tensor is None or a.space == "global")}
    found = []
    for number, grid in enumerate(grids(drawn)):
        if drawn.name.startswith("workspace-"):
            moved = [a for a in accesses(of.plan) if a.path[1] == "workspace" and a.tensor.lower() == drawn.name[-1]]
            widths = {a.vector for a in moved if a.kind == ("read", "write")[number]}
        if grid.line_names != ("thread", "value"):
            continue
        if "+ column" not in grid.columns.name:  # one mode, wrapped
            assert 1 in (grid.rows.step, grid.columns.step)
        for _, _, cell in cells(grid):
            owners = cell.facts.get("owners", [])
            if not owners or cell.facts["elements"] == 1 < len(owners):
                continue  # nobody's, or met by several
            assert len(owners) == cell.facts["elements"]
            found.append(len(owners))
            ((thread,), values) = {t for t, _ in owners}, [v for _, v in owners]
            assert all(len({v // width for v in values}) == 1 for width in widths)
            first, last = values[0], values[0] + len(values) - 1
            assert values == list(range(first, last + 1))
            assert cell.lines == (f"T{thread}", f"V{first}" if first == last else f"V{first}-{last}")
        if found and widths:
            assert max(found) <= min(widths)
    return found


@pytest.mark.parametrize(
    ("spec", "sizes"),
    [
        ("copy_tv", [8]),
        ("copy_inner", [8]),
        ("copy_inner_outer_fast", [8]),
        ("sgemm_mmajor", [4, 4, 4]),
        ("predicated_tile", [1]),
        ("sgemm_axpby", [1, 1, 1]),
    ],
)
def test_a_cell_is_exactly_one_access(spec: str, sizes: list[int]) -> None:
    of = module(spec)
    found = [one_access_to_a_cell(of, drawn) for drawn in draw_kernel(of.plan)]
    assert [set(counts) for counts in found if counts] == [{size} for size in sizes]


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(VALID)
def test_every_plan_that_can_be_made_can_be_drawn(text: str) -> None:
    try:
        of = generate(text, "x.yaml").modules[0]
    except SpecError:
        return
    figures = draw_kernel(of.plan)
    assert len({figure.name for figure in figures}) == len(figures)
    for drawn in figures:
        root = ET.fromstring(render_svg(drawn))
        assert drawn.title in " ".join(text.text or "" for text in root.iter(f"{SVG}text"))
        assert all(cell_len(line.plain.rstrip()) <= 100 for line in render_text(drawn, 100))
        assert places_of(drawn, of.regions), drawn.name
        one_access_to_a_cell(of, drawn)
        for grid in grids(drawn):
            found = [cell.facts.get("owners", []) for _, _, cell in cells(grid)]
            met = [tuple(owner) for owners in found for owner in owners]
            assert len(met) == len(set(met))  # nobody is drawn twice


# ------------------------------------------------------------------------------------------------ who has what


def elements(grid: Grid, row: int, column: int) -> list[tuple[int, int]]:
    """(row, column) of the elements of a cell, rows first."""
    down, across = grid.rows.step, grid.columns.step
    return [(row * down + i, column * across + j) for j in range(across) for i in range(down)]


def test_threads_of_a_thread_value_partition() -> None:
    grid = grid_of(module("add_tv"), "threads")  # threads (4,32):(32,1), values (4,4):(4,1)
    assert (grid.rows.name, grid.columns.name) == ("M", "N")
    for i, j, cell in cells(grid):
        expected = [[m // 4 * 32 + n // 4, m % 4 * 4 + n % 4] for m, n in elements(grid, i, j)]
        assert cell.facts["owners"] == expected


def test_threads_of_an_inner_outer_partition() -> None:
    grid = grid_of(module("copy_inner_outer"), "threads")  # tile 32 x 256, threads (8,32):(32,1)
    assert grid.rows.size == 32 and grid.columns.size == 256
    for i, j, cell in cells(grid):
        ((m, n),) = elements(grid, i, j)
        assert cell.facts["owners"] == [[m % 8 * 32 + n % 32, m // 8 + 4 * (n // 32)]]


def test_threads_of_an_inner_outer_partition_that_deal_out_accesses() -> None:
    tensor = {"shape": ["M", "N"], "dtype": "bf16"}
    tensors = {"S": tensor, "D": {**tensor, "role": "out"}}
    schedule = {"tiler": {"M": 16, "N": 64}, "thread_layout": "(8,4):(4,1)", "copy": {"bits": 128}}
    text = document("elementwise", tensors, "D = S", schedule)
    grid = grid_of(generate(text, "x.yaml").modules[0], "threads")
    assert (grid.rows.size, grid.columns.size) == (16, 64)
    met = []
    for i, j, cell in cells(grid):
        for (m, n), owner in zip(elements(grid, i, j), cell.facts["owners"], strict=True):
            thread, access = m % 8 * 4 + n // 8 % 4, m // 8 + 2 * (n // 32)
            assert owner == [thread, access * 8 + n % 8]
            met.append((m, n))
    assert sorted(met) == [(m, n) for m in range(16) for n in range(64)]


def test_threads_that_have_a_tile_each() -> None:
    grid = grid_of(module("add_vectorized"), "threads")  # tile 1 x 4, 256 threads along N
    found = [cell.facts["owners"] for _, _, cell in cells(grid)]
    assert found == [[[thread, value] for value in range(4)] for thread in range(256)]
    assert grid.rows.labels == tuple(str(128 * i) for i in range(8))


def test_threads_of_the_probe() -> None:
    grid = grid_of(module("probe_tv"), "threads")
    printed = {0: [0, 1, 4, 5, 8, 9], 1: [2, 3, 6, 7, 10, 11], 2: [12, 13, 16, 17, 20, 21], 3: [14, 15, 18, 19, 22, 23]}
    for thread, places in printed.items():  # as hardware printed them, in the third seed document
        for value, place in enumerate(places):
            assert grid.cells[0][place].facts["owners"] == [[thread, value]]


@pytest.mark.parametrize(("name", "mode"), [("copy-a", "M"), ("copy-b", "N")])
def test_copies_of_contiguous_elements(name: str, mode: str) -> None:
    of = module("sgemm_mmajor")  # threads (32,8):(1,32), four values along m
    for panel in (0, 1):
        grid = grid_of(of, name, panel)
        assert (grid.rows.name, grid.columns.name) == ("K", mode)
        for i, j, cell in cells(grid):
            assert cell.facts["owners"] == [[m // 4 + 32 * k, m % 4] for k, m in elements(grid, i, j)]
    assert figure(of, name).arrows == ("cp.async, 128 bits",)


def test_a_copy_that_turns_a_tile_has_padding_behind_it() -> None:
    of = module("sgemm", "sgemm_kkm")
    source, destination = grid_of(of, "copy-a", 0), grid_of(of, "copy-a", 1)
    assert (source.rows.name, source.columns.name, source.columns.size) == ("M", "K", 8)
    assert (destination.rows.name, destination.columns.size) == ("K", 132)
    for i, j, cell in cells(source):
        if j < 8 and i < len(destination.cells[0]):
            assert cell.facts["owners"] == destination.cells[j][i].facts["owners"]
    assert destination.columns.name == "M and 4 of padding"
    assert [cell.lines for cell in destination.cells[0][128:]] == [] or MOST_COLUMNS <= 128


def test_a_workspace_is_drawn_as_it_is_read_and_as_it_is_written() -> None:
    plan = module("sgemm_workspace").plan
    (drawn,) = [f for f in draw_kernel(plan) if f.name == "workspace-b"]
    read, written = grids(drawn)
    assert "B in global memory, K-major" in read.title and "B in its workspace, N-major" in written.title
    assert "256 threads move 16 elements each of a tile of 64 x 64" in drawn.caption
    assert any("B's workspace is written 4" in note for note in drawn.notes)
    (copy,) = [f for f in draw_kernel(plan) if f.name == "copy-b"]
    assert "B in its workspace, N-major" in grids(copy)[0].title


def test_accumulators_of_a_thread() -> None:
    grid = grid_of(module("sgemm_mmajor"), "accumulators")  # 16 x 16 threads, 4 neighbours along m and n, twice
    assert grid.left_out == ""
    for i, j, cell in cells(grid):
        expected = [
            [m % 64 // 4 + 16 * (n % 64 // 4), m % 4 + m // 64 * 4 + n % 4 * 8 + n // 64 * 32]
            for m, n in elements(grid, i, j)
        ]
        assert cell.facts["owners"] == expected


# ---------------------------------------------------------------------------------------------------- the grid


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec != "probe_tv"])
def test_blocks_have_the_tiles_that_the_code_gives_them(spec: str) -> None:
    """The block indices as the generated kernels compute them."""
    plan = module(spec).plan
    sizes, grid = example_sizes(plan), grid_of(module(spec), "tile-walk")
    modes = plan.spec.output.shape
    tiles = [-(-sizes[mode] // plan.tile[mode]) for mode in modes]
    partition = getattr(plan, "partition", "")
    expected: dict[str, set[tuple[int, ...]]] = {}
    for place in range(tiles[0] * (tiles[1] if len(tiles) > 1 else 1)):
        if plan.spec.op == "gemm":  # coord = (bidx, bidy, None), or the other way round
            tile = (place % tiles[0], place // tiles[0])
            block = f"{tile[0]},{tile[1]}"
        elif len(tiles) == 1:
            block, tile = str(place), (place,)
        else:  # tile_M, tile_N = divmod(bidx, tiles_N), or of bidx * THREADS + tidx; M first where D is M-major
            by_rows = plan.spec.output.major == modes[1]
            tile = divmod(place, tiles[1]) if by_rows else divmod(place, tiles[0])[::-1]
            block = str(place // plan.threads if partition == "inner" else place)
        expected.setdefault(block, set()).add(tile)
    for _, _, cell in cells(grid):
        start = cell.facts["start"]
        tile = tuple(start[mode] // plan.tile[mode] for mode in modes)
        assert tile in expected[cell.facts["block"]]
        cut_off = [m for m in modes if start[m] + _unit(grid, m) > sizes[m]]
        assert cell.facts["cut"] == cut_off and (("cut" in cell.lines) == bool(cut_off))
    drawn = {cell.facts["block"] for _, _, cell in cells(grid)}
    assert len(drawn) == len(expected) or grid.left_out
    assert {cell.facts["order"] for _, _, cell in cells(grid)} <= set(range(len(expected)))


def _unit(grid: Grid, mode: str) -> int:
    return {grid.rows.name: grid.rows.step, grid.columns.name: grid.columns.step}.get(mode, 1)


def test_example_sizes_are_such_that_the_host_takes_them() -> None:
    promised = gemm({}, divisible={"M": 48}, static={"N": 5})
    for of in (promised, *(module(spec) for spec in SPECS if spec != "probe_tv")):
        for mode, size in example_sizes(of.plan).items():
            assert size % of.plan.spec.divisible.get(mode, 1) == 0
            assert size == of.plan.spec.static.get(mode, size)
        assert walk_of(of.plan, example_sizes(of.plan)).blocks >= TILES


FOUR: dict[str, Any] = {
    "cutegen": 1,
    "kernel": "four",
    "op": "elementwise",
    "tensors": {
        "S": {"shape": ["I", "J", "M", "N"], "dtype": "f32", "major": "N"},
        "D": {"shape": ["I", "J", "M", "N"], "dtype": "f32", "major": "N", "role": "out"},
    },
    "compute": "D = S",
}


def test_colours_of_blocks_reach_over_those_that_are_drawn() -> None:
    of = generate(yaml.safe_dump(FOUR), "x.yaml").modules[0]
    drawn = figure(of, "tile-walk")
    (grid,) = grids(drawn)
    found = {cell.facts["order"]: cell.colour for _, _, cell in cells(grid)}
    assert len(set(found.values())) == len(found) == len(drawn.palette)
    assert [found[order] for order in sorted(found)] == list(range(len(found)))
    blocks = walk_of(of.plan, example_sizes(of.plan)).blocks
    assert blocks > len(found) and drawn.legend is not None
    ends = [text for text in (swatch.text for swatch in drawn.legend.swatches) if text]
    assert ends == ["block 0", f"block {max(found)}"]
    assert f"Drawn of {blocks} blocks: 0 to {max(found)}." in drawn.notes


def test_a_block_that_ends_within_a_row_is_not_blurred() -> None:
    text = (ROOT / "specs/add_vectorized.yaml").read_text().replace("N: 4096", "N: 1536")
    of = generate(f"{text}static: {{N: 1536}}\n", "x.yaml").modules[0]  # 384 tiles in a row, blocks of 256
    grid = grid_of(of, "tile-walk")
    assert grid.columns.step == 4 * 128
    blocks = [[int(cell.facts["block"]) for cell in row] for row in grid.cells]
    assert blocks[:3] == [[0, 0, 1], [1, 2, 2], [3, 3, 4]]


# ----------------------------------------------------------------------------------------------- shared memory


def by_hand(access: Access, panel: Grid) -> None:
    """Holds a panel to the words that the lanes of its warp touch, counted from the access's layout."""
    warp, lanes = conflicts(access).warp, max(1, min(32, 128 // max(4, access.bytes)))
    assert f"warp {warp}," in panel.title
    words: dict[int, set[int]] = {}
    for thread in range(32 * warp, min(32 * warp + 32, access.threads)):
        for value in range(access.vector):
            start = int(access.layout(thread, value)) * access.dtype.bytes
            for byte in range(start, start + access.dtype.bytes):
                words.setdefault(byte // 4, set()).add(thread)
    found = {}
    for _, _, cell in cells(panel):
        first = cell.facts["byte"] // 4
        assert first % 32 == cell.facts["bank"]
        assert {thread % 32 // lanes for thread in cell.facts["threads"]} == set(cell.facts["passes"])
        for word in range(first, first + panel.columns.step):
            found[word] = set(cell.facts["threads"])
        rivals = [
            sum(
                any(thread % 32 // lanes == number for thread in users)
                for word, users in words.items()
                if word % 32 == cell.facts["bank"]
            )
            for number in cell.facts["passes"]
        ]
        assert cell.facts["ways"] == max(rivals, default=0)
        assert (f"{cell.facts['ways']}-way" in cell.lines) == (cell.facts["ways"] > 1)
    assert {word: threads for word, threads in found.items() if threads} == words
    assert max(cell.facts["ways"] for _, _, cell in cells(panel)) == conflicts(access).ways


@pytest.mark.parametrize("of", [module("sgemm_mmajor"), *[module("sgemm", f"sgemm_{x}m") for x in ("kk", "kn", "mk")]])
def test_banks_show_the_words_of_every_lane_and_its_conflicts(of: Module) -> None:
    for x in ("A", "B"):
        shared = [access for access in accesses(of.plan) if access.space == "shared" and access.tensor == x]
        for access, panel in zip(shared, figure(of, f"banks-{x.lower()}").panels, strict=True):
            assert isinstance(panel, Grid)
            by_hand(access, panel)
        colours_of_passes(figure(of, f"banks-{x.lower()}"))


def colours_of_passes(drawn: Figure) -> None:
    """A cell's colour is that of a legend's entry that names exactly the passes in which it is wanted."""
    assert drawn.legend is not None
    meaning = {swatch.colour // 2: swatch.text for swatch in drawn.legend.swatches}
    assert len(meaning) == len(drawn.legend.swatches) == len(set(meaning.values()))
    used = set()
    for grid in grids(drawn):
        for _, _, cell in cells(grid):
            passes = cell.facts["passes"]
            assert (cell.colour is None) == (not passes)
            if cell.colour is not None:
                used.add(cell.colour // 2)
                text = meaning[cell.colour // 2]
                if text != "other passes":
                    named = [int(number) for number in re.findall(r"\d+", text)]
                    assert (list(range(named[0], named[-1] + 1)) if "-" in text else named) == passes
    assert used == set(meaning)


@pytest.mark.parametrize(("layout", "colours"), [
    ("(32,4):(4,1)", {"pass 0", "pass 1", "pass 2", "pass 3"}),
    ("((16,2),4):((0,4),1)", {"passes 0-1", "passes 2-3"}),
    ("((8,4),4):((4,0),1)", {"passes 0-3"}),
    ("((8,2,2),4):((4,0,32),1)", {"passes 0-1", "passes 2-3"}),
    ("((8,2,2),4):((4,32,0),1)", {"passes 0,2", "passes 1,3"}),
    ("((4,8),4):((4,0),1)", {"passes 0-3"}),
])  # fmt: skip
def test_words_of_several_passes_have_a_colour_of_their_own(layout: str, colours: set[str]) -> None:
    access = Access("A from there", "A", Dtype("f32"), "shared", "read", 4, parse_layout(layout), ())
    drawn = draw_bank_use([access], "A", ())
    colours_of_passes(drawn)
    assert drawn.legend is not None and {swatch.text for swatch in drawn.legend.swatches} == colours


@pytest.mark.parametrize(
    ("layout", "vector", "dtype", "ways"),
    [
        ("(32,1):(1,0)", 1, "f32", 1),
        ("(32,1):(32,0)", 1, "f32", 32),
        ("(32,1):(66,0)", 1, "f16", 1),
        ("(32,2):(2,1)", 2, "f64", 1),  # 16 bytes a lane, four passes
        ("(32,2):(3,1)", 2, "f32", 2),  # lanes start at any bank
        ("((40,2),1):((1,64),0)", 1, "f32", 2),  # the second warp only; the third one has 16 lanes
        ("((9,4),4):((0,32),1)", 4, "f32", 2),  # the first pass shares its words, the second does not
    ],
)
def test_banks_of_any_access(layout: str, vector: int, dtype: str, ways: int) -> None:
    access = Access("A from there", "A", Dtype(dtype), "shared", "read", vector, parse_layout(layout), ())
    assert conflicts(access).ways == ways
    drawn = draw_bank_use([access], "A", ())
    by_hand(access, *grids(drawn))
    colours_of_passes(drawn)
    assert any("2-way: two" in note for note in drawn.notes) == (ways > 1)


def test_conflicts_are_said() -> None:
    # Neighbouring threads take neighbouring elements: each reads its four one by one.
    of = gemm({"mma": {"permutation": {"M": "(16,4):(1,16)"}}})
    told = [remark for x in ("a", "b") for remark in figure(of, f"banks-{x}").remarks()]
    for access in accesses(of.plan):
        if access.space == "shared":
            cost = conflicts(access)
            verb = "written" if access.kind == "write" else "read"
            how = "without bank conflicts" if cost.free else "with conflicts"
            assert any(f"{access.tensor} is {verb} {how}: {cost.passes} pass" in remark for remark in told)


# ------------------------------------------------------------------------------------------------------ stages


def mainloop(stages: int, tiles: int) -> list[tuple[str, int, int]]:
    """(what, step, stage) for each tile as the generated prologue and mainloop go about it; a step is a tick."""
    events, ahead = [], stages - 1
    for tile in range(min(ahead, tiles)):
        events.append(("copy", tile, tile))
    read, write = 0, ahead
    for k_tile in range(tiles):
        if k_tile + ahead < tiles:
            events.append(("copy", ahead + k_tile, write))
        events.append(("use", ahead + k_tile, read))
        following = read + 1 if read + 1 < stages else 0
        write, read = read, following
    return events


@pytest.mark.parametrize("stages", [2, 3, 4, 7])
@pytest.mark.parametrize("depth", [None, 1, 2, 5, 11, 40])
def test_stages_are_filled_and_used_as_the_mainloop_does(stages: int, depth: int | None) -> None:
    of = gemm(
        {"tiler": {"K": 8}, "pipeline": {"stages": stages}}, **({} if depth is None else {"static": {"K": 8 * depth}})
    )
    drawn = figure(of, "pipeline")
    (timeline,) = drawn.panels
    assert isinstance(timeline, Timeline)
    tiles = depth if depth is not None else stages + 4
    assert timeline.size == stages - 1 + tiles + 1
    last = len(timeline.ticks)
    expected = {event for event in mainloop(stages, tiles) if event[1] < last}
    starts = {("copy" if bar.faint else "use", bar.start, bar.lane) for bar in timeline.bars if bar.lane < stages}
    assert starts == expected
    for lane in range(len(timeline.lanes)):
        bars = sorted((bar.start, bar.end) for bar in timeline.bars if bar.lane == lane)
        assert all(end <= start for (_, end), (start, _) in zip(bars, bars[1:], strict=False))
        assert all(0 <= start < end <= last for start, end in bars)
    assert (timeline.left_out == "") == (tiles <= 12)
    for bar in timeline.bars:  # a copy lasts until the wait before its use
        if bar.faint and bar.end < last:
            assert ("use", bar.end, bar.lane) in starts
    assert f"wait_group {stages - 2}" in drawn.caption


def test_plain_copies_are_not_said_to_be_in_flight() -> None:
    atom = {"atom": "universal", "bits": 128, "thread_layout": "(32,8):(1,32)", "value_layout": "(4,1)"}
    of = gemm({"copies": {"A": atom, "B": atom}})
    drawn = figure(of, "pipeline")
    (timeline,) = drawn.panels
    assert isinstance(timeline, Timeline)
    assert "cp.async" not in drawn.caption and not any("flight" in bar.label for bar in timeline.bars)
    assert figure(of, "copy-a").arrows == ("through registers, 128 bits",)


def test_colours_tell_warps_apart() -> None:
    drawn = figure(module("sgemm_mmajor"), "accumulators")
    (grid,) = grids(drawn)
    warps: dict[int, set[int | None]] = {}
    for _, _, cell in cells(grid):
        warps.setdefault(cell.facts["owners"][0][0] // 32, set()).add(cell.colour)
    assert len(warps) == 8 and max(Counter(c for found in warps.values() for c in found).values()) == 1
    assert drawn.legend is not None and [s.text for s in drawn.legend.swatches] == [
        f"T{32 * i}-{32 * i + 31}" for i in range(8)
    ]
    assert MOST_ROWS >= 32
