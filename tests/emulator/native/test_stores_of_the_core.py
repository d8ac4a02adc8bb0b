"""Stores to shared memory by the C core leave what numpy's leave: units, and what is known of each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from emulator_kit import native_core

from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.lanes import WARP
from cutegen.emulator.memory.core_stores import CoreStores
from cutegen.emulator.memory.runs import store_units
from cutegen.emulator.memory.shared_memory import SharedMemory
from cutegen.emulator.memory.units import UNITS
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.warps.by_warp import by_thread, by_warp
from cutegen.emulator.warps.tensor_cores import MatrixCopy

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


@pytest.mark.parametrize("unit", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_core_stores_matrices_as_numpy_does(unit: int, transposed: bool) -> None:
    native_core()
    random, shape = np.random.default_rng(unit), (96, 4)
    lanes = cast(Any, SimpleNamespace(shape=shape))
    by_core, by_numpy = (SharedMemory(1000 * unit, unit, shape) for _ in range(2))
    for turn in range(60):
        copy = MatrixCopy((), int(random.choice([1, 2, 4])), transposed)
        per_row, alike = 16 // unit, random.random() < 0.3
        rows = random.integers(0, 1000 - per_row, (shape[0], 1 if alike else shape[1]))
        here = by_warp(lanes, np.ones((1, 1), np.bool_)).copy()
        here[random.random(len(here)) < 0.5] = False
        mask = by_thread(lanes, here) & (np.arange(shape[0]) % WARP < 8 * copy.count)[:, None]
        everywhere = copy.count == 4 and random.random() < 0.3
        access = SharedAccess(rows, per_row, None if everywhere else mask, LINE, 0, 1000)
        parts = [(), shape, (shape[0], 1), (1, shape[1])]
        registers = [random.integers(0, 1 << 32, parts[turn % 4], np.uint32) for _ in range(copy.count)]
        marks = [np.asarray(one & random.integers(0, 1 << 32, one.shape, np.uint32) & 0x10000001) for one in registers]
        poison = marks if random.random() < 0.3 else None
        assert by_core.put_matrices(access, registers, poison, transposed)
        warps = np.flatnonzero(by_warp(lanes, mask).any(axis=1)) if not everywhere else np.arange(3 * shape[1])
        first = by_warp(lanes, rows)[warps, : 8 * copy.count, None] + np.arange(per_row)
        columns = np.broadcast_to((warps % shape[1])[:, None, None], first.shape)
        fragments = [np.stack([by_warp(lanes, one)[warps] for one in some], axis=-1) for some in (registers, marks)]
        units = copy.rows(fragments[0]).view(by_numpy.data.dtype)
        lost = None if poison is None else (copy.rows(fragments[1]) != 0).repeat(2 // unit, axis=-1)
        store_units(by_numpy, first, columns, units, lost)
        assert np.array_equal(by_core.data, by_numpy.data)
        assert np.array_equal(by_core.flags, by_numpy.flags)
        assert np.array_equal(by_core.dirty, by_numpy.dirty)
