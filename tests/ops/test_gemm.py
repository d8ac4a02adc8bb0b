"""The form of a gemm's compute: what statements it may have, and what stands around a product."""

from __future__ import annotations

from pathlib import Path

import pytest
from lint_kit import found_in

from cutegen.codegen import generate
from cutegen.language.reader import read_specs
from cutegen.peers.peers import product_of

HEAD = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32}
  B: {shape: [N, K], dtype: f32}
"""
TWO = "  H: {shape: [M, N], dtype: f32, role: out}\n  C: {shape: [M, N], dtype: f32, role: out}\n"
ONE = "  C: {shape: [M, N], dtype: f32, role: out}\n"


@pytest.mark.parametrize(
    ("tensors", "compute", "code", "words"),
    [
        (ONE, "C = A", "CG127", "needs one `A @ B.T`"),
        (TWO, "H = A @ B.T, C = B @ A.T", "CG127", "share the tensor on the left"),
        (TWO, "x = A @ B.T, H = x @ B.T, C = x", "CG127", "a value that was computed"),
        (TWO.replace("C: {shape: [M, N]", "C: {shape: [M]"), "H = A @ B.T, C = H", "CG129", "`C` is [M]"),
        (TWO, "H = A @ B.T, C = H + coord(K)", "CG116", "is summed over"),
        (TWO + "  w: {shape: [K], dtype: f32}\n", "H = A @ B.T, C = H + w", "CG129", "has the mode `K`"),
        (ONE.replace("f32", "i32"), "C = A @ B.T", "CG128", "cast(..., i32)"),
    ],
)  # fmt: skip
def test_refused(tensors: str, compute: str, code: str, words: str) -> None:
    found = found_in(f"{HEAD}{tensors}compute: [{compute}]\n")
    assert [d for d in found if d.code == code and words in f"{d.message} {d.help}"], found


def test_a_first_output_of_other_modes_is_told_once() -> None:
    """The others are not held to it: they may be right."""
    tensors = TWO.replace("H: {shape: [M, N]", "H: {shape: [N, M]")
    (found,) = found_in(f"{HEAD}{tensors}compute: [H = A @ B.T, C = H]\n")
    assert found.code == "CG130" and found.help == "write `shape: [M, N]`"


def test_operands_are_of_a_type_that_is_multiplied() -> None:
    found = found_in(
        f"{HEAD}{ONE}compute: C = A @ B.T\n".replace("A: {shape: [M, K], dtype: f32", "A: {shape: [M, K], dtype: i8")
    )
    assert [d for d in found if d.code == "CG118" and "cannot multiply i8" in d.message], found


@pytest.mark.parametrize("atom", ["fma", "mma_sync"])
def test_several_outputs_of_their_own_types_and_orders(atom: str, tmp_path: Path) -> None:
    pytest.importorskip("cutlass")
    from cutegen.verification.cases import Case
    from cutegen.verification.executor import EmulatorExecutor, load_module
    from cutegen.verification.runner import verify_case

    tensors = """\
  keep: {shape: [M, N], dtype: bool}
  H: {shape: [M, N], dtype: f32, major: M, align: 4, role: out}
  C: {shape: [M, N], dtype: f32, align: 4, role: inout}
  E: {shape: [M, N], dtype: i8, align: 1, role: out}
"""
    compute = "'staged = where(keep, A @ B.T, 0)', H = staged, C = C + staged, 'E = cast(staged, i8)'"
    text = (
        f"{HEAD}{tensors}compute: [{compute}]\nschedule:\n  tiler: {{M: 32, N: 32, K: 32}}\n  mma: {{atom: {atom}}}\n"
    )
    if atom == "mma_sync":
        text = text.replace("K], dtype: f32", "K], dtype: bf16")
    (module,) = generate(text + "targets: [sm_80]\ndivisible: {M: 1, N: 1, K: 1}\n", "specs/x.yaml").modules
    (tmp_path / "mm.py").write_text(module.text, encoding="utf-8")
    case = Case("several", "", {"M": 37, "N": 41, "K": 24}, "padded", "integers")
    assert verify_case(module.plan, case, load_module(tmp_path / "mm.py"), EmulatorExecutor(lines=False)).message == ""


def test_one_call_of_cublas_makes_no_second_output() -> None:
    one, two = (
        read_specs(f"{HEAD}{tensors}compute: [{text}]\n", "x.yaml")
        for tensors, text in ((ONE, "C = A @ B.T"), (TWO, "H = A @ B.T, C = H"))
    )
    assert product_of(one[0], {}) is not None and product_of(two[0], {}) is None
