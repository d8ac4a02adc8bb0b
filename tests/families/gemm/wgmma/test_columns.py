"""Column operands of the epilogue are loaded ahead without predicates; functions divide without branches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.codegen import generate
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

TEXT = """\
cutegen: 1
kernel: linear
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  bias: {shape: [SHAPE], dtype: TYPE}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = silu(A @ B.T + bias)
schedule: {SCHEDULE}
targets: [sm_90a]
"""


def made(
    shape: str = "N", dtype: str = "bf16", schedule: str = "mma: {atom: wgmma}"
) -> tuple[WarpspecializedPlan, str]:
    text = TEXT.replace("SHAPE", shape).replace("TYPE", dtype).replace("SCHEDULE", schedule)
    (module,) = generate(text, "linear.yaml").modules
    assert isinstance(module.plan, WarpspecializedPlan)
    return module.plan, module.text


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_what_columns_have_is_loaded_without_predicates(dtype: str) -> None:
    plan, text = made(dtype=dtype)
    assert [o.tensor.name for o in plan.pointwise.operands if plan.by_columns(o)] == ["bias"]
    assert not plan.pointwise.masked
    assert "pred=" not in text
    assert text.count("_load_columns(mbias,") == 2  # the first slice's, and the next one's


def test_what_rows_have_stays_in_registers() -> None:
    plan, text = made(shape="M")
    assert not any(plan.by_columns(o) for o in plan.pointwise.operands)
    assert "_load_columns" not in text


def test_rows_of_the_product_that_are_columns_of_the_output_are_rows_to_it() -> None:
    """With A and B exchanged, a bias along N is along the product's rows, and one along M along its columns."""
    exchanged = "mma: {atom: wgmma, rows: N}"
    assert "_load_columns" not in made("N", schedule=exchanged)[1]
    assert "_load_columns" in made("M", schedule=exchanged)[1]


def test_a_size_that_whole_tiles_fill_needs_no_last_column() -> None:
    assert "cutlass.min(column, m.shape[1] - 1)" in made()[1]
    fixed = made(schedule="mma: {atom: wgmma}, predication: {N: none}")[1]
    assert "m[0, column]" in fixed


def test_silu_divides_by_the_quotient_of_functions() -> None:
    assert re.search(r"_quotient\(\w+, 1\.0 \+ cute\.math\.exp\(-\w+\)\)", made()[1])
    text = TEXT.replace("SHAPE", "N").replace("TYPE", "f32").replace("SCHEDULE", "mma: {atom: wgmma}")
    (module,) = generate(text.replace("silu(A @ B.T + bias)", "A @ B.T / bias"), "linear.yaml").modules
    assert "_quotient" not in module.text  # what the spec divides is divided exactly


@pytest.mark.parametrize(
    "compute",
    sampled(['["x = bias * 2", "C = A @ B.T + fmod(3, x)"]', "C = A @ B.T - fmod(cast(coord(N), f32), bias)"]),
)
def test_a_function_does_not_branch_on_rows_that_are_not_there(compute: str, tmp_path: Path) -> None:
    """Row operands of a thread are loaded only for existing rows: otherwise an uninitialised register would set a
    loop's trip count.
    """
    text = TEXT.replace("SHAPE", "M").replace("TYPE", "f32").replace("SCHEDULE", "mma: {atom: wgmma}, tiler: {N: 32}")
    (module,) = generate(text.replace("C = silu(A @ B.T + bias)", compute), "linear.yaml").modules
    assert "rows.fill(0)" in module.text
    (plain,) = generate(text.replace("silu(A @ B.T + bias)", "silu(A @ B.T) * bias"), "linear.yaml").modules
    assert "rows.fill(0)" not in plain.text
    path = tmp_path / "linear.py"
    path.write_text(module.text, encoding="utf-8")
    case = Case("few rows", "", {"M": 16, "N": 32, "K": 16}, "padded", "integers")
    assert verify_case(module.plan, case, load_module(path), EmulatorExecutor(lines=False)).message == ""
