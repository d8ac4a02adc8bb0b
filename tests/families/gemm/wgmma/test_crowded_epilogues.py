"""Registers for predicated loads of an epilogue are cleared first, unless they are kept from tile to tile."""

from __future__ import annotations

import re

import pytest

from cutegen.codegen import generate


def text(vectors: int, more: str = "", dtype: str = "i32") -> str:
    """A product to whose columns whole numbers are added: floats are not loaded under predicates."""
    names = [f"v{i}" for i in range(vectors)]
    declared = "".join(f"  {name}: {{shape: [N], dtype: {dtype}}}\n" for name in names)
    return (
        "cutegen: 1\nkernel: mm\nop: gemm\ntensors:\n"
        "  A: {shape: [M, K], dtype: bf16}\n  B: {shape: [N, K], dtype: bf16}\n"
        f"{declared}  C: {{shape: [M, N], dtype: bf16, role: out}}\n"
        f"compute: C = {' + '.join(['A @ B.T', *names])}\nschedule: {{mma: {{atom: wgmma}}{more}}}\n"
    )


@pytest.mark.parametrize(
    ("spec", "cleared"),
    [
        (text(1), 0),  # 128 accumulators, 64 values and what is beside them fit 232 registers
        (text(2), 2),  # 128 values do not: compiled without this, 868 bytes are spilled
        (text(4), 4),
        (text(2, ", tiler: {N: 128}"), 0),
        (text(2, dtype="i16"), 0),  # of two in a register
        (text(1, ", warps: {roles: pingpong}"), 1),  # 192 accumulators
    ],
    ids=["one", "two", "four", "narrow", "i16", "pingpong"],
)
def test_a_masked_load_is_cleared_where_registers_are_short(spec: str, cleared: int) -> None:
    (module,) = generate(spec, "mm.yaml").modules
    assert len(re.findall(r"tCrv\d\.fill\(0\)  # else the loop over tiles keeps it", module.text)) == cleared
    assert module.text.count("tCrv0 = cute.make_fragment_like") == 1
