"""Specs of gemms that say nothing of their schedule, and what is planned of a spec."""

from __future__ import annotations

from functools import cache

from lint_kit import resolved

from cutegen.language.reader import read_specs
from cutegen.planning import make_plan
from cutegen.planning.plan import Plan


@cache
def plan_of(text: str) -> Plan:
    """The plan of a spec, as that of its module, which takes longer to print. Raises SpecError as `generate` does."""
    (spec,) = read_specs(text, "x.yaml")
    return make_plan(resolved(spec)[0])


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
