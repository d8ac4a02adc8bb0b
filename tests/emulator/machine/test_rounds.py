"""Loops over tensors that are alike nearly everywhere: cut short, they give what they give in full, or are refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from emulator_kit import go, kernel

from cutegen.emulator import Report, UnlikeRounds, bind, place
from cutegen.emulator.memory.bound_tensors import NEAR, BoundTensor, Fold

LANES = 32
# %r2 is the sum of what %rd2 steps over, %r3 the round, %r4 how many; each lane has a row of its own
BEFORE = """
ld.param.u64 %rd3, [k_p2];
cvt.u32.u64 %r4, %rd3;
mul.wide.u32 %rd4, %r0, 4;
add.s64 %rd5, %rd1, %rd4;
mad.lo.u64 %rd2, %rd4, %rd3, %rd0;
mov.b32 %r2, 0;
mov.b32 %r3, 0;
"""
STORE = "st.global.b32 [%rd5], %r2;\n"
LOOP = """
LOOP:
ld.global.b32 %r5, [%rd2];
add.u32 %r2, %r2, %r5;
add.s64 %rd2, %rd2, 4;
add.u32 %r3, %r3, 1;
setp.lt.u32 %p1, %r3, %r4;
@%p1 bra LOOP;
"""


def summed(
    loop: str, size: int, coordinates: list[int], elsewhere: range | None, **more: int
) -> tuple[Report, np.ndarray, np.ndarray]:
    """The loop's results for each lane on a row, and the expected ones; zeros except at those coordinates."""
    there = sorted({*coordinates, *(elsewhere or ()), size - 1})
    near = np.arange(LANES * len(there), dtype=np.uint32).reshape(LANES, -1) * 7 + 1
    near[:, [i for i, c in enumerate(there) if elsewhere and c in elsewhere]] = 0
    out = np.zeros(LANES, np.uint32)
    told = (1 << 49) + (1 << 48)
    fold = Fold(told, (4 * size, 4), 1, np.array(there, np.int64), elsewhere)
    x = bind(near, "x", "in", told + NEAR)
    x = BoundTensor(x.name, x.pointer, x.shape, x.strides, 4, "in", told + NEAR, fold=fold, owner=near)
    y = bind(out, "y", "out", place(out.ctypes.data, 5))
    report = go(
        kernel(BEFORE + loop + STORE, 3, 12 * LANES * 4), [x, y], block=LANES, extra=struct.pack("<Q", size), **more
    )
    return report, out, near.sum(axis=1, dtype=np.uint32)


def test_a_sum_of_zeros_but_for_a_few_is_that_of_the_few() -> None:
    report, out, wanted = summed(LOOP, 1 << 29, [0, 1, 77, 1 << 20, (1 << 28) + 5], range(4, 8))
    report.check()
    assert out.tolist() == wanted.tolist()
    assert report.instructions < LANES * 10_000, "it ran all rounds"


def test_without_elsewhere_nothing_is_cut() -> None:
    report, out, wanted = summed(LOOP, 500, list(range(500)), None)
    report.check()
    assert out.tolist() == wanted.tolist() and report.instructions > LANES * 500 * 6


def test_rounds_of_a_ring_come_again_after_several() -> None:
    ring = LOOP.replace("LOOP:", "LOOP:\nadd.u32 %r6, %r6, 1;\nsetp.eq.u32 %p2, %r6, 5;\nselp.b32 %r6, 0, %r6, %p2;", 1)
    report, out, wanted = summed(
        "mov.b32 %r6, 0;" + ring + "add.u32 %r2, %r2, %r6;", (1 << 28) + 3, [0, 999], range(4, 8)
    )
    report.check()
    assert out.tolist() == (wanted + ((1 << 28) + 3) % 5).tolist()
    assert report.instructions < LANES * 10_000


def test_a_ring_without_a_comparison_is_known_by_the_shared_memory_that_it_touches() -> None:
    touch = "mad.lo.u32 %r7, %r6, 128, %r9;\nst.shared.b32 [%r7], 0;\nadd.u32 %r6, %r6, 1;\nrem.u32 %r6, %r6, 12;"
    ring = LOOP.replace("LOOP:", f"LOOP:\n{touch}", 1)
    own = "mov.b32 %r9, smem;\nmad.lo.u32 %r9, %r0, 4, %r9;\nmov.b32 %r6, 0;"
    report, out, wanted = summed(own + ring, 1 << 28, [0, 999], range(4, 8))
    report.check()
    assert out.tolist() == wanted.tolist()


@pytest.mark.parametrize("kind", ["eq.u32", "eq.s32", "eq.b32"])
def test_what_happens_in_one_round_only_does(kind: str) -> None:
    once = f"setp.{kind} %p2, %r3, 12345678;\n@%p2 add.u32 %r2, %r2, 1000;\nadd.s64"
    report, out, wanted = summed(LOOP.replace("add.s64", once, 1), 1 << 28, [3, 1 << 27], range(4, 8))
    report.check()
    assert out.tolist() == (wanted + 1000).tolist()


def test_a_counter_that_goes_down_and_one_that_overflows() -> None:
    down = LOOP.replace(
        "add.u32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, %r4", "sub.u32 %r4, %r4, 1;\nsetp.gt.s32 %p1, %r4, 0"
    )
    report, out, wanted = summed(down, 1 << 28, [3, 1 << 27], range(4, 8))
    report.check()
    assert out.tolist() == wanted.tolist()
    # 2^31 and more rounds, counted as signed numbers, which end after 2^31
    signed = LOOP.replace("setp.lt.u32 %p1, %r3, %r4", "setp.gt.s32 %p1, %r3, -1")
    report, out, wanted = summed(signed, (1 << 31) + 8, [3, 1 << 30, (1 << 31) + 4], range(8, 12))
    report.check()
    assert out.tolist() != wanted.tolist(), "the last ones are not reached"


def test_an_index_of_too_few_bits_reads_elsewhere() -> None:
    cut = LOOP.replace(
        "ld.global.b32 %r5, [%rd2]",
        "and.b32 %r6, %r3, 0xFFFFF;\nmul.wide.u32 %rd6, %r6, 4;\nadd.s64 %rd6, %rd6, %rd7;\nld.global.b32 %r5, [%rd6]",
    )
    report, out, wanted = summed("mov.b64 %rd7, %rd2;" + cut, 1 << 24, [0, 1 << 22], range(4, 8))
    report.check()
    assert (out < wanted).all()


MULTIPLY = """
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
    {%r10, %r11, %r12, %r13}, {%r9, %r9, %r9, %r9}, {%r14, %r14}, {%r10, %r11, %r12, %r13};
"""


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("a sum of ones", "add.u32 %r2, %r2, %r3;"),
        ("a product", "mad.lo.u32 %r8, %r8, 3, 1;"),
        ("a float counter", "add.f32 %r8, %r8, 0f3F800000;"),
        ("a store", "st.global.b32 [%rd5], %r3;"),
        ("a float counter in a fragment", f"add.u32 %r9, %r9, 1;\n{MULTIPLY}"),
    ],
)
def test_rounds_that_are_not_alike_are_not_cut(what: str, line: str) -> None:
    zeros = "".join(f"mov.b32 %r{number}, 0;\n" for number in (8, 9, 10, 11, 12, 13, 14))
    loop = f"{zeros}{LOOP}add.u32 %r2, %r2, %r8;".replace("add.s64 %rd2, %rd2, 4;", f"{line}\nadd.s64 %rd2, %rd2, 4;")
    with pytest.raises(UnlikeRounds):
        summed(loop, 1 << 28, [0], range(4, 8), limit=5000)


def test_what_no_round_reads_may_be_anything() -> None:
    dead = LOOP.replace("add.s64", "cvt.rn.f32.u32 %r8, %r3;\nmul.lo.u32 %r9, %r3, %r3;\nadd.s64", 1)
    report, out, wanted = summed(dead, 1 << 28, [0, 1 << 27], range(4, 8))
    report.check()
    assert out.tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("what", "lines"),
    [
        ("a window", "sub.u32 %r6, %r3, 30;\nsetp.lt.u32 %p2, %r6, 10;\n@%p2 add.u32 %r2, %r2, 1000;"),
        ("two rounds", "and.b32 %r6, %r3, 0xFFFFFFFB;\nsetp.eq.u32 %p2, %r6, 48;\n@%p2 add.u32 %r2, %r2, 5000;"),
        (
            "from 2^63 on",
            "cvt.u64.u32 %rd6, %r3;\nadd.s64 %rd6, %rd6, %rd7;\nsetp.lt.u64 %p2, %rd6, 77;\n@%p2 add.u32 %r2, %r2, 1;",
        ),
    ],
)
def test_predicated_instructions_run_as_often_as_they_should(what: str, lines: str) -> None:
    loop = LOOP.replace("add.s64 %rd2", f"{lines}\nadd.s64 %rd2", 1)
    report, out, wanted = summed("mov.b64 %rd7, -200;\n" + loop, 1 << 28, [0, 1 << 27], range(4, 8))
    report.check()
    assert out.tolist() == (wanted + {"a window": 10_000, "two rounds": 10_000, "from 2^63 on": 77}[what]).tolist()


def test_a_loop_in_which_nothing_changes_any_more_is_endless() -> None:
    loop = LOOP.replace("add.u32 %r3, %r3, 1;", "add.u32 %r3, %r3, 1;\nmin.u32 %r3, %r3, 9999;")
    loop = loop.replace("add.s64 %rd2, %rd2, 4;", "mul.wide.u32 %rd6, %r3, 4;\nadd.s64 %rd2, %rd7, %rd6;")
    report, _, _ = summed("mov.b64 %rd7, %rd2;" + loop, 1 << 28, [0], range(4, 8))
    assert [fault.kind for fault in report.faults] == ["runaway"]


def test_too_many_rounds_are_told_wherever_the_limit_lies() -> None:
    loop = LOOP.replace("add.s64 %rd2", "mad.lo.u32 %r8, %r8, 3, 1;\nNEXT:\nadd.s64 %rd2", 1)
    for limit in range(500, 508):
        with pytest.raises(UnlikeRounds):
            summed("mov.b32 %r8, 0;" + loop + "add.u32 %r2, %r2, %r8;", 1 << 28, [0], range(4, 8), limit=limit)
