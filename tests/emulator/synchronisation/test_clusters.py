"""Clusters: which blocks share one, their barrier, each other's shared memory; and what is wrong with the use of it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from cluster_kit import ARRIVE, BOTH, OWN, SHOW, START, WAIT, bound, cluster_kernel, run, wrong
from emulator_kit import go, kernel, tensors

from cutegen.emulator.host.launching import RefusedLaunch
from cutegen.emulator.host.limits import refused_cluster

READ = "ld.shared::cluster.b32 %r20, [%r12];\n"
READS = [READ, "ld.b32 %r20, [%rd13];\n", "ld.volatile.shared::cluster.u32 %r20, [%r12];\n"]


def test_special_registers_of_clusters() -> None:
    """Each block writes all of them, for a cluster of 2 x 1 x 3 in a grid of 4 x 2 x 3."""
    names = [
        f"%{n}.{a}" for n in ("cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid", "ctaid") for a in "xyz"
    ]
    names += ["%cluster_ctarank", "%cluster_nctarank"]
    body = (
        "mov.u32 %r2, %ctaid.y;\nmov.u32 %r3, %ctaid.z;\nmad.lo.u32 %r4, %r3, 2, %r2;\nmad.lo.u32 %r4, %r4, 4, %r1;\n"
    )
    body += f"mul.wide.u32 %rd5, %r4, {4 * len(names)};\nadd.s64 %rd5, %rd0, %rd5;\n"
    body += "".join(f"mov.u32 %r5, {name};\nst.global.b32 [%rd5+{4 * i}], %r5;\n" for i, name in enumerate(names))
    out = np.zeros((24, len(names)), np.uint32)
    ptx = kernel(body, 1).replace("sm_80", "sm_90a")
    for seed in range(3):
        go(ptx, tensors((out, "out")), grid=(4, 2, 3), block=1, cluster=(2, 1, 3), seed=seed).check()
        for row, (z, y, x) in zip(out.tolist(), product(range(3), range(2), range(4)), strict=True):
            rank = x % 2 + 2 * z
            assert row == [x % 2, 0, z, 2, 1, 3, x // 2, y, 0, 2, 2, 1, x, y, z, rank, 6]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("cluster", [2, 4])
def test_a_block_reads_its_peers_memory(read: str, cluster: int) -> None:
    report, out = run(OWN + BOTH + read + SHOW + BOTH, blocks=8, cluster=cluster, orders=8)
    assert report.ok, str(report)
    blocks = np.arange(8)
    peers = blocks // cluster * cluster + (blocks + 1) % cluster
    assert (out.reshape(8, 64) == np.arange(512).reshape(8, 64)[peers]).all()


@pytest.mark.parametrize("write", ["st.shared::cluster.b32 [%r12], %r2;\n", "st.b32 [%rd13], %r2;\n"])
def test_a_block_writes_its_peers_memory(write: str) -> None:
    report, out = run(BOTH + write + BOTH + "ld.shared.b32 %r20, [%r6];\n" + SHOW, orders=6)
    assert report.ok, str(report)
    assert (out.reshape(4, 64) == np.arange(256).reshape(4, 64)[[1, 0, 3, 2]]).all()


def test_an_address_of_the_blocks_own_is_one_of_the_cluster() -> None:
    own = "mapa.shared::cluster.u32 %r14, %r6, %r10;\nst.shared::cluster.b32 [%r14], %r2;\n"
    report, out = run(own + "ld.shared::cluster.b32 %r20, [%r6];\n" + SHOW, orders=3)  # no peer: no barrier
    assert report.ok and (out == np.arange(256)).all()


# ------------------------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("read", READS)
def test_a_peer_must_have_started(read: str, seed: int) -> None:
    found = wrong(read, seed=seed)
    assert found.kind == "cluster" and "not known to have started" in found.explanation


@pytest.mark.parametrize("seed", range(6))
def test_a_peer_must_not_exit_before_it_has_been_read(seed: int) -> None:
    found = wrong(OWN + BOTH + READ + SHOW, seed=seed)
    assert found.kind == "cluster" and "exit" in found.explanation
    stays = OWN + BOTH + READ + SHOW + ARRIVE + "@!%p1 ret;\n" + WAIT  # it is there while any of its threads is
    assert run(stays, seed=seed)[0].ok


def test_a_peer_that_has_exited_in_this_order_or_may_have() -> None:
    """Only rank 0 reads: whoever runs first, it is told, by the reader or by who exits."""
    told = [wrong(OWN + BOTH + "@%p2 " + READ, seed=seed).explanation for seed in range(6)]
    assert any("which has exited" in text for text in told)
    assert any("may have done so before" in text for text in told)


@pytest.mark.parametrize("seed", range(6))
def test_a_relaxed_arrival_orders_no_memory_unless_a_fence_comes_first(seed: int) -> None:
    relaxed = "barrier.cluster.arrive.relaxed;\n"
    found = wrong(OWN + relaxed + WAIT + READ + BOTH, seed=seed)
    assert found.kind == "race" and "of the block of rank" in found.explanation
    assert run(OWN + "fence.acq_rel.cluster;\n" + relaxed + WAIT + READ + SHOW + BOTH, seed=seed)[0].ok


@pytest.mark.parametrize("seed", range(6))
def test_races_between_blocks(seed: int) -> None:
    """A read and a later write of the owner, two writes of one word, and the twin with a barrier between."""
    again = "st.shared.b32 [%r6], 0;\n"
    assert wrong(OWN + BOTH + READ + again + BOTH, seed=seed).kind == "race"
    assert run(OWN + BOTH + READ + SHOW + BOTH + again, seed=seed)[0].ok
    assert wrong(BOTH + "st.shared::cluster.b32 [%r12], 1;\n" + OWN + BOTH, seed=seed).kind == "race"
    assert (
        wrong(BOTH + "st.shared::cluster.b32 [smem], 1;\n" + BOTH, seed=seed).kind == "race"
    )  # of one block's threads


def test_a_rank_that_no_block_has_and_bytes_that_no_block_has() -> None:
    far = "mapa.shared::cluster.u32 %r14, %r6, {};\nld.shared::cluster.b32 %r20, [%r14{}];\n"
    found = wrong(BOTH + far.format(2, "") + BOTH)
    assert (found.kind, "rank 2: the cluster has 2 blocks" in found.explanation) == ("cluster", True)
    assert wrong(BOTH + far.format(2**31, "") + BOTH).kind == "cluster"
    assert wrong(BOTH + far.format(1, "+1024") + BOTH).kind == "out-of-bounds"
    assert wrong(BOTH + far.format(1, "+2") + BOTH).kind == "misaligned"
    assert wrong("ld.shared.b32 %r20, [%r12];\n").kind == "out-of-bounds"  # no address of the block's own window
    assert run("mapa.shared::cluster.u32 %r14, %r6, 9;\n", role="inout")[0].ok  # which nobody uses
    # nor of an address and a rank that nothing has written, those of each lane and that of a block
    lost = "ld.shared.u32 %r20, [%r6];\nld.shared.u32 %r21, [smem];\nmapa.shared::cluster.u32 %r14, %r20, %r21;\n"
    assert run(lost, role="inout")[0].ok
    assert wrong(lost + "ld.shared::cluster.b32 %r20, [%r14];\n").kind == "never-written"


def test_memory_of_a_peer_that_nothing_has_written() -> None:
    found = wrong(BOTH + READ + "st.global.b32 [%rd12], %r20;\n" + BOTH)
    assert found.kind == "never-written"


def test_a_barrier_at_which_some_never_arrive() -> None:
    found = wrong("@%p1 bra ON;\n" + BOTH + "ON:\nbar.sync 0;\n" + BOTH)
    assert found.kind == "deadlock" and "2 never arrive" in found.explanation
    assert run("@%p2 ret;\n" + BOTH, role="inout")[0].ok  # who has exited is not waited for


def test_arrivals_and_waits_take_turns() -> None:
    assert "without having waited" in wrong(ARRIVE + ARRIVE + WAIT).explanation
    assert "has not arrived" in wrong(WAIT).explanation
    odd = "and.b32 %r14, %r0, 1;\nsetp.eq.u32 %p3, %r14, 0;\n@%p3 bra ON;\n{0}ON:\n@!%p3 bra END;\n{0}END:\n" + WAIT
    assert run(odd.format(ARRIVE), role="inout")[0].ok
    aligned = wrong(odd.format("barrier.cluster.arrive.release.aligned;\n"))
    assert aligned.kind == "barrier" and "all threads of a warp" in aligned.explanation


def test_the_barrier_of_a_block_orders_its_own_threads() -> None:
    """Also where clusters are about: as in kernels without."""
    swap = "xor.b32 %r14, %r6, {};\n{}ld.shared.b32 %r20, [%r14];\n" + SHOW + BOTH
    assert run(OWN + swap.format(128, "bar.sync 0;\n"), orders=4)[0].ok
    assert wrong(OWN + swap.format(128, "")).kind == "race"
    assert run(OWN + swap.format(4, "bar.warp.sync -1;\n"), orders=4)[0].ok
    assert wrong(OWN + swap.format(128, "bar.warp.sync -1;\n")).kind == "race"


def test_global_memory_is_ordered_by_the_barrier_of_the_cluster() -> None:
    """And by nothing between blocks of two clusters."""
    peer = "mad.lo.u32 %r14, %r1, -128, 64;\nmad.wide.s32 %rd15, %r14, 4, %rd12;\n"  # block 1's words for block 0 ...
    body = "st.global.b32 [%rd12], %r2;\n{}" + peer + "ld.global.b32 %r20, [%rd15];\n"
    assert run(body.format(BOTH), blocks=2, role="inout", orders=4)[0].ok
    for seed in range(3):
        assert wrong(body.format(""), blocks=2, seed=seed).kind == "unordered"
        assert wrong(body.format(BOTH), blocks=2, cluster=1, seed=seed).kind == "unordered"


# ------------------------------------------------------------------------------------------------------------ launches


def test_launches_that_no_device_takes() -> None:
    assert refused_cluster((16, 1, 1), (16, 1, 1), 16) == "" == refused_cluster((16, 1, 1), (8, 1, 1), 8)
    assert "16 blocks, at most 8" in refused_cluster((16, 1, 1), (16, 1, 1), 8)
    given, _ = bound(4, "inout")
    for cluster, why in ((3, "not a multiple of 3 along x"), ((2, 2, 1), "not a multiple of 2 along y")):
        with pytest.raises(RefusedLaunch, match=why):
            go(cluster_kernel(BOTH), given, grid=4, block=64, cluster=cluster)
    with pytest.raises(RefusedLaunch, match="at most 16"):
        go(cluster_kernel(BOTH), given, grid=32, block=64, cluster=32)
    with pytest.raises(RefusedLaunch, match="sm_80 has no clusters"):
        go(kernel(START, shared=64), given, grid=4, block=64, cluster=2)
    with pytest.raises(ValueError, match="whole clusters"):
        go(cluster_kernel(BOTH), given, grid=4, block=64, cluster=2, blocks=[0, 1, 2])
    given, out = bound(4, "inout")
    whole = cluster_kernel(OWN + BOTH + READ + SHOW + BOTH)
    assert go(whole, given, grid=4, block=64, cluster=2, blocks=[2, 3]).ok
    assert not out[:128].any() and out[128] == 192
