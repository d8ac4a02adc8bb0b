"""Places that need all their bits, and steps along the modes taken there, are found wrong in fewer."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen.codegen import generate
from cutegen.hostchecks import far_places, sizes
from cutegen.hostchecks.judging import Host
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.tensors import make_tensors

pytest.importorskip("cutlass")

PAGED = """\
cutegen: 1
kernel: paged
op: elementwise
targets: [sm_90a]
tensors:
  C: {shape: [P, R, D], dtype: bf16, at: {P: page, R: row}}
  page: {shape: [T], dtype: i32}
  row: {shape: [T], dtype: i64}
  slots: {shape: [T], dtype: i64}
  Y: {shape: [S, D], dtype: bf16, role: out, at: {S: slots}}
compute: Y = C
"""
MUTANTS = [
    ("cutlass.Int64(tYrpage_at[vector])", "cutlass.Int64(cutlass.Int16(tYrpage_at[vector]))", "places along P"),
    ("cutlass.Int64(tYrrow_at[vector])", "cutlass.Int64(cutlass.Float32(tYrrow_at[vector]))", "places along R"),
    ("cutlass.Int64(tYrslots_at[vector])", "cutlass.Int64(tYrslots_at[vector] & 0xfffff)", "places along S"),
    ("cutlass.Int64(tYrrow_at[vector]) * step_C_R",
     "cutlass.Int64(cutlass.Int32(tYrrow_at[vector]) * cutlass.Int32(step_C_R))", "2^32 elements along R"),
]  # fmt: skip


def said(folder: Path, old: str = "", new: str = "") -> dict[str, str]:
    """The result of each check on the module with a part of its text replaced."""
    (module,) = generate(PAGED, "specs/x.yaml").modules
    assert old in module.text
    path = folder / "paged.py"
    path.write_text(module.text.replace(old, new) if old else module.text, encoding="utf-8")
    spec, executor = module.spec, EmulatorExecutor(lines=False)
    case = Case("wrong calls", "", sizes.small(spec), "padded", "integers")
    host = Host(module.plan, load_module(path), executor, case, make_tensors(spec, case, executor.device), {})
    steps = (check for check in sizes.checks(host) if "2^32 elements" in check.what)
    return {check.what: check.run() for checks in (far_places.checks(host), steps) for check in checks}


def test_what_is_right_passes(tmp_path: Path) -> None:
    found = said(tmp_path)
    assert [what for what, problem in found.items() if problem] == []
    assert all(any(f"places along {mode} up to" in what for what in found) for mode in "PRS")


@pytest.mark.parametrize(("old", "new", "words"), MUTANTS, ids=[words for *_, words in MUTANTS])
def test_too_few_bits_are_found(old: str, new: str, words: str, tmp_path: Path) -> None:
    wrong = [what for what, problem in said(tmp_path, old, new).items() if problem]
    assert any(words in what for what in wrong), wrong
