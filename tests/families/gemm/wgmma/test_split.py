"""Blocks of a cluster along K: the sum of a tile in parts, which are sent to the block that stores the columns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lint_kit import found_in
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.families.gemm.wgmma import FAMILY
from cutegen.families.gemm.wgmma.blocks import most_blocks
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case


def spec(
    schedule: str = "  tiler: {M: 64, N: 32, K: 32}\n  cluster: {K: 2}\n",
    compute: str = "A @ B.T",
    more: str = "",
    mma: str = "{atom: wgmma}",
    static: str = "",
) -> str:
    return f"""\
cutegen: 1
kernel: split
op: gemm
tensors:
  A: {{shape: [M, K], dtype: bf16}}
  B: {{shape: [N, K], dtype: bf16}}
{more}  C: {{shape: [M, N], dtype: f32, role: out}}
compute: C = {compute}
schedule:
  mma: {mma}
{schedule}{static}"""


def made(text: str) -> Module:
    return generate(text, "specs/x.yaml").modules[0]


def plan_of(text: str) -> WarpspecializedPlan:
    plan = made(text).plan
    assert isinstance(plan, WarpspecializedPlan)
    return plan


def sizes(m: int, n: int, k: int, data: str = "integers", blocks: int | None = None) -> Case:
    return Case("sizes", "", {"M": m, "N": n, "K": k}, "padded", data, blocks=blocks)  # type: ignore[arg-type]


def outcomes(module: Module, cases: tuple[Case, ...], folder: Path, text: str | None = None) -> list[str]:
    path = folder / "split.py"
    path.write_text(module.text if text is None else text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    return [report.message for case in cases if (report := verify_case(module.plan, case, loaded, executor)).message]


def test_each_block_has_a_part_of_the_sum_and_stores_a_part_of_the_columns() -> None:
    plan = plan_of(spec("  tiler: {M: 128, N: 128, K: 64}\n  cluster: {K: 4}\n"))
    assert (plan.split, plan.cluster, plan.cluster_size, plan.own_columns) == (4, (1, 1), 4, 32)
    assert plan.pointwise.values == 64 * 32 // 128
    assert plan.sent_bytes == 3 * 128 * 32 * 4
    assert not plan.persistent  # few tiles, one for each cluster
    assert all(claim.holds for claim in FAMILY.claims(plan))


def test_persistent_blocks_are_clusters_that_run_at_once() -> None:
    text = "  tiler: {{M: 128, N: 128, K: 64}}\n  cluster: {{M: 1, K: {}}}\n  scheduler: {{kind: persistent}}\n"
    assert [most_blocks(plan_of(spec(text.format(k)))) for k in (1, 2, 4, 8)] == [132, 132, 120, 120]


def test_what_others_send_takes_shared_memory_from_stages() -> None:
    whole, parts = (plan_of(spec(f"  tiler: {{M: 128, N: 256, K: 64}}\n  cluster: {{M: 1, K: {k}}}\n")) for k in (1, 2))
    assert (whole.stages, parts.stages) == (4, 3)


@pytest.mark.parametrize(("stages", "in_flight"), [(1, 0), (2, 0), (3, 1)])
def test_of_few_stages_one_is_loaded_again_as_soon_as_it_has_been_multiplied(
    stages: int, in_flight: int, tmp_path: Path
) -> None:
    module = made(spec(f"  tiler: {{M: 64, N: 32, K: 32}}\n  pipeline: {{stages: {stages}}}\n"))
    plan = module.plan
    assert isinstance(plan, WarpspecializedPlan) and plan.in_flight == in_flight
    assert outcomes(module, (sizes(130, 40, 200),), tmp_path) == []


def test_a_block_may_have_nothing_to_sum_where_there_are_fewer_tiles_than_blocks() -> None:
    two = "  tiler: {M: 64, N: 32, K: 32}\n  cluster: {K: 2}\n"
    assert plan_of(spec(two, static="static: {K: 32}\n")).empty_sum
    assert not plan_of(spec(two, static="static: {K: 40}\n")).empty_sum


@pytest.mark.parametrize("change", [{"split": 3}, {"split": 1, "cluster": (1, 2)}])
def test_a_wrong_split_is_not_proved(change: dict[str, object]) -> None:
    plan = plan_of(spec())
    wrong = replace(plan, **change)  # type: ignore[arg-type]
    assert not all(claim.holds for claim in FAMILY.claims(wrong))


@pytest.mark.parametrize(
    ("schedule", "code", "help"),
    [
        ("  cluster: {K: 2}\n  warps: {roles: pingpong}\n", "CG307", "roles: cooperative"),
        ("  cluster: {M: 2, N: 2, K: 4}\n", "CG307", "write `N: 1`"),
        ("  cluster: {K: 9}\n", "CG105", ""),
        ("  cluster: {K: 2}\n  scheduler: {kind: persistent, blocks: 131}\n", "CG307", "blocks: 130"),
        ("  tiler: {N: 40}\n  cluster: {K: 2}\n", "CG302", "write `N: 48`"),
        ("  tiler: {N: 256}\n  cluster: {K: 3}\n", "CG302", "write `N: 240`"),
        ("  pipeline: {stages: 1}\n  mma: {atom: wgmma, in_flight: 1}\n", "CG309", "in_flight: 0"),
        ("  cluster: {M: 1}\n  scheduler: {blocks: 70000}\n", "CG307", "kind: grid"),
        ("  tiler: {N: 32}\n  cluster: {K: 4}\n  copies: {C: {atom: tma}}\n", "CG308", "write `N: 64`"),
    ],
)
def test_what_is_refused(schedule: str, code: str, help: str) -> None:
    text = spec(schedule)
    text = text.replace("  mma: {atom: wgmma}\n", "", 1) if "mma" in schedule else text
    found = [d for d in found_in(text) if d.severity == "error"]
    assert [d.code for d in found] == [code] and help in (found[0].help or ""), found


RIGHT = {
    "more blocks than tiles of the sum": ("  tiler: {M: 64, N: 64, K: 32}\n  cluster: {K: 4}\n", "A @ B.T", "", ""),
    "in clusters along all modes, straight from registers": (
        "  tiler: {M: 64, N: 16, K: 32}\n  cluster: {M: 2, N: 2, K: 2}\n  copies: {C: {atom: universal}}\n",
        "A @ B.T + R",
        "  R: {shape: [M, N], dtype: bf16}\n",
        "",
    ),
    "rows of an epilogue, and two blocks of them": (
        "  tiler: {M: 128, N: 32, K: 32}\n  warps: {consumers: 1}\n  cluster: {K: 2}\n",
        "where(coord(N) > 3, A @ B.T, 1) * R",
        "  R: {shape: [M], dtype: f32}\n",
        "",
    ),
    "several products of few rows": (
        "  tiler: {M: 32, N: 64, K: 32}\n  cluster: {K: 2}\n",
        "(A @ B.T + V) * (A @ G.T)",
        "  G: {shape: [N, K], dtype: bf16}\n  V: {shape: [N], dtype: f32}\n",
        "{atom: wgmma, rows: N}",
    ),
    "several products, a grid of all tiles": (
        "  tiler: {M: 64, N: 32, K: 32}\n  cluster: {K: 2}\n  scheduler: {kind: grid}\n",
        "(A @ B.T) * (A @ G.T)",
        "  G: {shape: [N, K], dtype: bf16}\n",
        "",
    ),
}


@pytest.mark.parametrize("what", RIGHT)
def test_right(what: str, tmp_path: Path) -> None:
    schedule, compute, more, mma = RIGHT[what]
    module = made(spec(schedule, compute, more, mma or "{atom: wgmma}"))
    cases = (sizes(130, 76, 136), sizes(1, 4, 8), sizes(3, 4, 0), sizes(64, 32, 200, "random"))
    assert outcomes(module, cases, tmp_path) == []


def test_a_grid_of_clusters_goes_along_the_mode_that_has_most_blocks() -> None:
    """A device takes 65535 blocks along y and z, and 2^31 - 1 along x."""
    schedule = "  tiler: {M: 64, N: 16, K: 32}\n  cluster: {M: 2, K: 2}\n  scheduler: {kind: grid}\n"
    text = made(spec(schedule)).text
    assert "grid=[CLUSTER_M * clusters, CLUSTER_N, CLUSTER_K]" in text
    assert "MOST_TILES = (2**31 - 2**16) // CLUSTER_M" in text


SEND = "            cute.arch.mbarrier_wait(read, (turn + 1) % 2)\n"
MISTAKES = {
    "both multiply the first part": ("k_first = k_tiles * share // CLUSTER_K", "k_first = k_tiles * 0 // CLUSTER_K"),
    "a part is a tile short": ("k_tiles * (share + 1) // CLUSTER_K - k_first", "k_tiles // CLUSTER_K"),
    "one sends its own columns": ("(other, 0, 0)", "(CLUSTER_K - 1 - other, 0, 0)"),
    "one keeps what is another's": ("if other == share:", "if other != share:"),
    "a part is not added": ("vector.load() + sums[None, thr, i, place, group].load()", "vector.load()"),
    "a part is added before it came": ("            cute.arch.mbarrier_wait(sent, turn)\n", ""),
    "fewer bytes are expected": ("expect_tx(sent, SENT_BYTES)", "expect_tx(sent, SENT_BYTES // 2)"),
    "what was sent is overwritten before it is read": (SEND, ""),
    "what was read is told before it is": (
        "            cute.arch.mbarrier_wait(sent, turn)\n",
        "            if thr % 32 < CLUSTER_K and thr % 32 != share:\n"
        "                cute.arch.mbarrier_arrive(read, thr % 32)\n"
        "            cute.arch.mbarrier_wait(sent, turn)\n",
    ),
    "one block is told that it was read": (
        "cute.arch.mbarrier_arrive(read, thr % 32)",
        "cute.arch.mbarrier_arrive(read)",
    ),
    "both store the same columns": ("n_tile = n_tile * CLUSTER_K + share", "n_tile = n_tile * CLUSTER_K"),
    "threads of two warpgroups share a place": (
        "sums[None, thr, i, place, group].iterator",
        "sums[None, thr, i, place, 0].iterator",
    ),
    "a block ends before the other has read": ("    cute.arch.cluster_arrive()\n    cute.arch.cluster_wait()\n", ""),
}


@pytest.mark.parametrize("mistake", sampled(MISTAKES))
def test_a_mistake_is_seen(mistake: str, tmp_path: Path) -> None:
    old, new = MISTAKES[mistake]
    module = made(spec("  tiler: {M: 128, N: 32, K: 32}\n  cluster: {K: 2}\n  scheduler: {kind: persistent}\n"))
    assert module.text.count(old) == 1, module.text
    cases = (sizes(200, 72, 200, blocks=2),)
    assert outcomes(module, cases, tmp_path, module.text.replace(old, new))


PLACES = "sums.iterator, sC_layout.inner"
FREE = "                cute.arch.barrier(barrier_id=3 + group, number_of_threads=128)\n                for part in"
SHARED = {
    "the output passes where the other warpgroup's sums are": (
        "buffer = group * BUFFERS",
        "buffer = (1 - group) * BUFFERS",
    ),
    "the output passes where others still add": (FREE, "                for part in"),
    "a block sends before the other has barriers": ("            cute.arch.cluster_wait()\n", ""),
}


@pytest.mark.parametrize("mistake", SHARED)
def test_buffers_of_the_output_lie_where_sums_were(mistake: str, tmp_path: Path) -> None:
    old, new = SHARED[mistake]
    module = made(spec("  tiler: {M: 128, N: 64, K: 32}\n  cluster: {K: 2}\n"))
    plan = module.plan
    assert isinstance(plan, WarpspecializedPlan) and plan.shares_buffers and PLACES in module.text
    assert plan.columns * plan.buffers * 64 * 4 * plan.consumers == plan.sent_bytes
    cases = (sizes(200, 72, 200),)
    assert outcomes(module, cases, tmp_path) == []
    assert module.text.count(old) == 1
    assert outcomes(module, cases, tmp_path, module.text.replace(old, new))


def test_two_blocks_have_a_tile_together_where_sizes_say_that_tiles_are_few() -> None:
    whole = "static: {M: 512, N: 512, K: %d}\n"
    few, short = (plan_of(spec("", static=whole % k)) for k in (8192, 512))
    assert (few.cluster, few.split) == ((1, 1), 2) and (short.cluster, short.split) == ((2, 1), 1)
    many = plan_of(spec("", static="static: {M: 4096, N: 4096, K: 8192}\n"))
    assert (many.cluster, many.split) == ((2, 1), 1)
    assert plan_of(spec("  warps: {roles: pingpong}\n", static=whole % 8192)).split == 1


@pytest.mark.parametrize(
    "schedule",
    [
        "  scheduler: {blocks: 132}\n",
        "  tiler: {N: 64}\n  copies: {C: {columns: 64}}\n",
        "  tiler: {N: 48}\n  copies: {C: {atom: tma}}\n",
        "  tiler: {M: 128, N: 256, K: 64}\n  pipeline: {stages: 3}\n",
    ],
)
def test_what_is_written_of_whole_tiles_is_not_parted(schedule: str) -> None:
    assert plan_of(spec(schedule, static="static: {M: 512, N: 512, K: 8192}\n")).split == 1


def test_blocks_that_are_written_walk_tiles_in_clusters() -> None:
    plan = plan_of(spec("  cluster: {K: 2}\n  scheduler: {blocks: 64}\n"))
    assert (plan.split, plan.blocks) == (2, 64)


@pytest.mark.parametrize("k", [2, 3, 4, 5, 6, 7, 8])
def test_any_number_of_blocks_along_k_has_a_tile(k: int) -> None:
    plan = plan_of(spec(f"  cluster: {{K: {k}}}\n"))
    assert plan.tile["N"] % (8 * k) == 0 and plan.smem_bytes <= 232448 and plan.buffers <= 16
