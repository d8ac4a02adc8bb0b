"""Lanes that parted come together again where their ways meet, wherever the compiler has put these ways."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from cutegen.emulator import bind, launch, place
from cutegen.emulator.host.launching import program_of
from cutegen.emulator.machine.block_turns import turns_of

HEAD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry sums(.param .u64 y) {
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
ld.param.u64 %rd0, [y];
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd1, %r0, 4;
add.s64 %rd0, %rd0, %rd1;
setp.gt.u32 %p0, %r0, 11;
mov.b32 %r2, 0;
"""
TAIL = "shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;\nadd.s32 %r1, %r1, %r2;\nst.global.b32 [%rd0], %r1;\nret;\n"
BEHIND = f"{HEAD}@%p0 bra $FAR;\n$MEET:\n{TAIL}$FAR:\nmov.b32 %r2, 100;\nbra.uni $MEET;\n}}"
BEFORE = f"{HEAD}@!%p0 bra $MEET;\nmov.b32 %r2, 100;\n$MEET:\n{TAIL}}}"
LOOP = f"""{HEAD}
$NEXT:
add.s32 %r2, %r2, 25;
setp.lt.u32 %p1, %r2, 100;
@%p0 bra $FAR;
$BACK:
@%p1 bra $NEXT;
bra.uni $MEET;
$FAR:
setp.lt.u32 %p1, %r2, 50;
bra.uni $BACK;
$MEET:
{TAIL}}}"""


@pytest.mark.parametrize(("text", "by_text"), [(BEHIND, False), (BEFORE, True), (LOOP, False)])
def test_all_lanes_of_a_warp_are_at_the_shuffle_behind_their_ways(text: str, by_text: bool) -> None:
    y = np.zeros(32, np.int32)
    tensor = bind(y, "y", "out", place(y.ctypes.data, 0))
    launch(text, "sums", 1, 32, struct.pack("<Q", tensor.at), [tensor]).check()
    far, near = (50, 100) if text is LOOP else (100, 0)
    assert y.tolist() == [(i ^ 1) + (far if i > 11 else near) for i in range(32)]
    assert (turns_of(program_of(text, "sums")) is None) == by_text


def test_a_loop_comes_before_what_is_behind_it() -> None:
    turns = turns_of(program_of(LOOP, "sums"))
    assert turns is not None
    head, loop, back, leave, far, meet = turns[:6]
    assert [head, loop, far, back, leave, meet] == [*range(6)]
