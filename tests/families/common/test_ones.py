"""A 1 in a shape, as `keepdim=True` leaves it, and tensors without modes: every family takes them as torch has them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from cutegen import emulator
from cutegen.codegen import generate
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec
from cutegen.verification.agenda import Extent
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verifying.kernel import verify_kernel

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

SCALED = """\
cutegen: 1
kernel: scaled
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  s: {shape: [M, 1], dtype: f32}
  w: {shape: [1, N], dtype: f32}
  c: {shape: [], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * s + w * c
torch: {op: mylib::scaled_by_ones}
static: {N: 16}
targets: [sm_90a]
"""
NORMED = """\
cutegen: 1
kernel: normed
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  s: {shape: [M, 1], dtype: f32}
  w: {shape: [1, N], dtype: f32}
  c: {shape: [], dtype: f32}
  Z: {shape: [M, 1, N], dtype: f32}
  R: {shape: [M, 1], dtype: f32, role: out}
  Y: {shape: [M, N], dtype: f32, role: out}
  V: {shape: [1, N], dtype: f32, role: out}
compute:
  - R = rsqrt(mean(X * X, N) + c)
  - Y = X * R * w * s + Z
  - V = sum(X * s, M)
schedule: {SCHEDULE}
static: {N: 256}
targets: [sm_90a]
"""
MULTIPLIED = """\
cutegen: 1
kernel: multiplied
op: gemm
tensors:
  A: {shape: [M, K], dtype: f16}
  B: {shape: [N, K], dtype: f16}
  s: {shape: [M, 1], dtype: f32}
  w: {shape: [1, N], dtype: f32}
  c: {shape: [], dtype: f32}
  D: {shape: [M, N], dtype: f16, role: out}
compute: D = (A @ B.T) * s * c + w
static: {N: 64, K: 64}
targets: [TARGET]
"""
WAYS = {
    "registers": "keep: registers",
    "reload": "keep: reload",
    "kept": "keep: smem, threads_per_row: 64, tiler: {N: 256}, scheduler: {kind: persistent, blocks: 3}",
}
ROWS = 5


LINE = """\
cutegen: 1
kernel: clipped
op: elementwise
tensors:
  G: {shape: [N], dtype: f32}
  c: {shape: [], dtype: f32}
  Y: {shape: [N], dtype: f32, role: out}
compute: Y = minimum(G, c)
targets: [sm_90a]
"""


def _given(*names: str) -> list:
    """Tensors as torch has them after reductions with `keepdim`, and a number."""
    generator = torch.Generator().manual_seed(1)
    made = {"s": (ROWS, 1), "w": (1, 0), "c": ()}
    columns = int(names[-1])
    return [torch.rand([columns if n == 0 else n for n in made[x]], generator=generator) + 0.5 for x in names[:-1]]


def _run(text: str, folder: Path, *given: object, **outputs: object) -> ModuleType:
    """The module of a spec, of which the emulator ran the kernel."""
    (module,) = generate(text, "x.yaml").modules
    path = folder / f"{module.spec.kernel}.py"
    path.write_text(module.text, encoding="utf-8")
    roles = {**dict.fromkeys((t.argument for t in module.spec.inputs), "in"), **dict.fromkeys(outputs, "out")}
    loaded = load_module(path)
    emulator.run(loaded, *given, outputs=outputs, kernel=module.spec.kernel, roles=roles)
    return loaded


def test_elementwise(tmp_path: Path) -> None:
    x, y, (s, w, c) = torch.randn(ROWS, 16), torch.empty(ROWS, 16), _given("s", "w", "c", "16")
    _run(SCALED, tmp_path, x, s, w, c, y=y)
    torch.testing.assert_close(y, x * s + w * c)


def test_elementwise_along_one_mode(tmp_path: Path) -> None:
    g, y, c = torch.randn(1000), torch.empty(1000), torch.tensor(0.25)
    _run(LINE, tmp_path, g, c, y=y)
    assert y.equal(torch.minimum(g, c))


@pytest.mark.parametrize("way", WAYS)
def test_rowwise(way: str, tmp_path: Path) -> None:
    """With an output for each row, one for each column, and a tensor of all modes with a 1 between them."""
    x, z, (s, w, c) = torch.randn(ROWS, 256), torch.randn(ROWS, 1, 256), _given("s", "w", "c", "256")
    r, y, v = torch.empty(ROWS, 1), torch.empty(ROWS, 256), torch.empty(1, 256)
    loaded = _run(NORMED.replace("SCHEDULE", WAYS[way]), tmp_path, x, s, w, c, z, r=r, y=y, v=v)
    wanted = torch.rsqrt((x * x).mean(1, keepdim=True) + c)
    torch.testing.assert_close(r, wanted)
    torch.testing.assert_close(y, x * wanted * w * s + z[:, 0])
    torch.testing.assert_close(v, (x * s).sum(0, keepdim=True))
    torch.testing.assert_close(loaded.reference(x, s, w, c, z), (r, y, v))


@pytest.mark.parametrize(
    ("target", "schedule"),
    [
        ("sm_80", ""),
        ("sm_80", "schedule: {mma: {atom: mma_sync}}\n"),  # which takes aligned rows alone
        ("sm_90a", "schedule: {mma: {atom: wgmma}}\n"),
    ],
    ids=["sm_80", "aligned", "sm_90a"],
)
def test_the_epilogue_of_a_gemm(target: str, schedule: str, tmp_path: Path) -> None:
    a, b, d = torch.randn(ROWS, 64).half(), torch.randn(64, 64).half(), torch.empty(ROWS, 64).half()
    s, w, c = _given("s", "w", "c", "64")
    _run(MULTIPLIED.replace("TARGET", target) + schedule, tmp_path, a, b, s, w, c, d=d)
    torch.testing.assert_close(d, ((a.float() @ b.float().T) * s * c + w).half(), rtol=2e-3, atol=2e-3)


def test_the_checks_of_the_host_and_of_the_op_hold(tmp_path: Path) -> None:
    """Of what is passed wrongly, too: a tensor of another rank, one that is longer along the 1."""
    (module,) = generate(SCALED, "x.yaml").modules
    path = tmp_path / f"{module.spec.kernel}.py"
    path.write_text(module.text, encoding="utf-8")
    report = verify_kernel(module.plan, path, EmulatorExecutor(lines=False), extent=Extent(quick=True))
    assert report.ok, report.failures


@pytest.mark.parametrize("text", [SCALED, NORMED.replace("SCHEDULE", "keep: registers"), MULTIPLIED])
def test_a_1_and_no_modes_are_written_as_they_are_read(text: str) -> None:
    (spec,) = read_specs(text.replace("TARGET", "sm_80"))
    written = write_spec(spec)
    assert "s: {shape: [M, 1]," in written and "c: {shape: []," in written and "1: 1" not in written
    assert read_specs(written) == (spec,)
