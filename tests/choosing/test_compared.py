"""Schedules that are compared: for which calls a gemm has them, and which of them."""

from __future__ import annotations

import pytest
from choosing_kit import plan_of

import cutegen
from cutegen.analysis.cost import estimates
from cutegen.cases.plan import CasesPlan
from cutegen.codegen import generate
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.language.cases import SizeIs

LINEAR = """\
cutegen: 1
kernel: linear
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  bias: {shape: [N], dtype: f32}
  C: {shape: [M, N], dtype: bf16, role: out}
compute: C = A @ B.T + bias
targets: [sm_90a]
"""
PRODUCTS = """\
cutegen: 1
kernel: products
op: gemm
tensors:
  A: {shape: [L, M, K], dtype: bf16}
  B: {shape: [L, N, K], dtype: bf16}
  C: {shape: [L, M, N], dtype: bf16, role: out}
compute: C = A @ B.T
targets: [sm_90a]
"""
COMPARED = """\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T
schedule:
"""
FIRST = "  - {for: {N: ['% 8 == 0', '<= 4096'], cost: least}, tiler: {M: 64, N: 128, K: 64}, mma: {atom: wgmma}}\n"
SECOND = "  - {for: {N: ['<= 4096', '% 8 == 0'], cost: least}, tiler: {M: 128, N: 128, K: 64}, mma: {atom: wgmma}}\n"
FEW = "  - {for: {M: '<= 4'}, tiler: {M: 16}, mma: {atom: wgmma, rows: N}, copies: {C: {atom: universal}}}\n"
REST = "  - {mma: {atom: wgmma}, copies: {C: {atom: universal}}}\n"


def planned(text: str) -> CasesPlan:
    plan = plan_of(text)
    assert isinstance(plan, CasesPlan)
    return plan


@pytest.mark.parametrize("promise", ["static: {N: 4096}", "static: {N: 4096, K: 4096}", "divisible: {N: 8}"])
def test_aligned_calls_get_the_compared_schedules_too(promise: str) -> None:
    """A bias would be loaded in pairs where it is aligned: less is won by that than by the right tile."""
    plan = planned(f"{LINEAR}{promise}\n")
    assert len(plan.cases) > 8
    assert all(one.by_cost and one.align == 1 for one in plan.conditions)


def test_where_the_output_is_aligned_calls_of_other_sizes_have_one_case_more() -> None:
    aligned = LINEAR.replace("role: out", "align: 16, role: out")
    *compared, rest = planned(aligned).conditions
    assert all(one.by_cost and one.sizes == {"N": (SizeIs("%", 8),)} and one.align == 1 for one in compared)
    assert rest.always and len(compared) > 8


def test_where_all_sizes_are_fixed_aligned_calls_have_the_best_tile_too() -> None:
    plan = planned(f"{LINEAR}static: {{M: 64, N: 4096, K: 4096}}\n")
    assert [(one.align, one.by_cost) for one in plan.conditions] == [(8, False), (1, False)]
    tiles = [case.tile for case in plan.cases if isinstance(case, WarpspecializedPlan)]
    assert len(tiles) == 2 and tiles[0] == tiles[1] != {"M": 128, "N": 256, "K": 64}


def test_where_all_sizes_are_fixed_a_case_by_cost_is_one_kernel_that_nothing_chooses() -> None:
    text = f"{COMPARED}  - {{for: {{cost: least}}, mma: {{atom: wgmma}}}}\nstatic: {{M: 64, N: 4096, K: 4096}}\n"
    (module,) = generate(text, "product.yaml").modules
    assert len(module.plan.kernels) == 1
    assert "COSTS" not in module.text and "_cheapest" not in module.text


@pytest.mark.parametrize(
    "sizes", ["{M: 512, N: 512, K: 4096}", "{M: 256, N: 2048, K: 7168}", "{M: 1024, N: 256, K: 128}"]
)
def test_each_size_of_a_batch_has_the_schedule_that_is_the_best_of_all(sizes: str) -> None:
    fixed = f"{PRODUCTS}static: {sizes}\n"
    few, all_of_them = planned(fixed), planned(PRODUCTS)
    assert few.moved is not None and len(few.cases) < len(all_of_them.cases)
    for size in range(1, 300):
        at = {**few.spec.static, "L": size}
        least = (min(estimates(plan.costs, few.moved, at)) for plan in (few, all_of_them))
        assert next(least) == next(least), size


def test_a_case_among_those_that_are_compared_is_refused() -> None:
    """A call may be for both: what chooses by cost would compile one, and the launch take the other."""
    found = cutegen.check(COMPARED + FIRST + FEW + SECOND + REST, "product.yaml")
    (said,) = (d for d in found if d.severity == "error")
    assert said.code == "CG301" and "M <= 4 is among" in said.message
    assert said.help == "move it before case 1, or behind case 3"
    for cases in (FEW + FIRST + SECOND + REST, FIRST + SECOND + FEW + REST):
        assert not [d for d in cutegen.check(COMPARED + cases, "product.yaml") if d.severity == "error"]


def test_a_case_for_another_target_may_stand_among_those_that_are_compared() -> None:
    other = "  - {for: {target: sm_80}, mma: {atom: mma_sync}}\n"
    both = "".join(one.replace("for: {", "for: {target: sm_90a, ") for one in (FIRST, SECOND)).splitlines(True)
    text = f"{COMPARED}{both[0]}{other}{both[1]}{REST}targets: [sm_80, sm_90a]\n"
    assert not [d for d in cutegen.check(text, "product.yaml") if d.code == "CG301"]


def test_a_case_that_another_ones_accesses_leave_nothing_for_says_what_keeps_it() -> None:
    """A size condition of one case applies to all calls, so that no call is left for the case of the others."""
    other = "  - {mma: {atom: mma_sync}}\n"
    mine = "".join(one.replace("for: {", "for: {target: sm_90a, ") for one in (FIRST, SECOND))
    rest = REST.replace("{mma", "{for: {target: sm_90a}, mma")
    text = f"{COMPARED}{mine}{rest}{other}targets: [sm_80, sm_90a]\n".replace(", '<= 4096'", "").replace(
        "'<= 4096', ", ""
    )
    (said,) = (d for d in cutegen.check(text, "product.yaml") if d.severity == "error")
    assert said.code == "CG296" and "some case demands N % 8 == 0 of all calls" in said.notes[0]
    assert "`divisible: {N: 1}`" in (said.help or "")
    assert not [d for d in cutegen.check(f"{text}divisible: {{N: 1}}\n", "product.yaml") if d.severity == "error"]


@pytest.mark.parametrize(
    "sizes", ["{N: 64}", "{M: 7, N: 72}", "{M: 64}", "{M: 40, K: 64}", "{N: 64, K: 64}", "{M: 128}"]
)
def test_no_tile_is_larger_than_a_fixed_size_needs(sizes: str) -> None:
    """Of a fixed size that is smaller than a tile, pieces beyond it would be stored over the first one."""
    whole = plan_of(f"{COMPARED[: COMPARED.index('schedule')]}static: {sizes}\ntargets: [sm_90a]\n")
    kernels = [plan for plan in whole.kernels if isinstance(plan, WarpspecializedPlan)]
    assert kernels and len({(str(plan.spec.schedule.as_data())) for plan in kernels}) == len(kernels)
    for plan in kernels:
        for mode, unit in ((plan.m, 64), (plan.n, 16)):  # rows and columns of a product
            size = plan.spec.static.get(mode, plan.tile[mode])
            assert plan.tile[mode] <= -(-size // unit) * unit
        assert plan.spec.divisible.get("N", 1) % 8 or plan.spec.schedule.copies["C"].through == "smem"
        clusters = dict(zip((plan.m, plan.n), plan.cluster_tile, strict=True))
        shared = [mode for mode in clusters if clusters[mode] > plan.tile[mode]]
        assert all(plan.spec.static.get(mode, clusters[mode]) > plan.tile[mode] for mode in shared)
