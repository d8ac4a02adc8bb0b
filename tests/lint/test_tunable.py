"""Values that `tune` lists: those that no schedule can have are told, and no others."""

from __future__ import annotations

import pytest

from cutegen.codegen import generate

SPEC = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: K, align: 16}
  B: {shape: [N, K], dtype: f32, major: N, align: 16}
  C: {shape: [M, N], dtype: f32, major: M, align: 16, role: out}
compute: C = A @ B.T
"""
UNIVERSAL = "schedule: {copies: {A: {atom: universal}}}\n"


@pytest.mark.parametrize(
    ("schedule", "tune", "refused"),
    [
        (UNIVERSAL, {"pipeline.store": "[1, 999]"}, ["pipeline.store: 999"]),
        ("", {"pipeline.store": "[1]"}, ["pipeline.store: 1"]),
        ("", {"pipeline.store": "[1]", "copies.A": "[{atom: cp_async}, {atom: universal}]"}, []),
        (UNIVERSAL, {"pipeline.store": "[12, 40]", "tiler.K": "[8, 16]"}, ["pipeline.store: 40"]),
        ("", {"tiler.K": "[8, 7, 16]", "pipeline.stages": "[2, 3, 32]"}, ["tiler.K: 7", "pipeline.stages: 32"]),
        ("schedule: {tiler: {M: 128, N: 128, K: 8}}\n", {"mma.thread_layout": "['(16,16,1)', '(64,64,1)']"},
         ["mma.thread_layout: (64,64,1)"]),
        ("schedule: {pipeline: {stages: 4}, tiler: {M: 128, N: 128, K: 16}}\n", {"smem.A.pad": "[0, 4]"}, []),
    ],
)  # fmt: skip
def test_a_value_that_no_schedule_can_have_is_told(schedule: str, tune: dict[str, str], refused: list[str]) -> None:
    text = SPEC + schedule + "tune:\n" + "".join(f"  schedule.{name}: {values}\n" for name, values in tune.items())
    found = [d for d in generate(text, "specs/mm.yaml").warnings if d.code == "CG265"]
    assert [d.message.split("`")[1] for d in found] == refused
    lines = text.splitlines()
    for diagnostic, what in zip(found, refused, strict=True):
        span = diagnostic.span
        value = what.partition(": ")[2]
        assert lines[span.line - 1][span.column - 1 :].lstrip("'").startswith(value) and diagnostic.notes


def test_a_schedule_with_values_to_try_is_one() -> None:
    """Of rows so long that there would be a case for each target, and what is refused of them."""
    text = """\
cutegen: 1
kernel: rows
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * sum(X, N)
static: {N: 50000}
targets: [sm_80, sm_90a]
"""
    assert len(generate(text, "specs/rows.yaml").modules[0].plan.kernels) == 2
    values = "tune: {schedule.keep: [reload, registers], schedule.threads_per_row: [64, 999]}\n"
    found = generate(text + values, "specs/rows.yaml")
    assert len(found.modules[0].plan.kernels) == 1
    assert ["threads_per_row: 999" in d.message for d in found.warnings if d.code == "CG265"] == [True]


def test_nothing_is_said_where_the_schedule_is_wrong_itself() -> None:
    from cutegen.language.diagnostics import SpecError

    text = SPEC + "schedule: {tiler: {M: 128, N: 128, K: 7}}\ntune: {schedule.pipeline.stages: [2, 3]}\n"
    with pytest.raises(SpecError) as caught:
        generate(text, "specs/mm.yaml")
    assert "CG265" not in {d.code for d in caught.value.diagnostics}
