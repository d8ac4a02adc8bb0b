"""Bulk copies of many lanes at one instruction are made all at once: that is as if each made its own in turn."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from cluster_kit import BOTH, THREADS, cluster_kernel
from emulator_kit import go, tensors

from cutegen.emulator import Report
from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.operations import copies_together
from cutegen.emulator.synchronisation.team import Team

BLOCKS = 4
# Threads 0 to 2 of each block copy 32, 64 and 96 bytes, one behind the other, to the block of the rank %r16
COPIES = """
@%p1 mbarrier.init.shared.b64 [smem+512], 1;
fence.mbarrier_init.release.cluster;
mul.wide.u32 %rd20, %r1, 256;
add.s64 %rd15, %rd0, %rd20;
mov.u32 %r16, {rank};
mapa.shared::cluster.u32 %r14, %r4, %r16;
add.u32 %r20, %r0, 1;
shl.b32 %r21, %r20, 5;
mul.lo.u32 %r22, %r20, %r0;
shl.b32 %r22, %r22, 4;
cvt.u64.u32 %rd21, %r22;
add.s64 %rd15, %rd15, %rd21;
add.u32 %r23, %r14, %r22;
setp.lt.u32 %p3, %r0, 3;
{more}
""" + (
    BOTH
    + "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], 192;\n"
    + "@%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r23], [%rd15], %r21, [%r14+512];\n"
    + "W: mbarrier.try_wait.parity.shared.b64 %p5, [smem+512], 0;\n@!%p5 bra W;\n"
    + "setp.lt.u32 %p4, %r0, 48;\n@%p4 ld.shared.b32 %r24, [%r6];\n@%p4 st.global.b32 [%rd12], %r24;\n"
    + BOTH
)


def outcome(rank: str, more: str, seed: int, role: Any = "in") -> tuple[str, list[int]]:
    """The report of a run, and the memory that it writes."""
    given, out = np.arange(BLOCKS * THREADS, dtype=np.uint32) + 1, np.zeros(BLOCKS * THREADS, np.uint32)
    bound, ptx = tensors((given, role), (out, "inout")), cluster_kernel(COPIES.format(rank=rank, more=more))
    report = go(ptx, bound, grid=BLOCKS, block=THREADS, cluster=2, seed=seed)
    return re.sub(r" in [\d.]+ s| address 0x\w+,", "", str(report)), out.tolist()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """An entry for each time that lanes made their copies at once."""
    found: list[None] = []
    real = copies_together._make

    def make(*given: Any) -> None:
        found.append(None)
        real(*given)

    monkeypatch.setattr(copies_together, "_make", make)
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("rank", "more", "said"),
    [
        ("%r10", "", ""),
        ("%r11", "", ""),
        ("%r10", "setp.eq.u32 %p6, %r0, 2;\n@%p6 mov.u32 %r23, %r14;", "byte 0 of shared memory"),
        ("%r10", "setp.eq.u32 %p6, %r2, 130;\n@%p6 add.s64 %rd15, %rd15, 65536;", "65136 bytes past the end of A"),
        (
            "%r10",
            "setp.eq.u32 %p6, %r2, 129;\n@%p6 mov.u32 %r23, %r4;\n@%p6 add.u32 %r23, %r23, 992;",
            "bytes 992 to 1055",
        ),
        ("%r10", "setp.eq.u32 %p6, %r2, 65;\n@%p6 mov.u32 %r21, 40;", "40 bytes"),
        ("%r10", "@%p3 st.shared.b32 [%r6], 7;\n", "proxy"),
        ("%r10", "setp.eq.u32 %p6, %r2, 128;\n@%p6 st.shared.b32 [smem+188], 7;\n", "proxy"),
    ],
)
def test_at_once_is_as_in_turn(
    rank: str, more: str, said: str, seed: int, made: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = outcome(rank, more, seed), outcome(rank, more, seed, "inout")
    assert said in at_once[0][0], at_once[0][0]
    assert said or made
    made.clear()

    def wrong(*_: Any) -> None:
        raise Stop("trap", "")

    monkeypatch.setattr(copies_together, "_checked", wrong)
    assert (outcome(rank, more, seed), outcome(rank, more, seed, "inout")) == at_once
    assert not made


@pytest.fixture
def arrived(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many lanes' writes arrive at once, each time that some do."""
    found: list[int] = []
    real = SharedHistory.arrive

    def arrive(self: SharedHistory, access: SharedAccess) -> None:
        found.append(int(np.count_nonzero(whole(access.mask, self.clocks.shape))))
        real(self, access)

    monkeypatch.setattr(SharedHistory, "arrive", arrive)
    return found


ONE_EACH = "setp.eq.u32 %p3, %r0, 0;\nmov.u32 %r21, 192;"


@pytest.mark.parametrize("rank", ["%r10", "%r11"])
def test_writes_that_count_at_different_mbarriers_arrive_at_once(rank: str, arrived: list[int]) -> None:
    in_step = outcome(rank, ONE_EACH, 0)
    assert arrived == [BLOCKS]
    for seed in range(1, 7):
        arrived.clear()
        assert outcome(rank, ONE_EACH, seed)[1] == in_step[1]
        assert sum(arrived) == BLOCKS


def test_some_operations_complete_at_once_and_the_others_one_by_one() -> None:
    done: list[list[int]] = []
    team = Team((32, 4), 2, np.random.default_rng(1))
    team.send(16, lambda numbers: done.append([*numbers]))
    assert 0 < len(done[0]) < 16 == len(done[0]) + sum(iter(team.deliver, False))
    assert all(len(each) == 1 for each in done[1:])
    assert sorted(number for each in done for number in each) == [*range(16)]
    Team((32, 4), 2).send(3, lambda numbers: done.append([*numbers]))
    assert done[-1] == [0, 1, 2]


def two_phases(seed: int, between: str = "") -> tuple[Report, Array, Array]:
    """A run in which two copies count at one mbarrier, the second one in the phase after the first one's.

    The lanes do something `between` these phases. Returns with its report what it reads and writes, a row for each
    block.
    """
    expects = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], {};\n"
    more = "setp.lt.u32 %p3, %r0, 2;\nmov.u32 %r21, 96;\nmul.lo.u32 %r22, %r0, 96;\nadd.u32 %r23, %r14, %r22;"
    text = COPIES.replace(expects.format(192), expects.format(96) + BOTH)
    again = expects.format(96) + "V: mbarrier.try_wait.parity.shared.b64 %p5, [smem+512], 1;\n@!%p5 bra V;\n"
    text = text.replace("@!%p5 bra W;\n", "@!%p5 bra W;\n" + between + BOTH + again)
    given, out = np.arange(BLOCKS * THREADS, dtype=np.uint32) + 1, np.zeros(BLOCKS * THREADS, np.uint32)
    ptx = cluster_kernel(text.format(rank="%r10", more=more))
    report = go(ptx, tensors((given, "in"), (out, "inout")), grid=BLOCKS, block=THREADS, cluster=2, seed=seed)
    return report, given.reshape(BLOCKS, THREADS), out.reshape(BLOCKS, THREADS)


@pytest.mark.parametrize("seed", range(6))
def test_a_phase_ends_between_two_writes_that_count_at_one_mbarrier(seed: int) -> None:
    report, rows, found = two_phases(seed)
    assert report.ok, str(report)
    assert (found[:, :24] == rows[:, :24]).all() and (found[:, 24:48] == rows[:, 8:32]).all()


def test_the_end_of_that_phase_says_nothing_of_the_second_write() -> None:
    assert two_phases(0, "ld.shared.b32 %r24, [smem+64];\n")[0].ok
    (fault,) = two_phases(0, "ld.shared.b32 %r24, [smem+128];\n")[0].faults
    assert fault.kind == "in-flight", fault
