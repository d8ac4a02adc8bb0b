"""No order of warps goes wrong where warpgroups multiply, by the tree that prints a contraction; and trees with
mistakes are refused.
"""

from __future__ import annotations

from functools import cache

import pytest
from tree_mistakes import about, mistakes

from cutegen.codegen import generate
from cutegen.families.attention.wgmma.plan import WarpgroupAttentionPlan
from cutegen.families.attention.wgmma.roles import body
from cutegen.families.attention.wgmma.synchronisation import counts, run_of
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
  V: {{shape: [N, E], dtype: bf16}}
  O: {{shape: [M, E], dtype: bf16, role: out}}
scalars: {{scale: f32}}
compute:
  - s = where(coord(N) <= coord(M), sum(Q * K, D) * scale, -inf)
  - p = exp(s - max(s, N))
  - O = sum(cast(p, bf16) * V, N) / sum(p, N)
static: {{D: 64, E: {columns}}}
schedule: {{tiler: {{M: {rows}, N: 32}}, pipeline: {{stages: {stages}}}}}
targets: [sm_90a]
"""
HARMLESS = {
    *(("Wait", "by some warps", f"empty_{name}") for name in "KV"),  # the producer is one of them
    *(("Allocate", "in the place of A", f"s{name}") for name in "QKV"),  # there is none
    ("Overlay", "in the place of A", "sO"),
}
ALONE = {("Load", "to another cell", "full_Q")}  # there is one
IN_TURN = {  # whoever gives the turn waits until it is taken
    *(("Meet", "waits", number) for number in ("1", "1 + (group + 1) % CONSUMERS")),
    ("Meet", "waits not", "1"),
}


@cache
def plan(rows: int, stages: int, columns: int = 64) -> WarpgroupAttentionPlan:
    text = SPEC.format(rows=rows, stages=stages, columns=columns)
    found = generate(text, "specs/attention.yaml").modules[0].plan
    assert isinstance(found, WarpgroupAttentionPlan)
    return found


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


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (128, 64), (128, 32), (192, 64)])
def test_it_is_right_in_every_order(rows: int, columns: int, stages: int) -> None:
    found = plan(rows, stages, columns)
    assert found.consumers == rows // 64 and bool(found.overlaid) == (columns == 64) and len(found.parts) == 2
    assert refused(found, body(found)) == ""
    assert prove(run_of(found, max(counts(found)))).acts > 100


@pytest.mark.parametrize(("rows", "stages"), [(64, 2), (128, 2), (128, 3), (192, 2)])
def test_each_mistake_in_its_tree_is_refused(rows: int, stages: int) -> None:
    found = plan(rows, stages)
    tried = list(mistakes(body(found)))
    kinds = {str(one): (about(one), refused(found, one.tree)) for one in tried}
    assert len(tried) > 100
    assert {key for key, kind in kinds.values() if not kind} == HARMLESS | (IN_TURN if rows > 64 else ALONE)
    assert {kind for _, kind in kinds.values()} >= {"overwrite", "early", "registers", "fence", "sum"}
