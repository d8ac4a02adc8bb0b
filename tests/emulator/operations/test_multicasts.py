"""Loads by tensor maps to several blocks of a cluster at once."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_kit import ARRIVE, BOTH, WAIT
from tensor_map_kit import BOX, SIZES, THREADS, run, wrong

# The mbarrier is at byte 512; %p3 is the first thread of rank 0, %p4 that of rank 1
START = """
@%p1 mbarrier.init.shared.b64 [smem+512], 1;
fence.mbarrier_init.release.cluster;
and.pred %p3, %p1, %p2;
setp.eq.u32 %p4, %r10, 1;
and.pred %p4, %p4, %p1;
mov.b16 %rs1, 3;
"""
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], 256;\n"
KIND = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
LOAD = f"@%p3 {KIND} [%r4], [%rd20, {{8, 3}}], [%r4+512], %rs1;\n"
DONE = "W: mbarrier.try_wait.parity.shared.b64 %p5, [smem+512], 0;\n@!%p5 bra W;\n"
SHOW = "ld.shared.b32 %r20, [%r6];\nst.global.b32 [%rd12], %r20;\n"
WHOLE = START + BOTH + EXPECT + LOAD + DONE + SHOW


def box(a: np.ndarray, x: int, y: int) -> list[int]:
    """The elements of the box at these coordinates, zeros where the tensor has none."""
    rows, columns = np.arange(BOX[1])[:, None] + y, np.arange(BOX[0])[None, :] + x
    inside = (rows < SIZES[1]) & (columns < SIZES[0])
    return np.where(inside, a[np.minimum(rows, 5), np.minimum(columns, 23)], 0).reshape(-1).tolist()


@pytest.mark.parametrize("seed", range(4))
def test_each_block_gets_the_box(seed: int) -> None:
    a, b = run(WHOLE, blocks=2, seed=seed)
    assert b.tolist() == 2 * box(a, 8, 3)


@pytest.mark.parametrize("seed", range(2))
def test_some_blocks_get_it(seed: int) -> None:
    """With two copies of other boxes, each to two of three blocks, one of which gets both; with a cache policy."""
    first, second = LOAD.replace("{8, 3}", "{0, 0}"), LOAD.replace("%p3", "%p4").replace("%r4", "%r14")
    second = second.replace("%rs1;", "6, 0;").replace("cluster [", "cluster.L2::cache_hint [")
    more = "add.u32 %r14, %r4, 256;\nsetp.eq.u32 %p6, %r10, 1;\n"
    # rank 0 gets the first box, rank 2 the second one, rank 1 both: the second one behind the first
    body = START + more + BOTH + EXPECT + "@%p4 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [smem+512], 256;\n"
    body += first + second.replace("[%r14+512]", "[%r4+512]") + DONE
    body += "setp.eq.u32 %p7, %r10, 2;\n@%p7 ld.shared.b32 %r20, [%r6+256];\n@!%p7 ld.shared.b32 %r20, [%r6];\n"
    body += "@%p6 ld.shared.b32 %r21, [%r6+256];\n@%p6 add.u32 %r20, %r20, %r21;\nst.global.b32 [%rd12], %r20;\n" + BOTH
    a, b = run(body, blocks=3, seed=seed)
    one, other = np.asarray(box(a, 0, 0)), np.asarray(box(a, 8, 3))
    assert (b.reshape(3, THREADS) == np.stack([one, one + other, other])).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        (BOTH, "bar.sync 0;\n", "cluster mbarrier"),
        (EXPECT, EXPECT.replace("256", "128"), "deadlock"),
        (EXPECT, EXPECT.replace("256", "512"), "deadlock"),
        (DONE, "", "in-flight never-written"),
        ("mov.b16 %rs1, 3;", "mov.b16 %rs1, 7;", "cluster"),
        ("mov.b16 %rs1, 3;", "mov.b16 %rs1, 0;", "cluster"),
        ("mov.b16 %rs1, 3;", "mov.b16 %rs1, 1;", "deadlock"),
        ("mov.b16 %rs1, 3;", "", "never-written"),
        ("fence.mbarrier_init.release.cluster;", "", "mbarrier"),
    ],
)
def test_a_mistake_is_seen(old: str, new: str, kinds: str, seed: int) -> None:
    assert old in WHOLE
    assert wrong(WHOLE.replace(old, new), blocks=2, seed=seed).kind in kinds.split()


@pytest.mark.parametrize("seed", range(3))
def test_a_block_that_may_have_exited(seed: int) -> None:
    """Rank 1 exits without a wait for what comes to it."""
    body = START + BOTH + EXPECT + "setp.eq.u32 %p6, %r10, 1;\n@%p6 exit;\n" + LOAD + DONE + SHOW
    assert wrong(body, blocks=2, seed=seed).kind in ("cluster", "in-flight")


@pytest.mark.parametrize("seed", range(3))
def test_a_peer_that_is_only_known_to_run(seed: int) -> None:
    """Earlier accesses of the other blocks must be ordered before the copy, as in the block's own memory."""
    touch = "ld.shared.b32 %r20, [%r6];\n"
    body = START + "st.shared.b32 [%r6], 1;\nfence.proxy.async.shared::cta;\n"
    run(body + touch + BOTH + EXPECT + LOAD + DONE + SHOW, blocks=2, seed=seed)
    late = body + ARRIVE + touch + WAIT + EXPECT + LOAD + DONE + SHOW
    assert wrong(late, blocks=2, seed=seed).kind in ("race", "in-flight")


@pytest.mark.parametrize("seed", range(3))
def test_the_tensor_is_read_until_all_blocks_have_it(seed: int) -> None:
    change = "@%p3 st.global.b32 [%rd0+320], 7;\n"  # column 8 of row 3
    late = (
        START + BOTH + EXPECT + LOAD + "@!%p2 bra L;\n" + DONE + change + "L:\n" + BOTH + DONE.replace("W", "V") + SHOW
    )
    assert wrong(late, "inout", blocks=2, seed=seed).kind == "in-flight"
    run(late.replace(change, ""), "inout", blocks=2, seed=seed)
    a, _ = run(WHOLE + BOTH + change, "inout", blocks=2, seed=seed)
    assert a[3, 8] == 7
