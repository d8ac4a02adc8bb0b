"""The pictures of row kernels, held to the text of what they show: steps, barriers, pieces, and the order of walks."""

from __future__ import annotations

import re
from functools import cache
from itertools import groupby, pairwise

import pytest
from drawing_kit import cells, figure, grids
from specs_kit import ROOT

from cutegen.codegen import Module, generate
from cutegen.drawing.kernels import draw_kernel
from cutegen.drawing.model import Bar, Figure, Grid, Timeline
from cutegen.drawing.pages import places_of
from cutegen.drawing.text import render_text
from cutegen.families.rowwise.plan import RowwisePlan

SOFTMAX = """\
cutegen: 1
kernel: softmax
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute:
  - e = exp(X - max(X, N))
  - Y = e / sum(e, N)
schedule: SCHEDULE
static: {N: SIZE}
targets: [sm_90a]
"""
# An input that is written, sums over the rows, clusters that walk many of them, and pieces that are not whole
SUMS = """\
cutegen: 1
kernel: sums
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32, role: inout}
  D: {shape: [M, N], dtype: f32}
  r: {shape: [M], dtype: f32}
  s: {shape: [N], dtype: f32, role: out}
compute:
  - X = D * r - X * mean(X * D, N)
  - s = sum(D, M)
schedule: {keep: smem, threads_per_row: 32, tiler: {N: 128}, cluster: {N: 2}, scheduler: {blocks: 4}}
static: {N: 616}
"""
MADE = {
    "lanes": ("{threads_per_row: 8, tiler: {M: 16}}", 128),
    "warps": ("{threads_per_row: 64, tiler: {M: 2}, scheduler: {kind: persistent, blocks: 100}}", 1024),
    "many results": ("{keep: registers, threads_per_row: 256, cluster: {N: 16}}", 131072),
    "walks": ("{keep: reload, threads_per_row: 128, tiler: {N: 2048}, cluster: {N: 4}, online: never}", 50000),
    "long": ("{keep: reload, threads_per_row: 128, tiler: {N: 1024}}", 16384),
    "turns": ("{keep: reload, threads_per_row: 64, tiler: {N: 1024}, scheduler: {blocks: 100}}", 5000),
    "alone": ("{threads_per_row: 1, tiler: {M: 128}}", 8),
}
SPECS = (
    *("softmax", "softmax_cluster", "rms_norm", "rms_norm_bwd", "add_rms_norm_bwd", "layer_norm_bwd"),
    *("cross_entropy", "cross_entropy_vocabulary", "causal_softmax"),
)
NAMES = (*SPECS, *MADE, "sums")


@cache
def of(name: str) -> Module:
    text = SUMS if name == "sums" else ""
    if name in MADE:
        schedule, size = MADE[name]
        text = SOFTMAX.replace("SCHEDULE", schedule).replace("SIZE", str(size))
    text = text or (ROOT / f"specs/{name}.yaml").read_text()
    if name == "softmax":
        text = re.sub("targets:.*", "targets: [sm_80]", text)  # for which there is one schedule
    return generate(text, f"specs/{name}.yaml").modules[0]


def plan_of(name: str) -> RowwisePlan:
    plan = of(name).plan
    assert isinstance(plan, RowwisePlan)
    return plan


def panel(name: str, drawn: str, title: str) -> Grid | None:
    return next((grid for grid in grids(figure(of(name), drawn)) if grid.title.startswith(title)), None)


def has_of(grid: Grid) -> list[list[set[int]]]:
    return [[set(cell.facts["has"]) for cell in row] for row in grid.cells]


def timelines(name: str) -> list[tuple[Figure, Timeline]]:
    found = [drawn for drawn in draw_kernel(of(name).plan) if drawn.name.startswith("walks")]
    return [(drawn, one) for drawn in found for one in drawn.panels if isinstance(one, Timeline)]


def lane(timeline: Timeline, name: str) -> list[Bar]:
    bars = [bar for bar in timeline.bars if timeline.lanes[bar.lane] == name]
    return sorted(bars, key=lambda bar: bar.start)


# ------------------------------------------------------------------------------------------------- trees of reductions


@pytest.mark.parametrize("name", [name for name in NAMES if name != "alone"])
def test_every_lane_has_all_at_last_and_nothing_twice(name: str) -> None:
    """Held to the loops of the generated functions, too: those over steps, and over results that are read."""
    plan, text = plan_of(name), of(name).text
    lanes = panel(name, "reduction", "Lanes of a warp")
    assert lanes is not None
    threads = min(32, plan.threads_per_row)
    steps = [len(lanes.cells) - 1]
    assert all(has == set(range(threads)) for has in has_of(lanes)[-1])
    readers = panel(name, "reduction", "Lanes of every warp")
    for grid in [lanes, *([readers] if readers else [])]:
        for before, row in pairwise(grid.cells):
            for cell, own in zip(row, before, strict=True):
                partner = cell.facts["partner"]
                other = set(before[partner].facts["has"]) if partner is not None else set()
                fresh = set(cell.facts["has"]) - set(own.facts["has"])
                assert not other & set(own.facts["has"])  # a sum would count it twice
                assert partner is None or fresh == other
    if readers is not None:
        results = plan.warps_per_row * plan.cluster
        assert all(has == set(range(results)) for has in has_of(readers)[-1])
        rounds = sum(label.startswith("read") for label in readers.rows.labels)
        assert rounds == 1 or f"cutlass.range_constexpr(1, {rounds}):" in text
        steps.append(len(readers.cells) - rounds)
    loops = [int(found) for found in re.findall(r"for step in cutlass\.range_constexpr\((\d+)\)", text)]
    assert loops and loops == steps * (len(loops) // len(steps))
    chain = panel(name, "reduction", "What a thread has")
    assert (chain is not None) == (plan.warps_per_row > 1 and readers is None)
    if chain is not None:
        assert [len(has) for has in has_of(chain)[0]] == list(range(1, plan.warps_per_row + 1))
        assert f"cutlass.range_constexpr(1, {plan.warps_per_row}):" in text


@pytest.mark.parametrize("name", [name for name in NAMES if name != "alone"])
def test_partial_results_are_those_of_all_warps(name: str) -> None:
    plan, memory = plan_of(name), panel(name, "reduction", "Shared memory")
    assert (memory is None) == (plan.warps_per_row * plan.cluster == 1)
    if memory is None:
        return
    for place, row in enumerate(memory.cells):
        wrote = [(cell.facts["block"], cell.facts["warp"]) for cell in row]
        first = place * plan.warps_per_row if plan.cluster == 1 else 0
        warps = range(first, first + plan.warps_per_row)
        assert wrote == [(block, warp) for block in range(plan.cluster) for warp in warps]
    assert len(memory.cells) == (plan.cluster if plan.cluster > 1 else plan.rows)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "alone"])
def test_exchanges_and_their_barriers_are_those_of_the_text(name: str) -> None:
    text, plan = of(name).text, plan_of(name)
    calls = re.findall(r"^    +([\w, ]+) = row_[a-z]\w+_[a-z]+\d+\(", text, re.M)
    drawn = [
        sorted(cell.facts["exchange"] for _, _, cell in cells(grid) if cell.lines)
        for grid in grids(figure(of(name), "reduction"))
        if grid.title.startswith("What is put together")
    ]
    met = [numbers.count(i) for numbers in drawn for i in sorted(set(numbers))]
    assert [len(call.split(",")) for call in calls] == met
    barriers = panel(name, "reduction", "What is waited for")
    rows = [] if barriers is None else zip(barriers.rows.labels, barriers.cells, strict=True)
    found = [(label, *row) for label, row in rows]
    told = [[int(cell.lines[0]) for cell in pair] for label, *pair in found if label.startswith("mbarrier arrived")]
    read = [[int(cell.lines[0]) for cell in pair] for label, *pair in found if label.startswith("mbarrier read")]
    expected = {int(n) for n in re.findall(r"expect_tx\(arrived, (\d+)\)", text)}
    assert {size for _, size in told} == expected and all(arrivals == 1 for arrivals, _ in told)
    allocated = re.findall(r"arrived = smem\.allocate_array\(cutlass\.Int64, (\d+)\)", text)
    assert [len(told) + len(read)] == ([int(n) for n in allocated] or [0])
    assert all(pair == [plan.cluster * plan.threads // 32, 0] for pair in read)
    assert any("cluster" in label for label, *_ in found) == ("cluster_arrive" in text)
    assert any(label == "bar.sync, end" for label, *_ in found) == ("before the next rows overwrite" in text)


# ------------------------------------------------------------------------------------------------------------- pieces


@pytest.mark.parametrize("name", ["cross_entropy_vocabulary", "sums"])
def test_each_piece_belongs_to_one_block_and_its_barrier_waits_for_all(name: str) -> None:
    plan, text = plan_of(name), of(name).text
    places, copies = grids(figure(of(name), "pieces"))
    found = [cell.facts for _, _, cell in cells(places) if cell.facts]
    whole = sorted((fact["start"], fact["start"] + fact["size"]) for fact in found)
    assert whole[0][0] == 0 and whole[-1][1] == plan.spec.static[plan.row]
    assert all(end == start for (_, end), (start, _) in pairwise(whole))
    assert len({(fact["block"], fact["place"]) for fact in found}) == len(found)
    elements = re.findall(r"elements = (.+)\n", text)[0]
    ((owner, rest),) = re.findall(r"if rank == (\d+):\n +elements = elements \+ (\d+)", text)
    (each,) = re.findall(r"expect_tx\(loaded, elements \* (\d+)\)", text)
    for rank, row in enumerate(copies.cells):
        own = [fact for fact in found if fact["block"] == rank]
        size = eval(elements, {"CLUSTER": plan.cluster, "rank": rank}) + int(rest) * (rank == int(owner))
        assert sum(fact["size"] for fact in own) == size
        assert [int(cell.lines[0]) for cell in row] == [len(own) * len(plan.kept), size * int(each)]


# -------------------------------------------------------------------------------------------------------------- walks


@pytest.mark.parametrize("name", NAMES)
def test_a_lane_does_one_thing_at_a_time(name: str) -> None:
    for drawn, timeline in timelines(name):
        for one in timeline.lanes:
            bars = lane(timeline, one)
            assert bars and all(before.end <= after.start for before, after in pairwise(bars)), one
        assert max(bar.end for bar in timeline.bars) == timeline.size and not timeline.left_out
        assert places_of(drawn, of(name).regions)
        busy = {step for bar in timeline.bars for step in range(bar.start, bar.end)}
        assert busy == set(range(timeline.size))


@pytest.mark.parametrize("name", NAMES)
def test_steps_are_those_of_the_text(name: str) -> None:
    """Walks, exchanges and stores come in the order in which the kernels have them."""
    plan, found = plan_of(name), timelines(name)
    kernels = re.split(r"^@cute\.kernel$", of(name).text, flags=re.M)[1 : 1 + len(found)]
    for (_, timeline), kernel in zip(found, kernels, strict=True):
        walked = not any(tick.startswith("walk") for tick in timeline.ticks)
        if walked:
            starts = [mark.label.rpartition("walk ")[2] for mark in timeline.marks]
            once = starts[: len(starts) // (2 if plan.persistent else 1)]
            loops = re.findall(r"^ +for (piece|walked) in cutlass\.range\(", kernel, re.M)
            assert [label.endswith("backwards") for label in once] == [loop == "walked" for loop in loops]
        calls = re.findall(r" = (row)_[a-z]\w+_[a-z]+\d+\(|cute\.copy\(\s*store_(\w+)", kernel)
        expected = [f"store {stored}" if stored else "across threads" for _, stored in calls]
        rows = 1 if not plan.persistent else 2 if walked else 3
        bars = [(bar.start, timeline.lanes[bar.lane]) for bar in timeline.bars if timeline.lanes[bar.lane] in expected]
        events = [list(run) for _, run in groupby(one for _, one in sorted(bars, key=lambda bar: bar[0]))]
        events = [run if run[0] == "across threads" else run[:1] for run in events]  # a piece after another is stored
        assert [one for run in events for one in run] == expected * rows


@pytest.mark.parametrize("name", ["softmax", "walks", "long"])
def test_each_walk_reads_each_piece_once_from_where_the_last_one_ended(name: str) -> None:
    timeline = timelines(name)[-1][1]
    reads = lane(timeline, "X")
    starts = [mark.at for mark in timeline.marks] + [timeline.size]
    walks = [[bar for bar in reads if start <= bar.start < end] for start, end in pairwise(starts)]
    pieces = [[int(n) for bar in one for n in re.findall(r"\d+", bar.about)] for one in walks]
    assert all(sorted(one) == sorted(pieces[0]) and len(set(one)) == len(one) for one in pieces)
    assert all(before[-1] == after[0] for before, after in pairwise(pieces))
    assert [{bar.label for bar in one} for one in walks] == [{"read"}, *[{"again"}] * (len(walks) - 1)]


def test_pieces_of_shared_memory_are_read_from_there_after_their_copies() -> None:
    timeline = timelines("cross_entropy_vocabulary")[0][1]
    copies, there = lane(timeline, "X in smem")
    reads = lane(timeline, "X")
    assert copies.faint and copies.end == there.start and not there.faint
    assert {bar.label for bar in reads} == {"from smem"}
    assert there.start == reads[0].start and there.end == reads[-1].end
    drawn = [cell.facts for _, _, cell in cells(grids(figure(of("cross_entropy_vocabulary"), "pieces"))[0])]
    own = [fact["piece"] for fact in drawn if fact["block"] == 0]
    assert [int(bar.about.rpartition("piece ")[2]) for bar in reads] == own * 2


@pytest.mark.parametrize("name", ["rms_norm_bwd", "add_rms_norm_bwd", "layer_norm_bwd"])
def test_the_next_row_is_on_its_way_while_one_is_computed(name: str) -> None:
    timeline = timelines(name)[0][1]
    (ahead,) = [one for one in timeline.lanes if one.endswith(" ahead")]
    first, *following = lane(timeline, ahead)
    starts = [mark.at for mark in timeline.marks]
    assert (first.start, first.end) == (0, starts[0]) and all(bar.faint for bar in (first, *following))
    assert [(bar.start, bar.end) for bar in following] == list(pairwise(starts))  # while the row before is computed
    for tensor in ahead.removesuffix(" ahead").split(", "):
        assert [bar.start for bar in lane(timeline, tensor)] == starts
    assert re.findall(r"load_rows\(\s*(\w+),", of(name).text) == ["cluster_idx", "next_tile"]
    (store, *_) = lane(timeline, "store dW")
    assert store.start == timeline.size - 1


def test_pictures_of_rows_fit_a_terminal_of_a_hundred() -> None:
    for name in NAMES:
        for drawn in draw_kernel(of(name).plan):
            assert all(len(line.plain.rstrip()) <= 100 for line in render_text(drawn, 100)), (name, drawn.name)
