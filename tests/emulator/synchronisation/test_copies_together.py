"""Bulk copies of many lanes at one instruction are made all at once: that is as if each made its own in turn."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from cluster_kit import BOTH, THREADS, cluster_kernel
from emulator_kit import go, tensors

from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.operations import copies_together

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
    """What a run says, and what it writes."""
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
