"""The pictures of gemms on Hopper's tensor cores, held to the text of what they show and to what barriers allow."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from drawing_kit import cells, figure, grids
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.drawing.model import Bar, Timeline
from cutegen.emulator.memory.tensor_maps import swizzled
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan

SCHEDULES = {
    "cooperative": "  cluster: {M: 2, N: 2}\n",
    "pingpong": "  warps: {roles: pingpong}\n  copies: {C: {stages: 1}}\n",
    "three": "  warps: {consumers: 3}\n  tiler: {M: 192, K: 32}\n  cluster: {N: 4}\n  pipeline: {stages: 2}\n",
    "few rows": "  mma: {rows: N}\n  tiler: {M: 24, K: 128}\n  scheduler: {kind: grid}\n",
    "products": "  warps: {consumers: 1}\n  tiler: {M: 128}\n",
    "exchanged products": "  mma: {rows: N}\n  tiler: {M: 16, N: 128}\n",
    "sums in parts": "  mma: {rows: N}\n  tiler: {M: 64}\n  cluster: {K: 2}\n",
    "buffers where sums were": "  tiler: {M: 128, N: 128}\n  cluster: {K: 2}\n",
    "many parts": "  tiler: {M: 64, N: 64, K: 64}\n  cluster: {M: 2, K: 4}\n  scheduler: {kind: grid}\n",
    "m-major": "  smem: {A: {swizzle: 64}}\n",
}


@cache
def of(name: str) -> Module:
    schedule = SCHEDULES[name]
    schedule = schedule if "mma:" in schedule else f"  mma: {{}}\n{schedule}"
    schedule = schedule.replace("mma: {", "mma: {atom: wgmma, ").replace(", }", "}")
    several = "products" in name
    text = f"""\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {{shape: [M, K], dtype: bf16, align: 16, major: {"M" if name == "m-major" else "K"}}}
  B: {{shape: [N, K], dtype: bf16, align: 16}}
{"  U: {shape: [N, K], dtype: bf16, align: 16}" if several else ""}
  C: {{shape: [M, N], dtype: bf16, align: 16, role: out}}
compute: C = {"(A @ B.T) * (A @ U.T)" if several else "A @ B.T"}
schedule:
{schedule}"""
    return generate(text, "specs/x.yaml").modules[0]


def plan_of(name: str) -> WarpspecializedPlan:
    plan = of(name).plan
    assert isinstance(plan, WarpspecializedPlan)
    return plan


def constant(name: str, which: str) -> int:
    found = re.search(rf"^{which} = (\d+)", of(name).text, re.MULTILINE)
    return int(found[1]) if found else 1


def timeline(name: str, drawn: str) -> Timeline:
    (panel,) = figure(of(name), drawn).panels
    assert isinstance(panel, Timeline)
    return panel


def lane(panel: Timeline, name: str) -> list[Bar]:
    bars = sorted((bar for bar in panel.bars if panel.lanes[bar.lane] == name), key=lambda bar: bar.start)
    assert all(bar.end <= after.start for bar, after in pairwise(bars)), f"{name} does one thing at a time"
    return bars


# ------------------------------------------------------------------------------------------------------------ over time


@pytest.mark.parametrize("name", sampled(SCHEDULES))
def test_loads_and_products_wait_for_their_barriers(name: str) -> None:
    """A stage holds a tile from its load until it is multiplied, and stages take turns as the text says."""
    panel, stages = timeline(name, "roles"), constant(name, "STAGES")
    assert [x for x in panel.lanes if x.startswith("stage ")] == [f"stage {i}" for i in range(stages)]
    loads = lane(panel, "producer")
    uses = []
    for number in range(stages):
        bars = lane(panel, f"stage {number}")
        own = loads[number::stages]
        comes = [bar for bar in bars if bar.label.endswith(" comes")]
        used = [bar for bar in bars if not bar.faint]
        assert [bar.start for bar in comes] == [bar.start for bar in own], "as soon as the load starts"
        assert all(load.end < use.start for load, use in zip(comes, used, strict=True) if load.end != use.start)
        assert all(use.end <= again.start for use, again in zip(used, comes[1:], strict=False)), "only when it is free"
        uses += used
    uses.sort(key=lambda bar: bar.start)
    assert [bar.label for bar in uses] == [bar.label for bar in loads]
    assert len({bar.start for bar in uses}) == len(uses) == len(loads)


@pytest.mark.parametrize("name", SCHEDULES)
def test_consumers_share_tiles_or_take_turns(name: str) -> None:
    plan, panel = plan_of(name), timeline(name, "roles")
    consumers = [lane(panel, f"consumer {i}") for i in range(constant(name, "CONSUMERS"))]
    products = [{bar.start for bar in bars if bar.label.startswith("k")} for bars in consumers]
    assert all(any(bar.label == "sums" for bar in bars) == (plan.split > 1) for bars in consumers)
    epilogues = [
        {step for bar in bars if bar.label.startswith(("epilogue", "sums")) for step in range(bar.start, bar.end)}
        for bars in consumers
    ]
    stages = {bar.start for bar in panel.bars if panel.lanes[bar.lane].startswith("stage") and not bar.faint}
    assert set.union(*products) == stages
    if plan.pingpong:
        assert not products[0] & products[1] and epilogues[0] & products[1] and epilogues[1] & products[0]
    else:
        assert all(found == products[0] for found in products) and not set.union(*epilogues) & stages


@pytest.mark.parametrize("name", SCHEDULES)
def test_barriers_count_what_the_text_says(name: str) -> None:
    text, caption = of(name).text, figure(of(name), "roles").caption
    arrivals = re.search(r"mbarrier_init\(empty \+ stage, (.*)\)\n", text)
    assert arrivals is not None
    count = eval(arrivals[1], {"CONSUMERS": constant(name, "CONSUMERS")})
    assert f"waits for {constant(name, 'STAGE_BYTES')} bytes" in caption
    assert f"free again say {count} arrival" in caption
    registers = [re.search(rf"setmaxregister_{which}crease\((\d+)\)", text) for which in ("de", "in")]
    assert f"have {registers[0] and registers[0][1]} and {registers[1] and registers[1][1]} registers" in caption


@pytest.mark.parametrize("name", ["cooperative", "pingpong", "products", "exchanged products", "sums in parts"])
def test_a_buffer_is_written_when_its_store_has_read_it(name: str) -> None:
    panel, buffers, plan = timeline(name, "pieces"), constant(name, "BUFFERS"), plan_of(name)
    written = [bar for bar in lane(panel, "threads") if not bar.faint]
    assert len(written) == min(12, plan.pieces)
    columns = constant(name, "COLUMNS")
    for piece, bar in enumerate(written):
        own = [b for b in lane(panel, f"buffer {piece % buffers}") if b.start in (bar.start, bar.end)]
        assert [b.label for b in own][:2] == ["written", f"stores {piece}"]
        row, column = divmod(piece, plan.tile[plan.n] // plan.split // columns)
        assert f"rows {64 * row}-{64 * row + 63} of its own" in bar.about
        assert f"{plan.n} {column * columns}-{(column + 1) * columns - 1}," in bar.about
    stored = {int(b.label.split()[1]): b for b in panel.bars if b.label.startswith("stores")}
    for piece, bar in enumerate(written):
        outstanding = [p for p, b in stored.items() if p < piece and b.end > bar.start]
        assert len(outstanding) <= buffers - 1


# ------------------------------------------------------------------------------------------- clusters, shared memory


@pytest.mark.parametrize("name", [name for name in SCHEDULES if name not in ("few rows", "exchanged products")])
def test_blocks_load_the_parts_and_for_the_blocks_that_the_text_says(name: str) -> None:
    text, plan = of(name).text, plan_of(name)
    m, n = constant(name, "CLUSTER_M"), constant(name, "CLUSTER_N")
    for side, grid in zip("ab", grids(figure(of(name), "cluster")), strict=True):
        tensor = getattr(plan, side).tensor.name
        stack = "B_U" if name == "products" and side == "b" else tensor
        mask = re.search(rf"mask_{stack} = cutlass\.Int16\((\d+)\) << \((.*)\)", text)
        part = re.search(rf"tma_{tensor},\s+(\w),\s+cute\.make_layout\((\w+)\)", text)
        assert part is not None
        found = set()
        for x, y, cell in cells(grid):
            names = {"x": x, "y": y, "CLUSTER_M": m, "CLUSTER_N": n, "share": 0}
            rank = x + y * m
            assert cell.facts["block"] == rank
            assert cell.facts["mask"] == (int(mask[1]) << eval(mask[2], names) if mask else 1 << rank)
            assert (cell.facts["part"], cell.facts["of"]) == (eval(part[1], names), eval(part[2], names))
            found |= {(to, cell.facts["part"]) for to in cell.facts["for"]}
        assert found == {(to, number) for to in range(m * n) for number in range(getattr(plan, side).shared_by)}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_stage_has_every_run_once_and_neighbours_in_other_banks(name: str) -> None:
    plan = plan_of(name)
    for side in plan.sides:
        (grid,) = grids(figure(of(name), f"stage-{side.letter.lower()}"))
        size = side.tensor.dtype.bytes
        met: dict[tuple[int, int], int] = {}
        for line, place, cell in cells(grid):
            byte, along, across = (cell.facts[key] for key in ("byte", "along", "across"))
            assert byte == line * 128 + place * 16
            packed = across * side.swizzle + along * size
            assert byte == int(swizzled(np.int64(1024 + packed), {128: 3, 64: 2, 32: 1}[side.swizzle])) - 1024
            met[across, along] = place
        assert len(met) == 8 * len(grid.cells)
        for across, along in met:
            eight = [
                met[other, along] for other in range(across // 8 * 8, across // 8 * 8 + 8) if (other, along) in met
            ]
            assert len(set(eight)) == len(eight) == 8


@pytest.mark.parametrize("name", SCHEDULES)
def test_shared_memory_is_whole(name: str) -> None:
    plan = plan_of(name)
    (grid,) = grids(figure(of(name), "shared-memory"))
    parts = sorted((c.facts["start"], c.facts["size"], c.facts["name"]) for _, _, c in cells(grid) if c.facts)
    if plan.shares_buffers:
        both = {name: [part for part in parts if part[2] == name] for name in ("C", "sums of others")}
        assert "sC = cute.make_tensor(" in of(name).text, "it is no allocation of its own"
        ends = [(own[0][0], own[-1][0] + own[-1][1]) for own in both.values()]
        assert ends[0] == ends[1]
        parts = [part for part in parts if part[2] != "C"]
    assert parts[0][0] == 0 and parts[-1][0] + parts[-1][1] == plan.smem_bytes
    assert all(start + size == after for (start, size, _), (after, _, _) in pairwise(parts))
    operands = [part for part in parts if part[2] not in ("C", "sums of others") and "barrier" not in part[2]]
    sent = sum(size for _, size, name in parts if name == "sums of others")
    assert sent == (constant(name, "SENT_BYTES") if plan.split > 1 else 0)
    assert sum(size for _, size, _ in operands) == constant(name, "STAGES") * constant(name, "STAGE_BYTES")


# ------------------------------------------------------------------------------------------------------------- products


@pytest.mark.parametrize("name", ["products", "exchanged products"])
def test_accumulators_of_products_are_those_that_the_text_takes(name: str) -> None:
    plan, text = plan_of(name), of(name).text
    (grid,) = grids(figure(of(name), "products"))
    block = constant(name, f"BLK_{plan.n}")
    columns, rows = (1, 2) if plan.exchanged else (2, 1)  # products along each
    for number, tensor in enumerate(("B", "U")):
        tiler = (
            rf"parts_{tensor} = slices\(\s*cute\.local_tile\(acc, \(BLK_{plan.n} // 2, (\d+), 1\), \((\d), (\d), 0\)\)"
        )
        found = re.search(tiler, text)
        assert found is not None
        blocks, column, row = map(int, found.groups())
        own = [cell for _, _, cell in cells(grid) if cell.facts["product"] == number]
        assert len(own) == blocks * block // 8
        for cell in own:
            first = (block // 2) * column + cell.facts["column"] // 2
            assert cell.facts["first"] == first + (row * blocks + cell.facts["block"]) * columns * block // 2
    assert plan.products == columns * rows
    numbers = sorted(cell.facts["first"] for _, _, cell in cells(grid))
    assert numbers == list(range(0, 2 * plan.pointwise.values, 4))
