"""The pictures of elementwise kernels, held to what the kernels do: counted by hand."""

from __future__ import annotations

from typing import Any

import yaml
from drawing_kit import cells, elements, example_walk, figure, grid_of, grids, module
from planning_specs import document
from specs_kit import ROOT

from cutegen.codegen import generate


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
    blocks = example_walk(of.plan)[1].blocks
    assert blocks > len(found) and drawn.legend is not None
    ends = [text for text in (swatch.text for swatch in drawn.legend.swatches) if text]
    assert ends == ["block 0", f"block {max(found)}"]
    assert f"Drawn of {blocks} blocks: 0 to {max(found)}." in drawn.notes


def test_a_block_that_ends_within_a_row_is_not_blurred() -> None:
    text = (
        (ROOT / "specs/add_vectorized.yaml")
        .read_text()
        .replace("N: 4096", "N: 1536")
        .replace("divisible: {N: 4}\n", "")
    )
    of = generate(f"{text}static: {{N: 1536}}\n", "x.yaml").modules[0]  # 384 tiles in a row, blocks of 256
    grid = grid_of(of, "tile-walk")
    assert grid.columns.step == 4 * 128
    blocks = [[int(cell.facts["block"]) for cell in row] for row in grid.cells]
    assert blocks[:3] == [[0, 0, 1], [1, 2, 2], [3, 3, 4]]
