"""Boxes that the C core loads and stores, of all lanes in one call, are those of numpy, of one lane after the other."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from cluster_kit import BOTH
from emulator_kit import go, native_core
from sweep_kit import sampled
from tensor_map_kit import THREADS, bound, mapped_kernel, tensor_map

from cutegen.emulator.operations.boxes_stored import BoxStores
from cutegen.emulator.operations.boxes_together import BoxLoads

BLOCKS = 4
KIND = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
INIT = "@%p1 mbarrier.init.shared.b64 [smem+512], 1;\nfence.mbarrier_init.release.cluster;\n"
OWN = f"@%p1 {KIND} [%r4], [%rd20, {{%r20, %r21}}], [%r4+512];\n"
BOTH_OF_THEM = f"@%p1 {KIND}.multicast::cluster [%r22], [%rd20, {{%r20, %r21}}], [%r4+512], %rs1;\n"
# Each block loads a box of its own, which lies 4 words and 1 row behind the one before
WHERE = "mul.lo.u32 %r20, %r1, 4;\nmov.u32 %r21, %r1;\nshl.b32 %r22, %r10, 8;\nadd.u32 %r22, %r4, %r22;\n"
EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], {bytes};\n"
DONE = "W: mbarrier.try_wait.parity.shared.b64 %p5, [smem+512], 0;\n@!%p5 bra W;\n"
SHOW = "ld.shared.b32 %r24, [%r6];\n{more}st.global.b32 [%rd12], %r24;\n" + BOTH
MORE = "ld.shared.b32 %r25, [%r6+256];\nmad.lo.u32 %r24, %r25, 65536, %r24;\n"
ALONE = WHERE + INIT + BOTH + EXPECT.format(bytes=256) + OWN + DONE + SHOW.format(more="")
SHARED = WHERE + "mov.b16 %rs1, 3;\n" + INIT + BOTH + EXPECT.format(bytes=512) + BOTH_OF_THEM + DONE
SHARED += SHOW.format(more=MORE)
FIRST_OF_ALL = BOTH + EXPECT.format(bytes=256)


def outcome(body: str, seed: int, role: str = "in", **more: Any) -> tuple[str, list[int]]:
    """The report of a run, and the memory that it writes."""
    given, _ = bound(role, BLOCKS)
    extra = bytes(48) + tensor_map(given[0].told, **more)
    report = go(mapped_kernel(body), given, grid=BLOCKS, block=THREADS, cluster=2, seed=seed, extra=extra)
    return re.sub(r" in [\d.]+ s| address 0x\w+,", "", str(report)), [int(x) for one in given for x in one.bytes()]


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many lanes the core has loaded boxes for, each time that some were to be."""
    found: list[int] = []
    real = BoxLoads._send

    def send(self: BoxLoads, load: Any, lanes: Any, told: Any, some: list[list[int]]) -> None:
        found.append(len(some))
        real(self, load, lanes, told, some)

    monkeypatch.setattr(BoxLoads, "_send", send)
    return found


CASES = [
    (ALONE, "", "", "ok"),
    (SHARED, "", "", "ok"),
    (ALONE, "%r1, 4;", "%r1, -4;", "ok"),
    (ALONE, "mov.u32 %r21, %r1;", "sub.u32 %r21, %r1, 3;", "ok"),
    (ALONE, "mov.u32 %r21, %r1;", "mov.u32 %r21, 5;", "ok"),
    (ALONE, "mul.lo.u32 %r20, %r1, 4;", "mov.u32 %r20, 32;", "ok"),
    (ALONE, "fence.mbarrier_init.release.cluster;\n", "", "with no fence.mbarrier_init"),
    (ALONE, FIRST_OF_ALL, "st.shared.b32 [%r6], 7;\n" + FIRST_OF_ALL, "with no fence.proxy.async between"),
    (ALONE, FIRST_OF_ALL, "st.shared.b32 [%r6], 7;\nfence.proxy.async;\n" + FIRST_OF_ALL, "ok"),
    (ALONE, FIRST_OF_ALL, FIRST_OF_ALL + "ld.shared.b32 %r30, [%r6];\n", "nothing orders the two"),
    (ALONE, DONE, "", "an asynchronous operation"),
    (ALONE, "[%r4], [", "[%r4+64], [", "a multiple of 128"),
    (ALONE, "[%r4], [", "[%r4+896], [", "bytes 896 to 1151"),
    (ALONE, "[%r4], [", "[%r4+384], [", "mbarrier"),
    (ALONE, "%r4+512];", "%r4+520];", "no mbarrier has been initialised"),
    (ALONE, "@%p1 " + KIND, "@!%p1 " + KIND, "race"),
    (ALONE, "mov.u32 %r21, %r1;", "", "a coordinate"),
    (ALONE, "[%rd20,", "[%rd21,", "an address"),
    (ALONE, WHERE, WHERE + "add.s64 %rd20, %rd20, 64;\n", "tensor map"),
    (SHARED, "mov.b16 %rs1, 3;", "mov.b16 %rs1, 4;", "names the block of rank 2"),
    (SHARED, "%r10, 8;", "%r10, 7;", "in-flight"),
    (SHARED, "_, [smem+512], 512;", "_, [smem+512], 256;", "waits"),
    (SHARED, BOTH, "bar.sync 0;\n", "cluster"),
]


@pytest.mark.parametrize("seed", sampled(range(3)))
@pytest.mark.parametrize(("body", "old", "new", "told"), CASES)
def test_the_core_loads_boxes_as_numpy_does(
    body: str, old: str, new: str, told: str, seed: int, loaded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    native_core()
    assert old in body
    body = body.replace(old, new, 1) if old else body
    maps: list[dict[str, Any]] = [
        {},
        {"swizzle": 2, "box": (16, 4)},
    ]
    found = []
    for role in ("in", "inout"):
        for more in maps:
            found.append(outcome(body, seed, role, **more))
    assert told in found[0][0] or (told != "ok" and "FAULT" in found[0][0]), found[0][0]
    assert loaded or told != "ok"
    loaded.clear()
    monkeypatch.setattr(BoxLoads, "load", lambda *_: 0)
    assert [outcome(body, seed, role, **more) for role in ("in", "inout") for more in maps] == found
    assert not loaded


def test_many_lanes_are_one_call(loaded: list[int]) -> None:
    native_core()
    assert outcome(ALONE, 0)[0].startswith("ok")
    assert loaded == [BLOCKS]
    loaded.clear()
    assert outcome(SHARED, 0)[0].startswith("ok")
    assert loaded == [
        2,
        4,
        2,
    ]  # the two lanes of a cluster, which count at the same mbarriers, come one after the other


def boxed(a: np.ndarray, x: int, y: int) -> np.ndarray:
    """The elements of the tensor in a box at these coordinates, and zeros."""
    found = np.zeros((4, 16), np.uint32)
    for row in range(4):
        for column in range(16):
            if 0 <= y + row < 5 and 0 <= x + column < 20:
                found[row, column] = a[y + row, x + column]
    return found


@pytest.mark.parametrize("at", [(0, 0), (-3, -2), (7, 3), (19, 4), (20, 0), (-16, 0), (4, 5)])
def test_what_the_tensor_lacks_is_zeros(at: tuple[int, int], loaded: list[int]) -> None:
    native_core()
    body = ALONE.replace(
        "mul.lo.u32 %r20, %r1, 4;\nmov.u32 %r21, %r1;", f"mov.u32 %r20, {at[0]};\nmov.u32 %r21, {at[1]};"
    )
    given, a = bound("in", BLOCKS)
    extra = bytes(48) + tensor_map(given[0].told)
    report = go(mapped_kernel(body), given, grid=BLOCKS, block=THREADS, cluster=2, extra=extra)
    assert report.ok and loaded == [BLOCKS], str(report)
    assert (given[1].bytes().view(np.uint32).reshape(BLOCKS, 4, 16) == boxed(a, *at)).all()


# Each block stores a box, 16 words by 4, which the boxes of two others have a part of unless they are 16 words apart
FILL, FENCE, MEET = "st.shared.b32 [%r6], %r2;\n", "fence.proxy.async.shared::cta;\n", "bar.sync 0;\n"
STORE = "@%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd20, {%r20, %r21}], [smem];\n"
COMMIT, READ = "@%p1 cp.async.bulk.commit_group;\n", "@%p1 cp.async.bulk.wait_group.read 0;\n"
ARRIVED = READ.replace(".read", "")
APART = "mul.lo.u32 %r20, %r1, 16;\nmov.u32 %r21, 0;\n"
BACK = MEET + "ld.global.b32 %r21, [%rd0];\nst.global.b32 [%rd12], %r21;\n"
STORED = APART + FILL + FENCE + MEET + STORE + COMMIT + READ
STORES = [
    (STORED, "", "", "ok"),
    (STORED, "%r21, 0;", "%r21, 3;", "ok"),
    (STORED, "%r21, 0;", "%r21, 5;", "ok"),
    (STORED, "%r1, 16;", "%r1, 16;\nsub.u32 %r20, %r20, 4;", "ok"),
    (STORED, "%r1, 16;", "%r1, 4;", "nothing orders"),
    (STORED, "%r1, 16;", "%r1, 15;", "multiple"),
    (STORED, "@%p1 cp.async.bulk.tensor", "cp.async.bulk.tensor", "nothing orders"),
    (STORED, "@%p1 cp.async.bulk.tensor", "@%p3 cp.async.bulk.tensor", "ok"),
    (STORED, FENCE, "", "no fence.proxy.async between"),
    (STORED, MEET, "", "race"),
    (STORED, FILL, "@!%p1 " + FILL, "never written"),
    (STORED, COMMIT, "", "may still read shared memory"),
    (STORED, READ, "", "may still read shared memory"),
    (STORED, READ, FILL + READ, "still reads"),
    (STORED, READ, READ + MEET + FILL, "ok"),
    (STORED, READ, READ + BACK, "nothing orders"),
    (STORED, READ, ARRIVED + "setp.lt.u32 %p4, %r2, 64;\n@!%p4 exit;\n" + BACK, "ok"),
    (STORED, READ, STORE + COMMIT + READ, "nothing orders"),
    (STORED, READ, ARRIVED + STORE + COMMIT + READ, "ok"),
    (STORED, "[smem];", "[smem+64];", "a multiple of 128"),
    (STORED, "[smem];", "[smem+896];", "bytes"),
    (STORED, "[%rd20, {", "[%rd21, {", "an address"),
]


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many lanes there were, or the first that the core has not stored a box of, each time that some were to be."""
    found: list[int] = []
    real = BoxStores.store

    def store(self: BoxStores, *given: Any) -> int:
        found.append(real(self, *given))
        return found[-1]

    monkeypatch.setattr(BoxStores, "store", store)
    return found


@pytest.mark.parametrize("seed", sampled(range(3)))
@pytest.mark.parametrize(("body", "old", "new", "told"), STORES)
def test_the_core_stores_boxes_as_numpy_does(
    body: str, old: str, new: str, told: str, seed: int, stored: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    native_core()
    assert old in body
    body = "setp.lt.u32 %p3, %r0, 32;\n" + (body.replace(old, new, 1) if old else body)
    maps: list[dict[str, Any]] = [{}, {"swizzle": 2}, {"sizes": (16, 5), "swizzle": 3}]
    found = [outcome(body, seed, role, **more) for role in ("inout", "in") for more in maps]
    if told == "ok":
        assert any(lanes and not lanes % (2 * THREADS) for lanes in stored), stored
    else:
        assert all("FAULT" in text for text, _ in found), found[0][0]
    monkeypatch.setattr(BoxStores, "store", lambda *_: 0)
    assert [outcome(body, seed, role, **more) for role in ("inout", "in") for more in maps] == found
