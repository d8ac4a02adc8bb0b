"""Bulk copies: what they bring, and what must not be touched until they have."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_kit import BOTH, THREADS, cluster_kernel
from emulator_kit import fault, go, tensors

# Each block has 256 bytes of A and B, from %rd15 and %rd16 on; the mbarriers are at bytes 512 and 520
START = """
mul.wide.u32 %rd20, %r1, 256;
add.s64 %rd15, %rd0, %rd20;
add.s64 %rd16, %rd1, %rd20;
@%p1 mbarrier.init.shared.b64 [smem+512], 1;
@%p1 mbarrier.init.shared.b64 [smem+520], 1;
fence.mbarrier_init.release.cluster;
mapa.shared::cluster.u32 %r14, %r4, %r11;
mapa.shared::cluster.u32 %r15, %r4, %r10;
"""
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], {};\n"
LOAD = "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r15], [%rd15], 256, [%r15+512];\n"
WAIT = "W{0}: mbarrier.try_wait.parity.shared.b64 %p5, [smem+512], {1};\n@!%p5 bra W{0};\n"
MORE = "ld.shared.b32 %r20, [%r6];\nadd.u32 %r20, %r20, 1;\n"
FENCE = "fence.proxy.async.shared::cta;\n"
STORE = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd16], [smem], 256;\n@%p1 cp.async.bulk.commit_group;\n"
READ = "@%p1 cp.async.bulk.wait_group.read 0;\n"
THROUGH = START + BOTH + EXPECT.format(256) + LOAD + WAIT.format(0, 0) + MORE + "st.shared.b32 [%r6], %r20;\n"
THROUGH += FENCE + "bar.sync 0;\n" + STORE + READ


def blocks(role: str = "in", out: str = "out", n: int = 2) -> tuple[list, np.ndarray]:  # type: ignore[type-arg]
    data, given = np.zeros(n * THREADS, np.uint32), np.arange(n * THREADS, dtype=np.uint32)
    return tensors((given, role), (data, out)), data  # type: ignore[arg-type]


def wrong(body: str, seed: int = 0, role: str = "in"):  # type: ignore[no-untyped-def]
    return fault(cluster_kernel(body), blocks(role, "inout")[0], grid=2, block=THREADS, cluster=2, seed=seed)


def right(body: str, seed: int = 0, role: str = "in", out: str = "inout") -> np.ndarray:
    bound, data = blocks(role, out)
    report = go(cluster_kernel(body), bound, grid=2, block=THREADS, cluster=2, seed=seed)
    assert report.ok, str(report)
    return data


@pytest.mark.parametrize("seed", range(5))
def test_in_through_the_threads_and_out(seed: int) -> None:
    assert (right(THROUGH, seed, out="out") == np.arange(128) + 1).all()


def test_a_copy_and_its_mbarrier_are_in_one_block() -> None:
    for target in ("%r15", "%r4"):  # the block's own memory, in the cluster's window and in its own
        there = LOAD.replace("[%r15]", f"[{target}]").replace("[%r15+512]", "[%r14+512]")
        found = wrong(START + BOTH + EXPECT.format(256) + there)
        assert found.kind == "cluster" and "both must be in one block" in found.explanation


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("lacks", "kinds"),
    [
        (WAIT.format(0, 0), "in-flight never-written race"),
        (FENCE, "proxy"),
        ("bar.sync 0;\n@%p1 cp", "race proxy"),
        (READ, "in-flight"),
        (EXPECT.format(256), "deadlock"),
        ("@%p1 mbarrier.init.shared.b64 [smem+512], 1;\n", "mbarrier"),
    ],
)
def test_what_it_must_not_lack(lacks: str, kinds: str, seed: int) -> None:
    body = THROUGH.replace(lacks, "@%p1 cp" if lacks.endswith("cp") else "")
    assert body != THROUGH
    assert wrong(body, seed).kind in kinds.split()


@pytest.mark.parametrize("seed", range(4))
def test_the_source_must_not_change_before_the_wait_for_its_read(seed: int) -> None:
    again = "@%p1 st.shared.b32 [smem+64], 7;\n"
    assert wrong(THROUGH.replace(READ, again + READ), seed).kind == "in-flight"
    right(THROUGH + again, seed)
    other = "setp.eq.u32 %p3, %r0, 40;\n@%p3 st.shared.b32 [smem+64], 7;\n"  # by a thread that knows of no wait
    assert wrong(THROUGH + other, seed).kind in ("race", "in-flight")
    right(THROUGH + "bar.sync 0;\n" + other, seed)
    uncommitted = THROUGH.replace("@%p1 cp.async.bulk.commit_group;\n", "")
    assert wrong(uncommitted, seed).kind == "in-flight"


@pytest.mark.parametrize("seed", range(3))
def test_what_ordinary_stores_wrote_is_overwritten_after_a_fence(seed: int) -> None:
    fill = START + "st.shared.b32 [%r6], 7;\n{}" + BOTH + EXPECT.format(256) + LOAD + WAIT.format(0, 0) + BOTH
    assert wrong(fill.format(""), seed).kind == "proxy"
    right(fill.format(FENCE), seed)
    right(fill.format("").replace(BOTH, BOTH + FENCE, 1), seed)  # by who starts the copy


@pytest.mark.parametrize("seed", range(4))
def test_only_groups_that_were_waited_for_are_done(seed: int) -> None:
    two = THROUGH.replace(", 256;\n@%p1 cp.async.bulk.commit", ", 128;\n@%p1 cp.async.bulk.commit").replace(READ, "")
    two += STORE.replace("[%rd16], [smem], 256", "[%rd16+128], [smem+128], 128") + READ.replace("read 0", "read {}")
    end = "bar.sync 0;\n@%p1 st.shared.b32 [smem+{}], 7;\n" + READ
    right(two.format(1) + end.format(64), seed)
    assert wrong(two.format(1) + end.format(192), seed).kind == "in-flight"
    right(two.format(0) + end.format(192), seed)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_written_to_global_memory_is_there_after_the_whole_wait(seed: int) -> None:
    back = "bar.sync 0;\nld.global.b32 %r21, [%rd12];\n"
    assert wrong(THROUGH + back, seed).kind == "unordered"
    right(THROUGH + READ.replace(".read", "") + back, seed)
    mine = "@%p1 ld.global.b32 %r21, [%rd12];\n"  # nor for the thread itself
    assert wrong(THROUGH + mine, seed).kind == "unordered"
    right(THROUGH + READ.replace(".read", "") + mine, seed)


@pytest.mark.parametrize("seed", range(4))
def test_in_place(seed: int) -> None:
    """Memory that was read may be written once the phase has ended, by any thread that has waited for it."""
    change = "st.global.b32 [%rd11], 7;\n"
    load = START + BOTH + EXPECT.format(256) + LOAD
    right(load + WAIT.format(0, 0) + change + BOTH, seed, "inout")
    found = wrong(load + change.replace("st", "@%p1 st") + WAIT.format(0, 0) + BOTH, seed, "inout")
    assert found.kind == "in-flight" and found.tensor == "A"
    found = wrong(START + BOTH + change + EXPECT.format(256) + LOAD + WAIT.format(0, 0), seed, "inout")
    assert found.kind == "unordered"  # of other threads before


@pytest.mark.parametrize("seed", range(4))
def test_from_one_block_to_another(seed: int) -> None:
    counted = "mbarrier::complete_tx::bytes"
    send = f"@%p1 cp.async.bulk.shared::cluster.shared::cta.{counted} [%r14+256], [smem], 256, [%r14+512];\n"
    body = START + "st.shared.b32 [%r6], %r2;\n" + FENCE + BOTH + EXPECT.format(256) + send + WAIT.format(0, 0)
    body += "ld.shared.b32 %r20, [%r6+256];\nst.global.b32 [%rd12], %r20;\n"
    assert (right(body + BOTH, seed) == (np.arange(128) + 64) % 128).all()
    assert wrong(body.replace(FENCE, "") + BOTH, seed).kind == "proxy"
    assert wrong(body.replace(WAIT.format(0, 0), "") + BOTH, seed).kind in ("in-flight", "never-written")
    again = "st.shared.b32 [%r6], 7;\n"
    assert wrong(body + again + BOTH, seed).kind in ("race", "in-flight")  # the peer has it, which this block must know
    right(body + BOTH + again, seed)
    assert wrong(body.replace("[%r14+512]", "[%r15+512]") + BOTH, seed).kind == "cluster"
    assert wrong(body.replace(BOTH, "bar.sync 0;\n"), seed).kind == "cluster"


def test_addresses_and_sizes() -> None:
    for old, new, kind in (
        ("[%rd15], 256", "[%rd15+8], 256", "misaligned"),
        ("[%r15], [%rd15]", "[%r15+8], [%rd15]", "misaligned"),
        ("[smem], 256", "[smem+4], 256", "misaligned"),
        ("[%rd16], [smem]", "[%rd16+4], [smem]", "misaligned"),
        ("[%rd15], 256", "[%rd15], %r13", "misaligned"),  # 2 bytes
        ("[%rd15], 256", "[%rd15+512], 256", "out-of-bounds"),
        ("[%rd15], 256", "[%rd15+128], 512", "out-of-bounds"),
        ("[%r15], [%rd15]", "[%r15+896], [%rd15]", "out-of-bounds"),
        ("[%r15], [%rd15]", "[%r15+384], [%rd15]", "mbarrier"),  # over the mbarriers
        ("[%rd16], [smem], 256", "[%rd15], [smem], 256", "write-to-input"),
        ("[%rd16], [smem], 256", "[%rd16], [smem], 512", "never-written"),
    ):
        assert old in THROUGH
        found = wrong(THROUGH.replace(old, new, 1))
        assert found.kind == kind, (old, new, str(found))


@pytest.mark.parametrize("seed", range(4))
def test_cp_async_that_arrives_at_an_mbarrier(seed: int) -> None:
    """Each thread copies 4 bytes; who waits for the phase sees those of all threads."""
    copy = "cp.async.ca.shared.global [%r6], [%rd11], 4;\ncp.async.mbarrier.arrive{}.shared::cta.b64 [smem+512];\n"
    take = "xor.b32 %r7, %r6, 128;\nld.shared.b32 %r20, [%r7];\nst.global.b32 [%rd12], %r20;\n"
    init = "@%p1 mbarrier.init.shared.b64 [smem+512], 64;\nbar.sync 0;\n"
    body = init + copy.format(".noinc") + WAIT.format(0, 0) + take
    assert (right(body, seed) == (np.arange(128) ^ 32)).all()
    assert wrong(body.replace(WAIT.format(0, 0), ""), seed).kind in ("in-flight", "never-written")
    own = body.replace(WAIT.format(0, 0), "").replace("xor.b32 %r7, %r6, 128", "mov.b32 %r7, %r6")
    assert wrong(own, seed).kind == "in-flight"
    arrives = "mbarrier.arrive.shared.b64 _, [smem+512];\n"
    right(init + copy.format("") + arrives + WAIT.format(0, 0) + take, seed)
    assert wrong(body.replace(".noinc", ""), seed).kind == "deadlock"
