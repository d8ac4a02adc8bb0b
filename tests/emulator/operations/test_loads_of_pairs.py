"""Loads by tensor maps for a pair of blocks: the data of either block count at an mbarrier of the even one."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_kit import BOTH
from tensor_map_kit import BOX, THREADS, run, wrong

KIND = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
# The mbarrier is at byte 512; %p3 are the even blocks, %p4 their first threads; %r15 is the even block's mbarrier
START = f"""
@%p1 mbarrier.init.shared.b64 [smem+512], 1;
fence.mbarrier_init.release.cluster;
and.b32 %r16, %r10, 1;
setp.eq.u32 %p3, %r16, 0;
and.pred %p4, %p3, %p1;
add.u32 %r15, %r4, 512;
and.b32 %r15, %r15, 0xfeffffff;
shl.b32 %r17, %r10, 2;
{BOTH}
"""
EXPECT = "@%p4 mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], 512;\n"
LOAD = f"@%p1 {KIND}.cta_group::2 [%r4], [%rd20, {{%r17, 0}}], [%r15];\n"
WAIT = "@!%p3 bra ON;\nW: mbarrier.try_wait.parity.shared.b64 %p5, [smem+512], 0;\n@!%p5 bra W;\nON:\n"
SHOW = "ld.shared.b32 %r20, [%r6];\nst.global.b32 [%rd12], %r20;\n"
WHOLE = START + EXPECT + LOAD + WAIT + BOTH + SHOW

ONCE = f"@%p4 {KIND}.multicast::cluster.cta_group::2 [%r4], [%rd20, {{4, 0}}], [%r15], %rs1;\n"
MULTICAST = START + "mov.b16 %rs1, 3;\n" + EXPECT + ONCE + WAIT + BOTH + SHOW


def box(a: np.ndarray, x: int) -> list[int]:
    return a[: BOX[1], x : x + BOX[0]].reshape(-1).tolist()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("blocks", [2, 4])
def test_both_blocks_count_at_the_even_one(blocks: int, seed: int) -> None:
    """Each block loads a box of its own; odd ones learn from the even one that theirs has come."""
    a, b = run(WHOLE.replace("%r17, %r10, 2", "%r17, %r16, 2"), blocks=blocks, seed=seed)
    assert b.reshape(blocks, THREADS).tolist() == [box(a, 4 * (rank % 2)) for rank in range(blocks)]


@pytest.mark.parametrize("seed", range(4))
def test_a_multicast_counts_at_the_pair_of_each_block(seed: int) -> None:
    a, b = run(MULTICAST, blocks=2, seed=seed)
    assert b.reshape(2, THREADS).tolist() == 2 * [box(a, 4)]


@pytest.mark.parametrize("seed", range(4))
def test_a_multicast_to_two_pairs_counts_in_each(seed: int) -> None:
    first = "setp.eq.u32 %p6, %r10, 0;\nand.pred %p6, %p6, %p1;\n"
    body = MULTICAST.replace("%rs1, 3;\n", "%rs1, 15;\n" + first).replace("@%p4 cp", "@%p6 cp")
    a, b = run(body, blocks=4, seed=seed)
    assert b.reshape(4, THREADS).tolist() == 4 * [box(a, 4)]


OTHER_PAIR = "xor.b32 %r16, %r10, 2;\nmapa.shared::cluster.u32 %r15, %r15, %r16;\n"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("text", "blocks", "kinds"),
    [
        (WHOLE.replace(WAIT + BOTH, WAIT), 2, "in-flight"),  # the odd block reads what nobody has told it of
        (WHOLE.replace("and.b32 %r15, %r15, 0xfeffffff;", ""), 2, "deadlock"),
        (WHOLE.replace("512;\n@", "256;\n@"), 2, "in-flight mbarrier"),
        (WHOLE.replace(".cta_group::2", ""), 2, "deadlock"),
        (WHOLE.replace(LOAD, OTHER_PAIR + LOAD), 4, "cluster"),
        (MULTICAST.replace("%rs1, 3", "%rs1, 1"), 2, "deadlock"),
        (MULTICAST.replace(WAIT + BOTH, WAIT), 2, "in-flight never-written"),
    ],
)
def test_a_mistake_is_seen(text: str, blocks: int, kinds: str, seed: int) -> None:
    assert wrong(text, blocks=blocks, seed=seed).kind in kinds.split()
