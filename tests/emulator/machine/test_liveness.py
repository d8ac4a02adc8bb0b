"""Which registers are live where a basic block starts."""

from __future__ import annotations

from emulator_kit import kernel

from cutegen.emulator.host.launching import program_of
from cutegen.emulator.machine.liveness import live_registers

BODY = """
mov.b32 %r2, 1;
mov.b32 %r3, 2;
mov.b32 %r4, 3;
LOOP:
add.u32 %r2, %r2, 1;
mov.b32 %r5, %r2;
@%p2 mov.b32 %r4, %r5;
setp.lt.u32 %p1|%p3, %r2, %r3;
ld.global.v2.b32 {%r6, %r7}, [%rd0];
st.global.v2.b32 [%rd1], {%r6, %r4};
@%p1 bra LOOP;
st.global.b32 [%rd1], %r7;
"""


def test_what_may_be_read_before_it_is_written_is_live() -> None:
    program = program_of(kernel(BODY), "k")
    names = {slot: name for name, slot in program.slots.items()}
    start, loop, after = ({names[slot] for slot in live} for live in live_registers(program)[:3])
    assert loop == {"%r2", "%r3", "%r4", "%p2", "%rd0", "%rd1"}
    assert start == {"%p2"}, "which nothing writes"
    assert after == {"%r7", "%rd1"}


def test_what_ends_a_block_and_the_coordinates_of_a_tensor_are_read() -> None:
    body = """
mov.b32 %r2, 4096;
cp.async.bulk.prefetch.tensor.2d.L2.global [%rd0, {%r3, %r4}];
mbarrier.try_wait.parity.shared.b64 %p1, [%r5], %r6;
"""
    program = program_of(kernel(body).replace("sm_80", "sm_90"), "k")
    names = {slot: name for name, slot in program.slots.items()}
    assert {"%r3", "%r4", "%r5", "%r6"} <= {names[slot] for slot in live_registers(program)[0]}
