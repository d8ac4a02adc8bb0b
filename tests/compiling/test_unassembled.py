"""PTX that is only checked is that of a whole compilation, and no code is made of its kernels."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")
pytest.importorskip("cutlass")

import cutlass.cute as cute

from cutegen.codegen import generate
from cutegen.compiling.loading import load
from cutegen.compiling.unassembled import unassembled_code, without_empty_kernel

HEAD = "cutegen: 1\nkernel: some\n"
ROWS = "tensors:\n  X: {shape: [M, N], dtype: bf16}\n  Y: {shape: [M, N], dtype: bf16, role: out}\n"
SPECS = {
    "sm_80": f"{HEAD}op: rowwise\n{ROWS}compute: Y = X / sum(X, N)\nstatic: {{N: 512}}\ntargets: [sm_80]\n",
    "sm_90a": f"{HEAD}op: gemm\ntensors:\n  A: {{shape: [M, K], dtype: bf16}}\n  B: {{shape: [N, K], dtype: bf16}}\n"
    "  C: {shape: [M, N], dtype: bf16, role: out}\ncompute: C = A @ B.T\n"
    "schedule: {mma: {atom: wgmma}, tiler: {M: 128, N: 64, K: 64}}\ntargets: [sm_90a]\n",
}
OPTIONS = [(), (cute.GenerateLineInfo(True),)]


def module_of(spec: str, folder: Path, change: tuple[str, str] = ("", "")) -> ModuleType:
    (module,) = generate(spec, "x.yaml").modules
    text = module.text.replace(*change)
    (path := folder / "some.py").write_text(text, encoding="utf-8")
    return load(path, f"some_{abs(hash(text))}")


@pytest.mark.parametrize("target", SPECS)
@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "lines"])
def test_the_ptx_is_that_of_a_whole_compilation(target: str, options: tuple[object, ...], tmp_path: Path) -> None:
    module = module_of(SPECS[target], tmp_path)
    found = []
    for context in (contextlib.nullcontext, unassembled_code):
        with context():
            found.append(
                module.compile_for(
                    target, options=(*options, cute.KeepPTX(), cute.KeepCUBIN(), cute.PtxasOptions("-O1"))
                )
            )
    whole, checked = (one.artifacts for one in found)
    assert "cutegen_empty_kernel" in checked.PTX
    assert without_empty_kernel(checked.PTX) == whole.PTX
    kernels = re.findall(r"\.entry (\w+)", whole.PTX)
    assert all(f".text.{kernel}".encode() in whole.CUBIN for kernel in kernels)
    assert kernels and not any(f".text.{kernel}".encode() in checked.CUBIN for kernel in kernels)


def test_what_is_wrong_in_the_ptx_is_refused(tmp_path: Path) -> None:
    first = "    tidx, _, _ = cute.arch.thread_idx()\n"
    wrong = "    from cutlass._mlir.dialects import llvm\n"
    wrong += '    llvm.inline_asm(None, [], "mov.b33 %r0, %r1;", "", has_side_effects=True)\n'
    module = module_of(SPECS["sm_80"], tmp_path, (first, wrong + first))
    for context in (contextlib.nullcontext, unassembled_code):
        with context(), pytest.raises(Exception, match="b33"):
            module.compile_for("sm_80", options=(cute.PtxasOptions("-O1"),))


def test_other_compilations_are_as_before(tmp_path: Path) -> None:
    module = module_of(SPECS["sm_80"], tmp_path)
    with unassembled_code():
        compiled = module.compile_for("sm_80", options=(cute.KeepPTX(),))
    assert "cutegen_empty_kernel" not in compiled.artifacts.PTX
