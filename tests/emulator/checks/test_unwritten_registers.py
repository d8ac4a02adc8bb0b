"""Uninitialised values may be moved and computed with, but must not decide anything."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_kit import wrong
from emulator_kit import fault, go, in_and_out, indexed, numbers, tensors


def test_poison_may_be_computed_with_but_not_decide() -> None:
    start = "ld.shared.b32 %r8, [%r6];\nadd.s32 %r9, %r8, 1;\n"
    store = "st.global.b32 [%rd12], {};\n"
    assert go(indexed(start + store.format("%r0")), in_and_out()).ok
    for use, what in (
        (store.format("%r9"), "stored to global memory"),
        ("add.s32 %r10, %r4, %r9;\nld.shared.b32 %r11, [%r10];", "an address"),
        ("setp.eq.s32 %p1, %r9, 0;\n@%p1 bra ON;\n" + store.format("%r0") + "ON:", "whether st.global.b32 (PTX line"),
        ("setp.eq.s32 %p1, %r9, 0;\n@%p1 st.global.b32 [%rd12], %r0;", "a predicate"),
        ("setp.eq.s32 %p1, %r9, 0;\n@%p1 mov.b32 %r10, 1;\n" + store.format("%r10"), "stored to global"),
        ("st.shared.b32 [%r6], %r9;\nld.shared.b32 %r12, [%r6];\n" + store.format("%r12"), "stored to global"),
    ):
        found = fault(indexed(start + use), in_and_out(role="inout"))
        assert found.kind == "never-written" and what in found.explanation, str(found)


HALF = "mov.b32 %r9, 3;\nsetp.lt.u32 %p1, %r0, 16;\n@!%p1 mov.b32 %r9, %r30;\nsetp.gt.s32 %p2, %r9, %r0;\n"
"""%p2 is known to the first 16 threads only, which store and are the first half of B."""
WAYS = {
    "a branch over one instruction": "@%p2 bra ON;\nadd.s32 %r9, %r9, 1;\nON:",
    "two branches": "@%p2 bra ON;\nsetp.eq.s32 %p3, %r9, 0;\n@%p3 bra ON;\nmov.b32 %r9, %r0;\nON:",
    "two sides": "@!%p2 bra TWO;\nmov.b32 %r9, 5;\nbra ON;\nTWO:\nmov.b32 %r9, 6;\nON:",
    "an instruction under a guard": "@%p2 mov.b32 %r9, 9;",
    "nothing": "@%p2 bra ON;\nON:",
    "ways that do not see what the other one writes": (
        "mov.b32 %r10, 0;\n@%p2 bra TWO;\nmov.b32 %r10, 1;\nbra ON;\n"
        "TWO:\nsetp.ne.s32 %p3, %r10, 0;\n@%p3 st.shared.b32 [%r6], %r0;\nON:"
    ),
    "a load": "@%p2 bra ON;\nld.global.b32 %r9, [%rd11];\nON:",
    "a load under a guard": "@%p2 ld.global.b32 %r9, [%rd11];",
    "a loop that ends": (
        "mov.u32 %r7, 0;\n@%p2 bra ON;\nLOOP:\nadd.s32 %r7, %r7, 1;\nadd.s32 %r9, %r9, %r7;\n"
        "setp.lt.s32 %p3, %r7, 9;\n@%p3 bra LOOP;\nON:"
    ),
    "a store that other lanes make": "@%p2 bra ON;\nadd.s32 %r9, %r9, 1;\n@%p1 st.shared.b32 [%r6], %r9;\nON:",
    "a store that other lanes come to": "@%p2 bra ON;\n@!%p1 bra ON;\nst.shared.b32 [%r6], %r9;\nON:",
}
EFFECTS = {
    "a store": ("@%p2 bra ON;\nst.shared.b32 [%r6], %r0;\nON:", "whether st.shared.b32"),
    "a store under a guard": ("@%p2 st.shared.b32 [%r6], %r0;", "a predicate"),
    "a store under another guard that is undecided": (
        "setp.gt.s32 %p3, %r9, 1;\n@%p2 bra ON;\n@%p3 st.shared.b32 [%r6], %r0;\nON:",
        "whether st.shared.b32",
    ),
    "a store behind two branches": (
        "setp.gt.s32 %p3, %r9, 1;\n@%p2 bra ON;\n@%p3 bra ON;\nst.shared.b32 [%r6], %r0;\nON:",
        "whether st.shared.b32",
    ),
    "a load that may be of nothing": ("@%p2 bra ON;\nld.global.b32 %r9, [%rd11+64];\nON:", "past the end of A"),
    "a load under a guard": ("@%p2 ld.global.b32 %r9, [%rd11+64];", "past the end of A"),
    "a load from what means nothing": (
        "@%p2 bra ON;\nadd.s32 %r8, %r6, %r9;\nld.shared.b32 %r9, [%r8];\nON:",
        "an address",
    ),
    "a barrier": ("@%p2 bra ON;\nbarrier.sync 1;\nON:", "whether barrier.sync"),
    "a shuffle": ("@%p2 bra ON;\nshfl.sync.idx.b32 %r8, %r0, 0, 31, -1;\nON:", "whether shfl.sync.idx.b32"),
    "a loop": ("LOOP:\nadd.s32 %r9, %r9, 1;\nsetp.lt.s32 %p2, %r9, 9;\n@%p2 bra LOOP;", "how often a loop runs"),
    "a loop inside": (
        "@%p2 bra ON;\nLOOP:\nadd.s32 %r9, %r9, 1;\nsetp.lt.s32 %p3, %r9, 9;\n@%p3 bra LOOP;\nON:",
        "how often a loop runs",
    ),
    "a loop that may not end": ("@%p2 bra ON;\nLOOP:\nbra LOOP;\nON:", "how often a loop runs"),
    "the end of a thread": ("@%p2 ret;\nst.shared.b32 [%r6], %r0;", "whether st.shared.b32"),
    "a trap": ("@!%p2 bra ON;\ntrap;\nON:", "whether trap"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(3))
def test_a_way_that_only_registers_depend_on(way: str, seed: int) -> None:
    """Lanes that are masked off may go it or not. What was written on it means nothing where it meets the other."""
    store = "\n@%p1 st.global.b32 [%rd12], %r9;"
    out = np.zeros(16, np.uint32)
    bound = tensors((numbers(), "in"), (out, "out"))
    assert go(indexed(HALF + WAYS[way] + store), bound, seed=seed).ok
    known = "mov.b32 %r9, 3;\nsetp.lt.u32 %p1, %r0, 16;\nsetp.gt.s32 %p2, %r9, %r0;\n"
    again = np.zeros(16, np.uint32)
    assert go(indexed(known + WAYS[way] + store), tensors((numbers(), "in"), (again, "out"))).ok
    assert out.tolist() == again.tolist()
    found = fault(indexed(HALF + WAYS[way] + "\nst.global.b32 [%rd12], %r9;"), in_and_out(), seed=seed)
    assert found.kind == "never-written" and found.thread == (16, 0, 0)


def test_what_both_ways_leave_alone_is_known() -> None:
    body = HALF + "mov.b32 %r10, 8;\n@%p2 bra ON;\nadd.s32 %r11, %r10, 1;\nON:\nst.global.b32 [%rd12], {};"
    assert go(indexed(body.format("%r10")), in_and_out()).ok
    assert fault(indexed(body.format("%r11")), in_and_out()).kind == "never-written"
    changed = body.replace("add.s32 %r11", "add.s32 %r10")
    assert fault(indexed(changed.format("%r10")), in_and_out()).thread == (16, 0, 0)


def test_the_end_of_threads_that_do_nothing_more() -> None:
    body = HALF + "@%p1 st.global.b32 [%rd12], %r0;\n@%p2 ret;\nadd.s32 %r9, %r9, 1;"
    assert go(indexed(body), in_and_out(16, "out")).ok


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_way_that_more_depends_on(effect: str) -> None:
    body, says = EFFECTS[effect]
    found = fault(indexed(HALF + body + "\n@%p1 st.global.b32 [%rd12], %r0;"), in_and_out(16, "inout"))
    assert found.kind in ("never-written", "out-of-bounds") and says in found.explanation, str(found)
    assert found.thread is not None and found.thread[0] >= 16


def test_a_register_that_was_never_written() -> None:
    assert fault(indexed("st.global.b32 [%rd12], %r30;"), in_and_out()).kind == "never-written"


BARRIER = "@%p1 mbarrier.init.shared.b64 [smem+512], 1;\nfence.mbarrier_init.release.cluster;\nbar.sync 0;\n"
FIRST_USES = {
    "an address": "ld.shared.b32 %r20, [%r30];",
    "a size": "cp.async.ca.shared.global [smem], [%rd0], 4, %r30;",
    "the members of a shuffle": "shfl.sync.idx.b32 %r20, %r0, 0, 31, %r30;",
    "a parity": BARRIER + "mbarrier.test_wait.parity.shared.b64 %p5, [smem+512], %r30;",
    "a count": BARRIER + "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], %r30;",
    "a matrix": "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
    "{%r20, %r21, %r22, %r23}, %rd30, %rd30, %p2, 1, 1, 0, 0;",
    "a value that comes later": BARRIER
    + "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], 4;\nmapa.shared::cluster.u32 %r15, %r4, %r10;\n"
    + "@%p1 st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r15], %r30, [%r15+512];\n"
    + "W: mbarrier.try_wait.parity.shared.b64 %p5, [smem+512], 0;\n@!%p5 bra W;\n"
    + "ld.shared.b32 %r20, [smem];\nst.global.b32 [%rd12], %r20;",
}


@pytest.mark.parametrize("use", FIRST_USES)
def test_a_register_that_was_never_written_at_its_first_use(use: str) -> None:
    found = wrong(FIRST_USES[use] + "\n", blocks=1, cluster=1)
    assert found.kind == "never-written", str(found)


def test_poison_that_is_not_selected() -> None:
    body = "setp.ge.u32 %p1, %r0, 0;\nselp.b32 %r9, %r0, %r30, %p1;\nst.global.b32 [%rd12], %r9;"
    assert go(indexed(body), in_and_out()).ok
    assert (
        fault(indexed(body.replace("selp.b32 %r9, %r0, %r30", "selp.b32 %r9, %r30, %r0")), in_and_out()).kind
        == "never-written"
    )


def test_a_register_that_only_some_lanes_wrote() -> None:
    body = "setp.lt.u32 %p1, %r0, 16;\n@%p1 mov.b32 %r9, 5;\n{}st.global.b32 [%rd12], %r9;"
    assert fault(indexed(body.format("")), in_and_out()).thread == (16, 0, 0)
    assert go(indexed(body.format("@!%p1 mov.b32 %r9, 6;\n")), in_and_out()).ok


def test_poison_of_one_half_taints_that_half_only() -> None:
    body = """
cvt.rn.f32.u32 %r9, %r0;
cvt.rn.f16x2.f32 %r10, %r30, %r9;
mov.b32 {%rs1, %rs2}, %r10;
cvt.u32.u16 %r11, %rs1;
and.b32 %r12, %r10, 65535;
shl.b32 %r13, %r10, 16;
prmt.b32 %r14, %r10, %r0, 0x5410;
shr.u32 %r15, %r10, 16;
"""
    assert go(indexed(body + "st.global.b32 [%rd12], %r11;"), in_and_out()).ok
    assert go(indexed(body + "st.global.b32 [%rd12], %r12;"), in_and_out()).ok
    assert go(indexed(body + "st.global.b32 [%rd12], %r13;"), in_and_out()).ok
    assert go(indexed(body + "st.global.b32 [%rd12], %r14;"), in_and_out()).ok
    assert fault(indexed(body + "st.global.b32 [%rd12], %r10;"), in_and_out()).kind == "never-written"
    assert fault(indexed(body + "st.global.b32 [%rd12], %r15;"), in_and_out()).kind == "never-written"


def test_products_with_what_was_never_written() -> None:
    """Among many that are added up at once too."""
    fill = "".join(f"cvt.rn.f32.u32 %r{i}, %r0;\n" for i in range(7, 40) if i != 20)
    body = fill + "".join(f"fma.rn.f32 %r{i}, %r{i + 1}, %r7, %r{i};\n" for i in range(10, 30, 2))
    store = "st.global.b32 [%rd12], %r{};"
    assert go(indexed(body + store.format(18)), in_and_out()).ok
    assert fault(indexed(body + store.format(20)), in_and_out()).kind == "never-written"


@pytest.mark.parametrize(
    "exchange",
    ["vote.sync.any.pred %p3, %p2, -1;\nselp.u32 %r8, 1, 0, %p3;", "redux.sync.add.u32 %r8, %r9, -1;"],
)
def test_what_a_warp_makes_of_a_value_that_one_thread_has_not(exchange: str) -> None:
    """It means nothing in any of them."""
    store = "\n@%p1 st.global.b32 [%rd12], {};"
    assert go(indexed(HALF + exchange + store.format("%r0")), in_and_out(16)).ok
    found = fault(indexed(HALF + exchange + store.format("%r8")), in_and_out(16))
    assert (found.kind, found.thread) == ("never-written", (0, 0, 0))
    assert "register %r30, which was never written" in found.notes[0].text
    members = "mov.b32 %r8, 1;\n@%p1 redux.sync.add.u32 %r8, %r9, 65535;"
    assert go(indexed(HALF + members + store.format("%r8")), in_and_out(16)).ok
