"""Specs with ops, and with the kernels of their gradients: small, of fixed rows and one target."""

SOFTMAX = """\
cutegen: 1
kernel: op_softmax
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute:
  - e = exp(X - max(X, N))
  - Y = e / sum(e, N)
static: {N: 40}
targets: [sm_90a]
torch: {op: "op_tests::softmax", backward: op_softmax_bwd}
---
cutegen: 1
kernel: op_softmax_bwd
op: rowwise
tensors:
  dY: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16}
  dX: {shape: [M, N], dtype: bf16, role: out}
compute: dX = Y * (dY - sum(dY * Y, N))
static: {N: 40}
targets: [sm_90a]
torch: {op: "op_tests::softmax_bwd"}
"""
CHAIN = """\
cutegen: 1
kernel: op_chain
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: ["e = exp(X - max(X, N))", "Y = e / sum(e, N)"]
static: {N: 40}
torch: {op: "op_tests::chain", backward: [op_chain_bwd_delta, op_chain_bwd_x]}
targets: [sm_90a]
---
cutegen: 1
kernel: op_chain_bwd_delta
op: rowwise
tensors:
  dY: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32}
  delta: {shape: [M], dtype: f32, role: out}
compute: delta = sum(dY * Y, N)
static: {N: 40}
torch: {op: "op_tests::chain_bwd_delta"}
targets: [sm_90a]
---
cutegen: 1
kernel: op_chain_bwd_x
op: elementwise
tensors:
  dY: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32}
  delta: {shape: [M], dtype: f32}
  dX: {shape: [M, N], dtype: f32, role: out}
compute: dX = Y * (dY - delta)
static: {N: 40}
torch: {op: "op_tests::chain_bwd_x"}
targets: [sm_90a]
"""
"""A gradient by two kernels, of which the first passes a value on to the second."""
NORM = """\
cutegen: 1
kernel: op_norm
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: f32}
  Y: {shape: [M, N], dtype: bf16, role: out}
  rstd: {shape: [M, 1], dtype: f32, role: out}
scalars: {eps: f32}
compute:
  - rstd = rsqrt(mean(X * X, N) + eps)
  - Y = X * rstd * W
static: {N: 40}
targets: [sm_90a]
torch: {op: "op_tests::norm", backward: op_norm_bwd}
---
cutegen: 1
kernel: op_norm_bwd
op: rowwise
tensors:
  dY: {shape: [M, N], dtype: bf16}
  X: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: f32}
  rstd: {shape: [M, 1], dtype: f32}
  dX: {shape: [M, N], dtype: bf16, role: out}
  dW: {shape: [N], dtype: f32, role: out}
compute:
  - x = X * rstd
  - g = dY * W
  - dX = (g - x * mean(g * x, N)) * rstd
  - dW = sum(dY * x, M)
static: {N: 40}
targets: [sm_90a]
torch: {op: "op_tests::norm_bwd"}
"""
PRODUCT = """\
cutegen: 1
kernel: op_product
op: elementwise
tensors:
  A: {shape: [M, N], dtype: f32}
  B: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
scalars: {rate: f32, more: f32}
compute: Y = rate * A * B + more * B
static: {N: 40}
targets: [sm_90a]
torch: {op: "op_tests::product", backward: op_product_bwd}
---
cutegen: 1
kernel: op_product_bwd
op: elementwise
tensors:
  dY: {shape: [M, N], dtype: f32}
  A: {shape: [M, N], dtype: f32}
  B: {shape: [M, N], dtype: f32}
  dA: {shape: [M, N], dtype: f32, role: out}
  dB: {shape: [M, N], dtype: f32, role: out}
scalars: {rate: f32, more: f32}
compute:
  - dA = rate * B * dY
  - dB = (rate * A + more) * dY
static: {N: 40}
targets: [sm_90a]
torch: {op: "op_tests::product_bwd"}
"""
SEVERAL = """\
cutegen: 1
kernel: op_several
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  T: {shape: [M, N], dtype: i32}
  W: {shape: [N], dtype: f32}
  S: {shape: [M, N], dtype: bool, role: out}
  Y: {shape: [M, N], dtype: f32, role: out}
  Z: {shape: [M, N], dtype: bf16, role: out}
scalars: {rate: f32, bias: f32}
compute:
  - Y = exp(rate * X) + bias * W
  - Z = where(T > 0, X * W, bias * X)
  - S = X > 0
static: {N: 40}
targets: [sm_90a]
torch: {op: "op_tests::several", backward: [op_several_dx, op_several_dw]}
---
cutegen: 1
kernel: op_several_dx
op: elementwise
tensors:
  dY: {shape: [M, N], dtype: f32}
  dZ: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: f32}
  T: {shape: [M, N], dtype: i32}
  Y: {shape: [M, N], dtype: f32}
  dX: {shape: [M, N], dtype: f32, role: out}
scalars: {rate: f32, bias: f32}
compute: dX = rate * (Y - bias * W) * dY + where(T > 0, W, bias) * dZ
static: {N: 40}
targets: [sm_90a]
torch: {op: "op_tests::several_dx"}
---
cutegen: 1
kernel: op_several_dw
op: rowwise
tensors:
  dY: {shape: [M, N], dtype: f32}
  dZ: {shape: [M, N], dtype: bf16}
  X: {shape: [M, N], dtype: f32}
  T: {shape: [M, N], dtype: i32}
  dW: {shape: [N], dtype: f32, role: out}
scalars: {bias: f32}
compute: dW = sum(bias * dY + where(T > 0, X, 0) * dZ, M)
static: {N: 40}
targets: [sm_90a]
torch: {op: "op_tests::several_dw"}
"""
STEP = """\
cutegen: 1
kernel: op_step
op: elementwise
tensors:
  P: {shape: [M, N], dtype: f32, role: inout}
  G: {shape: [M, N], dtype: bf16, align: 16}
  Q: {shape: [M, N], dtype: bf16, align: 16, role: out}
scalars: {rate: f32, steps: i32}
compute:
  - P = P - rate * cast(steps, f32) * G
  - Q = P
targets: [sm_90a]
torch: {op: "op_tests::step"}
"""
SPREAD = """\
cutegen: 1
kernel: op_spread
op: elementwise
tensors:
  X: {shape: [N], dtype: f32}
  T: {shape: [], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
scalars: {rate: f32}
compute: Y = rate * X * T
static: {N: 40}
targets: [sm_90a]
torch: {op: "op_tests::spread"}
"""
SCATTER = """\
cutegen: 1
kernel: op_scatter
op: elementwise
tensors:
  X: {shape: [T, N], dtype: f32}
  slots: {shape: [T], dtype: i64}
  Y: {shape: [S, N], dtype: f32, role: out, at: {S: slots}}
compute: Y = 2 * X
static: {N: 40}
targets: [sm_90a]
torch: {op: "op_tests::scatter"}
"""
ALIGNED = """\
cutegen: 1
kernel: op_aligned
op: elementwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
scalars: {s: f32}
compute: Y = s * X * X
static: {N: 20}
targets: [sm_90a]
torch: {op: "op_tests::aligned", backward: op_aligned_bwd}
---
cutegen: 1
kernel: op_aligned_bwd
op: elementwise
tensors:
  dY: {shape: [M, N], dtype: bf16, align: 16}
  X: {shape: [M, N], dtype: bf16, align: 8}
  dX: {shape: [M, N], dtype: bf16, role: out}
scalars: {s: f32}
compute: dX = 2 * s * X * dY
static: {N: 20}
targets: [sm_90a]
torch: {op: "op_tests::aligned_bwd"}
"""
LOSS = """\
cutegen: 1
kernel: op_loss
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  target: {shape: [M], dtype: i64}
  loss: {shape: [M], dtype: f32, role: out}
  slope: {shape: [M, N], dtype: f32, role: out}
compute:
  - z = X - max(X, N)
  - e = exp(z)
  - s = sum(e, N)
  - hit = coord(N) == target
  - loss = log(s) - sum(where(hit, z, 0), N)
  - slope = e / s - where(hit, 1, 0)
static: {N: 40}
targets: [sm_90a]
torch: {op: "op_tests::loss", backward: op_loss_bwd}
---
cutegen: 1
kernel: op_loss_bwd
op: elementwise
tensors:
  slope: {shape: [M, N], dtype: f32}
  dloss: {shape: [M], dtype: f32}
  dX: {shape: [M, N], dtype: f32, role: out}
compute: dX = dloss * slope
static: {N: 40}
targets: [sm_90a]
torch: {op: "op_tests::loss_bwd"}
"""
BATCH = """\
cutegen: 1
kernel: op_batch
op: elementwise
tensors:
  X: {shape: [B, M, N], dtype: f32}
  Y: {shape: [B, M, N], dtype: f32, role: out}
compute: Y = 2 * X
static: {N: 8}
targets: [sm_90a]
torch: {op: "op_tests::batch"}
"""
