"""mbarriers: phases, counts, bytes and parity; what they order; and what is wrong with the use of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cluster_kit import BOTH, SHOW, run, wrong
from emulator_kit import fault, go, kernel, tensors
from hypothesis import given, settings
from hypothesis import strategies as st

# The mbarrier is at byte 512; %p1 holds in thread 0
INIT = "@%p1 mbarrier.init.shared::cta.b64 [smem+512], {};\nbar.sync 0;\n"
SPIN = "W{0}:\nmbarrier.try_wait.parity.shared.b64 %p5, [smem+512], {1};\n@!%p5 bra W{0};\n"
PUT = "st.shared.b32 [%r6], %r2;\n"
TAKE = "xor.b32 %r7, %r6, 128;\nld.shared.b32 %r20, [%r7];\n" + SHOW
ARRIVE = "mbarrier.arrive.shared.b64 _, [smem+512];\n"


def spin(number: int, parity: Any) -> str:
    return SPIN.format(number, parity)


@pytest.mark.parametrize("seed", range(5))
def test_an_mbarrier_orders_who_arrives_before_who_waits(seed: int) -> None:
    report, out = run(INIT.format(64) + PUT + ARRIVE + spin(0, 0) + TAKE, cluster=1, seed=seed)
    assert report.ok, str(report)
    assert (out == (np.arange(256) ^ 32)).all()
    assert wrong(INIT.format(64) + PUT + ARRIVE + TAKE, cluster=1, seed=seed).kind in ("race", "never-written")
    relaxed = ARRIVE.replace("arrive", "arrive.relaxed.cta")
    assert wrong(INIT.format(64) + PUT + relaxed + spin(0, 0) + TAKE, cluster=1, seed=seed).kind == "race"
    blind = spin(0, 0).replace("try_wait.parity", "try_wait.parity.relaxed.cta")
    assert wrong(INIT.format(64) + PUT + ARRIVE + blind + TAKE, cluster=1, seed=seed).kind == "race"
    asked = "mbarrier.try_wait.parity.shared.b64 %p5, [smem+512], 0;\n"  # once, whatever it answers
    if seed:
        assert wrong(INIT.format(64) + PUT + ARRIVE + asked + TAKE, cluster=1, seed=seed).kind in (
            "race",
            "never-written",
        )


@pytest.mark.parametrize("seed", range(4))
def test_a_ring_of_one_place(seed: int) -> None:
    """Warp 0 fills it again and again, warp 1 empties it, each on an mbarrier of its own: bytes 512 and 520."""
    body = """
@%p1 mbarrier.init.shared.b64 [smem+512], 32;
@%p1 mbarrier.init.shared.b64 [smem+520], 32;
bar.sync 0;
mov.u32 %r20, 0;
mov.u32 %r21, 0;
and.b32 %r22, %r0, 31;
shl.b32 %r22, %r22, 2;
add.u32 %r22, %r22, %r4;
setp.lt.u32 %p3, %r0, 32;
@%p3 bra FILL;
TAKE:
and.b32 %r23, %r21, 1;
W1: mbarrier.try_wait.parity.shared.b64 %p5, [smem+512], %r23;
@!%p5 bra W1;
ld.shared.b32 %r24, [%r22];
add.u32 %r20, %r20, %r24;
mbarrier.arrive.shared.b64 %rd20, [smem+520];
add.u32 %r21, %r21, 1;
setp.lt.u32 %p4, %r21, 5;
@%p4 bra TAKE;
bra END;
FILL:
and.b32 %r23, %r21, 1;
xor.b32 %r23, %r23, EMPTY;
W2: mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p5, [smem+520], %r23;
@!%p5 bra W2;
st.shared.b32 [%r22], %r21;
mbarrier.arrive.shared.b64 %rd20, [smem+512];
add.u32 %r21, %r21, 1;
setp.lt.u32 %p4, %r21, 5;
@%p4 bra FILL;
END:
"""
    report, out = run(body.replace("EMPTY", "1") + SHOW, cluster=1, seed=seed)
    assert report.ok and (out.reshape(4, 64)[:, 32:] == 10).all(), str(report)
    assert wrong(body.replace("EMPTY", "0") + SHOW, cluster=1, seed=seed).kind == "deadlock"
    early = body.replace("W2: mbarrier", "mbarrier").replace("@!%p5 bra W2;\n", "")
    assert wrong(early.replace("EMPTY", "1"), cluster=1, seed=seed).kind in ("race", "mbarrier")


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 40), st.lists(st.integers(1, 9), min_size=32, max_size=32), st.integers(0, 3))
def test_phases_are_counted_as_they_come(count: int, arrivals: list[int], seed: int) -> None:
    """Against a count by hand: each thread arrives some times, and gets the phase that it arrived in."""
    body = "mbarrier.init.shared.b64 [smem], {};\nbar.warp.sync -1;\n".format
    body = "setp.eq.u32 %p1, %r0, 0;\n@%p1 " + body(count) + "mul.wide.u32 %rd5, %r0, 4;\nadd.s64 %rd6, %rd0, %rd5;\n"
    body += "ld.global.b32 %r5, [%rd6];\nmbarrier.arrive.shared.b64 %rd7, [smem], %r5;\n"
    body += "add.s64 %rd5, %rd5, %rd5;\nadd.s64 %rd6, %rd1, %rd5;\nst.global.b64 [%rd6], %rd7;\n"
    out = np.zeros(32, np.uint64)
    bound = tensors((np.asarray(arrivals, np.uint32), "in"), (out, "out"))
    pending, phase, wanted = count, 0, []
    for number in arrivals:
        wanted.append(phase)
        pending -= number
        if pending < 0:
            break
        if pending == 0:
            pending, phase = count, phase + 1
    if pending < 0:
        found = fault(kernel(body, shared=16), bound, seed=seed)
        assert found.kind == "mbarrier" and "all" in found.explanation
    else:
        assert go(kernel(body, shared=16), bound, seed=seed).ok
        assert out.tolist() == wanted


def test_states_and_forms() -> None:
    """The state of an arrival, .noComplete, a generic address, bytes that a thread says have come."""
    body = INIT.format(128) + "cvt.u64.u32 %rd20, %r4;\ncvta.shared.u64 %rd20, %rd20;\n" + PUT
    body += "mbarrier.arrive.noComplete.release.cta.b64 %rd21, [%rd20+512], 1;\n"
    body += "mbarrier.arrive.expect_tx.shared.b64 %rd21, [smem+512], 4;\n"
    body += "mbarrier.complete_tx.relaxed.cta.shared.b64 [smem+512], 4;\n"
    body += "W:\nmbarrier.try_wait.b64 %p5, [%rd20+512], %rd21, 1000;\n@!%p5 bra W;\n"
    assert run(body + TAKE, cluster=1, orders=4)[0].ok
    whole = INIT.format(64) + "mbarrier.arrive.noComplete.shared.b64 %rd21, [smem+512], 1;\n"
    assert ".noComplete" in wrong(whole, cluster=1).explanation


# ------------------------------------------------------------------------------------------------------------- faults


def test_before_it_is_initialised() -> None:
    found = wrong(ARRIVE, cluster=1)
    assert found.kind == "mbarrier" and "no mbarrier has been initialised at byte 512" in found.explanation
    unordered = INIT.format(64).replace("bar.sync 0;\n", "")
    assert "nothing orders this after that" in wrong(unordered + ARRIVE, cluster=1).explanation
    assert run(INIT.format(64) + ARRIVE, cluster=1, role="inout")[0].ok
    for count in (0, 1 << 20):
        assert "a count of" in wrong(INIT.format(count), cluster=1).explanation
    assert wrong("mbarrier.init.shared.b64 [%r6], 1;\n", cluster=1).kind in ("misaligned", "mbarrier")
    assert "has done" in wrong("mbarrier.init.shared.b64 [smem+512], 1;\n", cluster=1).explanation  # by all threads


def test_one_lane_alone_uses_it_only_in_order() -> None:
    alone = "setp.eq.u32 %p3, %r0, 40;\n@%p3 " + ARRIVE
    barrier, inval = "bar.sync 0;\n", "@%p1 mbarrier.inval.shared.b64 [smem+512];\n"
    assert run(INIT.format(1) + alone + barrier + inval, cluster=1, role="inout", blocks=1)[0].ok
    early = wrong(INIT.format(1).replace(barrier, "") + alone, cluster=1, blocks=1)
    assert early.kind == "mbarrier" and "nothing orders this after that" in early.explanation
    late = wrong(INIT.format(1) + alone + inval, cluster=1, blocks=1)
    assert late.kind == "mbarrier" and "nothing orders the two" in late.explanation


def test_its_bytes_are_no_data_until_it_is_invalidated() -> None:
    for touch in ("ld.shared.b32 %r20, [smem+516];\n", "st.shared.b32 [smem+512], 0;\n"):
        found = wrong(INIT.format(64) + "@%p1 " + touch, cluster=1)
        assert found.kind == "mbarrier" and "part of an mbarrier" in found.explanation
    inval = "bar.sync 0;\n@%p1 mbarrier.inval.shared.b64 [smem+512];\n"
    again = "@%p1 st.shared.b64 [smem+512], 7;\n"
    assert run(INIT.format(64) + ARRIVE + spin(0, 0) + inval + again, cluster=1, role="inout")[0].ok
    found = wrong(INIT.format(64) + ARRIVE + inval.replace("bar.sync 0;\n", ""), cluster=1)
    assert found.kind == "mbarrier" and "nothing orders the two" in found.explanation
    assert wrong(INIT.format(64) + inval + ARRIVE, cluster=1).kind == "mbarrier"


@pytest.mark.parametrize("seed", range(3))
def test_what_never_completes_is_told_with_what_is_missing(seed: int) -> None:
    found = wrong(INIT.format(65) + ARRIVE + spin(0, 0), cluster=1, seed=seed)
    assert found.kind == "deadlock"
    assert "phase 0 of the mbarrier at byte 512" in found.explanation
    assert "1 of 65 arrivals and 0 bytes are still to come" in found.explanation
    bytes_ = "@%p1 mbarrier.expect_tx.relaxed.cta.shared.b64 [smem+512], 48;\n"
    found = wrong(INIT.format(64) + bytes_ + ARRIVE + spin(0, 0), cluster=1, seed=seed)
    assert found.kind == "deadlock" and "48 bytes are still to come" in found.explanation
    some = "@%p1 bra ON;\n" + spin(0, 0) + "ON:\nbar.sync 0;\n"  # others wait for those who wait
    found = wrong(INIT.format(64) + some, cluster=1, seed=seed)
    assert found.kind == "deadlock" and "64 of 64 arrivals" in found.explanation


@pytest.mark.parametrize("seed", range(3))
def test_a_phase_that_parity_cannot_tell(seed: int) -> None:
    """Warp 0 goes on for two phases without warp 1, which then waits for the first of them."""
    twice = "setp.lt.u32 %p3, %r0, 32;\n@%p3 " + ARRIVE + "@%p3 " + ARRIVE
    late = "bar.arrive 1, 64;\n@%p3 bra END;\n" + spin(0, 0) + "END:\n"
    found = wrong(INIT.format(32) + twice + late.replace("bar.arrive 1, 64;\n", ""), cluster=1, seed=seed)
    assert found.kind == "mbarrier" and "does not tell them apart" in found.explanation
    once = INIT.format(32) + "setp.lt.u32 %p3, %r0, 32;\n@%p3 " + ARRIVE + late
    assert run(once, cluster=1, role="inout", seed=seed)[0].ok


@pytest.mark.parametrize("parity", ["2", "-1", "%r9"])
def test_a_parity_is_0_or_1(parity: str) -> None:
    """The phases that bit 0 of others would name have ended."""
    some = "add.u32 %r9, %r0, 2;\n" + INIT.format(64) + ARRIVE + (spin(0, 0) + ARRIVE) * (parity == "-1")
    found = wrong(some + spin(1, parity), cluster=1, seed=0)
    assert found.kind == "mbarrier" and "a parity is 0 or 1" in found.explanation


# -------------------------------------------------------------------------------------------------- across the cluster

THERE = "mapa.shared::cluster.u32 %r14, %r4, %r11;\n"  # the start of the peer's memory
SHARED = INIT.format(1).replace("bar.sync 0;\n", "") + "fence.mbarrier_init.release.cluster;\n" + THERE
START_UP = SHARED + "barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n"
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], {};\n"
SEND = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r12], %r2, [%r14+512];\n"
TAKE_OWN = "ld.shared.b32 %r20, [%r6];\n" + SHOW


@pytest.mark.parametrize("seed", range(5))
def test_messages_to_a_peer(seed: int) -> None:
    right = START_UP + EXPECT.format(256) + SEND + spin(0, 0) + TAKE_OWN
    report, out = run(right, seed=seed)
    assert report.ok, str(report)
    assert (out.reshape(4, 64) == np.arange(256).reshape(4, 64)[[1, 0, 3, 2]]).all()
    dropped = right.replace(spin(0, 0), "")
    assert wrong(dropped, seed=seed).kind in ("in-flight", "never-written", "race")
    for amount in (252, 260):
        assert wrong(right.replace("256", str(amount)), seed=seed).kind in ("deadlock", "in-flight", "race", "mbarrier")
    again = right.replace(SEND, SEND + SEND).replace("256", "512")  # two writes of one word, in any order
    assert wrong(again, seed=seed).kind in ("race", "in-flight")
    one = right.replace(SEND, SEND.replace("[%r12]", "[%r14]"))  # the same by all threads at once
    assert wrong(one, seed=seed).kind == "race"
    own = right.replace("[%r14+512]", "[smem+512]")  # which lies in another block than the data
    assert "both must be in one block" in wrong(own, seed=seed).explanation
    exits = right.replace(spin(0, 0) + TAKE_OWN, "")
    assert wrong(exits, seed=seed).kind in ("in-flight", "cluster")
    assert wrong(right.replace("%r14+512", "%r14+520"), seed=seed).kind == "mbarrier"


@pytest.mark.parametrize("seed", range(8))
def test_a_phase_that_ends_before_all_messages_have_come(seed: int) -> None:
    """Whichever of the two comes late."""
    two = "".join(f"@%p1 {SEND}".replace("[%r12]", f"[%r14+{i}]") for i in (0, 4))
    read = spin(0, 0) + "ld.shared.b32 %r20, [smem];\nld.shared.b32 %r21, [smem+4];\n"
    end = spin(1, 0) + BOTH
    found = wrong(START_UP + EXPECT.format(4) + two + read + end, seed=seed)
    assert found.kind == "in-flight" and "reads" in found.explanation
    found = wrong(START_UP + EXPECT.format(4) + two + end, seed=seed)  # nor may the block exit
    assert found.kind in ("in-flight", "deadlock")  # the latter where both have come before any was expected
    assert run(START_UP + EXPECT.format(8) + two + read + end, role="inout", seed=seed)[0].ok


@pytest.mark.parametrize("seed", range(4))
def test_readers_that_know_nothing_of_each_other(seed: int) -> None:
    """Two threads of a warp read a word, one of them arrives, and a thread of the other warp writes it then."""
    one = "setp.eq.u32 %p3, %r0, 1;\nsetp.eq.u32 %p4, %r0, 40;\nsetp.le.u32 %p6, %r0, 1;\n"
    body = one + "@%p4 st.shared.b32 [smem], 3;\n" + INIT.format("COUNT") + "@%p1 ld.shared.b32 %r20, [smem];\n"
    body += "fence.acq_rel.cluster;\n@%p3 ld.shared.b32 %r20, [smem];\nWHO " + ARRIVE
    body += "@!%p4 bra END;\n" + spin(0, 0) + "st.shared.b32 [smem], 7;\nEND:\n"
    found = wrong(body.replace("WHO", "@%p3").replace("COUNT", "1"), cluster=1, seed=seed)
    assert found.kind == "race" and "thread 0 reads" in found.explanation
    both = body.replace("WHO", "@%p6").replace("COUNT", "2")
    assert run(both, cluster=1, role="inout", seed=seed)[0].ok


@pytest.mark.parametrize("seed", range(4))
def test_messages_of_several_values(seed: int) -> None:
    four = "setp.lt.u32 %p3, %r0, 16;\nmad.lo.u32 %r15, %r0, 12, %r12;\n"
    four += "@%p3 st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r15], {%r2,%r0,%r1,7}, [%r14+512];\n"
    report, out = run(START_UP + EXPECT.format(256) + four + spin(0, 0) + TAKE_OWN, seed=seed)
    assert report.ok and out[64:72].tolist() == [0, 0, 0, 7, 1, 1, 0, 7], str(report)


@pytest.mark.parametrize("who", ["setp.eq.u32 %p3, %r0, 0;\n", "setp.eq.u32 %p3, %r1, 1;\n"])
@pytest.mark.parametrize("native", [False, True])
def test_messages_of_several_lanes_to_one_word(who: str, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one thread of every block, or of all threads of one block: the predicate has one entry that holds."""
    if not native:
        monkeypatch.setattr("cutegen.emulator.checks.shared_history.core", lambda: None)
    first = "mov.u32 %r15, 0;\nmapa.shared::cluster.u32 %r14, %r4, %r15;\n"  # the memory of the first block
    send = "@%p3 " + SEND.replace("[%r12]", "[%r14]")
    found = wrong(START_UP + first + who + EXPECT.format(8) + send, blocks=2)
    assert found.kind == "race" and "byte 0 of shared memory is written by several threads here at once" in str(found)


@pytest.mark.parametrize("seed", range(4))
def test_arrivals_at_a_peers_mbarrier(seed: int) -> None:
    """They order what was written there before. The peer's block must be there until then."""
    arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r14+512];\n"
    start = START_UP.replace("[smem+512], 1", "[smem+512], 64")
    right = start + "st.shared::cluster.b32 [%r12], %r2;\n" + arrive + spin(0, 0) + TAKE_OWN
    report, out = run(right, seed=seed)
    assert report.ok and out[64] == 0 and out[0] == 64, str(report)
    assert wrong(right.replace("arrive.release", "arrive.relaxed"), seed=seed).kind == "race"
    assert wrong(right.replace(spin(0, 0), "").replace(TAKE_OWN, ""), seed=seed).kind == "cluster"
    unpublished = right.replace("fence.mbarrier_init.release.cluster;\n", "")
    assert "nothing orders this after that" in wrong(unpublished, seed=seed).explanation
    early = right.replace("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n", "bar.sync 0;\n")
    assert wrong(early, seed=seed).kind == "cluster"
