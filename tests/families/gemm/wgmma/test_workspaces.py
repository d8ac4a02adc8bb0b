"""Gemms of tensors that do not stand as tensor maps take them: calls copy those to workspaces, and from there."""

from __future__ import annotations

from pathlib import Path

import pytest
from lint_kit import found_in
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.language.writer import write_spec
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

SPEC = """\
cutegen: 1
kernel: anywhere
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16, major: N}
  bias: {shape: [N], dtype: f32}
  C: {shape: [M, N], dtype: bf16, role: inout}
compute: C = A @ B.T + bias + C
schedule:
  tiler: {M: 64, N: 32, K: 32}
  mma: {atom: wgmma}
"""


def made(text: str = SPEC) -> Module:
    return generate(text, "specs/x.yaml").modules[0]


def failures(module: Module, folder: Path, text: str | None = None, names: str = "") -> list[str]:
    path = folder / "anywhere.py"
    path.write_text(module.text if text is None else text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    cases = [case for case in derive_cases(module.plan) if _tells(case) and names in case.name]
    assert cases
    reports = {case.name: verify_case(module.plan, case, loaded, executor) for case in cases}
    return [f"{name}: {report.message}" for name, report in reports.items() if report.message]


def _tells(case: Case) -> bool:
    return any(what in case.name for what in ("workspaces", "alone", "one more"))


def test_any_tensor_is_taken(tmp_path: Path) -> None:
    """Each tensor that tensor maps move is copied alone, in one case at least, for its address, its rows or its end."""
    module = made()
    names = [case.name for case in derive_cases(module.plan)]
    assert {f"{name} alone has rows elsewhere" for name in "ABC"} <= set(names) and "N alone does not fit" in names
    assert failures(module, tmp_path) == []


MISTAKES = {
    "nothing is copied from a workspace": ("            given[name].copy_(x)\n", "            pass\n"),
    "nothing is copied to one": ("return made if role == \"out\" else made.copy_(x)", "return made"),
    "an address counts for nothing": ("(x.data_ptr(), *(n * x.itemsize", "(0, *(n * x.itemsize"),
    "rows count for nothing": ("(*pitches, row)", "(row,)"),
    "an end counts for nothing": ("c.shape[1] % 8 or ", ""),
    "an end is no reason to copy": ("if role != \"in\" else 0", "if role == \"in\" else 0"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", sampled(MISTAKES))
def test_a_mistake_is_seen(mistake: str, tmp_path: Path) -> None:
    old, new = MISTAKES[mistake]
    module = made()
    assert module.text.count(old) == 1, module.text
    assert failures(module, tmp_path, module.text.replace(old, new), "alone")


def test_what_is_promised_is_refused_elsewhere() -> None:
    aligned = made(SPEC.replace("bf16", "bf16, align: 16"))
    assert "PADDED" not in aligned.text and "c.shape[1] % 8" not in aligned.text and '"N": 8' in aligned.text
    refusing = SPEC + "  copies: {A: {misaligned: refuse}, B: {misaligned: refuse}, C: {misaligned: refuse}}\n"
    assert made(refusing).plan.spec.tensor("A").align == 16
    contradiction = SPEC.replace("dtype: bf16}", "dtype: bf16, align: 2}") + "  copies: {A: {misaligned: refuse}}\n"
    assert [d.code for d in found_in(contradiction) if d.severity == "error"] == ["CG306"]
    meaningless = SPEC + "  copies: {C: {atom: universal, misaligned: workspace}}\n"
    assert [d.code for d in found_in(meaningless)] == ["CG203"]


def test_what_is_read_of_a_workspace_is_brought_from_there_whether_its_alignment_was_inferred_or_written() -> None:
    module = made(SPEC + "divisible: {N: 8}\n")
    assert "VECTOR = 2" in module.text and "tiled_load_C_in" in module.text
    written = made(write_spec(module.spec))
    assert "align: 2" in write_spec(module.spec)
    assert written.text.partition('"""')[2] == module.text.partition('"""')[2]
