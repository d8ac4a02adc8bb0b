"""Divisors and counts of bits that verification tries: a kernel that treats none of them apart is found wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from cutegen.codegen import Module, generate  # noqa: E402
from cutegen.verification.cases import Case, derive_cases  # noqa: E402
from cutegen.verification.executor import EmulatorExecutor, load_module  # noqa: E402
from cutegen.verification.runner import verify_case  # noqa: E402
from cutegen.verification.tensors import make_tensors  # noqa: E402

SPEC = """
cutegen: 1
kernel: operands
op: elementwise
tensors:
  I: {shape: [N], dtype: i32}
  J: {shape: [N], dtype: i32}
  K: {shape: [N], dtype: i32}
  D: {shape: [N], dtype: i32, role: out}
  R: {shape: [N], dtype: i32, role: out}
  S: {shape: [N], dtype: i32, role: out}
  L: {shape: [N], dtype: i32, role: out}
  P: {shape: [N], dtype: i64, role: out}
compute:
  - bits = K + 0
  - D = I // J
  - R = I % J
  - S = I >> bits
  - L = I << bits
  - P = coord(N) * 2000000000
schedule: {partition: thread_value, thread_layout: "128:1", value_layout: "1:1"}
static: {N: 1024}
targets: [sm_90a]
"""
MUTANTS = {
    "divides by zero": ("(j == 0) | (j == -1)", "j == -1"),
    "leaves the sign of the dividend": ("i - i // x2 * x2", "i % x2"),
    "shifts by a negative number": ("(bits < 0) | (bits > 31)", "bits > 31"),
    "shifts by 32": ("(bits < 0) | (bits > 31)", "(bits < 0) | (bits > 32)"),
    "multiplies coordinates in 32 bits": ("coord_N.to(cutlass.Int64) * 2000000000", "coord_N * 2000000000"),
}


def module() -> Module:
    return generate(SPEC, "specs/operands.yaml").modules[0]


def cases(made: Module) -> list[Case]:
    kinds = {
        case.data: case for case in derive_cases(made.plan) if case.sizes["N"] == 1024 and case.layout == "compact"
    }
    return [kinds[kind] for kind in ("random", "special") if kind in kinds]


def test_data_hold_what_operators_treat_apart() -> None:
    made = module()
    for case in cases(made):
        i, j, k = (tensor.view for tensor in make_tensors(made.spec, case, "cpu")[:3])
        assert {0, -1, 1, 2, 7, -7} <= set(j.tolist()) and {-1, 0, 31, 32, 33, 64} <= set(k.tolist())
        assert len(set(i.tolist())) > len(set(j.tolist())) / 4
    assert ((i == -(2**31)) & (j == -1)).any()  # of special data


@pytest.mark.parametrize("wrong", MUTANTS)
def test_a_kernel_that_does_not_is_wrong(wrong: str, tmp_path: Path) -> None:
    made = module()
    old, new = MUTANTS[wrong]
    assert old in made.text, made.text[made.text.index(".load()") :][:2000]
    path = tmp_path / "operands.py"
    path.write_text(made.text.replace(old, new), encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    reports = [verify_case(made.plan, case, loaded, executor) for case in cases(made)]
    assert any(report.status == "failed" for report in reports)
    assert not any("could not be run" in report.message for report in reports)


def test_a_function_that_divides_has_the_same_divisors() -> None:
    made = generate(SPEC.replace("I // J", "floor_divide(I, J)").replace("I % J", "remainder(I, J)"), "operands.yaml")
    case = cases(made.modules[0])[0]
    assert {0, -1, 1, 2, 7, -7} <= set(make_tensors(made.modules[0].spec, case, "cpu")[1].view.tolist())
