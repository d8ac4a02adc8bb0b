"""Tiles and clusters that reach beyond a fixed size: what lies there is neither stored nor takes another's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen.codegen import Module, generate
from cutegen.families.gemm.wgmma.cases import verified_form
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case


def spec(sizes: str, tiler: str, more: str = "", compute: str = "A @ B.T", rows: str = "M", batch: str = "") -> str:
    return f"""\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {{shape: [{batch}M, K], dtype: bf16}}
  B: {{shape: [{batch}N, K], dtype: bf16}}
  row: {{shape: [M], dtype: f32}}
  column: {{shape: [N], dtype: f32}}
  R: {{shape: [{batch}M, N], dtype: f32}}
  C: {{shape: [{batch}M, N], dtype: bf16, role: out}}
compute: C = {compute} + R * row + column + coord(N)
static: {{{sizes}}}
targets: [sm_90a]
schedule:
  mma: {{atom: wgmma, rows: {rows}}}
  tiler: {{{tiler}}}
{more}"""


def made(text: str) -> tuple[Module, WarpspecializedPlan]:
    (module,) = generate(text, "specs/x.yaml").modules
    assert isinstance(module.plan, WarpspecializedPlan)
    return module, module.plan


GRID = "  scheduler: {kind: grid}\n"
REGISTERS = "  copies: {C: {atom: universal}}\n"
BEYOND = {
    "pieces of columns": (spec("N: 16", "N: 128"), ("N",)),
    "pieces of rows": (spec("M: 40, N: 24, K: 24", "M: 128, N: 64, K: 32"), ("M", "N")),
    "a cluster's second block": (spec("M: 40", "M: 64, N: 64", "  cluster: {M: 2}\n"), ("M",)),
    "a cluster's other blocks": (spec("N: 40", "M: 64, N: 64", f"  cluster: {{N: 4}}\n{REGISTERS}"), ("N",)),
    "parts of a sum": (spec("M: 40, N: 16, K: 100", "M: 192, N: 32", f"  cluster: {{K: 2}}\n{REGISTERS}"), ("N",)),
    "columns of the product are rows": (
        spec("M: 8", "N: 128, M: 32", f"{GRID}  copies: {{C: {{columns: 16}}}}\n", rows="N"),
        ("M",),
    ),
    "a batch": (spec("L: 2, N: 8", "M: 64, N: 64", batch="L, "), ("N",)),
}


@pytest.mark.parametrize("name", BEYOND)
def test_what_lies_beyond_a_fixed_size_is_left_out(name: str, tmp_path: Path) -> None:
    """CuTe gives pieces beyond a mode of one piece the coordinate of that one: they were stored over it."""
    text, modes = BEYOND[name]
    module, plan = made(text)
    assert plan.beyond == modes
    path = tmp_path / "product.py"
    path.write_text(module.text, encoding="utf-8")
    sizes = {"L": 2, "M": 136, "N": 72, "K": 40} | dict(plan.spec.static)
    case = Case("fixed", "", {mode: sizes[mode] for mode in plan.spec.modes}, "padded", "integers")
    assert verify_case(plan, case, load_module(path), EmulatorExecutor(lines=False)).message == ""


@pytest.mark.parametrize("text", [spec("N: 72", "N: 64"), spec("M: 64", "M: 64, N: 64"), spec("K: 8", "K: 64")])
def test_where_no_piece_lies_beyond_sizes_are_seen_as_they_are(text: str) -> None:
    module, plan = made(text)
    assert plan.beyond == () and "identity_tensor(mC.shape)" in module.text
    assert verified_form(plan) != verified_form(made(BEYOND["pieces of columns"][0])[1])


def test_what_rows_have_is_read_beside_eight_columns(tmp_path: Path) -> None:
    """Eight columns of an accumulator have no mode of their own."""
    module, plan = made(spec("N: 72", "M: 64, N: 8, K: 32", "  copies: {C: {atom: universal}}\n"))
    path = tmp_path / "product.py"
    path.write_text(module.text, encoding="utf-8")
    case = Case("eight", "", {"M": 136, "N": 72, "K": 40}, "padded", "integers")
    assert verify_case(plan, case, load_module(path), EmulatorExecutor(lines=False)).message == ""
