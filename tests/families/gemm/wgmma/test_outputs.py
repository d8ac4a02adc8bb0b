"""Gemms on Hopper's tensor cores that store several outputs, of types and orders of their own, and mistakes in one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sweep_kit import sampled

pytest.importorskip("cutlass")

from cutegen.codegen import Module, generate
from cutegen.families.gemm.wgmma import FAMILY
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

SIZES = Case("several", "", {"M": 136, "N": 72, "K": 104}, "padded", "integers", blocks=2)
HEAD = """\
cutegen: 1
kernel: several
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
"""


def spec(tensors: str, compute: str, schedule: str) -> str:
    return f"{HEAD}{tensors}compute: [{compute}]\nschedule:\n  mma: {{atom: wgmma}}\n{schedule}"


LINEAR = spec(
    """\
  bias: {shape: [N], dtype: f32}
  H: {shape: [M, N], dtype: bf16, role: out}
  C: {shape: [M, N], dtype: bf16, role: out}
""",
    "H = A @ B.T + bias, C = relu(H)",
    "  warps: {roles: pingpong}\n  tiler: {M: 64, N: 32, K: 32}\n",
)
RIGHT = {
    "what an activation is of is kept": LINEAR,
    "both products beside what is made of them": spec(
        """\
  U: {shape: [N, K], dtype: bf16}
  gate: {shape: [M, N], dtype: f16, role: out}
  up: {shape: [M, N], dtype: bf16, role: out}
  C: {shape: [M, N], dtype: f32, role: out}
""",
        "gate = A @ B.T, up = A @ U.T, C = gate * up",
        "  tiler: {M: 128, N: 32, K: 64}\n",
    ),
    "types and orders of their own, and one that is read": spec(
        """\
  keep: {shape: [M, N], dtype: bool}
  scale: {shape: [M], dtype: f32}
  H: {shape: [M, N], dtype: f32, major: M, role: out}
  C: {shape: [M, N], dtype: bf16, role: inout}
  E: {shape: [M, N], dtype: f8e4m3, role: out}
  P: {shape: [M, N], dtype: bool, role: out}
""",
        "'x = where(keep, A @ B.T, 0)', H = x, C = C + x, 'E = cast(x * scale, f8e4m3)', P = x > 2",
        "  tiler: {M: 64, N: 32, K: 64}\n",
    ),
    "columns of a sum that two blocks have together": spec(
        """\
  H: {shape: [M, N], dtype: f32, role: out}
  C: {shape: [M, N], dtype: bf16, role: out}
""",
        "H = A @ B.T, C = abs(H)",
        "  tiler: {M: 64, N: 64, K: 32}\n  cluster: {K: 2}\n",
    ),
}


def made(text: str) -> Module:
    return generate(text, "specs/x.yaml").modules[0]


def outcome(module: Module, folder: Path, text: str | None = None) -> str:
    path = folder / "several.py"
    path.write_text(module.text if text is None else text, encoding="utf-8")
    assert isinstance(module.plan, WarpspecializedPlan)
    case = SIZES if module.plan.persistent else replace(SIZES, blocks=None)
    return verify_case(module.plan, case, load_module(path), EmulatorExecutor(lines=False)).message


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str, tmp_path: Path) -> None:
    module = made(RIGHT[name])
    assert all(claim.holds for claim in FAMILY.claims(module.plan))
    assert outcome(module, tmp_path) == ""


MISTAKES = {
    "the first output holds what the second is": ("result_H = new_h.to(cutlass", "result_H = abs(new_h).to(cutlass"),
    "both go to the first one's buffers": ("tCsC[None, None, part % PARTS", "tHsH[None, None, part % PARTS"),
    "the second is stored from the first one's": ("from_sC[None, buffer], to_gC", "from_sH[None, buffer], to_gC"),
    "the second is not stored": ("cute.copy(tma_C, from_sC[None, buffer], to_gC[None, row, column])", "pass"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", sampled(MISTAKES))
def test_a_mistake_is_seen(mistake: str, tmp_path: Path) -> None:
    module, (old, new) = made(LINEAR), MISTAKES[mistake]
    assert module.text.count(old) == 1, module.text
    assert outcome(module, tmp_path, module.text.replace(old, new)) != ""


def test_a_value_may_have_a_name_that_the_kernel_has(tmp_path: Path) -> None:
    """Variables of the kernel that are carried through its loops would change their type."""
    tensors = "  C: {shape: [M, N], dtype: bf16, role: out}\n"
    names = ("x", "stage", "BAND", "tma_A", "warpgroup", "row")
    statements = [f"{name} = {before} + 1" for before, name in zip(("A @ B.T", *names), names, strict=False)]
    text = spec(tensors, ", ".join([*statements, "C = row"]), "  tiler: {M: 64, N: 32, K: 64}\n")
    assert outcome(made(text), tmp_path) == ""
