"""Basic blocks that are run as one leave what they leave one after the other, and find the same faults."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from emulator_kit import go, kernel, native_core, tensors

from cutegen.emulator.host import launching
from cutegen.emulator.machine import joined_blocks
from cutegen.emulator.machine.schedule import Schedule
from cutegen.emulator.native.building import SWITCH

START = """
mul.wide.u32 %rd4, %r0, 4;
add.s64 %rd5, %rd0, %rd4;
add.s64 %rd6, %rd1, %rd4;
mov.b32 %r9, 7;
"""
ARM = """
setp.{how}.u32 %p1, %r0, {bound};
@%p1 bra AFTER{number};
ld.global.b32 %r2, [%rd5{place:+}];
shl.b32 %r3, %r2, 1;
add.u32 %r9, %r9, %r3;
AFTER{number}:
"""
STORE = """
setp.gt.u32 %p1, %r0, 70;
@%p1 bra LEFT;
st.global.b32 [%rd6], %r9;
bra.uni BOTH;
LEFT:
st.global.b32 [%rd6], %r3;
BOTH:
ret;
"""


def arms(*bounds: tuple[str, int], place: int = 0) -> str:
    """Arms of the lanes that are not `how` a bound."""
    return "".join(ARM.format(how=how, bound=n, number=i, place=place) for i, (how, n) in enumerate(bounds))


OPEN = "setp.lt.u32 %p1, %r7, 5;\n@%p1 bra ON;\n"  # by %r7, which nothing has written,
SOME = "setp.gt.u32 %p2, %r0, 50;\n@!%p2 and.b32 %r7, %r0, 7;\n"  # or only the first lanes,
LANES = "setp.gt.u32 %p2, %r0, 50;\n@%p2 mov.b32 %r9, 0;\nst.global.b32 [%rd6], %r9;"  # of which alone it is stored
BODIES = {
    "some, all and no lanes": START + "mov.b32 %r3, 1;" + arms(("lt", 9), ("gt", 200), ("lt", 200), ("ge", 41)) + STORE,
    # %r3 is nobody's after the arms, so that it may hold anything where a lane takes none
    "private registers": START + arms(("lt", 9), ("ge", 41), ("gt", 99)) + "st.global.b32 [%rd6], %r9;",
    "in a part of the lanes": START
    + "setp.lt.u32 %p2, %r0, 33;\n@%p2 bra END;\n"
    + arms(("lt", 50), ("ge", 80), ("lt", 99))
    + "END:\nst.global.b32 [%rd6], %r9;",
    "in a loop": START
    + "mov.b32 %r8, 0;\nAGAIN:\n"
    + arms(("lt", 50), ("ge", 80))
    + "add.u32 %r8, %r8, 1;\nsetp.lt.u32 %p2, %r8, 3;\n@%p2 bra AGAIN;\nst.global.b32 [%rd6], %r9;",
    "out of bounds in an arm": START + arms(("lt", 9), ("lt", 96), place=4) + "st.global.b32 [%rd6], %r9;",
    "never written in some lanes": START + arms(("lt", 9)) + "st.global.b32 [%rd6], %r3;",
    # Whether an arm is taken depends on nothing, which makes no difference where it only computes
    "open": START + OPEN + "add.u32 %r4, %r9, 1;\nON:\nst.global.b32 [%rd6], %r9;",
    "open, never read as written": START + OPEN + "add.u32 %r9, %r9, 1;\nON:\nst.global.b32 [%rd6], %r9;",
    "open in some lanes": START + SOME + OPEN + "add.u32 %r9, %r9, 1;\nON:\n" + LANES,
    "open in some lanes, by numpy": START
    + SOME
    + OPEN
    + "shl.b32 %r4, %r9, 2;\nex2.approx.ftz.f32 %r9, %r4;\nadd.u32 %r9, %r9, %r4;\nON:\n"
    + LANES,
    "open in some lanes, never read as written": START
    + SOME
    + OPEN
    + "ex2.approx.ftz.f32 %r9, %r9;\nON:\nst.global.b32 [%rd6], %r9;",
    "open in all lanes of an arm within one": START
    + SOME
    + "setp.gt.u32 %p2, %r0, 60;\n@!%p2 bra END;\n"
    + OPEN
    + "ex2.approx.ftz.f32 %r9, %r9;\nON:\nmov.b32 %r3, %r9;\nEND:\n"
    + LANES,
    "undecided load": START + OPEN + "ld.global.b32 %r4, [%rd5];\nON:\nst.global.b32 [%rd6], %r9;",
    "undecided store": START + "setp.lt.u32 %p1, %r7, 5;\n@%p1 bra ON;\nst.global.b32 [%rd6], %r9;\nON:\nret;",
    "undecided load out of bounds": START
    + "setp.lt.u32 %p1, %r7, 5;\n@%p1 bra ON;\nld.global.b32 %r4, [%rd5+4000];\nON:\nst.global.b32 [%rd6], %r9;",
    # %r4 is read by nothing after it
    "never written guard in an undecided arm": START
    + "setp.lt.u32 %p1, %r7, 5;\n@%p1 bra ON;\n@%p2 not.b32 %r4, %r9;\nON:\nst.global.b32 [%rd6], %r9;",
    # The arm reads %r6, and nothing has written it afterwards either
    "never written, and read in an undecided arm": START
    + "setp.lt.u32 %p1, %r7, 5;\n@%p1 bra ON;\nadd.u32 %r4, %r6, 1;\nON:\nst.global.b32 [%rd6], %r6;",
    "what the guard is, written in the arm": START
    + "setp.lt.u32 %p1, %r0, 5;\n@%p1 bra ON;\nsetp.lt.u32 %p1, %r0, 50;\nadd.u32 %r9, %r9, 1;\nON:\n"
    + "selp.b32 %r9, %r9, 3, %p1;\nst.global.b32 [%rd6], %r9;",
    "entered from elsewhere": START
    + "setp.lt.u32 %p2, %r0, 5;\n@%p2 bra INSIDE;\nsetp.lt.u32 %p1, %r0, 50;\n@%p1 bra ON;\nINSIDE:\n"
    + "add.u32 %r9, %r9, 1;\nON:\nst.global.b32 [%rd6], %r9;",
    "shared memory": START
    + "mov.b32 %r5, smem;\nmad.lo.u32 %r5, %r0, 4, %r5;\nst.shared.b32 [%r5], %r0;\nbar.sync 0;\n"
    + "setp.lt.u32 %p1, %r0, 40;\n@%p1 bra ON;\nld.shared.b32 %r2, [%r5+-16];\nadd.u32 %r9, %r9, %r2;\nON:\n"
    + "st.global.b32 [%rd6], %r9;",
    "a race in shared memory": START
    + "mov.b32 %r5, smem;\nmad.lo.u32 %r5, %r0, 4, %r5;\nst.shared.b32 [%r5], %r0;\n"
    + "setp.lt.u32 %p1, %r0, 40;\n@%p1 bra ON;\nld.shared.b32 %r2, [%r5+-16];\nadd.u32 %r9, %r9, %r2;\nON:\n"
    + "st.global.b32 [%rd6], %r9;",
}
FALLS_BACK = ("out of bounds", "undecided", "never", "race")
FAULTS = ("out of", "never", "store", "race")


def outcome(body: str, orders: int = 1) -> tuple[Any, ...]:
    """The memory after a kernel, its faults, and the number of executed instructions."""
    given, out = np.arange(96, dtype=np.uint32), np.zeros(96, np.uint32)
    report = go(kernel(body, shared=400), tensors((given, "in"), (out, "out")), block=96, orders=orders)
    faults = [re.sub("address 0x[0-9a-f]+", "", str(fault)) for fault in report.faults]
    return out.tolist(), faults, report.instructions


@pytest.mark.parametrize("orders", [1, 3])
@pytest.mark.parametrize("name", BODIES)
def test_joined_blocks_leave_what_each_alone_leaves(name: str, orders: int, monkeypatch: pytest.MonkeyPatch) -> None:
    native_core()
    monkeypatch.setenv(SWITCH, "0")
    without = outcome(BODIES[name], orders)
    monkeypatch.setenv(SWITCH, "1")
    launching.program_of.cache_clear()
    runs = []
    execute = Schedule._execute

    def counted(self: Schedule, number: int, mask: Any) -> None:
        runs.append((self._how == "joined", number))
        execute(self, number, mask)

    monkeypatch.setattr(Schedule, "_execute", counted)
    assert outcome(BODIES[name], orders) == without
    assert bool(without[1]) == any(word in name for word in FAULTS)
    apart = [number for joined, number in runs if not joined]
    assert bool(apart) == any(word in name for word in FALLS_BACK)
    assert any(joined for joined, _ in runs)
    if name in ("open in some lanes", "private registers"):
        assert {number for _, number in runs} == {0}


def test_a_kernel_with_an_undecided_arm_is_run_apart_at_once_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    native_core()
    monkeypatch.setenv(SWITCH, "1")
    launching.program_of.cache_clear()
    tried = []
    among = joined_blocks.Arm.of
    monkeypatch.setattr(joined_blocks.Arm, "of", lambda *given: tried.append(1) or among(*given))  # type: ignore[func-returns-value]
    first = outcome(BODIES["undecided load"])
    assert tried and not first[1]
    tried.clear()
    assert outcome(BODIES["undecided load"]) == first
    assert not tried
