"""Stores to shared memory by the C core leave what numpy's leave: units, and what is known of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator_kit import native_core

from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.memory.core_stores import CoreStores
from cutegen.emulator.memory.shared_memory import SharedMemory
from cutegen.emulator.memory.units import UNITS
from cutegen.emulator.ptx.model import Instruction

SHAPE, ROWS = (40, 4), 60
LINE = Instruction("st", (), None, (), 7, None, "")


def some_part(random: np.random.Generator) -> tuple[int, int]:
    parts = [SHAPE, SHAPE, (SHAPE[0], 1), (SHAPE[0], 1), (1, SHAPE[1]), (1, 1)]
    return parts[random.integers(0, len(parts))]


def some_lanes(random: np.random.Generator) -> np.ndarray:
    found = random.random(some_part(random)) < random.choice([0.05, 0.5, 0.9])
    found.flat[random.integers(0, found.size)] = True
    return np.asarray(found)


def some_values(random: np.random.Generator, unit: int) -> np.ndarray:
    """Values of the lanes, now and then as a part of wider ones, or one for all."""
    part: Any = some_part(random) if random.random() < 0.9 else ()
    wide = random.integers(0, 200, (*part, 2)).astype(UNITS[unit])
    return np.asarray(wide[..., 1] if random.random() < 0.5 else np.ascontiguousarray(wide[..., 0]))


@pytest.mark.parametrize("unit", [1, 2, 4, 8])
def test_the_core_stores_what_numpy_does(unit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    native_core()
    random = np.random.default_rng(unit)
    by_core, by_numpy = SharedMemory(ROWS * unit, unit, SHAPE), SharedMemory(ROWS * unit, unit, SHAPE)
    by_numpy._stores = None
    taken: list[bool] = []
    put = CoreStores.put

    def spied(*given: Any) -> bool:
        taken.append(put(*given))
        return taken[-1]

    monkeypatch.setattr(CoreStores, "put", spied)
    for turn in range(200):
        count = int(random.integers(1, 9))
        rows = random.integers(0, ROWS - count + 1, some_part(random))
        mask = None if random.random() < 0.4 else some_lanes(random)
        if mask is not None and random.random() < 0.3:  # a lane that is not there may be anywhere
            rows = np.where(mask, rows, 10 * ROWS)
        columns = random.integers(0, SHAPE[1], SHAPE) if random.random() < 0.3 else None
        if columns is not None:
            rows = np.broadcast_to(rows, SHAPE)
        access = SharedAccess(rows, count, mask, LINE, 0, ROWS, columns=columns)
        values: list[np.ndarray] = []
        poison: list[np.ndarray | None] = []
        if random.random() < 0.8:
            values = [some_values(random, unit) for _ in range(count)]
            poison = [some_lanes(random) if turn % 3 == 0 and random.random() < 0.3 else None for _ in range(count)]
        flag = int(random.choice([0, 0, 2, 8]))
        for made in (by_core, by_numpy):
            made._put(access, values, poison, flag)
        assert np.array_equal(by_core.data, by_numpy.data)
        assert np.array_equal(by_core.flags, by_numpy.flags)
        assert np.array_equal(by_core.dirty, by_numpy.dirty)
    assert all(taken) and len(taken) == 200
