"""Kernels whose modes are more than sizes (views, blocks, segments, scales) pass all cases and all host checks."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cutlass")

from cutegen.codegen import generate
from cutegen.verification.executor import EmulatorExecutor
from cutegen.verifying.kernel import verify_kernel

SPECS = {
    "an argument of two outputs, which a call may pass or leave out": """\
op: elementwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  P: {shape: [M, 2*N], dtype: bf16, role: out}
  A: {shape: [M, N], view: "P[:, N:]"}
  B: {shape: [M, N], view: "P[:, :N]"}
compute: [A = 2 * X, B = 3 * X]
targets: [sm_80]
""",
    "a view that starts at any element of an argument that is aligned": """\
op: elementwise
tensors:
  P: {shape: [M + 1], dtype: bool, align: 16}
  A: {shape: [M], view: "P[-M:]"}
  D: {shape: [M], dtype: f16, align: 8, role: out}
compute: D = A + 1
schedule: {copy: {bits: 32}, thread_layout: "16:1", tiler: {M: 32}}
targets: [sm_80]
""",
    "an output that is all of an argument, whose size no input has": """\
op: elementwise
tensors:
  X: {shape: [N], dtype: f32}
  P: {shape: [1*M, N], dtype: f32, role: out}
  A: {shape: [M, N], view: "P[:M]"}
compute: A = 2 * X
targets: [sm_80]
""",
    "a view from the middle on, in the first of two launches": """\
op: rowwise
tensors:
  P: {shape: [2*M, N], dtype: f32, align: 16}
  A: {shape: [M, N], view: "P[M:]"}
  D: {shape: [N], dtype: f32, role: out}
compute: ["r = max(A, N)", "D = sum(A + r, M)"]
static: {N: 16}
targets: [sm_80]
""",
    "blocks of a mode that only the output has": """\
op: elementwise
tensors:
  S: {shape: [M, NB], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
modes: {NB: {blocks: N, size: 16}}
compute: Y = 2 * S
targets: [sm_80]
""",
    "blocks of a mode beside that of wide accesses": """\
op: elementwise
tensors:
  S: {shape: [MB, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
modes: {MB: {blocks: M, size: 16}}
compute: Y = 2 * S
targets: [sm_80]
""",
    "several blocks of a mode among the values of a thread": """\
op: elementwise
tensors:
  S: {shape: [MB, N], dtype: f32}
  X: {shape: [M, N], dtype: f32, align: 16}
  Y: {shape: [M, N], dtype: f32, align: 16, role: out}
modes: {MB: {blocks: M, size: 4}}
compute: Y = X * S
schedule: {thread_layout: "(2,4):(4,1)", tiler: {M: 8, N: 8}, copy: {bits: 64}}
targets: [sm_80]
""",
    "blocks and places of integers without a sign, for which torch has no functions": """\
op: elementwise
tensors:
  S: {shape: [NB], dtype: u32}
  X: {shape: [V], dtype: u32, at: {V: taken}}
  taken: {shape: [N], dtype: i32}
  ids: {shape: [N], dtype: i64}
  Y: {shape: [slots], dtype: u32, role: inout, at: {slots: ids}}
modes: {NB: {blocks: N, size: 4}}
compute: Y = Y + S + X
targets: [sm_80]
""",
    "segments of an output that is read": """\
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [X, N, K], dtype: bf16, align: 16}
  W: {shape: [M, N], dtype: f32}
  ends: {shape: [X], dtype: i32}
  C: {shape: [M, N], dtype: bf16, role: inout}
modes: {M: {of: X, offsets: ends}}
compute: C = A @ B.T + W + C
schedule: {mma: {atom: wgmma}, tiler: {M: 64, N: 8}, warps: {roles: cooperative, consumers: 1}, pipeline: {stages: 2}}
targets: [sm_90a]
""",
    "scales of rows, and a tensor of rows": """\
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  sA: {shape: [M, KB], dtype: f32, major: M}
  sB: {shape: [KB], dtype: f32}
  W: {shape: [M], dtype: f16}
  C: {shape: [M, N], dtype: bf16, major: M, align: 16, role: out}
modes: {KB: {blocks: K, size: 128}}
compute: C = (A * sA) @ (B * sB).T + W
schedule: {mma: {atom: wgmma}, tiler: {M: 64, N: 32}, pipeline: {stages: 2}}
targets: [sm_90a]
""",
}


@pytest.mark.parametrize("text", SPECS.values(), ids=SPECS)
def test_all_cases_and_host_checks_pass(text: str, tmp_path: Path) -> None:
    (module,) = generate(f"cutegen: 1\nkernel: small\n{text}", "specs/small.yaml").modules
    path = tmp_path / "small.py"
    path.write_text(module.text, encoding="utf-8")
    report = verify_kernel(module.plan, path, EmulatorExecutor())
    assert report.ok, report
