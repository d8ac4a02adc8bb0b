"""Cases compared by cost: what modules print of it, what is verified, and which specs are refused."""

from __future__ import annotations

import ast
import functools
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from choosing_kit import plan_of

import cutegen
from cutegen.analysis.cost import Cost
from cutegen.analysis.proof import prove
from cutegen.analysis.report_text import as_lines
from cutegen.cases.calls import Call, calls, of_group, taken
from cutegen.cases.plan import CasesPlan
from cutegen.codegen import Module, generate
from cutegen.codegen.cplusplus import header_text
from cutegen.compiling.loading import load
from cutegen.compiling.unassembled import unassembled_code, without_empty_kernel
from cutegen.contract import chooses, compiled_arguments, copies, replace_multiprocessors
from cutegen.families.gemm.wgmma.compared import EXCHANGED, IN_TURN, ONE, SEVERAL, STRAIGHT
from cutegen.families.gemm.wgmma.cost import COOPERATIVE, PACE, PACE_OF_SHARED, PACE_OF_TWO, PINGPONG, cost_of
from cutegen.families.gemm.wgmma.cost import EXCHANGED as EXCHANGED_KIND
from cutegen.language.cases import Case, Cases, Conditions, SizeIs
from cutegen.language.writer import write_spec
from cutegen.verification.cases import derive_cases

BATCHED = """\
cutegen: 1
kernel: products
op: gemm
tensors:
  A: {shape: [L, rows, K], dtype: bf16, align: 16}
  B: {shape: [L, N, K], dtype: bf16, align: 16}
  C: {shape: [L, rows, N], dtype: f32, align: 16, role: out}
compute: C = A @ B.T
schedule:
  - {for: {cost: least}, tiler: {rows: 64, N: 128, K: 64}, mma: {atom: wgmma}}
  - {for: {cost: least}, mma: {atom: wgmma}}
"""
TEXT = """\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T
schedule:
  - {for: {cost: least}, tiler: {M: 32, N: 64, K: 128}, mma: {atom: wgmma, rows: N}}
  - {for: {cost: least}, tiler: {M: 128, N: 256, K: 64}, mma: {atom: wgmma}}
  - {for: {cost: least}, tiler: {M: 128, N: 192, K: 64}, mma: {atom: wgmma}, warps: {roles: pingpong}}
"""
SMALL = "N: 256", "N: 64"  # a tile that compiles soon
LEFT_OUT = TEXT[: TEXT.index("schedule:")]
TWO = """\
cutegen: 1
kernel: products
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  D: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = (A @ B.T) * (A @ D.T)
schedule:
  - {for: {cost: least}, tiler: {M: 32, N: 64, K: 128}, mma: {atom: wgmma, rows: N}}
  - {for: {cost: least}, tiler: {M: 128, N: 128, K: 64}, mma: {atom: wgmma}}
"""


def planned(text: str) -> tuple[CasesPlan, str]:
    module = made(text)
    assert isinstance(module.plan, CasesPlan)
    return module.plan, module.text


def planned_alone(text: str) -> CasesPlan:
    """The plan, without the module's text."""
    plan = plan_of(text)
    assert isinstance(plan, CasesPlan)
    return plan


@functools.cache  # of many schedules, each of which is planned and printed
def made(text: str) -> Module:
    (module,) = generate(text, "products.yaml").modules
    return module


def printed_choice(text: str) -> Callable[..., int]:
    """`_cheapest` of a module's text, by itself."""
    names: dict[str, Any] = {"functools": functools}
    for node in ast.parse(text).body:
        defined = (
            node.name if isinstance(node, ast.FunctionDef) else getattr(getattr(node, "targets", [0])[0], "id", "")
        )
        if defined in ("COSTS", "_cheapest"):
            exec(compile(ast.Module([node], []), "module", "exec"), names)
    found: Callable[..., int] = names["_cheapest"]
    return found


@pytest.mark.parametrize(("text", "modes"), [(TEXT, ("M", "N", "K")), (BATCHED, ("L", "rows", "N", "K"))])
def test_the_module_chooses_the_kernel_that_the_plan_does(text: str, modes: tuple[str, ...]) -> None:
    plan, printed = planned(text)
    choose, numbers, seen = printed_choice(printed), random.Random(1), set()
    for _ in range(3000):
        sizes = {mode: int(2 ** numbers.uniform(0, 15 if mode != "L" else 4)) for mode in modes}
        sms = numbers.choice((132, 114, 78, 16))
        chosen = choose(*(sizes[mode] for mode in modes), sms)
        assert chosen == plan.chosen_for(sizes, sms)
        assert plan.taken(sizes, None, sms) is plan.cases[chosen]
        seen.add(chosen)
    assert seen == set(range(len(plan.cases)))


def test_few_rows_get_the_kernel_for_few_rows_and_many_one_for_many() -> None:
    plan = planned_alone(TEXT)
    assert plan.chosen_for({"M": 8, "N": 4096, "K": 4096}) == 0
    assert plan.chosen_for({"M": 8192, "N": 8192, "K": 8192}) in (1, 2)


def test_one_tile_more_than_run_at_a_time_is_another_round() -> None:
    cost = Cost(
        "M",
        "N",
        "K",
        None,
        rows=64,
        columns=64,
        depth=64,
        clusters=132,
        multiprocessors=132,
        fixed=False,
        start=3,
        tile=1,
        step=2,
        load_rows=0,
        load_columns=0,
    )
    whole, more = ({"M": 64, "N": 64 * tiles, "K": 640} for tiles in (132, 133))
    assert cost.of(whole, 0.0, 1.0) == 3 + 2 * (10 * 2 + 1)
    assert cost.of(more, 0.0, 1.0) == 3 + 2 * 2 * (10 * 2 + 1)


def test_the_estimate_of_a_call_is_that_of_the_kernel_that_it_takes_and_as_long_as_its_parts() -> None:
    plan = planned_alone(TEXT)
    for m, n, k in product((8, 300, 4096), (1024, 5120), (64, 4096, 30000)):
        sizes = {"M": m, "N": n, "K": k}
        estimate = plan.estimate(sizes)
        assert estimate is not None and estimate.us == min(us for _, us in plan.estimates(sizes))
        assert sum(estimate.parts.values()) == pytest.approx(estimate.us)
        assert estimate.crossing == (k % 64 > 0)
    assert replace(plan, moved=None).estimate(sizes) is None and plan.cases[0].estimate(sizes) is None


def test_a_target_decides_which_case_is_taken_where_it_is_known() -> None:
    cases = Conditions(targets=("sm_90a",)), Conditions()
    plan = planned_alone(TEXT)
    of_two = replace(plan, conditions=cases, cases=plan.cases[:2], moved=None)
    sizes = {"M": 8, "N": 8, "K": 8}
    assert of_two.taken(sizes) is of_two.taken(sizes, "sm_90a") is of_two.cases[0]
    assert of_two.taken(sizes, "sm_80") is of_two.cases[1]


def test_each_kernel_is_verified_on_sizes_of_its_own_whatever_calls_would_choose() -> None:
    plan = planned_alone(TEXT)
    by_kernel = {number: [c for c in derive_cases(plan) if c.chosen == number] for number in range(3)}
    assert all(len(cases) > 5 for cases in by_kernel.values())
    for number, cases in by_kernel.items():
        assert any(plan.chosen_for(case.sizes) != number for case in cases) or number == 0


def test_estimates_grow_with_every_size() -> None:
    plan = planned_alone(TEXT)
    assert plan.moved is not None
    steps = (1, 64, 100, 1000, 1024, 5000, 20000)
    for cost, (m, n, k) in product(plan.costs, product(steps, repeat=3)):
        sizes = {"M": m, "N": n, "K": k}
        for mode in sizes:
            more = {**sizes, mode: sizes[mode] * 2}
            assert cost.of(sizes, plan.moved.memory(sizes), 1.0) <= cost.of(more, plan.moved.memory(more), 1.0)


def test_the_first_call_of_a_group_stands_for_all_of_it() -> None:
    few, cost = Conditions(sizes={"M": (SizeIs("<=", 16),)}), Conditions(by_cost=True)
    cases = (few, cost, cost)
    assert taken(cases, Call("sm_90a", {"M": 16}, 0)) == 0
    assert taken(cases, Call("sm_90a", {"M": 17}, 0)) == 1
    assert of_group(cases, 1) == [1, 2]
    assert of_group(cases, 0) == [0]
    assert {taken(cases, call) for call in calls(cases, ["sm_90a"], {}, {})} == {0, 1}


@pytest.mark.parametrize(
    ("cases", "words"),
    [
        (
            ["{for: {M: '<= 64', cost: least}, mma: {atom: wgmma}}", "{for: {cost: least}, mma: {atom: wgmma}}"],
            "different conditions on sizes",
        ),
        (["{for: {align: 32, cost: least}, mma: {atom: wgmma}}", "{mma: {atom: wgmma}}"], "any alignment"),
        (["{for: {cost: least}, mma: {atom: mma_sync}}"], "no estimate"),
    ],
)
def test_what_cannot_be_compared_is_refused(cases: list[str], words: str) -> None:
    text = TEXT[: TEXT.index("schedule:")] + "schedule:\n" + "".join(f"  - {case}\n" for case in cases)
    said = [d for d in cutegen.check(text, "products.yaml") if d.code == "CG301"]
    assert len(said) == 1
    assert words in said[0].message


@pytest.mark.parametrize("case", ["{mma: {atom: wgmma}}", "{for: {M: '<= 64'}, mma: {atom: wgmma}}"])
def test_another_case_behind_those_is_never_taken(case: str) -> None:
    text = f"{TEXT}  - {case}\n"
    assert [d.code for d in cutegen.check(text, "products.yaml") if d.severity == "error"] == ["CG296"]


def test_a_case_by_its_cost_that_says_nothing_else_stands_for_all_that_are_compared() -> None:
    head = TEXT[: TEXT.index("schedule:")]
    plan = planned_alone(head + "schedule:\n  - {for: {cost: least}, mma: {atom: wgmma}}\n")
    assert len(plan.cases) > 8
    assert all(one.by_cost for one in plan.conditions)
    few = "  - {for: {M: '<= 4'}, tiler: {M: 16}, mma: {atom: wgmma, rows: N}}\n"
    with_few = planned_alone(f"{head}schedule:\n{few}  - {{for: {{cost: least}}, mma: {{atom: wgmma}}}}\n")
    assert len(with_few.cases) == len(plan.cases) + 1
    assert with_few.taken({"M": 4, "N": 4096, "K": 4096}) is with_few.cases[0]


def test_what_is_written_of_that_case_leaves_it_alone() -> None:
    text = (
        TEXT[: TEXT.index("schedule:")] + "schedule:\n  - {for: {cost: least}, tiler: {M: 128}, mma: {atom: wgmma}}\n"
    )
    plan = planned_alone(text)
    assert len(plan.cases) == 1


def test_what_is_resolved_is_the_same_module() -> None:
    module = made(f"{LEFT_OUT}schedule:\n  - {{for: {{cost: least}}, mma: {{atom: wgmma}}}}\n")
    again = made(write_spec(module.spec))
    assert again.text.split("\n", 3)[3] == module.text.split("\n", 3)[3]


@pytest.mark.parametrize(("align", "kept"), [(2, 2), (4, 2), (8, 2), (16, 16)])
def test_a_tensor_that_a_call_may_copy_may_stand_anywhere(align: int, kept: int) -> None:
    """As the kernel alone says it; else the host would be expected to refuse what it copies."""
    head = LEFT_OUT.replace("align: 16", f"align: {align}", 1)
    plan, text = planned(head + "schedule:\n  - {for: {cost: least}, mma: {atom: wgmma}}\n")
    (alone,) = generate(head + "schedule: {mma: {atom: wgmma}}\n", "products.yaml").modules
    assert plan.spec.tensor("A").align == alone.spec.tensor("A").align == kept
    assert any(line.startswith('PADDED = ("a"') for line in text.splitlines()) == (kept == 2)


def test_the_proof_has_the_estimates_of_sizes_that_are_asked_for() -> None:
    plan = planned_alone(TEXT)
    sizes = {"M": 256, "N": 8192, "K": 8192}
    (choice,) = prove(plan, [sizes]).choices
    assert [case for case, _ in choice.estimates] == [case.case for case in plan.cases]
    assert choice.taken == plan.taken(sizes).case
    estimate = plan.estimate(sizes)
    assert estimate is not None and choice.waits_for == estimate.waits_for != ""


def test_the_proof_names_the_kernel_of_sizes_for_which_none_are_compared() -> None:
    plan = planned_alone(FOR_SOME + NARROW)
    few, narrow = {"M": 4, "N": 64, "K": 64}, {"M": 64, "N": 63, "K": 64}
    proof = prove(plan, [few, narrow])
    assert [(one.taken, one.estimates) for one in proof.choices] == [(plan.cases[i].case, ()) for i in (0, 4)]
    told = "\n".join(as_lines(proof))
    assert f"{plan.cases[4].case}, which is not compared with others" in told


NARROW = "  - {mma: {atom: wgmma}, copies: {C: {atom: universal}}}\n"
FEW = "  - {for: {M: '<= 4'}, tiler: {M: 16}, mma: {atom: wgmma, rows: N}, copies: {C: {atom: universal}}}\n"
FOR_SOME = TEXT.replace("{cost: least}", "{N: '% 8 == 0', cost: least}").replace("schedule:\n", f"schedule:\n{FEW}")


def test_calls_of_other_sizes_than_the_compared_ones_have_one_number_together() -> None:
    plan, printed = planned(FOR_SOME + NARROW)
    choose, numbers = printed_choice(printed), random.Random(2)
    for _ in range(3000):
        sizes = {mode: int(2 ** numbers.uniform(0, 14)) for mode in ("M", "N", "K")}
        chosen, few, narrow = choose(*sizes.values(), 132), sizes["M"] <= 4, sizes["N"] % 8 > 0
        assert chosen == plan.chosen_for(sizes)
        assert (chosen == 3) == (few or narrow) == (not plan.compares(sizes))
        assert plan.taken(sizes) is plan.cases[0 if few else 4 if narrow else 1 + chosen]
        assert bool(plan.estimates(sizes)) == (chosen < 3)
    module = made(FOR_SOME + NARROW)
    assert "if (size_M <= 4 || size_N % 8 != 0) return 3;" in header_text(module, "specs/products.yaml")


def test_the_rest_is_needed_beside_cases_that_are_compared_for_some_sizes() -> None:
    assert [d.code for d in cutegen.check(FOR_SOME, "products.yaml") if d.severity == "error"] == ["CG295"]


@pytest.mark.parametrize(("targets", "others"), [("[sm_90a]", 1), ("[sm_80, sm_90a]", 3)])
def test_where_nothing_is_written_kernels_are_compared_for_sizes_that_wide_accesses_fit(
    targets: str, others: int
) -> None:
    head = TEXT[: TEXT.index("schedule:")]
    plan = planned_alone(f"{head}targets: {targets}\n")
    compared = [one for one in plan.conditions if one.by_cost]
    assert len(compared) > 8 and len(plan.cases) == len(compared) + others
    assert all(one.sizes == {"N": (SizeIs("%", 8),)} for one in compared)
    whole = planned_alone(f"{head}divisible: {{N: 8}}\ntargets: [sm_90a]\n")
    assert [plan.cases[i].smem_bytes for i in plan.by_cost] == [case.smem_bytes for case in whole.cases]


def test_a_call_compiles_the_kernel_that_it_takes_and_no_other(tmp_path: Path) -> None:
    import cutlass.cute as cute

    def entries(module: ModuleType, kernels: tuple[int, ...]) -> int:
        with unassembled_code():
            options = (cute.KeepPTX(), cute.PtxasOptions("-O0"))
            compiled = module.compile_for("sm_90a", options=options, kernels=kernels)
        return without_empty_kernel(compiled.artifacts.PTX).count(".visible .entry")

    _, printed = planned((FOR_SOME + NARROW.replace("{mma", "{tiler: {M: 64, N: 64}, mma")).replace(*SMALL))
    (tmp_path / "product.py").write_text(printed)
    module = load(tmp_path / "product.py", "product_of_some")
    assert entries(module, (1,)) == 1
    assert entries(module, (3,)) == 2  # what its sizes give to none that are compared are two
    _, printed = planned(TEXT.replace(*SMALL))
    (tmp_path / "product.py").write_text(printed)
    module = load(tmp_path / "product.py", "product_of_three")
    assert entries(module, module.ALL) == len(module.ALL) == 3
    asked: list[tuple[int, ...]] = []
    with (
        mock.patch("torch.cuda.get_device_capability", lambda device: (9, 0)),
        mock.patch("torch.cuda.get_device_properties", lambda device: SimpleNamespace(multi_processor_count=132)),
        mock.patch.object(module, "compile_for", lambda _, kernels, **__: asked.append(kernels) or (lambda *_: None)),
    ):
        assert module._compiled(0, 2) is module._compiled(0, 2)
        assert module._compiled(1, 2) is not module._compiled(0, 2)
    assert asked == [(2,), (2,)]


def test_a_case_that_stands_for_more_than_there_is_room_for_says_so() -> None:
    few = "".join(f"  - {{for: {{M: {m}}}, tiler: {{M: 8}}, mma: {{atom: wgmma, rows: N}}}}\n" for m in range(2, 15))
    text = TEXT[: TEXT.index("schedule:")] + f"schedule:\n{few}  - {{for: {{cost: least}}, mma: {{atom: wgmma}}}}\n"
    (said,) = (d for d in cutegen.check(text, "products.yaml") if d.code == "CG301")
    assert "29 schedules" in said.message and said.help == (
        "write at most 11 other cases, or the schedules that are to be compared"
    )


def test_a_case_by_its_cost_is_for_the_targets_of_its_kernel() -> None:
    text = TEXT[: TEXT.index("schedule:")] + "schedule:\n  - {for: {cost: least}, mma: {atom: wgmma}}\n"
    (said,) = (d for d in cutegen.check(f"{text}targets: [sm_80, sm_90a]\n", "products.yaml") if d.code == "CG301")
    assert "sm_80" in said.message and "target: sm_90a" in (said.help or "")


def test_the_header_compiles_where_modes_are_called_like_keywords_of_c() -> None:
    text = BATCHED.replace("rows", "double")
    (module,) = generate(text, "products.yaml").modules
    header = header_text(module, "specs/products.yaml")
    assert (
        "inline int64_t products_kernel(int64_t size_L, int64_t size_double, int64_t size_N, int64_t size_K, "
        "int64_t multiprocessors) {" in header
    )


def test_the_compiled_function_gets_copies_and_the_number_of_a_kernel(tmp_path: Path) -> None:
    """A module may copy what is not aligned and choose its kernel: both are made of a call's arguments."""
    import torch

    plan, printed = planned(TEXT.replace(", align: 16", ""))
    (tmp_path / "product.py").write_text(printed)
    module = load(tmp_path / "product.py", "product_of_odd_rows")
    assert copies(module) and chooses(module)
    a, b, c = torch.zeros(8, 9), torch.zeros(16, 9), torch.zeros(8, 16)
    replace_multiprocessors(module)
    with mock.patch.object(module, "_fitted", lambda tensors: [a, b, c]):
        taken = compiled_arguments(module, (a, b, c))
    spare = [x.data_ptr() for x in taken.memory]
    assert taken[3:] == (*spare, 0, plan.chosen_for({"M": 8, "N": 16, "K": 9})) and len(spare) == 2


def test_two_products_load_each_operand_once() -> None:
    """Of products side by side a step loads one A and both Bs."""
    (one,), (two,) = (
        [cost_of(plan) for plan in (cases.cases[1],)] for cases in (planned_alone(TEXT), planned_alone(TWO))
    )
    assert two.load_rows == one.load_rows  # of 128 rows
    assert two.load_columns == one.load_columns  # of 256 columns, and of 128 of either product


def test_every_tile_that_is_compared_was_measured() -> None:
    """Other tiles are as fast as others of their kind; of these the estimate knows how fast they are."""
    for kind, tiles in ((EXCHANGED_KIND, EXCHANGED), (COOPERATIVE, STRAIGHT), (PINGPONG, IN_TURN)):
        assert {(tile.rows, tile.columns) for tile in tiles} <= set(PACE[kind])
    plan = planned_alone(f"{TWO[: TWO.index('schedule:')]}targets: [sm_90a]\n")
    several = [plan.cases[number] for number in plan.by_cost]
    assert len(several) == len(SEVERAL)
    for one in several:
        kind = PINGPONG if one.pingpong else EXCHANGED_KIND
        assert (one.tile["M"], one.tile["N"]) in PACE_OF_TWO[kind]


def test_exchanged_tiles_that_share_loads_have_a_pace_of_their_own() -> None:
    plan = planned_alone(f"{LEFT_OUT}divisible: {{N: 8}}\ntargets: [sm_90a]\n")
    (one,) = (case for case in plan.cases if case.exchanged and case.peers > 1)
    tile = one.tile["M"], one.tile["N"]
    assert one.cluster == (2, 1) and set(PACE_OF_SHARED) == {tile}  # blocks with neighbouring columns of the output
    step = cost_of(one).step
    with mock.patch.dict(PACE_OF_SHARED, {tile: 2 * PACE_OF_SHARED[tile]}):
        assert cost_of(one).step == pytest.approx(2 * step, rel=1e-3)


def test_the_pace_of_two_products_is_their_own() -> None:
    plan = planned_alone(TWO)
    with mock.patch.dict(PACE_OF_TWO[EXCHANGED_KIND], {(32, 64): 7.0}):
        slow = cost_of(plan.cases[0])
    faster = 7.0 / PACE_OF_TWO[EXCHANGED_KIND][32, 64]
    assert slow.step == pytest.approx(faster * cost_of(plan.cases[0]).step, rel=1e-2)


def test_a_set_of_schedules_leaves_room_for_cases_of_other_targets() -> None:
    """With too many cases the schedule would silently become a single one."""
    targets = "[sm_80, sm_89, sm_90a, sm_100a]"
    plan = planned_alone(f"{LEFT_OUT}targets: {targets}\n")
    assert sum(one.by_cost for one in plan.conditions) == len(ONE)


@pytest.mark.parametrize("targets", ["[sm_90a]", "[sm_80, sm_90a]"])
def test_where_all_sizes_are_fixed_the_kernel_with_the_least_estimate_is_the_only_one(targets: str) -> None:
    whole = planned_alone(f"{LEFT_OUT}divisible: {{N: 8}}\ntargets: [sm_90a]\n")
    for sizes in ({"M": 8, "N": 5120, "K": 16384}, {"M": 300, "N": 4096, "K": 4096}, {"M": 4096, "N": 8192, "K": 2048}):
        module = made(f"{LEFT_OUT}static: {sizes}\ntargets: {targets}\n".replace("'", ""))
        found = [plan.tile for plan in module.plan.kernels if plan.spec.targets == ("sm_90a",)]
        tile = dict(whole.taken(sizes).tile)  # of a fixed size no more than there is
        assert found == [{**tile, "M": min(tile["M"], sizes["M"])}] and "_cheapest" not in module.text


def test_where_one_size_is_free_kernels_that_no_call_takes_are_left_out() -> None:
    whole = planned_alone(f"{LEFT_OUT}divisible: {{N: 8}}\ntargets: [sm_90a]\n")
    fixed = {"N": 4096, "K": 4096}
    some = planned_alone(f"{LEFT_OUT}static: {fixed}\ntargets: [sm_90a]\n".replace("'", ""))
    assert 1 < len(some.cases) < len(whole.cases)
    tiles = [(plan.tile, plan.smem_bytes) for plan in some.cases]
    for m in (*range(1, 2000), 2500, 3000, 4096, 9000, 20000, 50000):
        plan = whole.taken({"M": m, **fixed})
        assert (plan.tile, plan.smem_bytes) in tiles
        assert some.taken({"M": m, **fixed}).tile == plan.tile


def test_loads_of_few_rows_are_of_those_that_are_there() -> None:
    cost = Cost("M", "N", "K", None, 128, 64, 64, 132, 132, False, start=0, tile=0, step=0, load_rows=8, load_columns=4)
    few, more, whole = (cost.parts({"M": m, "N": 64, "K": 64}, 0.0, 1.0).loads for m in (2, 17, 128))
    assert (few, more, whole) == (8 / 8 + 4, 8 / 4 + 4, 8 + 4)


def test_cases_with_one_schedule_share_their_functions_without_a_parameter() -> None:
    case = "  - {for: {cost: least}, tiler: {M: 64}, mma: {atom: wgmma, rows: N}}\n"
    _, printed = planned(TEXT[: TEXT.index("schedule:")] + "schedule:\n" + 2 * case)
    assert "@dataclass" not in printed and printed.count("@cute.kernel") == 1


@pytest.mark.parametrize(
    ("more", "by_cost", "others"),
    [
        ("", 29, 2),
        ("targets: [sm_80]\n", 0, 2),
        ("schedule: {mma: {atom: wgmma}}\ntargets: [sm_90a]\n", 0, 1),
        ("tune: {schedule.cluster: [{M: 1, N: 2}]}\ntargets: [sm_90a]\n", 0, 1),
    ],
    ids=["no schedule", "Ampere alone", "an atom", "tuned"],
)
def test_a_gemm_without_a_schedule_gets_all_that_are_compared(more: str, by_cost: int, others: int) -> None:
    schedule = plan_of(LEFT_OUT.replace(", align: 16", "") + more).spec.schedule
    cases = schedule.cases if isinstance(schedule, Cases) else (Case(Conditions(), schedule),)
    assert sum(case.conditions.by_cost for case in cases) == by_cost
    assert sum(not case.conditions.by_cost for case in cases) == others
