"""Specs of gemms that say nothing of their schedule."""

from __future__ import annotations


def text(
    a: str = "bf16",
    b: str | None = None,
    *,
    majors: tuple[str, str, str] = ("K", "K", "N"),
    more: str = "",
    compute: str = "C = A @ B.T",
    tensors: str = "",
    batch: str = "",
) -> str:
    lines = [
        f"  A: {{shape: [{batch}M, K], dtype: {a}, major: {majors[0]}}}",
        f"  B: {{shape: [{batch}N, K], dtype: {b or a}, major: {majors[1]}}}",
        f"  C: {{shape: [{batch}M, N], dtype: {'f64' if a == 'f64' else 'bf16'}, major: {majors[2]}, role: out}}",
    ]
    declared = "\n".join([*lines, *([tensors] if tensors else [])])
    return f"cutegen: 1\nkernel: mm\nop: gemm\ntensors:\n{declared}\ncompute: {compute}\n{more}\n"
