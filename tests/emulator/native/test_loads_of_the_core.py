"""Loads from shared memory by the C core give what numpy's give, note the same, and leave to numpy what is wrong."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from emulator_kit import native_core

from cutegen.emulator.checks.clocks import Clocks
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.journal import Journal, watch
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.lanes import Mask
from cutegen.emulator.memory.core_loads import CoreLoads
from cutegen.emulator.memory.placement import BASE
from cutegen.emulator.memory.shared_memory import SharedMemory
from cutegen.emulator.memory.units import UNITS
from cutegen.emulator.operations.addresses import Pointer
from cutegen.emulator.operations.shared_loads import SharedLoad, SharedLoads, loads_together
from cutegen.emulator.ptx.model import Instruction

SHAPE, CLUSTER, BYTES = (40, 4), 2, 2000
SHAPES = [SHAPE, (SHAPE[0], 1), (1, SHAPE[1]), (1, 1), ()]


def memory(unit: int, clocks: Clocks | None, random: np.random.Generator) -> SharedMemory:
    """A memory with two variables, of which nearly all was written."""
    made = SharedMemory(BYTES, unit, SHAPE, (("a", 0, 1600), ("b", 1616, BYTES)), clocks)
    made.data[:] = random.integers(0, 200, made.data.shape)
    written = random.random(made.flags.shape) < 0.999
    made.flags[written & (made.flags == 1)] = 0
    made.dirty[:] = made.flags.max(axis=1)
    made.touched = []
    return made


def some_lanes(random: np.random.Generator) -> Mask:
    if random.random() < 0.4:
        return None
    shape = SHAPES[random.integers(0, 3)]
    found = random.random(shape) < random.choice([0.1, 0.9])
    found.flat[random.integers(0, found.size)] = True
    return np.asarray(found)


def some_address(random: np.random.Generator, size: int) -> tuple[np.ndarray, int]:
    """Addresses for accesses of that size, and an offset: now and then of one lane outside, or off by some bytes."""
    shape, kind = SHAPES[random.integers(0, len(SHAPES))], random.choice(["u4", "u8", "i8"])
    offset = int(random.choice([0, 0, size, 2, -size]))
    if random.random() < 0.5:  # each thread its own, in a row
        first = np.broadcast_to(np.arange(SHAPE[0])[:, None] * size + 64, SHAPE)[: shape[0] if shape else 1]
        found = np.array(first[:, : shape[1]] if shape else first[0, 0])
    else:
        found = np.asarray(random.integers(0, BYTES // size, shape) * size)
    if random.random() < 0.1:
        found = found + random.integers(0, 4)
    if random.random() < 0.05 and found.ndim:
        found.flat[random.integers(0, found.size)] = random.choice([BYTES - 4, BYTES, 2**31])
    return np.asarray(found + BASE - offset if random.random() < 0.9 else found + BASE).astype(kind), offset


def state(made: SharedMemory) -> list[object]:
    """All that a load may change."""
    log = made.log
    if isinstance(log, SharedHistory):
        kept = (log._writer, log._written, log._lines, log._row_of)
        kept += tuple(one[: len(log._readers)] for one in (log._who, log._when))
        return [log._readers, *(one.tolist() for one in kept), made.touched]
    noted: list[object] = [made.touched]
    for one in log.reads:
        values = [getattr(one, field.name) for field in fields(one)]
        noted.append([v.tolist() if isinstance(v, np.ndarray) else v for v in values])
    return noted


def loaded(made: SharedMemory, mask: Mask, *given: object) -> object:
    """The result of a load in the lanes of the mask, with its shape; or the fault."""
    try:
        values, poison = made.load(*given)  # type: ignore[arg-type]
    except Stop as stop:
        return f"{stop} {stop.lane} {stop.witnesses}"
    lanes = np.broadcast_to(True if mask is None else mask, SHAPE)
    found = [(v.shape, v.dtype, np.broadcast_to(v, SHAPE)[lanes].tolist()) for v in values]
    return found, [None if p is None else np.broadcast_to(p, SHAPE)[lanes].tolist() for p in poison]


@pytest.mark.parametrize("unit", [1, 2, 4, 8])
@pytest.mark.parametrize("ordered", [True, False])
def test_the_core_loads_and_notes_what_numpy_does(unit: int, ordered: bool) -> None:
    native_core()
    random = np.random.default_rng(unit)
    clocks = Clocks(SHAPE, CLUSTER) if ordered else None
    by_core, by_numpy = (memory(unit, clocks, np.random.default_rng(unit)) for _ in range(2))
    loads = by_core.core_loads
    assert loads is not None
    taken: list[bool] = []

    def load(*given: Any) -> Any:
        found = CoreLoads.load(loads, *given)
        taken.append(found is not None)
        return found

    loads.load = load  # type: ignore[method-assign]
    by_numpy.core_loads = None
    if isinstance(by_numpy.log, SharedHistory):
        by_numpy.log._core = None
    everyone, clusters = np.ones(SHAPE, np.bool_), np.arange(SHAPE[1])[None, :] // CLUSTER
    for line in range(1, 120):
        size = int(random.choice([s for s in UNITS if s >= unit]))
        count = int(random.choice([c for c in (1, 2, 4) if size * c <= 16]))
        (address, offset), mask, columns = some_address(random, size * count), some_lanes(random), None
        if clocks is not None and random.random() < 0.3:
            columns = clusters * CLUSTER + random.integers(0, CLUSTER, SHAPE)
        instruction = Instruction("ld", (), None, (), line, None, "")
        given = (address, offset, size, count, mask, instruction, columns)
        found = [loaded(made, mask, *given) for made in (by_core, by_numpy)]
        assert found[0] == found[1]
        assert state(by_core) == state(by_numpy)
        assert not (taken[-1] and isinstance(found[0], str))
        if clocks is not None and random.random() < 0.3:  # each thread writes a part of its own, which others may read
            clocks.meet(everyone, clusters)
            write = np.broadcast_to(np.arange(SHAPE[0])[:, None] * 8 + BASE, SHAPE)
            for made in (by_core, by_numpy):
                made.log.write(made.access(write, 0, 8, None, instruction))
            if random.random() < 0.9:
                clocks.meet(everyone, clusters)
    assert min(taken.count(True), taken.count(False)) > 10, taken


def test_reads_that_a_journal_watches_are_in_it() -> None:
    native_core()
    made = SharedMemory(1024, 4, SHAPE, clocks=Clocks(SHAPE, CLUSTER))
    made.flags[:], made.dirty[:] = 0, 0
    journal, lanes = Journal(), np.arange(SHAPE[0])[:, None] + np.arange(SHAPE[1]) * SHAPE[0]
    watch(made.log, journal, lanes)
    address = np.arange(SHAPE[0])[:, None] * 16 + BASE
    for _ in range(2):  # the first time that a warp reads is numpy's
        made.load(address, 0, 4, 4, None, Instruction("ld", (), None, (), 1, None, ""))
    assert len(journal.touches()[0]) == 2 * 4 * lanes.size


def test_an_offset_that_only_fits_together_with_the_address() -> None:
    made = SharedMemory(64, 4, (32, 1))
    made.data[:, 0] = np.arange(16)
    made.flags[:], made.dirty[:] = 0, 0
    instruction = Instruction("ld", (), None, (), 1, None, "")
    given = (np.asarray(BASE + 6, np.uint32), 2, 4, 1, None, instruction)
    found = made.load(*given)[0][0].item()
    made.core_loads = None
    assert (found, made.load(*given)[0][0].item()) == (2, 2)


class Registers:
    """The lanes that an operation needs: registers of 32 bits, and a shared memory."""

    def __init__(self, shared: SharedMemory, bits: list[Any]) -> None:
        self.shared, self.bits, self.wide = shared, list(bits), [None] * len(bits)
        self.poison: dict[int, Any] = {}

    def get(self, slot: int) -> Any:
        return self.bits[slot]

    def put(self, slot: int, value: Any, mask: Mask, poison: Any = None) -> None:
        if poison is None:
            self.poison.pop(slot, None)
        else:
            self.poison[slot] = np.where(True if mask is None else mask, poison, 0)
        old = np.broadcast_to(self.bits[slot], SHAPE)
        self.bits[slot] = np.where(np.broadcast_to(True if mask is None else mask, SHAPE), value, old)
        self.wide[slot] = None

    def active(self, mask: Mask) -> Mask:
        return mask

    def clean(self, slots: Any, mask: Mask) -> bool:
        return not any(slot in self.poison for slot in slots)

    def refuse_register(self, slot: int, *_: Any) -> None:
        if slot in self.poison:
            raise Stop("never-written", "an address", None)


def run(operations: Any, lanes: Registers, mask: Mask) -> str:
    """Runs operations; what is wrong."""
    try:
        for operation in operations:
            operation(lanes, mask)
    except Stop as stop:
        return f"{stop} {stop.lane} {stop.instruction} {stop.witnesses}"
    return ""


@pytest.mark.parametrize("unit", [2, 4, 8])
@pytest.mark.parametrize("ordered", [True, False])
def test_several_loads_at_once_are_as_one_after_the_other(unit: int, ordered: bool) -> None:
    native_core()
    random = np.random.default_rng(unit)
    clocks = Clocks(SHAPE, CLUSTER) if ordered else None
    at_once, in_turn = (memory(unit, clocks, np.random.default_rng(unit)) for _ in range(2))
    for made in (at_once, in_turn):
        made.touched = None
    everyone, clusters = np.ones(SHAPE, np.bool_), np.arange(SHAPE[1])[None, :] // CLUSTER
    told: list[str] = []
    for start in range(1, 900, 10):
        size, count, signed = int(random.choice([s for s in (2, 4, 8) if s >= unit])), int(random.choice([1, 2])), False
        first, _ = some_address(random, size * count)
        other, _ = some_address(random, size * count)
        bits = [
            first.astype("u4"),
            other.astype("u4"),
            *(np.full(SHAPE, i, "u4" if size < 8 else "u8") for i in range(20)),
        ]
        each = []
        for i in range(int(random.integers(2, 9))):
            slot = int(random.integers(0, 2))
            targets = tuple((2 + (i * count + j) % 20, 32 if size < 8 else 64) for j in range(count))
            where = Pointer(lambda lanes, slot=slot: lanes.get(slot), int(random.choice([0, 8, 16])), slot)  # type: ignore[misc]
            each.append(SharedLoad(where, size, targets, signed, Instruction("ld", (), None, (), start + i, None, "")))
        mask = some_lanes(random)
        ((_, group),) = loads_together(list(enumerate(each)))
        assert isinstance(group, SharedLoads)
        lanes = [Registers(made, bits) for made in (at_once, in_turn)]
        said = [run([group], lanes[0], mask), run(each, lanes[1], mask)]
        assert said[0] == said[1]
        told += said[:1]
        shown = np.broadcast_to(True if mask is None else mask, SHAPE)
        for one, two in zip(lanes[0].bits[2:], lanes[1].bits[2:], strict=True):
            assert np.array_equal(np.broadcast_to(one, SHAPE)[shown], np.broadcast_to(two, SHAPE)[shown])
        assert lanes[0].poison.keys() == lanes[1].poison.keys()
        assert state(at_once) == state(in_turn)
        if clocks is not None and random.random() < 0.3:
            clocks.meet(everyone, clusters)
            write = np.broadcast_to(np.arange(SHAPE[0])[:, None] * 8 + BASE, SHAPE)
            for made in (at_once, in_turn):
                made.log.write(made.access(write, 0, 8, None, each[0].instruction))
            if random.random() < 0.9:
                clocks.meet(everyone, clusters)
    assert min(sum(map(bool, told)), sum(not one for one in told)) > 10, told


def test_a_load_of_what_another_one_loads_comes_after_it() -> None:
    where = [Pointer(lambda lanes, slot=slot: lanes.get(slot), 0, slot) for slot in range(4)]  # type: ignore[misc]
    line = Instruction("ld", (), None, (), 1, None, "")
    loads = [SharedLoad(where[i], 4, ((i + 1, 32),), False, line) for i in (0, 2, 1)]
    assert [len(getattr(one, "each", "1")) for _, one in loads_together(enumerate(loads))] == [2, 1]
    loads = [SharedLoad(where[0], 4, ((1, 32),), False, line), SharedLoad(where[0], 8, ((2, 64),), False, line)]
    assert [number for number, _ in loads_together(enumerate(loads))] == [0, 1]
