"""Poison goes through a segment as through its instructions one by one, where that is told at once."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from emulator_kit import go, indexed, native_core, numbers, tensors

from cutegen.emulator.checks.poison import poisoned_lanes
from cutegen.emulator.native.building import SWITCH
from cutegen.emulator.native.segments import Segment

SEEDS = 60
FLOATS = [
    *("fma.rn.f32 {d}, {a}, {b}, {c};", "add.f32 {d}, {a}, {b};", "mul.f32 {d}, {a}, 0f40000000;"),
    *("abs.f32 {d}, {a};", "max.f32 {d}, {a}, {b};", "cvt.rn.bf16x2.f32 {d}, {a}, {b};", "mov.b32 {d}, {a};"),
    *("setp.gt.f32 {p}, {a}, {b};", "setp.lt.f32 {p}, {a}, 0f3F800000;", "setp.eq.s32 {p}, {a}, {b};"),
    *("selp.f32 {d}, {a}, {b}, {q};", "selp.f32 {d}, 0f3F800000, 0f40400000, {q};"),
    *("@{q} add.f32 {d}, {a}, {d};", "@!{q} mov.b32 {d}, {a};", "@{q} copysign.f32 {d}, {a}, {d};"),
]
INTEGERS = [
    *("add.s32 {d}, {a}, {b};", "xor.b32 {d}, {a}, {b};", "mad.lo.s32 {d}, {a}, {b}, {c};", "shl.b32 {d}, {a}, 3;"),
    *("and.b32 {d}, {a}, 255;", "or.b32 {d}, {a}, {b};", "not.b32 {d}, {a};", "min.s32 {d}, {a}, {b};"),
    *("cvt.u32.u16 {d}, %rs1;", "cvt.u16.u32 %rs1, {a};", "prmt.b32 {d}, {a}, {b}, 0x5410;"),
]
HALF = """
setp.lt.u32 %p1, %r0, 12;
@%p1 mov.b32 %r10, %r0;
and.b32 %r10, %r10, 0xFFFF;
bar.sync 0;
xor.b32 %r12, %r10, %r0;
st.shared.b32 [%r6], %r12;
st.global.b32 [%rd12], %r0;
"""
SHIFTED = """
setp.lt.u32 %p1, %r0, 12;
@%p1 mov.b32 %r10, %r0;
bar.sync 0;
shl.b32 %r11, %r10, 3;
OPERATION %r12, %r11, %r0;
bar.sync 0;
st.shared.b32 [%r6], %r12;
st.global.b32 [%rd12], %r0;
"""


def body(chance: Random, halves: bool) -> str:
    """Two registers of each block's first threads, one of the last ones, and others of all, and what is made of them.

    With `halves`, the first of these means nothing in its upper half only.
    """
    registers = [f"%r{number}" for number in range(10, 20)]
    text = [
        "setp.lt.u32 %p1, %r0, 12;",
        "setp.gt.u32 %p2, %r0, 7;",
        "setp.eq.u32 %p3, %r0, 3;",
        "setp.eq.u32 %p4, 0, 0;",
    ]
    text += ["@%p1 mov.b32 %r10, %r0;", "@%p1 mov.b32 %r11, 0f3FC00000;", "@%p2 mov.b32 %r12, %r0;", "mov.b16 %rs1, 7;"]
    text += ["and.b32 %r10, %r10, 0xFFFF;"] * halves
    text += [f"add.u32 {register}, %r0, {7 * number};" for number, register in enumerate(registers[3:])]
    text += ["bar.sync 0;", *["setp.lt.u32 %p6, %r0, 20;", "@%p6 bra ON;"] * chance.randint(0, 1)]
    for _ in range(chance.randint(1, 12)):
        one = chance.choice(FLOATS if chance.random() < 0.9 else INTEGERS)
        given = dict(zip("abcd", chance.choices(registers, [3, 3, 3] + [1] * 7, k=4), strict=True))
        text.append(one.format(**given, p=f"%p{chance.randint(3, 5)}", q=f"%p{chance.randint(3, 4)}"))
    text += ["ON:", "bar.sync 0;"]
    text += [f"st.shared.b32 [%r6+{128 * number}], {register};" for number, register in enumerate(registers)]
    return "\n".join((*text, "st.global.b32 [%rd12], %r0;"))


@pytest.mark.parametrize("halves", [False, True])
def test_results_are_poisoned_as_by_one_instruction_after_the_other(
    halves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    native_core()
    monkeypatch.setenv(SWITCH, "1")
    by_core, one_by_one = Segment.__call__, Segment._run_each
    at_once = 0

    def both(self: Segment, lanes: Any, mask: Any) -> None:
        nonlocal at_once
        bits, wide, poison = lanes.bits[:], lanes.wide[:], dict(lanes.poison)
        one_by_one(self, lanes, mask)
        wanted = state(self, lanes)
        lanes.bits[:], lanes.wide[:], lanes.poison = bits, wide, poison
        slow.clear()
        by_core(self, lanes, mask)
        for (found, lost), (other, expected) in zip(state(self, lanes), wanted, strict=True):
            assert np.array_equal(lost, expected)
            known = ~poisoned_lanes(lost)
            assert np.array_equal(found[known], other[known])
        at_once += not slow and any(expected.any() for _, expected in wanted)

    slow: list[Segment] = []

    def noted(self: Segment, lanes: Any, mask: Any) -> None:
        slow.append(self)
        one_by_one(self, lanes, mask)

    monkeypatch.setattr(Segment, "__call__", both)
    monkeypatch.setattr(Segment, "_run_each", noted)
    shifted = (SHIFTED.replace("OPERATION", name) for name in ("xor.b32", "add.s32", "mul.f32", "add.f32"))
    beyond = SHIFTED.replace(", 3;", ", 40;").replace("OPERATION", "add.f32")  # nothing is left
    for text in (HALF, beyond, *shifted, *(body(Random(seed), halves) for seed in range(SEEDS))):
        assert go(indexed(text, shared=2048), tensors((numbers(), "in"), (numbers(), "out"))).ok, text
    assert at_once > 3


def state(segment: Segment, lanes: Any) -> list[tuple[Any, Any]]:
    """The registers that a segment writes, and their undefined bits."""
    found = []
    for slot in segment.targets:
        bits = np.broadcast_to(lanes.get(slot), lanes.shape)
        poison = lanes.poison.get(slot, np.zeros((), bits.dtype))
        found.append((bits, np.broadcast_to(poison, lanes.shape)))
    return found
