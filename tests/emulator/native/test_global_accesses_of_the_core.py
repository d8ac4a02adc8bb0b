"""Loads and stores of the C core in global memory give, keep and refuse what those of numpy do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator_kit import native_core

from cutegen.emulator.checks.clocks import Clocks
from cutegen.emulator.checks.earlier_grids import EarlierGrids
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.global_races import NOBODY, ClockEpochs, Epochs
from cutegen.emulator.checks.journal import Journal
from cutegen.emulator.memory.arenas import GlobalMemory
from cutegen.emulator.memory.bound_tensors import BoundTensor, bind
from cutegen.emulator.memory.global_access import GlobalAccess
from cutegen.emulator.ptx.model import Instruction

SHAPE = (40, 4)
LANES = SHAPE[0] * SHAPE[1]


def memories(**given: Any) -> GlobalMemory:
    """An input, an output, what is both, and rows with gaps of which some elements were never written."""
    data = np.arange(960, dtype=np.uint16)
    lost = np.zeros((3 * 300 + 240) * 2, np.bool_)
    lost[1600:] = True
    tensors = [
        bind(data.copy(), "input", "in", 1 << 20),
        bind(data.copy(), "output", "out", (1 << 24) + 16),
        bind(data.copy(), "both", "inout", 1 << 28),
    ]
    rows = np.arange(3 * 300 + 240, dtype=np.uint16)
    tensors.append(BoundTensor("rows", rows.ctypes.data, (4, 240), (300, 1), 2, "inout", 1 << 30, lost, owner=rows))
    return GlobalMemory(tensors, 2, **given)


def accesses(by_clocks: bool) -> tuple[list[GlobalAccess], list[Any]]:
    """The same lanes with two memories, those of the core's and of numpy's accesses; and what orders them."""
    found, orders = [], []
    numbers = np.array([2, 3, 6, 7])
    for _ in range(2):
        clocks = Clocks(SHAPE, 2)
        epochs = ClockEpochs(clocks, numbers, SHAPE[0]) if by_clocks else Epochs(SHAPE[1])
        lanes = numbers[None, :] * SHAPE[0] + np.arange(SHAPE[0])[:, None]
        found.append(GlobalAccess(memories(), lanes, SHAPE[0], epochs))
        orders.append(clocks if by_clocks else epochs)
    assert found[0]._core is not None
    found[1]._core = None
    return found, orders


def mask(random: np.random.Generator) -> np.ndarray | None:
    """Some lanes: all, whole blocks or threads, or any."""
    kind = random.integers(0, 4)
    if kind == 0:
        return None
    shape = [(1, SHAPE[1]), (SHAPE[0], 1), SHAPE][kind - 1]
    found = random.random(shape) < random.choice([0.1, 0.9])
    found[random.integers(0, shape[0]), random.integers(0, shape[1])] = True
    return found


def addresses(random: np.random.Generator, memory: GlobalMemory, size: int, loads: bool) -> np.ndarray:
    """Addresses in one of the tensors, nearly always: one for each lane, for threads or blocks only, or for all."""
    arena = memory.arenas[random.integers(0 if loads or random.random() < 0.1 else 1, len(memory.arenas))]
    places = arena.span // size
    own = np.arange(LANES).reshape(SHAPE)
    if random.random() < (0.4 if loads else 0.1):
        shape = [(1, SHAPE[1]), (SHAPE[0], 1), (1, 1), SHAPE][random.integers(0, 4)]
        own = random.integers(0, places, shape)
    start = arena.low if random.random() < 0.9 else arena.low + arena.span // 16 * 4
    odd = random.random()
    found = start + own % places * size + (1 if odd < 0.03 else 0)
    if 0.03 < odd < 0.06:
        found.flat[-1] = memory.arenas[0].low
    return found.astype(np.uint64)


def state(memory: GlobalMemory) -> list[np.ndarray]:
    """All that is known of the bytes."""
    found = []
    for arena in memory.arenas:
        found += [arena.bytes] if arena.flags is None else [arena.bytes, arena.flags]
        if (kept := arena.touched) is None:
            continue
        units = len(arena.bytes) // arena.unit
        readers = np.full(units, NOBODY) if kept._reader is None else kept._reader
        when = np.zeros(units) if kept._reader is None else kept._reader_epoch
        found += [kept._writer, np.where(kept._writer == NOBODY, 0, kept._writer_epoch)]
        found += [readers, np.where(readers == NOBODY, 0, when)]
        found.append(np.zeros(units, np.bool_) if arena.constant is None else arena.constant)
        found.append(np.zeros(units) if arena.reading is None else arena.reading.count)
    return [np.array(one) for one in found]


def outcome(access: GlobalAccess, loads: bool, given: tuple[Any, ...], more: dict[str, Any]) -> list[Any]:
    """The result of a load or a store, or its fault."""
    try:
        if not loads:
            access.store(*given)
            return []
        values, lost = access.load(*given, **more)
    except Stop as stop:
        return [f"{stop} {stop.lane} {stop.address} {stop.tensor} {stop.element} {stop.witnesses}"]
    return [access.latest, *(one if one is None else (one.shape, one.dtype, one.tolist()) for one in (*values, *lost))]


@pytest.mark.parametrize("by_clocks", [False, True], ids=["barriers", "clocks"])
def test_the_core_and_numpy_load_and_store_the_same(by_clocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    native_core()
    random = np.random.default_rng(5)
    both, orders = accesses(by_clocks)
    core = both[0]._core
    assert core is not None
    done = {"loaded": 0, "stored": 0, "loaded by numpy": 0, "stored by numpy": 0, "faults": 0}

    def counted(name: str) -> None:
        own = getattr(core, name)

        def run(*args: Any, **more: Any) -> Any:
            before = [np.array(one) for one in state(both[0].memory)]
            found = own(*args, **more)
            done[("loaded" if name == "load" else "stored") + ("" if found else " by numpy")] += 1
            if not found:
                assert all((a == b).all() for a, b in zip(before, state(both[0].memory), strict=True))
            return found

        monkeypatch.setattr(core, name, run)

    counted("load")
    counted("store")
    for step in range(600):
        loads = bool(random.random() < 0.6)
        size, count = int(random.choice([2, 4, 8])), int(random.choice([1, 1, 2]))
        where = addresses(random, both[0].memory, size * count, loads)
        some = mask(random)
        line = Instruction("ld" if loads else "st", (), None, (), step, None, "")
        flights: list[Any] = []
        said = []
        values = [
            random.integers(0, 2**16, [(), (1, SHAPE[1]), SHAPE][random.integers(0, 3)]).astype(np.uint64)
            for _ in range(count)
        ]
        constant, flies = bool(random.random() < 0.05), bool(random.random() < 0.2)
        for access in both:
            more = {"constant": constant, "flights": flights if flies else None} if loads else {}
            given = (where, 0, size, count, some, line) if loads else (where, 0, size, values, some, line)
            said.append(outcome(access, loads, given, more))
        assert said[0] == said[1], step
        done["faults"] += len(said[0]) == 1
        assert all((a == b).all() for a, b in zip(*(state(access.memory) for access in both), strict=True)), step
        if random.random() < 0.3:
            for flight in flights:
                flight.land(None)
        if random.random() < 0.6:
            for order in orders:
                if isinstance(order, Clocks):
                    order.tick()
                    order.meet(np.ones(SHAPE, np.bool_), np.arange(SHAPE[1])[None, :] // 2)
                else:
                    order.advance(None if step % 3 else np.array([[True, False, True, step % 2 == 0]]))
        if step % 20 == 19:  # nobody has touched the tensors
            both, orders = accesses(by_clocks)
            core = both[0]._core
            assert core is not None
            counted("load")
            counted("store")
    assert min(done.values()) > 40, done


def test_a_write_of_what_was_taken_for_constant_is_a_fault() -> None:
    native_core()
    memory, epochs = memories(), Epochs(SHAPE[1])
    access = GlobalAccess(memory, np.arange(LANES).reshape(SHAPE), SHAPE[0], epochs)
    where = (memory.arenas[2].low + 2 * np.arange(LANES).reshape(SHAPE)).astype(np.uint64)
    line = Instruction("ld", (), None, (), 1, None, "")
    access.load(where, 0, 2, 1, None, line, constant=True)
    epochs.advance(None)
    with pytest.raises(Stop, match="ld.global.nc has read"):
        access.store(where, 0, 2, [where], None, line)


def test_lanes_that_are_too_early_are_refused_as_by_numpy() -> None:
    native_core()
    memory, epochs = memories(), Epochs(SHAPE[1])
    earlier = EarlierGrids(SHAPE, epochs, 7)
    access = GlobalAccess(memory, np.arange(LANES).reshape(SHAPE), SHAPE[0], epochs, earlier)
    given = np.full((1, 1), 1 << 20, np.uint64), 0, 2, 1, None, Instruction("ld", (), None, (), 1, None, "")
    with pytest.raises(Stop, match="before griddepcontrol.wait"):
        access.load(*given)
    earlier.wait(np.ones(SHAPE, np.bool_))
    assert access.load(*given)[0][0].tolist() == [[0]]


def test_the_core_does_nothing_where_more_is_kept_than_it_knows_of() -> None:
    native_core()
    for given in ({"traced": True}, {"journal": Journal()}):
        access = GlobalAccess(memories(**given), np.arange(LANES).reshape(SHAPE), SHAPE[0], Epochs(SHAPE[1]))
        assert access._core is None
