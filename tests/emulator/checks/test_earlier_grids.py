"""Launches that may start before those ahead of them have ended: no tensor may be touched before the wait for that."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_kit import BOTH, bound, cluster_kernel
from emulator_kit import fault, go, in_and_out, indexed, kernel, numbers, tensors
from tensor_map_kit import run as run_mapped
from tensor_map_kit import wrong as wrong_mapped

WAIT = "griddepcontrol.wait;\n"
LOAD = "ld.global.b32 %r7, [%rd11];\n"
STORE = "st.global.b32 [%rd12], %r7;\n"
COPY = "cp.async.ca.shared.global [%r6], [%rd11], 4;\ncp.async.wait_all;\nld.shared.b32 %r7, [%r6];\n"
MEET = "bar.sync 0;\n"
BEFORE = (  # what may be done before
    "griddepcontrol.launch_dependents;\nprefetch.global.L2 [%rd11];\n"
    "st.shared.b32 [%r6], %r0;\nld.shared.b32 %r8, [%r6];\nld.param.u64 %rd20, [k_p0];\n"
)


def early(body: str, **more: Any) -> Any:
    """The fault of a kernel of that body in a launch that may start early."""
    return fault(indexed(body), in_and_out(role="inout"), early=True, **more)


@pytest.mark.parametrize("load", [LOAD, LOAD.replace(".global", ""), LOAD.replace("ld.global", "ld.global.nc"), COPY])
def test_reads_and_writes_behind_the_wait(load: str) -> None:
    report = go(indexed(BEFORE + WAIT + load + STORE), in_and_out(), early=True, orders=2)
    assert report.ok, str(report)


@pytest.mark.parametrize("load", [LOAD, LOAD.replace(".global", ""), LOAD.replace("ld.global", "ld.global.nc"), COPY])
def test_a_read_before_it(load: str) -> None:
    body = indexed(load + WAIT + STORE)
    found = fault(body, in_and_out(), early=True)
    assert (found.kind, found.thread, found.tensor, found.element) == ("early", (0, 0, 0), "A", (0,))
    assert found.text == load.splitlines()[0] and "reads A" in found.explanation and "writing it" in found.explanation
    assert found.notes[0].place.text == WAIT.strip()
    assert go(body, in_and_out()).ok  # where the launch waits for the others to end


def test_a_write_before_it() -> None:
    found = early("mov.b32 %r7, 0;\n" + STORE + WAIT)
    assert (found.kind, found.tensor, "reading or writing it" in found.explanation) == ("early", "B", True)


def test_no_wait_at_all() -> None:
    assert early(LOAD + STORE).explanation.endswith("no griddepcontrol.wait at all")
    assert go(indexed(LOAD + STORE), in_and_out()).ok
    assert go(indexed(BEFORE), in_and_out(role="inout"), early=True).ok  # for what touches nothing


def test_each_thread_that_touches_one_waits_or_comes_after_one_that_has() -> None:
    """By a barrier, from which those that have exited keep away."""
    some = "setp.ge.u32 %p1, %r0, 32;\n@%p1 " + WAIT
    found = fault(indexed(some + LOAD + STORE), in_and_out(64, "inout"), block=64, early=True)
    assert (found.kind, found.thread, "warp 0 reads A" in found.explanation) == ("early", (0, 0, 0), True)
    given = in_and_out(64)
    assert go(indexed(some + MEET + LOAD + STORE), given, block=64, early=True, orders=2).ok
    given = in_and_out(64, "inout")
    assert fault(indexed(some + "@%p1 ret;\n" + MEET + LOAD + STORE), given, block=64, early=True).kind == "early"


def test_a_wait_in_one_block_is_none_of_another() -> None:
    first = "setp.eq.u32 %p1, %r1, 0;\n@%p1 " + WAIT + MEET + LOAD + STORE
    for seed in range(3):
        found = fault(indexed(first), in_and_out(64, "inout"), grid=2, early=True, seed=seed)
        assert (found.kind, found.block) == ("early", (1, 0, 0))


def test_what_is_the_kernels_own() -> None:
    """Constants of the module, which no other kernel writes."""
    body = "ld.const.b32 %r7, [table];\n" + WAIT + "mul.wide.u32 %rd10, %r0, 4;\nadd.s64 %rd11, %rd0, %rd10;\n"
    ptx = kernel(body + "st.global.b32 [%rd11], %r7;\n", 1)
    ptx = ptx.replace(".visible", ".const .align 4 .b8 table[4] = {7, 0, 0, 0};\n.visible", 1)
    out = numbers()
    go(ptx, tensors((out, "out")), early=True).check()
    assert (out == 7).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_barrier_of_a_cluster(seed: int) -> None:
    """After it each block knows what one of them has waited for; after that of a block only its own threads do."""
    body = "setp.eq.u32 %p3, %r2, 0;\n@%p3 " + WAIT + "{}" + "ld.global.b32 %r20, [%rd11];\n" + BOTH
    for meet, right in ((BOTH, True), (MEET, False)):
        given, _ = bound(4, "inout")
        report = go(cluster_kernel(body.format(meet)), given, grid=2, block=64, cluster=2, early=True, seed=seed)
        assert report.ok == right, str(report)
        assert right or (report.faults[0].kind, report.faults[0].block) == ("early", (1, 0, 0))


FILL = "st.shared.b32 [%r6], %r2;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n"
BOX_STORE = "@%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd20, {8, 3}], [smem];\n"
BULK_STORE = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [smem], 64;\n"
DONE = "@%p1 cp.async.bulk.commit_group;\n@%p1 cp.async.bulk.wait_group.read 0;\n"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("store", [BOX_STORE, BULK_STORE])
def test_stores_by_tensor_maps_and_in_bulk(store: str, seed: int) -> None:
    ahead = "@%p1 prefetch.tensormap [%rd20];\n"
    run_mapped(ahead + FILL + "@%p1 " + WAIT + store + DONE, "inout", seed=seed, early=True)
    run_mapped("@!%p1 " + WAIT + FILL + store + DONE, "inout", seed=seed, early=True)  # by the barrier in between
    run_mapped(FILL + store + DONE, "inout", seed=seed)
    found = wrong_mapped(ahead + FILL + store + WAIT + DONE, "inout", seed=seed, early=True)
    assert (found.kind, found.thread, found.tensor) == ("early", (0, 0, 0), "A")
    assert found.text == store.strip()


LOADED = "@%p1 mbarrier.init.shared.b64 [smem+512], 1;\nfence.mbarrier_init.release.cluster;\nbar.sync 0;\n"
FETCH = (
    "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], 256;\n"
    "@%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [smem], [%rd20, {0, 0}], "
    "[smem+512];\n"
)
PHASE = "AGAIN:\nmbarrier.try_wait.parity.shared.b64 %p3, [smem+512], 0;\n@!%p3 bra AGAIN;\n"
SHOW = "ld.shared.b32 %r21, [%r6];\nst.global.b32 [%rd12], %r21;\n"


@pytest.mark.parametrize("seed", range(2))
def test_loads_by_tensor_maps(seed: int) -> None:
    """One thread waits and loads; the others store behind the mbarrier, at which it arrived after its wait."""
    run_mapped(LOADED + "@%p1 " + WAIT + FETCH + PHASE + SHOW, seed=seed, early=True)
    found = wrong_mapped(LOADED + FETCH + WAIT + PHASE + SHOW, seed=seed, early=True)
    assert (found.kind, found.tensor, found.text[:32]) == ("early", "A", FETCH.splitlines()[1][:32])
    alone = wrong_mapped(LOADED + "@%p1 " + WAIT + FETCH + "st.global.b32 [%rd12], 0;\n" + PHASE, seed=seed, early=True)
    assert (alone.kind, alone.tensor) == ("early", "B")
