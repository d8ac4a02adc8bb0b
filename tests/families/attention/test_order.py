"""No order of warps goes wrong, by the tree that a contraction is printed from; and trees with mistakes are refused."""

from __future__ import annotations

from functools import cache

import pytest
from tree_mistakes import about, mistakes

from cutegen.codegen import generate
from cutegen.families.attention.mma_sync.mainloop import body
from cutegen.families.attention.mma_sync.plan import AttentionPlan
from cutegen.families.attention.mma_sync.synchronisation import counts, run_of
from cutegen.parts.faults import Unproved
from cutegen.parts.one_order import prove
from cutegen.parts.statements import Body

SPEC = """\
cutegen: 1
kernel: attention
op: contract
tensors:
  Q: {{shape: [M, D], dtype: bf16}}
  K: {{shape: [N, D], dtype: bf16}}
  V: {{shape: [N, D], dtype: bf16}}
  O: {{shape: [M, D], dtype: bf16, role: out}}
compute:
  - s = sum(Q * K, D)
  - p = exp(s - max(s, N))
  - O = sum(cast(p, bf16) * V, N) / sum(p, N)
static: {{D: {depth}}}
schedule: {{tiler: {{M: 32, N: 32}}, pipeline: {{stages: {stages}}}}}
targets: [sm_80]
"""
SHARED = "tiler: {M: 16, N: 64}, mma: {warps: 2}, split: {N: 3}"
ALONE = "tiler: {M: 16, N: 32}, mma: {warps: 1}, split: {N: 3}"
KEPT, READ = 64, 256  # of a row: its fragments stay in registers, or are read for each tile
# At the end all groups with copies have been waited for: where no tile was walked, that is done for the fragments
HARMLESS = {
    KEPT: {("CpAsyncWaitGroup", what, "0") for what in ("by one warp", "left out", "one group less")},
    READ: {("CpAsyncWaitGroup", "one group less", "0")},
}


@cache
def plan(stages: int, depth: int, more: str = "") -> AttentionPlan:
    text = SPEC.format(stages=stages, depth=depth)
    text = text.replace("tiler: {M: 32, N: 32}", more) if more else text
    found = generate(text, "specs/attention.yaml").modules[0].plan
    assert isinstance(found, AttentionPlan)
    return found


def refused(found: AttentionPlan, tree: Body) -> str:
    """The kind of fault that a proof finds in a tree, or that a name has no value; empty where it finds none."""
    try:
        for tiles in counts(found):
            prove(run_of(found, tiles, tree))
    except Unproved as error:
        return error.fault.kind
    except NameError:
        return "text"
    return ""


@pytest.mark.parametrize("depth", [KEPT, READ])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_it_is_right_in_every_order(stages: int, depth: int) -> None:
    found = plan(stages, depth)
    assert found.keeps_left == (depth == KEPT)
    assert refused(found, body(found)) == ""
    assert prove(run_of(found, max(counts(found)))).acts > 50


@pytest.mark.parametrize(("stages", "depth"), [(2, KEPT), (3, KEPT), (2, READ)])
def test_each_mistake_in_its_tree_is_refused(stages: int, depth: int) -> None:
    found = plan(stages, depth)
    tried = list(mistakes(body(found)))
    kinds = {str(one): (about(one), refused(found, one.tree)) for one in tried}
    assert len(tried) > 60 and {key for key, kind in kinds.values() if not kind} == HARMLESS[depth]
    assert {kind for _, kind in kinds.values()} >= {"overwrite", "early", "fragment", "sum"}


@pytest.mark.parametrize(("more", "shared"), [(SHARED, 2), (ALONE, 1)])
def test_a_part_of_a_walk_is_right_in_every_order(more: str, shared: int) -> None:
    found = plan(2, KEPT, more)
    assert (found.parts, found.key_warps) == (3, shared)
    assert refused(found, body(found)) == ""


def test_each_mistake_in_the_tree_of_a_part_is_refused() -> None:
    found = plan(2, KEPT, SHARED)
    tried = list(mistakes(body(found)))
    kinds = {str(one): (about(one), refused(found, one.tree)) for one in tried}
    assert len(tried) > 60 and {key for key, kind in kinds.values() if not kind} == HARMLESS[KEPT]
    assert {kind for _, kind in kinds.values()} >= {"overwrite", "early", "fragment", "sum"}
