"""Compiling prints no code for the GPU, which takes as long again for modules of many kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("cutlass")

from cutlass._mlir.dialects import cuda, gpu

from cutegen.codegen import generate
from cutegen.compiling.loading import load
from cutegen.compiling.unprinted import unprinted_code
from cutegen.compiling.worker import compile_module
from cutegen.emulator.host.builds import builds

SPEC = """\
cutegen: 1
kernel: doubled
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32, align: 4}
  Y: {shape: [M, N], dtype: f32, role: out, align: 4}
compute: Y = X * 2
static: {N: 64}
targets: [sm_80]
"""


@pytest.mark.parametrize("code", [gpu.GPUModuleOp, cuda.KernelOp])
def test_no_code_is_printed(code: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (module,) = generate(SPEC, "x.yaml").modules
    (path := tmp_path / "doubled.py").write_text(module.text, encoding="utf-8")
    loaded = load(path, "unprinted")
    printed: list[object] = []

    def note(self: object) -> str:
        printed.append(self)
        return ""

    monkeypatch.setattr(code, "__str__", note)
    loaded.compile_for("sm_80")
    assert printed, "this release of the compiler prints no code: nothing needs to be done about it"
    printed.clear()
    artefact = compile_module(loaded, "doubled", "sm_80", tmp_path, keep_lines=False)
    (build,) = builds(loaded, lines=False)
    assert not printed and build.ptx == artefact.ptx


@pytest.mark.parametrize("code", [gpu.GPUModuleOp, cuda.KernelOp])
def test_it_is_printed_again_afterwards(code: type) -> None:
    own = code.__str__
    with pytest.raises(KeyError), unprinted_code():
        assert code.__str__ is not own
        raise KeyError
    assert code.__str__ is own
