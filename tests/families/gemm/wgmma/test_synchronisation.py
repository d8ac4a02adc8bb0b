"""No order of warps goes wrong, by the trees that the roles are printed from; and trees with mistakes are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from specs_kit import files_of_kernels, files_with, modules_of
from sweep_kit import sampled
from tree_mistakes import Mistake, about, mistakes, of_each_kind

from cutegen.codegen import generate
from cutegen.families.gemm.wgmma import text
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.planning import plan as planned
from cutegen.families.gemm.wgmma.roles import kernel_body
from cutegen.families.gemm.wgmma.synchronisation import Counts, counts, run_of
from cutegen.language.edits import with_value
from cutegen.parts import all_orders
from cutegen.parts.faults import Unproved
from cutegen.parts.one_order import prove
from cutegen.parts.statements import Body
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

TILE_AFTER_TILE = "gemm_bf16_split_k-0, tile after tile"
FILES = files_with("op: gemm", "wgmma")


@cache
def plans(file: str) -> dict[str, WarpspecializedPlan]:
    """The plans of this family that an example has, by the names of kernels, each with the number of its case."""
    return {
        f"{name}-{number}": kernel
        for name, module in modules_of(file).items()
        for number, kernel in enumerate(module.plan.kernels)
        if isinstance(kernel, WarpspecializedPlan)
    }


def plan_of(name: str) -> WarpspecializedPlan:
    """One of these plans, or that of a sum over K that blocks share, each of which walks over tiles."""
    if name == TILE_AFTER_TILE:
        return changed(plan_of("gemm_bf16_split_k-0"), {"scheduler.kind": "persistent", "scheduler.blocks": 132})
    return plans(files_of_kernels()[name.rpartition("-")[0]])[name]


def changed(plan: WarpspecializedPlan, values: Mapping[str, Any]) -> WarpspecializedPlan:
    """The plan of a schedule with other values, by their keys."""
    schedule = plan.spec.schedule
    for key, value in values.items():
        schedule = with_value(schedule, tuple(key.split(".")), value)
    return planned(replace(plan.spec, schedule=schedule))


# Each has something of its own: a cluster, warpgroups in turn, that store in turn, too, what epilogues read through
# shared memory, several products, a sum that blocks share
BROKEN = (
    *("gemm_bf16_kkn-0", "gemm_bf16_pingpong-0", "gemm_bf16_short_k-0", "linear_residual_bf16-0", "swiglu_bf16-0"),
    *("gemm_bf16_split_k-0", TILE_AFTER_TILE),
)

HARMLESS = {
    # What is not there, or is done once more, when it is done for the last time; or waits for more than it must
    ("Wait", "by some warps", "empty"): "the producer is one of them",
    ("Let", "left out", "before"): "the first stage before is none: nothing is released at it",
    ("Meet", "waits", "1"): "whoever gives the turn waits until it is taken",
    ("Meet", "waits", "2 - group"): "whoever gives the turn waits until it is taken",
}
IN_TURN = {
    ("Meet", "waits", "5"): "whoever gives the turn waits until it is taken",
    ("Meet", "waits", "6 - group"): "whoever gives the turn waits until it is taken",
    ("Stored", "left out", "0"): "the last wait for stores is one more: each turn ends with one",
    ("Stored", "one group less", "0"): "the last wait for stores is one more: each turn ends with one",
}
ONE_TILE = {
    # Where a cluster has one tile, the end of which is the end of all
    ("Arrive", "left out", "empty"): "nothing is loaded after the last steps",
    ("Arrive", "twice", "empty"): "nothing is loaded after the last steps",
    ("Arrive", "another barrier", "empty"): "nothing is loaded after the last steps",
    ("Stored", "left out", "BUFFERS - 1"): "there are as many buffers as pieces",
    ("Stored", "one group less", "BUFFERS - 1"): "there are as many buffers as pieces",
    ("Let", "left out", "rotation"): "there is one tile",
    ("Overlay", "a copy less", "sC"): "there are more buffers than pieces",
    ("Overlay", "in the place of A", "sC"): "all warps have multiplied A by then",
}


def refused(plan: WarpspecializedPlan, mistake: Mistake) -> bool:
    """Whether a proof refuses a tree, or a text of it has a name that nothing gives a value."""
    try:
        for sizes in counts(plan):
            prove(run_of(plan, sizes, mistake.tree))
    except (Unproved, NameError):
        return True
    return False


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.sweep)])
def test_what_is_printed_is_right_in_every_order(file: str, every: int) -> None:
    """Of files with many kernels each run of the tests takes a quarter."""
    assert plans(file)
    for plan in list(plans(file).values())[::every]:
        for sizes in counts(plan):
            assert prove(run_of(plan, sizes)).acts > 4


def test_a_sum_that_blocks_share_is_right_tile_after_tile() -> None:
    plan = plan_of(TILE_AFTER_TILE)
    assert all(prove(run_of(plan, sizes)).acts > 4 for sizes in counts(plan))


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        *sampled([(name, False) for name in BROKEN]),
        *(pytest.param(name, True, marks=pytest.mark.sweep) for name in BROKEN),
    ],
)
def test_each_mistake_in_a_tree_is_refused(name: str, whole: bool) -> None:
    plan = plan_of(name)
    harmless = HARMLESS | ({} if plan.persistent else ONE_TILE) | (IN_TURN if plan.in_turn else {})
    tried = [one for one in mistakes(kernel_body(plan, [])) if about(one) not in harmless]
    assert len(tried) > 40
    assert [str(one) for one in (tried if whole else of_each_kind(tried)) if not refused(plan, one)] == []


@pytest.mark.parametrize("names", [pytest.param(BROKEN, marks=pytest.mark.sweep)])
def test_what_harms_nothing_is_somewhere(names: tuple[str, ...]) -> None:
    """The lists of mistakes that harm nothing have none that is refused everywhere."""
    left = {*HARMLESS, *ONE_TILE, *IN_TURN}
    for name in names:
        plan = plan_of(name)
        left -= {about(one) for one in mistakes(kernel_body(plan, [])) if about(one) in left and not refused(plan, one)}
    assert left == set()


PRINTED = """\
cutegen: 1
kernel: small
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T
schedule:
  tiler: {M: 128, N: 64, K: 32}
  cluster: {M: 1, N: 1}
  mma: {atom: wgmma}
  warps: {consumers: 2}
  pipeline: {stages: 3}
"""
SEVERAL = Case("several", "", {"M": 650, "N": 40, "K": 136}, "padded", "integers", blocks=1)
EMULATED = (
    *("Drain, one group less, 1", "Wait, other parity, full", "Wait, another barrier, empty", "Fence, left out, "),
    *("Meet, left out, 3 + group", "Arrive, twice, empty", "Load, to another cell, full"),
    *("Expect, half of the bytes, full", "Let, left out, stage", "If, by several threads, "),
    *("Initialise, an arrival more, empty", "Initialise, an arrival less, empty", "FenceInitialised, left out, "),
    *("SyncThreads, left out, ", "AllocateBarriers, one less, full"),
)


@pytest.mark.parametrize("wrong", sampled(EMULATED, len(EMULATED)))
def test_the_emulator_fails_on_what_is_printed_of_a_mistake(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mistake is in the text as well: what is printed is what proofs look at."""
    pytest.importorskip("cutlass")

    def mistaken(plan: WarpspecializedPlan, finders: list[str]) -> Body:
        return next(one.tree for one in mistakes(kernel_body(plan, finders)) if ", ".join(about(one)) == wrong)

    right = generate(PRINTED, "specs/small.yaml").modules[0]
    monkeypatch.setattr(text, "kernel_body", mistaken)
    made = generate(PRINTED, "specs/small.yaml").modules[0]
    assert made.text != right.text
    file = tmp_path / "small.py"
    file.write_text(made.text, encoding="utf-8")
    report = verify_case(made.plan, SEVERAL, load_module(file), EmulatorExecutor(lines=False))
    assert "fault[" in report.message


SMALL = (Counts(1, 3), Counts(2, 1))


@pytest.mark.parametrize("name", sampled(["gemm_bf16_pingpong-0", "gemm_bf16_kkn-0"]))
def test_a_search_of_all_orders_agrees(name: str) -> None:
    """On one block with two stages: what is proved from one order, right or with a mistake, fails in no order."""
    alone = {"cluster": {}, "copies.A.multicast": "none", "copies.B.multicast": "none", "pipeline.stages": 2}
    whole = {"copies.C.stages": 1, "copies.C.columns": plan_of(name).own_columns}
    plan = changed(plan_of(name), alone | whole)
    for sizes in SMALL:
        run = run_of(plan, sizes, whole=True)
        prove(run)
        all_orders.prove(run)
    for mistake in list(mistakes(kernel_body(plan, [])))[::8]:
        try:
            runs = [run_of(plan, sizes, mistake.tree, whole=True) for sizes in SMALL]
            for run in runs:
                prove(run)
        except (Unproved, NameError):
            continue
        for run in runs:
            all_orders.prove(run)
