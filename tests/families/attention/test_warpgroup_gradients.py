"""Contractions with several products, as gradients of attention have, where warpgroups multiply."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from attention_gradients_kit import STATEMENTS, spec
from sweep_kit import sampled
from tree_mistakes import about, mistakes

from cutegen.codegen import Module, generate
from cutegen.families.attention.wgmma.plan import WarpgroupAttentionPlan
from cutegen.families.attention.wgmma.roles import body
from cutegen.families.attention.wgmma.synchronisation import counts, run_of
from cutegen.parts.faults import Unproved
from cutegen.parts.one_order import prove
from cutegen.parts.statements import Body
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

OUTER = {"B": 2, "G": 2, "R": 2, "D": 32, "E": 48}
CASES = (
    Case("tiles", "", {**OUTER, "M": 150, "N": 301}, "padded", "random", 1, {"scale": 0.2}),
    Case("more rows", "", {**OUTER, "M": 203, "N": 37}, "compact", "random", 2, {"scale": 0.2}),
    Case("whole numbers", "", {**OUTER, "R": 3, "M": 65, "N": 64}, "padded", "integers", 3, {"scale": 0.25}),
)


@cache
def made(kind: str, rows: int = 128, stages: int = 2) -> Module:
    return generate(spec(kind, "sm_90a", rows, 32, stages), "specs/small.yaml").modules[0]


def plan(kind: str, rows: int = 128, stages: int = 2) -> WarpgroupAttentionPlan:
    found = made(kind, rows, stages).plan
    assert isinstance(found, WarpgroupAttentionPlan)
    return found


# ------------------------------------------------------------------------------------------------------------ order


def refused(found: WarpgroupAttentionPlan, tree: Body) -> str:
    """The kind of fault that a proof finds in a tree, or that a name has no value; empty where it finds none."""
    try:
        for tiles in counts(found):
            prove(run_of(found, tiles, tree))
    except Unproved as error:
        return error.fault.kind
    except NameError:
        return "text"
    return ""


@pytest.mark.parametrize("kind", STATEMENTS)
@pytest.mark.parametrize(("rows", "stages"), [(64, 2), (128, 3), (192, 2)])
def test_it_is_right_in_every_order(kind: str, rows: int, stages: int) -> None:
    found = plan(kind, rows, stages)
    assert not found.by_turns and found.consumers == rows // 64
    assert refused(found, body(found)) == ""


HARMLESS = {
    *(("Wait", "by some warps", f"empty_{name}") for name in ("Q", "K", "V", "dO")),  # the producer is one of them
    *(("Allocate", "in the place of A", f"s{name}") for name in ("Q", "K", "V", "dO", "lse", "delta")),  # there is none
    *(("Overlay", "in the place of A", f"s{name}") for name in ("dQ", "dK", "dV")),
    *(("Meet", "waits", number) for number in ("1", "1 + (group + 1) % CONSUMERS")),  # until the turn is taken
    ("Meet", "waits not", "1"),
    # Warpgroups give back the stage of the tensor before it later, or at the same time
    *(("Wait", "left out", f"empty_{name}") for name in ("V", "dO")),
}


@pytest.mark.parametrize(("kind", "stages"), sampled([("q", 2), ("kv", 2), ("q", 3), ("kv", 3)]))
def test_each_mistake_in_its_tree_is_refused(kind: str, stages: int) -> None:
    found = plan(kind, 128, stages)
    tried = list(mistakes(body(found)))
    kinds = {str(one): (about(one), refused(found, one.tree)) for one in tried}
    assert len(tried) > 120
    assert {key for key, said in kinds.values() if not said} - HARMLESS == set()
    assert {said for _, said in kinds.values()} >= {"overwrite", "early", "registers", "fence", "sum"}


# ------------------------------------------------------------------------------------------------------------- runs


def first_failure(kind: str, text: str, folder: Path) -> str:
    """The message of the first case that fails; empty where all pass."""
    pytest.importorskip("cutlass")
    path = folder / "small.py"
    path.write_text(text, encoding="utf-8")
    loaded = load_module(path)
    executor = EmulatorExecutor(lines=False)  # which compiles the module once
    reports = (verify_case(made(kind).plan, case, loaded, executor) for case in CASES)
    return next((report.message for report in reports if report.status != "passed"), "")


@pytest.mark.parametrize("kind", STATEMENTS)
def test_they_are_right(kind: str, tmp_path: Path) -> None:
    assert first_failure(kind, made(kind).text, tmp_path) == ""


END = "cutlass.Int32(cute.ceil_div(cutlass.max(end_place, 0), BLK_N))"
MISTAKES = {
    "q": {
        "scores of the other pair": ("scores_2 = scores_mn_2[row", "scores_2 = scores_mn[row"),
        "rows of the first tensor": ("tSrdO[None, None, k_block, group]", "tSrQ[None, None, k_block, group]"),
        "keys of the first group": ("tma_tensor_K[None, None, at_B, at_G]", "tma_tensor_K[None, None, at_B, 0]"),
        "the sums of another head": ("mdelta[at_B, at_G, at_R,", "mdelta[at_B, at_G, 0,"),
        "without the factor": ("dQ_value = sums * scale", "dQ_value = sums"),
        "a stage given back too early": (
            "            warpgroup.wait_group(0)\n            if thr == 0:\n"
            "                cute.arch.mbarrier_arrive(empty_K",
            "            if thr == 0:\n                cute.arch.mbarrier_arrive(empty_K",
        ),
        "a mask one tile early": (END, "cutlass.Int32(cutlass.max(end_place, 0) // BLK_N)"),
    },
    "kv": {
        "a head left out": ("rounds = tiles * size_R", "rounds = tiles * (size_R - 1)"),
        "the first head's tiles": ("key_tile = tile // tiles * every_tile +", "key_tile ="),
        "the first head's sums": ("mlse[at_B, at_G, at_R, None]", "mlse[at_B, at_G, 0, None]"),
        "tiles of all queries": ("every_tile = cute.ceil_div(size_M, BLK_M)", "every_tile = tiles"),
        "the other factor": ("tOrP_2[None", "tOrP[None"),
        "places of another tile": ("start = (first_tile + tile % tiles)", "start = (first_tile + tile)"),
        "a mask one tile late": ("Int32(first_place // BLK_M)", "Int32(first_place // BLK_M + 1)"),
        "vectors in one place": ("lse_fetched, slse[None, 2 * group + tile % 2]", "lse_fetched, slse[None, 2 * group]"),
        "a vector that is read before it is there": (
            "cute.arch.barrier(barrier_id=5 + group, number_of_threads=128)\n            warpgroup.wait",
            "warpgroup.wait",
        ),
        "the other warpgroup's vector": ("at_columns(sdelta[None, 2 * group +", "at_columns(sdelta[None, 0 +"),
        "elements of a vector beyond the end": ("and start + place < size", "and start + place < size + 1"),
        "both outputs in one place": ("recast_ptr(sV.iterator, sdV", "recast_ptr(sK.iterator, sdV"),
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "mistake"), sampled([(kind, mistake) for kind, every in MISTAKES.items() for mistake in every], 3)
)
def test_each_mistake_is_seen(kind: str, mistake: str, tmp_path: Path) -> None:
    text, (right, wrong) = made(kind).text, MISTAKES[kind][mistake]
    assert right in text
    assert first_failure(kind, text.replace(right, wrong), tmp_path)
