"""Loads of boxes of elements of 4 and 6 bits and of tf32, and swizzles that exchange runs of 32 bytes."""

from __future__ import annotations

import numpy as np
import pytest
from cluster_kit import BOTH
from tensor_map_kit import COLUMNS, run, wrong

PACKED, PADDED, PADDED_6, F32 = 11, 12, 13, 7
TF32, PAIRS = 1 << 16, 1 << 19
KIND = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"


def body(size: int, x: int, y: int) -> str:
    """A load of the box at these coordinates, of which the mbarrier counts so many bytes, and a store of its words."""
    return f"""
@%p1 mbarrier.init.shared.b64 [smem+512], 1;
fence.mbarrier_init.release.cluster;
{BOTH}
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [smem+512], {size};
@%p1 {KIND} [%r4], [%rd20, {{{x}, {y}}}], [%r4+512];
W: mbarrier.try_wait.parity.shared.b64 %p5, [smem+512], 0;
@!%p5 bra W;
ld.shared.b32 %r20, [%r6];
st.global.b32 [%rd12], %r20;
"""


def words(a: np.ndarray, first: int, row: int, columns: int, until: int) -> np.ndarray:
    """So many words of four rows, zeros from the word `until` of a row on and behind the fifth row."""
    padded = np.zeros((9, COLUMNS + columns), np.uint32)
    padded[:5, :until] = a[:5, :until]
    return padded[row : row + 4, first : first + columns]


@pytest.mark.parametrize("row", [0, 3])
def test_4_bits_packed(row: int) -> None:
    a, b = run(body(256, 64, row), kind=PACKED, sizes=(160, 5), box=(128, 4))
    assert b.tolist() == words(a, 8, row, 16, 20).reshape(-1).tolist()


@pytest.mark.parametrize(("kind", "each", "until"), [(PADDED, 2, 20), (PADDED_6, 3, 18)])
@pytest.mark.parametrize("row", [0, 3])
def test_padded_to_16_bytes(row: int, kind: int, each: int, until: int) -> None:
    """Of each 16 elements `each` words are loaded and counted, and padded to four words."""
    a, b = run(body(64 * each, 48, row), kind=kind, sizes=(16 * until // each, 5), box=(64, 4))
    items = words(a, 3 * each, row, 4 * each, until).reshape(16, each)
    assert (b.reshape(16, 4)[:, :each] == items).all()
    assert not b.reshape(16, 4)[:, each:].any()


def test_padding_is_not_counted() -> None:
    assert wrong(body(256, 0, 0), kind=PADDED, sizes=(160, 5), box=(64, 4)).kind == "deadlock"


def test_tf32() -> None:
    a, b = run(body(256, 8, 3), kind=F32, more=TF32)
    assert b.tolist() == words(a, 8, 3, 16, 20).reshape(-1).tolist()


def test_a_swizzle_by_runs_of_32_bytes() -> None:
    a, b = run(body(512, 0, 1), sizes=(24, 5), box=(32, 4), swizzle=3, more=PAIRS)
    rows = words(a, 0, 1, 32, 24).reshape(4, 4, 8)
    assert b.reshape(2, 4, 8).tolist() == [rows[0].tolist(), rows[1][[1, 0, 3, 2]].tolist()]


@pytest.mark.parametrize(
    ("x", "more"),
    [
        (0, {"kind": 2, "more": TF32}),  # words that are tf32
        (0, {"kind": F32, "more": PAIRS}),  # another order without a swizzle
        (0, {"kind": 14}),
        (0, {"kind": PADDED, "sizes": (152, 5), "box": (64, 4)}),  # no whole number of items
        (8, {"kind": PADDED, "sizes": (160, 5), "box": (64, 4)}),
    ],
)
def test_maps_and_coordinates_that_do_not_fit(x: int, more: dict[str, int]) -> None:
    assert wrong(body(128, x, 0), **more).kind == "tensor-map"
