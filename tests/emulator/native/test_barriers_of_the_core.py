"""Barriers of a block: the C core finds them in order, and opens them, where numpy does."""

from __future__ import annotations

from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from emulator_kit import native_core, said

from cutegen.emulator.checks.clocks import Clocks
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.synchronisation.block_barriers import BlockBarriers


def pair(shape: tuple[int, int], size: int) -> list[BlockBarriers]:
    """The barriers of a batch, by the core and by numpy."""
    made = [BlockBarriers(Clocks(shape, size)) for _ in range(2)]
    assert made[0]._core is not None
    made[1]._core = None
    return made


def alike(made: list[BlockBarriers], number: int) -> bool:
    """Whether the state of a barrier is the same by both, and what all lanes know."""
    one, other = (each._barriers[number] for each in made)
    rows = [each.clocks._rows.of(each.clocks._known) for each in made]
    there = one.told.keys() == other.told.keys()
    told = there and all((one.told[b].known == other.told[b].known).all() for b in one.told)
    same = all((a == b).all() and a.dtype == b.dtype for a, b in zip(one.arrays, other.arrays, strict=True))
    return told and same and bool((rows[0] == rows[1]).all()) and made[0].opened == made[1].opened


@pytest.mark.parametrize("shape,size", [((128, 2), 1), ((96, 4), 2), ((80, 1), 1)])
def test_lanes_meet_where_they_do_in_numpy(shape: tuple[int, int], size: int) -> None:
    native_core()
    random, faults, slow = np.random.default_rng(shape[0]), 0, 0
    check_turn = BlockBarriers._check_turn
    warps = -(-shape[0] // 32)
    for _ in range(150):
        made = pair(shape, size)
        orderly = random.random() < 0.6
        alive = np.repeat(random.random((warps, shape[1])) < (1 if orderly else 0.9), 32, axis=0)[: shape[0]]
        aligned, odd = bool(random.random() < 0.7), not orderly and random.random() < 0.3
        for step in range(int(random.integers(2, 12))):
            some = np.repeat(random.random((warps, shape[1])) < random.choice([0.4, 1]), 32, axis=0)[: shape[0]]
            if odd and random.random() < 0.2:
                some = some & (random.random(shape) < 0.9)
            if orderly:
                some = np.isin(np.arange(shape[0]) // 32, random.permutation(warps)[:1])[:, None] & (some | True)
            lanes = some & alive
            number = int(random.integers(0, 2))
            count = None if random.random() < 0.2 else 32 * int(random.integers(1, warps + 1))
            count = 64 if orderly or random.random() < 0.6 else count
            instruction = Instruction("barrier", ("aligned",) * aligned, None, (), 10 + step // 3, None, "")
            waits = bool(random.random() < 0.6)
            with patch.object(BlockBarriers, "_check_turn", autospec=True, side_effect=check_turn) as turns:
                one, other = (
                    said(partial(b.arrive, number, count, lanes, alive, instruction, waits=waits)) for b in made
                )
            slow += turns.call_count > 1
            assert one == other
            if one:
                faults += 1
                break
            assert alike(made, number)
            if random.random() < 0.1 and not orderly:
                alive = alive & ~np.repeat(random.random((warps, shape[1])) < 0.2, 32, axis=0)[: shape[0]]
            one, other = (said(partial(b.open_for, number, lanes, alive, instruction)) for b in made)
            assert one == other
            if isinstance(one, str):
                break
            if orderly or random.random() < 0.5:  # others learn of all
                for barriers in made:
                    barriers.clocks.meet(alive, barriers.clocks.cluster)
            assert alike(made, number)
    assert 20 < faults < 145
    assert slow <= faults
