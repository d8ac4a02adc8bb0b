"""Which block has which tile, as pictures say it, against the block indices that the generated kernels compute."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from types import SimpleNamespace
from typing import Any

import pytest
from drawing_kit import cells, example_walk, gemm, grid_of, module
from specs_kit import ROOT

from cutegen.cases.plan import CasesPlan
from cutegen.drawing.model import Grid
from cutegen.families.common.walks import TILES
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan

# Of a tile a block, and of one schedule
SPECS = sorted(
    p.stem
    for p in (ROOT / "specs").glob("*.yaml")
    if not re.search("op: (rowwise|contract)", text := p.read_text())
    and "\nschedule:\n  - " not in text
    and not isinstance(module(p.stem).plan, CasesPlan)
)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec != "probe_tv"])
def test_blocks_have_the_tiles_that_the_code_gives_them(spec: str) -> None:
    """The block indices as the generated kernels compute them."""
    plan = module(spec).plan
    (sizes, _), grid = example_walk(plan), grid_of(module(spec), "tile-walk")
    modes = plan.spec.lead.shape
    extents = dict(plan.tile)
    if isinstance(plan, WarpspecializedPlan):
        extents |= dict(zip((plan.m, plan.n), plan.cluster_tile, strict=True))
        extents |= {} if plan.batch is None else {plan.batch: 1}
    tiles = [-(-sizes[mode] // extents[mode]) for mode in modes]
    partition = getattr(plan, "partition", "")
    expected: dict[str, set[tuple[int, ...]]] = {}
    for place in range(prod(tiles)):
        if isinstance(plan, WarpspecializedPlan):
            back = slice(None, None, -1 if plan.exchanged else 1)
            of_matrix = tiles[-2:][back]
            along, across = of_matrix if modes[plan.tile_order[0]] == plan.m else of_matrix[::-1]
            divisors = [*of_matrix, min(plan.band, across) * along, max(across % plan.band, 1)]
            divisors = [along] if plan.band == 1 else divisors
            divisors += [prod(of_matrix)] * (plan.batch is not None)
            if plan.segments is not None:  # as each has its own number of tiles, the function divides by those of one
                divisors = list(of_matrix)
            m_tile, n_tile, *l_tile = _tile_coordinate(module(spec).text, plan.band)(place, *divisors)
            block, tile = str(place), (*l_tile, *(m_tile, n_tile)[back])
        elif getattr(plan, "swizzle", 1) > 1:  # bands of tiles of the mode across the raster
            along, across = plan.tile_order
            band, inside = divmod(place, plan.swizzle * tiles[along])
            width = min(plan.swizzle, tiles[across] - band * plan.swizzle)
            found = {along: inside // width, across: band * plan.swizzle + inside % width}
            block, tile = str(place), (found[0], found[1])
        elif plan.spec.op == "gemm":  # coord = (bidx, bidy, None), or the other way round
            tile = (place % tiles[0], place // tiles[0])
            block = f"{tile[0]},{tile[1]}"
        elif len(tiles) == 1:
            block, tile = str(place), (place,)
        else:  # tile_M, tile_N = divmod(bidx, tiles_N), or of bidx * THREADS + tidx; M first where D is M-major
            by_rows = plan.spec.lead.major == modes[-1]
            rest, places = place, []
            for count in tiles[::-1] if by_rows else tiles:
                rest, at = divmod(rest, count)
                places.append(at)
            tile = tuple(places[::-1] if by_rows else places)
            block = str(place // plan.threads if partition == "inner" else place)
        expected.setdefault(block, set()).add(tile)
    for _, _, cell in cells(grid):
        start = cell.facts["start"]
        tile = tuple(start[mode] // extents[mode] for mode in modes)
        assert tile in expected[cell.facts["block"]]
        cut_off = [m for m in modes if start[m] + _unit(grid, m) > sizes[m]]
        assert cell.facts["cut"] == cut_off and (("cut" in cell.lines) == bool(cut_off))
    drawn = {cell.facts["block"] for _, _, cell in cells(grid)}
    # Of more than two modes the picture is the plane at the start of those before the last two
    plane = {block for block, owned in expected.items() if any(not any(tile[:-2]) for tile in owned)}
    assert drawn == plane or grid.left_out
    assert {cell.facts["order"] for _, _, cell in cells(grid)} <= set(range(len(expected)))


def _tile_coordinate(text: str, band: int) -> Callable[..., tuple[int, ...]]:
    """The function of a gemm's module that says which tile has a number, on Python's integers."""
    source = text[text.index("def tile_coordinate(") :].split("\n\n\n")[0]
    found: dict[str, Any] = {"BAND": band, "cutlass": SimpleNamespace(min=min, max=max, Int32=int)}
    exec(source, found)
    made: Callable[..., tuple[int, ...]] = found["tile_coordinate"]
    return made


def _unit(grid: Grid, mode: str) -> int:
    return {grid.rows.name: grid.rows.step, grid.columns.name: grid.columns.step}.get(mode, 1)


def test_example_sizes_are_such_that_the_host_takes_them() -> None:
    promised = gemm({}, divisible={"M": 48}, static={"N": 5})
    for of in (promised, *(module(spec) for spec in SPECS if spec != "probe_tv")):
        sizes, walk = example_walk(of.plan)
        for mode, size in sizes.items():
            assert size % of.plan.spec.divisible.get(mode, 1) == 0
            assert size == of.plan.spec.static.get(mode, size)
        assert walk.blocks >= TILES
