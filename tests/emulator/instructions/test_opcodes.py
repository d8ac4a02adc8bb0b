"""Properties of all instructions on registers."""

from __future__ import annotations

import numpy as np
import pytest
from semantics_kit import HEADER, compute, f32, f64, instruction

from cutegen.emulator.instructions.opcodes import NOT_PURE, compile_pure
from cutegen.emulator.ptx.errors import UnsupportedInstruction


@pytest.mark.parametrize(
    "text",
    [
        "frobnicate.b32 %r1, %r2",
        "add.rx.f32 %r1, %r2, %r3",
        "add.f128 %r1, %r2, %r3",
        "add.rz.s32 %r1, %r2, %r3",
        "fma.f32 %r1, %r2, %r3, %r4",
        "fma.rn.sat.f64 %rd1, %rd2, %rd3, %rd4",
        "mul.wide.s64 %rd1, %rd2, %rd3",
        "setp.lt.b32 %p1, %r1, %r2",
        "setp.lo.f32 %p1, %r1, %r2",
        "cvt.rn.e4m3x2.f32 %rs1, %r1, %r2",
        "cvt.f32.s32 %r1, %r2",
        "cvt.s32.f32 %r1, %r2",
        "cvt.f32.f64 %r1, %rd2",
        "add.s32 %r1, %r2",
        "add.s32 %r1, %rd2, %r3",
        "and.b32 %rd1, %r2, %r3",
        "mov.b32 %r1, {%r2, %r3}",
        "rcp.approx.f64 %rd1, %rd2",
        "mul.lo.cc.u32 %r1, %r2, %r3",
    ],
)
def test_what_is_not_known_stops_with_its_name_and_line(text: str) -> None:
    found = instruction(text)
    with pytest.raises(UnsupportedInstruction) as caught:
        compile_pure(found)
    assert caught.value.name == found.name == text.split()[0]
    assert caught.value.line == HEADER.count("\n") + 1
    assert found.name in str(caught.value) and text in str(caught.value)


def test_memory_control_and_warp_instructions_are_left_to_the_machine() -> None:
    for text in ("bar.sync 0", "ld.global.b32 %r1, [%rd1]", "shfl.sync.idx.b32 %r1, %r2, 0, 31, -1", "ret"):
        found = instruction(text)
        assert found.opcode in NOT_PURE and compile_pure(found) is None


def test_scalars_and_arrays_broadcast() -> None:
    lanes = np.arange(12, dtype=np.uint32).reshape(3, 4)
    assert compute("add.s32 %r1, %r2, 5", lanes).tolist() == (lanes + 5).tolist()
    assert compute("fma.rn.f32 %r1, 0f40000000, %r2, 0f3F800000", f32(3.0)).item() == f32(7.0)
    for text in ("fma.rn.f64 %rd1, %rd2, %rd3, %rd4", "min.f64 %rd1, %rd2, %rd3", "div.rn.f64 %rd1, %rd2, %rd3"):
        count = text.count(",")
        assert compute(text, *[f64(1.0)] * count).shape == ()


def test_a_float_immediate_of_the_other_size_is_converted() -> None:
    assert compute("add.f32 %r1, %r2, 0d3FF8000000000000", f32(1.0)).item() == f32(2.5)
    assert compute("add.f32 %r1, %r2, 1.5", f32(1.0)).item() == f32(2.5)
    assert compute("mov.b64 %rd1, 0d3FF8000000000000").item() == 0x3FF8000000000000
    assert compute("mov.b32 %r1, -1").item() == 0xFFFFFFFF


def test_negated_predicate_sources() -> None:
    p = np.array([False, True])
    assert compute("setp.eq.and.b32 %p1, %r1, 0, !%p2", [0, 0], p).tolist() == [True, False]
    assert compute("and.pred %p1, %p2, !%p3", [True, True], p).tolist() == [True, False]
