"""Specs of one kernel each, which the tests of the language break in one place."""

from __future__ import annotations

ADD = """\
cutegen: 1
kernel: add
op: elementwise
tensors:
  A: {shape: [M, N], dtype: f32, major: N, align: 16}
  B: {shape: [N], dtype: f32}
  C: {shape: [M, N], dtype: f32, role: out}
scalars: {alpha: f32}
compute: C = A + alpha * B
schedule:
  partition: thread_value
  thread_layout: (32,8):(8,1)
  value_layout: (4,8):(8,1)
  copy: {atom: universal, bits: 128}
  predication: {M: mask, N: none}
targets: [sm_80]
verify:
  shapes:
    - {M: 7, N: 16}
  tolerance: {rtol: 0.0, atol: 1e-3}
expect:
  spills: 0
  sass: {LDG.E.128: ">= 4"}
"""

GEMM = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {shape: [M, K], dtype: f16}
  B: {shape: [N, K], dtype: f16}
  C: {shape: [M, N], dtype: f32, role: inout}
compute: C = A @ B.T + C
schedule:
  tiler: {M: 128, N: 128, K: 8}
  mma:
    thread_layout: (16,16,1):(1,16,0)
    permutation: {M: "(16,4):(4,1)"}
    accumulator: f32
  copies:
    A: {atom: cp_async, bits: 128, thread_layout: "(32,8):(1,32)"}
  smem: {A: {pad: 4}}
  pipeline: {stages: 3}
  predication: {M: mask, K: residue_first}
verify:
  shapes:
    - {M: 7, N: 16, K: 0}
"""

PROBE = """\
cutegen: 1
kernel: look
op: probe
tensors:
  A: {shape: [M, N], dtype: i32}
  D: {shape: [T, V], dtype: i32, role: out}
compute: D = A
schedule:
  tv_layout: ((2,2),(2,3)):((2,12),(1,4))
  tiler: {M: 4, N: 6}
verify:
  shapes:
    - {M: 4, N: 6}
"""

SEGMENTS = """\
cutegen: 1
kernel: grouped
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  W: {shape: [X, N, K], dtype: bf16, align: 16}
  ends: {shape: [X], dtype: i32}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
modes:
  M: {of: X, offsets: ends}
compute: C = A @ W.T
schedule:
  mma: {atom: wgmma}
"""
LENGTHS = """\
cutegen: 1
kernel: padded
op: contract
tensors:
  Q: {shape: [B, M, H, D], dtype: bf16}
  K: {shape: [B, N, H, D], dtype: bf16}
  V: {shape: [B, N, H, E], dtype: bf16}
  used: {shape: [B], dtype: i32}
  O: {shape: [B, M, H, E], dtype: bf16, role: out}
modes:
  N: {of: B, lengths: used}
compute:
  - s = sum(Q * K, D)
  - p = exp(s - max(s, N))
  - O = sum(cast(p, bf16) * V, N) / sum(p, N)
static: {D: 64, E: 64}
"""
TAKEN = """\
cutegen: 1
kernel: embedding
op: elementwise
tensors:
  W: {shape: [V, D], dtype: bf16, at: {V: ids}}
  ids: {shape: [T], dtype: i64}
  Y: {shape: [T, D], dtype: bf16, role: out}
compute: Y = W
"""

PACKED = """\
cutegen: 1
kernel: swiglu
op: elementwise
tensors:
  GU: {shape: [M, 2*N], dtype: bf16}
  G: {shape: [M, N], view: "GU[:, :N]"}
  U: {shape: [M, N], view: "GU[:, N:]"}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute: Y = silu(G) * U
"""

SPLIT = """\
cutegen: 1
kernel: double
op: elementwise
tensors:
  QKV: {shape: [T, (HQ + 2*HK)*D], dtype: bf16, role: inout}
  Q: {shape: [T, HQ, D], view: "QKV[:, :HQ*D]"}
  X: {shape: [T, HQ, D], dtype: f32}
compute: Q = Q * X
static: {D: 8, HK: 2}
"""
BLOCKED = """\
cutegen: 1
kernel: dequantize
op: elementwise
tensors:
  X: {shape: [M, K], dtype: bf16}
  s: {shape: [M, KB], dtype: f32}
  Y: {shape: [M, K], dtype: bf16, role: out}
modes:
  KB: {blocks: K, size: 128}
compute: Y = X * s
"""

SCALED = """\
cutegen: 1
kernel: scaled
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  sA: {shape: [M, KB], dtype: f32}
  sB: {shape: [NB, KB], dtype: f32}
  C: {shape: [M, N], dtype: bf16, role: out}
modes:
  KB: {blocks: K, size: 128}
  NB: {blocks: N, size: 128}
compute: C = (A * sA) @ (B * sB).T
"""
