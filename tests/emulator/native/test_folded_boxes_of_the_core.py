"""Boxes of tensors that lie nearer than a kernel is told: the core copies those that lie together, numpy the others."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cluster_kit import BOTH
from emulator_kit import go, native_core, tensors
from tensor_map_kit import BOX, THREADS, mapped_kernel, tensor_map

from cutegen.emulator import BoundTensor
from cutegen.emulator.memory.bound_tensors import NEAR, Fold, unfolded
from cutegen.emulator.memory.near_boxes import near_map
from cutegen.emulator.memory.tensor_maps import TensorMap
from cutegen.emulator.operations.boxes_stored import BoxStores
from cutegen.emulator.operations.boxes_together import BoxLoads

COLUMNS, STEP, SIZE = 24, 1 << 20, 1_000_003
THERE = [0, 1, 2, 3, 4, *range(8, 12), SIZE - 4, SIZE - 3, SIZE - 2, SIZE - 1]
ELSEWHERE = range(8, 12)
KIND = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
AT = "mov.u32 %r20, {x};\nmov.u32 %r21, {y};\n"
LOAD = f"""@%p1 mbarrier.init.shared.b64 [smem+512], 1;
fence.mbarrier_init.release.cluster;
{BOTH}@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], 256;
@%p1 {KIND} [%r4], [%rd20, {{%r20, %r21}}], [%r4+512];
W: mbarrier.try_wait.parity.shared.b64 %p5, [smem+512], 0;
@!%p5 bra W;
ld.shared.b32 %r24, [%r6];
st.global.b32 [%rd12], %r24;
"""
STORE = """st.shared.b32 [%r6], %r2;
fence.proxy.async.shared::cta;
bar.sync 0;
@%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd20, {%r20, %r21}], [smem];
@%p1 cp.async.bulk.commit_group;
@%p1 cp.async.bulk.wait_group 0;
"""


def folded(role: str, elsewhere: range | None) -> list[BoundTensor]:
    """A, of which there are some rows of 20 words in rows of 24, and B, a word for each thread."""
    a = np.arange(1000, 1000 + len(THERE) * COLUMNS, dtype=np.uint32).reshape(-1, COLUMNS)
    first, second = tensors((a[:, :20], role), (np.zeros(THREADS, np.uint32), "inout"))  # type: ignore[arg-type]
    fold = Fold(first.at - NEAR, (STEP, 4), 0, np.array(THERE, np.int64), elsewhere)
    return [replace(first, fold=fold, owner=a), second]


def outcome(body: str, x: int, y: int, role: str, elsewhere: range | None) -> tuple[str, list[int]]:
    given = folded(role, elsewhere)
    extra = bytes(48) + tensor_map(given[0].told, sizes=(20, SIZE), strides=(STEP,))
    report = go(mapped_kernel(AT.format(x=x, y=y) + body), given, block=THREADS, extra=extra)
    text = re.sub(r" in [\d.]+ s| address 0x\w+,", "", str(report))
    return text, [int(word) for one in given for word in one.bytes()]


PLACES = [
    (0, 0, True),
    (4, 1, True),
    (-4, -2, True),
    (0, 2, False),  # of rows that are there, and of others
    (0, 8, True),
    (8, 400, True),
    (0, 401, False),  # which are like rows 9 to 11, and 8
    (0, SIZE - 4, True),
    (12, SIZE - 2, True),
    (0, SIZE - 6, False),
    (0, SIZE + 1, True),
]


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the core has copied boxes, each time that it was asked."""
    found: list[bool] = []
    for kind, name in ((BoxLoads, "load"), (BoxStores, "store")):
        real = getattr(kind, name)

        def copy(self: Any, *given: Any, real: Any = real) -> int:
            done: int = real(self, *given)
            found.append(done > 0)
            return done

        monkeypatch.setattr(kind, name, copy)
    return found


@pytest.mark.parametrize(("x", "y", "together"), PLACES)
def test_the_core_loads_boxes_that_lie_together(
    x: int, y: int, together: bool, copied: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    native_core()
    found = outcome(LOAD, x, y, "in", ELSEWHERE)
    assert found[0].startswith("ok"), found[0]
    assert copied and all(copied) == together
    monkeypatch.setattr(BoxLoads, "load", lambda *_: 0)
    assert outcome(LOAD, x, y, "in", ELSEWHERE) == found


@pytest.mark.parametrize(("x", "y", "together"), [(0, 0, True), (0, 1, True), (0, SIZE - 2, True), (0, 2, False)])
def test_the_core_stores_boxes_that_lie_together(
    x: int, y: int, together: bool, copied: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    native_core()
    found = outcome(STORE, x, y, "inout", None)
    assert found[0].startswith("ok") == together, found[0]
    assert copied and all(copied) == together
    monkeypatch.setattr(BoxStores, "store", lambda *_: 0)
    assert outcome(STORE, x, y, "inout", None) == found


def test_a_box_lies_where_the_fold_of_its_tensor_says() -> None:
    tensor = folded("in", ELSEWHERE)[0]
    told = TensorMap(tensor.told, 4, (20, SIZE), (4, STEP), BOX, 0)
    near = near_map(told, [tensor])
    assert near is not None and near.mode == 1
    known = 0
    for y in (*range(-6, 20), *range(396, 406), *range(SIZE - 10, SIZE + 6)):
        at, inside = told.places((0, y))
        wanted = unfolded(tensor, at[inside])
        row = near.at(y)
        if row is not None:
            places, there = near.tensor.places((0, row))
            assert (there == inside).all() and (places[there] == wanted).all(), y
            known += 1
    assert known > 20


@pytest.mark.parametrize(
    "other",
    [
        {"address": 16},
        {"sizes": (20, SIZE - 1)},
        {"sizes": (19, SIZE)},
        {"strides": (4, 2 * STEP)},
        {"itemsize": 2},
        {"sizes": (20,), "strides": (4,), "box": (16,)},
    ],
)
def test_a_map_of_something_else_is_none_of_the_tensor(other: dict[str, Any]) -> None:
    tensor = folded("in", ELSEWHERE)[0]
    given = {"address": 0, "itemsize": 4, "sizes": (20, SIZE), "strides": (4, STEP), "box": BOX, "swizzle": 0} | other
    given["address"] += tensor.told
    assert near_map(TensorMap(**given), [tensor]) is None
