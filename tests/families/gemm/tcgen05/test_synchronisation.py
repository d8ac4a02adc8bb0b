"""No order of the warps of a gemm in tensor memory goes wrong, and trees with one mistake each are refused."""

from __future__ import annotations

from functools import cache

import pytest
from tree_mistakes import Mistake, about, mistakes

from cutegen.codegen import generate
from cutegen.families.gemm.tcgen05.plan import Tcgen05Plan
from cutegen.families.gemm.tcgen05.roles import kernel_body
from cutegen.families.gemm.tcgen05.synchronisation import counts, run_of
from cutegen.parts.acts import Commit, StartProducts, TensorFence
from cutegen.parts.faults import Unproved
from cutegen.parts.one_order import prove

SPEC = """\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {{shape: [M, K], dtype: bf16}}
  B: {{shape: [N, K], dtype: bf16}}
  C: {{shape: [M, N], dtype: f32, role: out}}
compute: C = A @ B.T
schedule:
  mma: {{atom: tcgen05}}
  pipeline: {{stages: {stages}}}
targets: [sm_100a]
{more}
"""
HARMLESS = {
    (kind, "by some warps", of): "the role is one warp, which is among them"
    for kind, of in (
        *(("Wait", "empty"), ("Wait", "full"), ("StartProducts", ""), ("TensorFence", "True")),
        *(("AllocateColumns", ""), ("FreeColumns", "")),
    )
}


@cache
def plan_of(stages: int, more: str = "", products: int = 1) -> Tcgen05Plan:
    text = SPEC.format(stages=stages, more=more)
    if products > 1:
        text = text.replace("C = A @ B.T", "C = (A @ B.T) * (A @ U.T)")
        text = text.replace("  C: {", "  U: {shape: [N, K], dtype: bf16}\n  C: {")
    plan = generate(text, "specs/x.yaml").modules[0].plan
    assert isinstance(plan, Tcgen05Plan)
    return plan


def refused(plan: Tcgen05Plan, mistake: Mistake) -> str:
    """The kind of fault that a proof finds in a tree; nothing where it is right."""
    try:
        for k_tiles in counts(plan):
            prove(run_of(plan, k_tiles, mistake.tree))
    except Unproved as error:
        return error.fault.kind
    except NameError:
        return "text"
    return ""


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_what_is_printed_is_right_in_every_order(stages: int) -> None:
    plan = plan_of(stages)
    assert {0, 1, stages, stages + 1, 3 * stages + 1} <= {*counts(plan)}
    for k_tiles in counts(plan):
        run = run_of(plan, k_tiles)
        assert prove(run).phases == 2 * k_tiles + 1  # of the barriers of stages, and of that of the sums
        acts = [act for own in run.acts.values() for act in own]
        assert sum(isinstance(act, StartProducts) for act in acts) == k_tiles
        assert sum(isinstance(act, Commit) for act in acts) == k_tiles + 1
        assert sum(isinstance(act, TensorFence) and act.after for act in acts) == k_tiles + 2 + 1


def test_a_fixed_sum_has_no_way_without_products() -> None:
    assert 0 not in counts(plan_of(3, "static: {K: 256}"))


@pytest.mark.parametrize(("stages", "products"), [(2, 1), (3, 1), (3, 2)])
def test_each_mistake_in_its_tree_is_refused(stages: int, products: int) -> None:
    plan = plan_of(stages, products=products)
    tried = list(mistakes(kernel_body(plan)))
    found = {str(one): (about(one), refused(plan, one)) for one in tried}
    assert {about for about, kind in found.values() if not kind} == set(HARMLESS)
    kinds = {kind for _, kind in found.values()}
    assert len(tried) > 100
    assert kinds >= {"deadlock", "bytes", "overwrite", "early", "fence", "registers", "content", "exit", "unread"}
