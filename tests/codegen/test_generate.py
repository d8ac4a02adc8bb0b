"""`generate` on the kernels of a file."""

from __future__ import annotations

import importlib

import pytest

from cutegen.codegen.generate import generate

MATRIX = """\
cutegen: 1
kernel: twice_{a}{b}
op: elementwise
tensors:
  S: {shape: [M, N], dtype: "{a}"}
  D: {shape: [M, N], dtype: f32, role: out}
compute: D = 2 * S
matrix:
  a: [f32, bf16]
  b: [0, 1, 2, 3, 4, 5, 6, 7]
"""


def test_kernels_of_a_matrix_that_differ_in_name_only_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    home = importlib.import_module("cutegen.codegen.generate")
    monkeypatch.setattr(home, "check", lambda spec, report, performance: checked.append(spec.kernel))
    modules = generate(MATRIX, "specs/x.yaml").modules
    assert checked == ["twice_f320", "twice_bf160"]
    names = [f"twice_{a}{b}" for a in ("f32", "bf16") for b in range(8)]
    assert [module.spec.kernel for module in modules] == names
    other = MATRIX.replace("{a}{b}", "").replace("{a}", "f32").partition("matrix")[0]
    checked.clear()
    assert len(generate(f"{other}---\n{other.replace('twice_', 'again')}", "specs/x.yaml").modules) == 2
    assert checked == ["twice_", "again"], "their places in the text differ"
    assert all(f"def {name}(" in module.text for name, module in zip(names, modules, strict=True))
