"""Blocks that cancel clusters of the launch which have not started, and do their work: each tile is done once."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import fault, go, kernel, tensors

from cutegen.emulator import UnsupportedInstruction

TILES, ANSWER, BARRIER = 12, 16, 64
TRY = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes{}.b128 [smem+16], [smem+64];\n"
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p5, [smem+64], %r9;\n@!%p5 bra W;\n"
QUERY = """
ld.shared.v2.b64 {%rd5, %rd6}, [smem+16];
{
.reg .b128 %handle;
mov.b128 %handle, {%rd5, %rd6};
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p6, %handle;
clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r12, %r13, _, _}, %handle;
clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %r14, %handle;
}
fence.proxy.async.shared::cta;
"""
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [smem+64], 16;\n"


def dynamic(cluster: int = 1, query: str = QUERY, again: str = "") -> str:
    """A kernel of a grid (4, 3) in which each block adds one to the words of its tile and of those that it gets.

    It asks for another tile while it does one. `again` comes behind the answer that there is none left.
    """
    everywhere = ".multicast::cluster::all" * (cluster > 1)
    both = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n" if cluster > 1 else "bar.sync 0;\n"
    asks = "setp.eq.u32 %p2, %r11, 0;\nand.pred %p2, %p2, %p1;\n@%p2 " + TRY.format(everywhere)
    return kernel(
        f"""
        setp.eq.u32 %p1, %r0, 0;
        @%p1 mbarrier.init.shared.b64 [smem+64], 1;
        @%p1 fence.mbarrier_init.release.cluster;
        mov.u32 %r11, %cluster_ctarank;
        mov.u32 %r12, %ctaid.x;
        sub.u32 %r12, %r12, %r11;
        mov.u32 %r13, %ctaid.y;
        mov.b32 %r9, 0;
        {both}
        TILE:
        {EXPECT}
        {both}
        {asks}
        add.u32 %r15, %r12, %r11;
        mad.lo.u32 %r15, %r13, 4, %r15;
        mad.lo.u32 %r15, %r15, 32, %r0;
        mul.wide.u32 %rd3, %r15, 4;
        add.s64 %rd3, %rd3, %rd0;
        ld.global.b32 %r16, [%rd3];
        add.u32 %r16, %r16, 1;
        st.global.b32 [%rd3], %r16;
        {WAIT}
        {query}
        xor.b32 %r9, %r9, 1;
        {both}
        @%p6 bra TILE;
        {again.replace("TRY", asks)}
        """,
        1,
        shared=128,
    ).replace("sm_80", "sm_100a")


def run(text: str, cluster: int, seed: int) -> np.ndarray:
    """How often each thread's word of each tile was counted."""
    out = np.zeros(TILES * 32, np.uint32)
    report = go(text, tensors((out, "inout")), grid=(4, 3, 1), block=32, cluster=(cluster, 1, 1), seed=seed)
    assert report.ok, str(report)
    return out


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_each_tile_is_done_once(seed: int, cluster: int) -> None:
    assert (run(dynamic(cluster), cluster, seed) == 1).all()


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        (dynamic(again=f"{EXPECT}TRY"), "cluster", "after a try of its cluster has failed"),
        (dynamic().replace(WAIT, ""), "in-flight never-written", "shared memory"),
        (dynamic().replace("fence.mbarrier_init.release.cluster", "fence.acq_rel.cluster"), "mbarrier", "fence"),
        (dynamic().replace(EXPECT, EXPECT.replace("16;", "32;")), "deadlock", "16 bytes"),
        (dynamic(2).replace(".multicast::cluster::all", ""), "deadlock", "16 bytes"),
        (dynamic(query=QUERY + "@!%p6 st.global.b32 [%rd0], %r12;\n"), "never-written", "stored"),
    ],
)
def test_a_mistake_is_seen(text: str, kind: str, says: str) -> None:
    cluster = 2 if "barrier.cluster" in text else 1
    for seed in range(2):
        given = tensors((np.zeros(TILES * 32, np.uint32), "inout"))
        found = fault(text, given, grid=(4, 3, 1), block=32, cluster=(cluster, 1, 1), seed=seed)
        assert found.kind in kind.split() and says in str(found), str(found)


@pytest.mark.parametrize("text", ["add.b128 %h, %h, %h;", "mov.b128 %h, %rd5;", "st.shared.b128 [smem], %h;"])
def test_other_instructions_have_no_128_bits(text: str) -> None:
    body = "{\n.reg .b128 %h;\nmov.b128 %h, {%rd0, %rd0};\n" + text + "\n}\n"
    with pytest.raises(UnsupportedInstruction):
        go(kernel(body, 1, shared=128), tensors((np.zeros(1, np.uint32), "inout")))
