"""The pictures of gemms, held to what the kernels do: by hand, or step by step as the mainloop goes."""

from __future__ import annotations

from collections import Counter

import pytest
from drawing_kit import cells, elements, figure, gemm, grid_of, grids, module

from cutegen.drawing.grids import MOST_COLUMNS, MOST_ROWS
from cutegen.drawing.kernels import draw_kernel
from cutegen.drawing.model import Timeline


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
    plan = module("gemm_f32_fma_workspace").plan
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
