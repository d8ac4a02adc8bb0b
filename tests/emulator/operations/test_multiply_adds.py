"""Multiply-adds that are done many at once leave the registers as they do one at a time, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cutegen.emulator.operations.multiply_adds import FEWEST, MultiplyAdd, MultiplyAdds, gather_multiply_adds
from cutegen.emulator.operations.state import Lanes

SHAPE = (8, 4)
FACTORS, ADDENDS = 6, 12  # registers; the targets follow
ONES = np.uint32(0xFFFFFFFF)
VALUES = {
    "normal": [1.0, -2.5, 3.140625, 1e-3, 7e5],
    # (1 + 2^-12) squared and so on: sums so near to the middle of two numbers of float32 that float64 takes them for it
    "midpoints": [1.0 + 2.0**-12, 1.0 - 2.0**-12, 2.0**-24, 2.0**-80, 1.0, -(2.0**-80)],
    "small": [1e-38, 3e-39, -1e-30, 1e-20, 1.4e-45],
    "special": [float("nan"), float("inf"), -float("inf"), -0.0, 0.0],
}


def state(kind: str, seed: int, written: str, poison: bool) -> Lanes:
    """Registers of random numbers. Of the targets all were `written` before, or none, or some, or with NaN's of
    their own; of one factor some lanes never were, with `poison`."""
    chance = np.random.default_rng(seed)
    nothing: Any = None
    lanes = Lanes([32] * (FACTORS + 2 * ADDENDS), SHAPE, nothing, nothing, nothing, b"", {})
    for slot in range(FACTORS + 2 * ADDENDS):
        target = slot >= FACTORS + ADDENDS
        if target and (written == "none" or written == "some" and slot % 2):
            continue
        # A factor may be the same in all lanes of a block of threads, or in all of them
        shape = (SHAPE, (1, SHAPE[1]), (SHAPE[0], 1), (1, 1))[slot % 4 if slot < FACTORS else 0]
        values = chance.choice(np.array(VALUES[kind], np.float32), shape)
        if kind == "normal":
            values = values * chance.standard_normal(shape).astype(np.float32)
        bits = values.view(np.uint32)
        if target and written == "nan":
            bits = np.where(chance.random(shape) < 0.3, np.uint32(0x7FC01234), bits)  # its bits tell it from others
        elif target and written == "poison":
            lanes.poison[slot] = np.where(chance.random(SHAPE) < 0.5, ONES, np.uint32(0))
        lanes.put(slot, bits, None, lanes.poison.get(slot))
    if poison:
        lanes.poison[2] = np.where(chance.random(SHAPE) < 0.3, ONES, np.uint32(0))
    return lanes


def registers(lanes: Lanes) -> list[tuple[Any, Any]]:
    found = []
    for slot in range(FACTORS + 2 * ADDENDS):
        lost = np.broadcast_to(lanes.poison.get(slot, np.uint32(0)), SHAPE)
        known = lanes.bits[slot] is not None or lanes.wide[slot] is not None
        bits = np.broadcast_to(lanes.get(slot), SHAPE) if known else np.zeros(SHAPE, np.uint32)
        found.append(((bits & ~lost).tolist(), lost.tolist()))
    return found


def run(each: list[Any], lanes: Lanes, masks: list[Any]) -> list[tuple[Any, Any]]:
    def underflow(kind: str, flag: int) -> None:
        lanes.underflow = True

    with np.errstate(all="ignore"), np.errstate(under="call", call=underflow):
        for mask in masks:
            for one in each:
                one(lanes, mask)
    return registers(lanes)


@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize("parts", [0, 1, 2])
@pytest.mark.parametrize("written", ["all", "none", "some", "nan", "poison"])
@pytest.mark.parametrize("kind", VALUES)
def test_many_at_once_are_as_one_at_a_time(kind: str, written: str, parts: int, poison: bool) -> None:
    for seed in range(6):
        chance = np.random.default_rng(seed + 100)
        each = [
            MultiplyAdd(
                FACTORS + ADDENDS + i, int(chance.integers(FACTORS)), int(chance.integers(FACTORS)), FACTORS + i
            )
            for i in range(ADDENDS)
        ]
        mask = chance.random(SHAPE) < 0.5
        masks = [mask, ~mask][:parts] or [None]
        alone = run(list(each), state(kind, seed, written, poison), masks)
        together = run([MultiplyAdds(each)], state(kind, seed, written, poison), masks)
        assert together == alone
        if parts == 1:  # and nobody else's registers change
            for (now, _), (before, _) in zip(together, registers(state(kind, seed, written, poison)), strict=True):
                assert np.array_equal(np.array(now)[~mask], np.array(before)[~mask])


def test_accumulators_are_their_own_addends() -> None:
    each = [MultiplyAdd(FACTORS + i, i % FACTORS, 1, FACTORS + i) for i in range(ADDENDS)]
    mask = np.arange(SHAPE[0])[:, None] % 2 == np.zeros((1, SHAPE[1]), int)
    assert run([MultiplyAdds(each)], state("normal", 1, "none", False), [mask]) == run(
        list(each), state("normal", 1, "none", False), [mask]
    )


def test_addends_that_were_written_in_between() -> None:
    """Sums are kept as one array for those that are added to them next, as long as all of them are still there."""
    each = [MultiplyAdd(FACTORS + i, i % FACTORS, 1, FACTORS + i) for i in range(ADDENDS)]

    def other(lanes: Lanes, mask: Any) -> None:
        lanes.put(FACTORS + 3, np.full(SHAPE, 0x40490000, np.uint32), None)

    for between in ([], [other]):
        together = run([MultiplyAdds(each), *between, MultiplyAdds(each)], state("normal", 1, "none", False), [None])
        alone = run([*each, *between, *each], state("normal", 1, "none", False), [None])
        assert together == alone


def test_only_those_that_are_independent_are_gathered() -> None:
    def other(lanes: Lanes, mask: Any) -> None:
        pass

    sums = [MultiplyAdd(100 + i, 0, 1, 50 + i) for i in range(FEWEST)]
    found = gather_multiply_adds([other, *sums, other])
    assert len(found) == FEWEST + 2 and isinstance(found[1], MultiplyAdds) and found[0] is found[-1] is other
    assert found[1].each == tuple(sums) and not any(isinstance(one, (MultiplyAdd, MultiplyAdds)) for one in found[2:])
    assert gather_multiply_adds(sums[:-1]) == tuple(sums[:-1])
    reads = [*sums, MultiplyAdd(200, 100, 1, 2)]  # what the first one wrote
    again = [*sums, MultiplyAdd(100, 0, 1, 2)]
    for late in (reads, again):
        found = gather_multiply_adds(late)
        assert isinstance(found[0], MultiplyAdds) and found[0].each == tuple(sums) and found[-1] is late[-1]
