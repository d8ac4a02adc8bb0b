"""Cached properties of masks, and the count of instructions by mask."""

from __future__ import annotations

from typing import Any

import numpy as np
from emulator_kit import kernel

from cutegen.emulator.host.launching import program_of
from cutegen.emulator.machine.apart import leaving
from cutegen.emulator.machine.steps import Steps
from cutegen.emulator.operations.state import Lanes


def lanes() -> Lanes:
    nothing: Any = None
    return Lanes([32, 1], (64, 3), nothing, nothing, nothing, b"", {})


def test_equal_masks_are_one_array_that_no_one_else_changes() -> None:
    state, chance = lanes(), np.random.default_rng(1)
    for _ in range(200):  # more than are kept
        mask = chance.random((64, 3)) < 0.5
        expected = mask.copy()
        known = state.known(mask)
        assert state.known(mask.copy()) is known
        assert state.outside(mask, 32) is state.outside(mask.copy(), 32) is state.outside(known, 32)
        assert (state.outside(known, 32) == np.where(expected, 0, 0xFFFFFFFF)).all()
        mask[:] = False
        assert (known == expected).all()
    assert state.known(np.ones((64, 1), np.bool_)).shape == (64, 1)
    assert state.known(np.ones((1, 64), np.bool_)).shape == (1, 64), "the same bytes, and another shape"


def test_steps_are_those_of_each_lane_whatever_the_masks() -> None:
    chance, steps, own = np.random.default_rng(2), Steps((64, 3)), np.zeros((64, 3), int)
    masks = [None, *(chance.random((64, 3)) < 0.5 for _ in range(80)), chance.random((64, 1)) < 0.5]
    for _ in range(3000):
        mask, count = masks[int(chance.integers(len(masks)))], int(chance.integers(1, 9))
        own += count if mask is None else count * mask
        late = steps.add(count, mask, 7000)
        here = (own > 7000) & (True if mask is None else mask)
        assert late is None and not here.any() or late is not None and (late == here).all()
        if late is not None:
            return
    raise AssertionError("no lane has come to the limit")


def test_the_blocks_that_only_leave_are_found_once() -> None:
    program = program_of(kernel("setp.eq.s32 %p1, %r0, 0;\n@%p1 bra END;\nst.global.b32 [%rd0], %r0;\nEND:"), "k")
    found = leaving(program)
    assert found == {2, 3, 4}, "the return, what follows it, and the end"
    assert leaving(program) is found
