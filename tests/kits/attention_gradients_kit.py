"""The specs of the gradients of causal attention: by queries, `q`, and by keys and values, `kv`."""

from __future__ import annotations

HEAD = """\
cutegen: 1
kernel: small
op: contract
tensors:
  Q: {shape: [B, M, G, R, D], dtype: bf16}
  K: {shape: [B, N, G, D], dtype: bf16}
  V: {shape: [B, N, G, E], dtype: bf16}
  dO: {shape: [B, M, G, R, E], dtype: bf16}
  lse: {shape: [B, G, R, M], dtype: f32}
  delta: {shape: [B, G, R, M], dtype: f32}
"""
DQ = "  dQ: {shape: [B, M, G, R, D], dtype: bf16, role: out}\n"
DKV = """\
  dK: {shape: [B, N, G, D], dtype: bf16, role: out}
  dV: {shape: [B, N, G, E], dtype: bf16, role: out}
"""
SCORES = """\
scalars: {scale: f32}
compute:
  - S = where(coord(N) - len(N) <= coord(M) - len(M), sum(Q * K, D) * scale, -inf)
  - P = exp(S - lse)
  - dS = P * (sum(dO * V, E) - delta)
"""
STATEMENTS = {
    "q": HEAD + DQ + SCORES + "  - dQ = sum(cast(dS, bf16) * K, N) * scale\n",
    "kv": HEAD
    + DKV
    + SCORES
    + "  - dV = sum(sum(cast(P, bf16) * dO, M), R)\n  - dK = sum(sum(cast(dS, bf16) * Q, M), R) * scale\n",
}


def spec(kind: str, target: str, rows: int, walked: int, stages: int, sizes: tuple[int, int] = (32, 48)) -> str:
    """The spec of a kernel with tiles of so many rows and walked elements, and rows of so many elements, D and E."""
    tiler = f"M: {rows}, N: {walked}" if kind == "q" else f"N: {rows}, M: {walked}"
    schedule = f"schedule: {{tiler: {{{tiler}}}, pipeline: {{stages: {stages}}}}}\n"
    return f"{STATEMENTS[kind]}static: {{D: {sizes[0]}, E: {sizes[1]}}}\n{schedule}targets: [{target}]\n"
