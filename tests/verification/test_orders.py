"""Which case runs in several orders of blocks and warps, and that those orders catch what depends on them."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

import pytest
from calls_kit import arguments_of
from specs_kit import kernels_of_specs, module_of
from sweep_kit import sampled

from cutegen.cases.plan import CasesPlan
from cutegen.codegen import Module, generate
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.forms import runners_of_forms
from cutegen.verification.orders import ORDERS, case_for_orders, cases_for_orders
from cutegen.verifying.kernel import verify_kernel

# Every block's tile of D is read and written; with a grid of twice the blocks, two of them do so.
SCALE = """\
cutegen: 1
kernel: scale
op: elementwise
tensors:
  S: {shape: [M, N], dtype: f32, major: N, align: 16}
  D: {shape: [M, N], dtype: f32, major: N, align: 16, role: inout}
compute: D = S - D
schedule: {partition: thread_value, thread_layout: "(2,32):(32,1)", value_layout: "(1,4):(4,1)"}
divisible: {N: 4}
targets: [sm_80]
"""


def modules(text: str, path: str) -> tuple[Module, ...]:
    return generate(text, path).modules


def chosen(module: Module) -> Case:
    cases = derive_cases(module.plan)
    case = case_for_orders(module.plan, cases)
    assert case is not None and case in cases
    return case


@pytest.mark.parametrize("kernel", kernels_of_specs())
def test_the_case_has_several_blocks_and_uses_every_stage_again(kernel: str) -> None:
    module = module_of(kernel)
    if isinstance(module.plan, CasesPlan):
        pytest.skip("each of its cases is as a module of its own would be")
    spec, case, stages = module.spec, chosen(module), module.plan.stages
    blocks = spec.family.blocks(module.plan, case.sizes)
    if spec.op == "probe":
        assert blocks == 1
        return
    if case.blocks is not None:  # which walk all tiles in turn, and use every stage again on their way
        assert isinstance(module.plan, WarpspecializedPlan) and case.blocks == module.plan.cluster_size
        extents = zip((module.plan.m, module.plan.n), module.plan.cluster_tile, strict=True)
        tiles = prod(-(-case.sizes[mode] // extent) for mode, extent in extents) * module.plan.batches(case.sizes)
        steps = -(-case.sizes[module.plan.k] // module.plan.tile[module.plan.k])
        assert tiles > module.plan.consumers // module.plan.groups and tiles * steps > (stages or 1)
        return
    assert 1 < blocks <= 16
    work = spec.operation.multiply_adds(spec, case.sizes) or prod(case.sizes.values())
    assert work < 1 << 26  # small enough for any executor
    for mode in spec.operation.contracted(spec):
        assert case.sizes[mode] > (stages or 1) * module.plan.tile[mode]
    for mode in spec.by_element.output.shape:
        assert mode in spec.static or case.sizes[mode] > module.plan.tile.get(mode, 1)


@pytest.mark.parametrize("kernel", ["gemm_bf16_pingpong", "gemm_bf16_kkn"])
def test_of_tiles_in_turn_the_fewest_run_that_use_all_again(kernel: str) -> None:
    module = module_of(kernel)
    case, plan = chosen(module), module.plan
    assert isinstance(plan, WarpspecializedPlan) and case.name == "few tiles in turn"
    tiles = -(-case.sizes["M"] // plan.cluster_tile[0]) // (2 if plan.pingpong else 1)  # of each warpgroup
    assert tiles > 1 and tiles * plan.pieces > plan.buffers


ANY_N = """\
cutegen: 1
kernel: rows
op: rowwise
targets: [sm_90a]
tensors:
  X: {shape: [M, N], dtype: bf16}
  target: {shape: [M], dtype: i64}
  loss: {shape: [M], dtype: f32, role: out}
compute:
  - z = X - max(X, N)
  - loss = log(sum(exp(z), N)) - sum(where(coord(N) == target, z, 0), N)
"""


def test_each_form_of_kernel_has_a_case_that_it_runs_itself() -> None:
    """Not one that fits it but for where a tensor stands, which the general kernel runs."""
    (module,) = modules(ANY_N, "rows.yaml")
    found, kernels = cases_for_orders(module.plan, derive_cases(module.plan)), module.plan.kernels
    assert [case.of[0] for case in found] == [kernels[place].case for place in sorted(runners_of_forms(module.plan))]
    assert len(found) > 2 and all(case.of[1] >= 0 for case in found)


def test_nothing_is_chosen_where_no_case_has_an_element() -> None:
    (module,) = modules(SCALE, "specs/scale.yaml")
    assert case_for_orders(module.plan, []) is None
    assert case_for_orders(module.plan, [Case("none", "", {"M": 0, "N": 500})]) is None


def pick(module: Module, *sizes: tuple[int, int]) -> tuple[int, int]:
    """Of cases of these M and N."""
    cases = [Case(str(i), "", {"M": m, "N": n}) for i, (m, n) in enumerate(sizes)]
    case = case_for_orders(module.plan, cases)
    assert case is not None
    return case.sizes["M"], case.sizes["N"]


def test_several_blocks_come_first_and_the_least_work_last() -> None:
    (scale,) = modules(SCALE, "specs/scale.yaml")
    m, n = scale.plan.tile["M"], scale.plan.tile["N"]
    assert pick(scale, (1, 1), (m, n), (m, 9 * n)) == (m, 9 * n)
    assert pick(scale, (m, 9 * n), (m, n + 1), (m, 2 * n)) == (m, n + 1)
    assert pick(scale, (m, n + 1), (2 * m, 2 * n), (m + 1, n + 1), (m, 50 * n)) == (m + 1, n + 1)
    naive = module_of("add_naive")
    threads = naive.spec.schedule.threads  # type: ignore[union-attr]
    assert pick(naive, (2, 16), (1, threads + 1)) == (1, threads + 1)  # two rows, but of one block


# ---------------------------------------------------------------------------------------------------- on the emulator


def mended(folder: Path, pattern: str, text: str) -> tuple[Module, Path]:
    """The module of SCALE in which what the pattern finds is `text`."""
    (module,) = modules(SCALE, "specs/scale.yaml")
    changed, count = re.subn(pattern, text, module.text, count=1)
    assert count == 1, f"{pattern} is not in the module: adapt the pattern"
    path = folder / "scale.py"
    path.write_text(changed, encoding="utf-8")
    return module, path


def verified(module: Module, path: Path):  # type: ignore[no-untyped-def]
    return verify_kernel(module.plan, path, EmulatorExecutor())


GRID = (r"grid=\[grid, 1, 1\]", "grid=[grid, 2, 1]")


def test_a_right_kernel_gives_the_same_in_all_orders(tmp_path: Path) -> None:
    pytest.importorskip("cutlass")
    module, path = mended(tmp_path, r"\A", "")
    report = verified(module, path)
    assert report.ok and report.complete, report.failures
    case = chosen(module)
    assert {c.name: c.orders for c in report.cases if c.orders != 1} == {case.name: ORDERS}


@pytest.mark.parametrize(
    "name", sampled(["add_naive", "copy_inner", "copy_tv", "predicated_vector", "sgemm_mmajor"], 2)
)
def test_blocks_are_counted_as_they_are_launched(name: str, tmp_path: Path) -> None:
    pytest.importorskip("cutlass")
    from cutegen.emulator import on_device
    from cutegen.emulator.host.builds import build
    from cutegen.emulator.host.emulated import Emulated

    module = module_of(name)
    path = tmp_path / f"{name}.py"
    path.write_text(module.text, encoding="utf-8")
    loaded, case = load_module(path), chosen(module)
    free = {mode: size for mode, size in case.sizes.items() if mode not in module.spec.static}
    arguments = [on_device(a) for a in arguments_of(loaded, **free)]
    emulated = Emulated([build(loaded, module.spec.targets[0])], [t.argument for t in module.spec.tensors])
    emulated(*arguments)
    (report,) = emulated.reports
    assert prod(report.grid) == module.spec.family.blocks(module.plan, case.sizes) > 1 and prod(report.block) > 32


@pytest.mark.parametrize("blind", [False, True], ids=["with detectors", "without"])
def test_two_blocks_on_one_tile_are_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blind: bool) -> None:
    """Side by side they both read what was there before, and give the right result. That they race is found in any
    order; and if that were not seen, other orders show it."""
    pytest.importorskip("cutlass")
    if blind:
        monkeypatch.setattr("cutegen.emulator.checks.global_races._clash", lambda *_: None)
    module, path = mended(tmp_path, *GRID)
    report = verified(module, path)
    failed = {c.name: c.message for c in report.cases if c.status == "failed"}
    launched = {c.name for c in report.cases if 0 not in c.sizes.values()}
    if not blind:
        assert set(failed) == launched and all("fault[unordered]" in message for message in failed.values())
        return
    apart = {name for name in failed if name.startswith("more than")}  # not all of these blocks run side by side
    assert set(failed) - apart == {chosen(module).name}
    message = failed[chosen(module).name]
    assert "fault[order-dependent]: d differs between" in message and "in the order of seed 1" in message
    assert not report.ok and {c.status for c in report.cases if c.name not in failed} == {"passed"}
