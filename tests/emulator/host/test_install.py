"""`install`: calls of a module's function and op with tensors of the CPU, as a user makes them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from cutegen.codegen import generate  # noqa: E402
from cutegen.emulator import FaultError, install, on_device  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402

TWICE = """
cutegen: 1
kernel: twice
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * 2
targets: [sm_90a]
"""
COUNT = """
cutegen: 1
kernel: count
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  S: {shape: [M, N], dtype: f32, role: inout}
  Y: {shape: [M, N], dtype: f32, role: out}
compute:
  - S = S + X
  - Y = S * 2
targets: [sm_90a]
"""
PRODUCT = """
cutegen: 1
kernel: odd
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: bf16, role: out}
compute: C = A @ B.T
schedule: {mma: {atom: wgmma}, tiler: {M: 64, N: 64, K: 64}}
divisible: {N: 1, K: 1}
torch: {op: "install_tests::odd"}
targets: [sm_90a]
"""


def made(text: str, folder: Path) -> ModuleType:
    (module,) = generate(text, "x.yaml").modules
    path = folder / module.name
    path.write_text(module.text, encoding="utf-8")
    return load_module(path)


def test_tensors_of_the_cpu_are_taken_and_an_output_is_made(tmp_path: Path) -> None:
    module = made(TWICE, tmp_path)
    emulated = install(module, "twice")
    x = torch.randn(3, 5)
    y = module.twice(x)
    assert type(y) is torch.Tensor and y.device.type == "cpu" and torch.equal(y, 2 * x)
    placed = module.twice(on_device(x))
    assert placed.device.type == "cuda" and torch.equal(placed.as_subclass(torch.Tensor), 2 * x)
    assert torch.equal(module.twice(x[:, ::5].T.contiguous()), 2 * x[:, ::5].T)
    wanted = r"x: expected torch.float32 \[M, N\] on .*, got torch.float64 \[3, 5\]"
    with pytest.raises(TypeError, match=wanted):
        module.twice(x.double())
    with pytest.raises(ValueError, match="x: expected no gradient to be computed"):
        module.twice(x.requires_grad_())
    assert len(emulated.reports) == 3
    again = install(module, "twice")
    with torch.no_grad():
        module.twice(x)
    assert len(emulated.reports) == 3 and len(again.reports) == 1


def test_what_is_passed_is_written_and_returned(tmp_path: Path) -> None:
    module = made(COUNT, tmp_path)
    install(module, "count", roles={"x": "in", "y": "out"})
    x, s = torch.randn(4, 8), torch.ones(4, 8)
    returned = module.count(x, s)
    by_memory = {one.data_ptr(): one for one in returned}
    assert by_memory.pop(s.data_ptr()) is s and torch.equal(s, 1 + x)
    (y,) = by_memory.values()
    assert torch.equal(y, 2 + 2 * x)


def test_the_workspace_of_a_call_is_its_own(tmp_path: Path) -> None:
    """Rows of N elements that no whole access of 16 bytes ends with: the padding that a copy has may be overwritten."""
    module = made(PRODUCT, tmp_path)
    emulated = install(module, "odd")
    for n in (64, 65, 7):
        a, b = torch.randint(-4, 5, (33, 40)).bfloat16(), torch.randint(-4, 5, (n, 40)).bfloat16()
        wanted = (a.double() @ b.double().T).bfloat16()
        assert torch.equal(torch.ops.install_tests.odd(a, b), wanted)
        assert torch.equal(module.odd(a, b), wanted)
        rows = torch.full((33, 80), 7.0).bfloat16()
        given = rows[:, :n]
        module.odd(a, b, c=given)
        assert torch.equal(given, wanted) and (rows[:, n:] == 7).all()
    assert not emulated.faults
    rows, b = on_device(torch.full((33, 80), 7.0).bfloat16()), torch.zeros(65, 40).bfloat16()
    with pytest.raises(FaultError, match="overwrites 14 bytes after the end of a row"):  # of the caller's memory
        emulated(on_device(a), on_device(b), rows[:, :65], 0, 0, 0)
