"""No order of warps goes wrong, by the tree that a gemm is printed from; and trees with mistakes are refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from specs_kit import files_of_kernels, files_with, modules_of
from sweep_kit import sampled
from tree_mistakes import Mistake, mistakes, of_each_kind

from cutegen.codegen import Module, generate
from cutegen.families.gemm.mma_sync.mainloop import MmaSyncMainloop
from cutegen.families.gemm.mma_sync.plan import MmaSyncPlan
from cutegen.families.gemm.staged.mainloop import ColumnMainloop, Mainloop
from cutegen.families.gemm.staged.plan import GemmPlan, MultistagePlan
from cutegen.families.gemm.staged.synchronisation import counts, run_of
from cutegen.parts import all_orders
from cutegen.parts.faults import Unproved
from cutegen.parts.one_order import prove
from cutegen.parts.statements import Body
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

GEMM = """\
cutegen: 1
kernel: small
op: gemm
tensors:
  A: {{shape: [M, K], dtype: {dtype}, major: {a}, align: 16}}
  B: {{shape: [N, K], dtype: {dtype}, major: {b}, align: 16}}
  C: {{shape: [M, N], dtype: {dtype}, align: 16, role: out}}
compute: C = A @ B.T
schedule:
  tiler: {{M: 64, N: 64, K: {depth}}}
  mma: {{atom: {atom}}}
  pipeline: {{stages: {stages}}}
  copies: {{A: {{atom: {ways[0]}}}, B: {{atom: {ways[1]}}}}}
targets: [sm_80]
"""
CP, REGISTERS = "cp_async", "universal"
SPECS: dict[str, dict[str, Any]] = {
    "fma, by cp.async": {"stages": 3},
    "fma, by cp.async, two stages": {"stages": 2},
    "fma, A through registers": {"stages": 4, "ways": (REGISTERS, CP)},
    "fma, through registers": {"stages": 2, "ways": (REGISTERS, REGISTERS)},
    "fma, converted": {"stages": 3, "dtype": "bf16", "depth": 16},
    "mma_sync, two stages": {"stages": 2, "atom": "mma_sync", "depth": 64},
    "mma_sync, many stages": {"stages": 6, "atom": "mma_sync", "depth": 32},
    "mma_sync, B through registers": {"stages": 3, "atom": "mma_sync", "depth": 64, "ways": (CP, REGISTERS)},
    "mma_sync, through registers": {"stages": 2, "atom": "mma_sync", "depth": 32, "ways": (REGISTERS, REGISTERS)},
}


def module(name: str) -> Module:
    fields: dict[str, Any] = {"atom": "fma", "depth": 8, "ways": (CP, CP)} | SPECS[name]
    along_k = {"dtype": "bf16", "a": "K", "b": "K"}
    fields = (along_k if fields["atom"] == "mma_sync" else {"dtype": "f32", "a": "M", "b": "N"}) | fields
    return generate(GEMM.format(**fields), "specs/small.yaml").modules[0]


FILES = [file for file in files_with("op: gemm") if file not in files_with("wgmma")]


@cache
def loops(source: str) -> dict[str, Mainloop[Any]]:
    """The statements of a gemm of `SPECS`, or of those that an example has, by name."""
    made = {source: module(source)} if source in SPECS else modules_of(source)
    plans = {name: kernel for name, one in made.items() for kernel in one.plan.kernels}
    return {
        **{name: ColumnMainloop(plan) for name, plan in plans.items() if isinstance(plan, GemmPlan)},
        **{name: MmaSyncMainloop(plan) for name, plan in plans.items() if isinstance(plan, MmaSyncPlan)},
    }


def loop_of(name: str) -> Mainloop[Any]:
    return loops(name if name in SPECS else files_of_kernels()[name])[name]


def refused(loop: Mainloop[Any], tree: Body) -> str:
    """The kind of fault that a proof finds in a tree; empty where it finds none."""
    try:
        for k_tiles in counts(loop.plan):
            prove(run_of(loop, k_tiles, tree))
    except Unproved as error:
        return error.fault.kind
    return ""


def test_plans_differ() -> None:
    plans: list[MultistagePlan] = [loop_of(name).plan for name in SPECS]
    assert {(plan.uses_cp_async, plan.uses_registers) for plan in plans} == {(True, False), (True, True), (False, True)}
    assert any(loop.plan.stores_early for loop in loops("gemm_f32_fma").values())
    assert {len(plan.fetches) for plan in plans if isinstance(plan, MmaSyncPlan)} == {0, 1, 2}


@pytest.mark.parametrize("source", [*SPECS, *FILES])
def test_what_is_printed_is_right_in_every_order(source: str) -> None:
    assert loops(source)
    for loop in loops(source).values():
        assert refused(loop, loop.body()) == ""
        assert prove(run_of(loop, max(counts(loop.plan)))).acts > 100


def is_harmless(loop: Mainloop[Any], mistake: Mistake) -> bool:
    """Of two stages no group of copies is left under way, so that empty groups make no difference."""
    return mistake.what == "commits only where it copies" and loop.plan.stages == 2


BROKEN = (*SPECS, "gemm_f32_fma_kkm")


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        *sampled([(name, False) for name in BROKEN], 2),
        *(pytest.param(name, True, marks=pytest.mark.sweep) for name in BROKEN),
    ],
)
def test_each_mistake_in_a_tree_is_refused(name: str, whole: bool) -> None:
    loop = loop_of(name)
    tried = list(mistakes(loop.body()))
    assert len(tried) > 80
    tried = tried if whole else of_each_kind(tried)
    found = {str(one): refused(loop, one.tree) for one in tried if not is_harmless(loop, one)}
    assert [what for what, kind in found.items() if not kind] == []
    # A text without a value is what a mistake shows in where an assignment is missing, and nowhere else
    assert all(what.startswith("Let, left out") for what, kind in found.items() if kind == "text")
    assert not [one for one in tried if is_harmless(loop, one) and refused(loop, one.tree)]


SMALL = ("fma, by cp.async, two stages", "fma, A through registers", "mma_sync, two stages")


@pytest.mark.parametrize("name", SMALL)
def test_a_search_of_all_orders_agrees(name: str) -> None:
    """With two steps a tile: what is proved from one order, right or with a mistake, fails in no order."""
    loop = loop_of(name)
    steps = {"BLK_K": 1, "K_BLOCKS": loop.plan.tile["K"] // loop.plan.steps}[loop.steps]
    small = type(loop)(replace(loop.plan, tile={**loop.plan.tile, "K": 2 * steps}, stages=2, store=1))
    for tree in (small.body(), *(one.tree for one in list(mistakes(small.body()))[::4])):
        runs = []
        try:
            for k_tiles in (0, 1, 4):
                runs.append(run_of(small, k_tiles, tree))
                prove(runs[-1])
        except Unproved:
            continue
        for run in runs:
            all_orders.prove(run)


# What is wrong, the so-manieth time that it can be, with how many tiles along K, and what the emulator says of it
EMULATED = (
    ("fma, by cp.async", "CpAsyncWaitGroup, one group less", 1, 7, "in-flight"),
    ("mma_sync, two stages", "SyncThreads, left out", 2, 3, "race"),  # before the epilogue writes
    ("fma, A through registers", "CopyFromRegisters, to the next stage", 1, 7, "race"),
    ("fma, by cp.async", "For, commits only where it copies", 0, 1, "in-flight"),
    ("mma_sync, two stages", "SyncThreads, left out", 3, 3, "race"),  # before it reads
    ("mma_sync, many stages", "If, at the last step", 0, 9, "in-flight"),
    ("fma, through registers", "SyncThreads, left out", 1, 5, "race"),
    ("fma, by cp.async", "ReadFragment, left out", 0, 7, "never-written"),
    ("mma_sync, many stages", "CpAsyncCommitGroup, left out", 0, 9, "in-flight"),
)


@pytest.mark.parametrize(("name", "wrong", "number", "k_tiles", "fault"), sampled(EMULATED, 4))
def test_the_emulator_fails_on_what_is_printed_of_a_mistake(
    name: str, wrong: str, number: int, k_tiles: int, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mistake is in the text as well: what is printed is what proofs look at."""
    pytest.importorskip("cutlass")
    loop, right = loop_of(name), module(name)
    tree = [one.tree for one in mistakes(loop.body()) if f"{one.kind}, {one.what}" == wrong][number]
    assert refused(loop, tree)
    monkeypatch.setattr(type(loop), "body", lambda self: tree)
    made = module(name)
    assert made.text != right.text
    file = tmp_path / "small.py"
    file.write_text(made.text, encoding="utf-8")
    sizes = {"M": 64, "N": 64, "K": k_tiles * loop.plan.tile["K"]}
    case = Case("several", "", sizes, "padded", "integers")
    assert f"fault[{fault}]" in verify_case(made.plan, case, load_module(file), EmulatorExecutor(lines=False)).message
