"""Two warpgroups of a gemm on Hopper's tensor cores that take turns with epilogues, too, and share their buffers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sweep_kit import sampled

pytest.importorskip("cutlass")

from lint_kit import found_in

from cutegen.codegen import Module, generate
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.role_pictures import EPILOGUE, schedule_of
from cutegen.families.gemm.wgmma.shared_memory import parts_of
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

# Six tiles of one cluster: each warpgroup stores, waits for its turn and stores again
SIZES = Case("in turn", "", {"M": 66, "N": 136, "K": 40}, "padded", "integers", blocks=1)
HEAD = """\
cutegen: 1
kernel: turns
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: bf16, role: out}
compute: C = A @ B.T
schedule:
  mma: {atom: wgmma}
"""
SMALL = "  tiler: {M: 64, N: 64, K: 32}\n  cluster: {M: 1}\n  copies: {C: {columns: 32, stages: 1}}\n"


def made(schedule: str) -> Module:
    return generate(HEAD + schedule, "specs/x.yaml").modules[0]


def plan_of(module: Module) -> WarpspecializedPlan:
    assert isinstance(module.plan, WarpspecializedPlan)
    return module.plan


def outcome(module: Module, folder: Path, text: str | None = None, case: Case = SIZES) -> str:
    path = folder / "turns.py"
    path.write_text(module.text if text is None else text, encoding="utf-8")
    return verify_case(module.plan, case, load_module(path), EmulatorExecutor(lines=False), orders=3).message


def test_shared_buffers_leave_room_for_a_stage() -> None:
    found = {}
    for turns in ("products", "all"):
        plan = plan_of(made(f"  warps: {{roles: pingpong, turns: {turns}}}\n"))
        buffers = [part for part in parts_of(plan) if part.name == "C"]
        found[turns] = (plan.stages, plan.buffers, len(buffers))
        assert max(part.start + part.size for part in parts_of(plan)) == plan.smem_bytes
    assert found == {"products": (4, 4, 8), "all": (5, 3, 3)}


def test_what_is_read_leaves_room_for_that_stage() -> None:
    text = HEAD.replace("  C:", "  R: {shape: [M, N], dtype: bf16}\n  C:").replace("B.T", "B.T + R")
    plan = plan_of(generate(text + "  warps: {roles: pingpong, turns: all}\n", "specs/x.yaml").modules[0])
    assert (plan.stages, plan.columns, len(plan.sources)) == (5, 32, 1)


def test_there_are_no_more_buffers_than_pieces() -> None:
    """All are free at every hand-over."""
    plan = plan_of(made("  warps: {roles: pingpong, turns: all}\n  tiler: {M: 64, N: 64, K: 32}\n"))
    assert plan.buffers == plan.pieces == 1


def test_epilogues_do_not_meet_in_the_picture() -> None:
    ends = schedule_of(plan_of(made("  warps: {roles: pingpong, turns: all}\n"))).ends
    assert all(ends[tile + 1] - ends[tile] >= EPILOGUE for tile in range(len(ends) - 1))


TURNS = "  warps: {roles: pingpong, turns: all}\n" + SMALL


@pytest.mark.parametrize(
    "walk", ["", "  scheduler: {raster: N, swizzle: 1}\n", "  scheduler: {raster: N, swizzle: 2}\n"]
)
def test_right(walk: str, tmp_path: Path) -> None:
    assert outcome(made(TURNS + walk), tmp_path) == ""


@pytest.mark.parametrize("walk", ["", "  scheduler: {swizzle: 1}\n"])
def test_right_of_a_batch(walk: str, tmp_path: Path) -> None:
    text = HEAD + TURNS + walk
    for name in "ABC":
        text = text.replace(f"{name}: {{shape: [", f"{name}: {{shape: [L, ")
    case = replace(SIZES, sizes={"L": 3, "M": 66, "N": 40, "K": 40})
    assert outcome(generate(text, "specs/x.yaml").modules[0], tmp_path, case=case) == ""


DRAIN = (
    "            if thr < 32:\n                cute.arch.cp_async_bulk_wait_group(0, read=True)\n            if tile"
)
MISTAKES = {
    "stores out of turn": ("cute.arch.barrier(barrier_id=5 + group, number_of_threads=256)", "pass"),
    "hands over what is still read": (DRAIN, "            if tile"),
    "never hands over": ("cute.arch.barrier_arrive(barrier_id=6 - group, number_of_threads=256)", "pass"),
    "hands over to itself": ("barrier_arrive(barrier_id=6 - group", "barrier_arrive(barrier_id=5 + group"),
    "the stages of the other's tile are taken for its own": ("(stage + k_tiles) % STAGES", "stage"),
    "the second starts where the first does": ("group * k_tiles % STAGES", "0"),
    "nobody is first": ("            cute.arch.barrier_arrive(barrier_id=5, number_of_threads=256)\n", ""),
}


@pytest.mark.parametrize("mistake", sampled(MISTAKES))
def test_a_mistake_is_seen(mistake: str, tmp_path: Path) -> None:
    module, (old, new) = made(TURNS), MISTAKES[mistake]
    assert module.text.count(old) == 1, module.text
    assert outcome(module, tmp_path, module.text.replace(old, new)) != ""


@pytest.mark.parametrize(
    ("schedule", "code", "words"),
    [
        ("  warps: {turns: all}\n", "CG203", "take no turns"),
        (
            "  warps: {roles: pingpong, turns: all}\n  copies: {C: {atom: universal}}\n",
            "CG308",
            "no output goes through",
        ),
    ],
)
def test_refused(schedule: str, code: str, words: str) -> None:
    found = found_in(HEAD + schedule)
    assert [d for d in found if d.code == code and words in d.message], found
