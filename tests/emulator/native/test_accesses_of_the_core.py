"""Accesses to shared memory that the C core notes leave what numpy leaves, and are wrong where numpy finds so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from emulator_kit import native_core

from cutegen.emulator.checks.clocks import ALWAYS, Clocks
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.global_races import TouchRecord
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.native.library import AccessResult
from cutegen.emulator.ptx.model import Instruction

SHAPE, SIZE, ROWS = (40, 4), 2, 80


def lanes(random: np.random.Generator) -> np.ndarray | None:
    """Some lanes as accesses have them: all, whole blocks or warps, or any."""
    kind = random.integers(0, 4)
    if kind == 0:
        return None
    shape = [(1, SHAPE[1]), (SHAPE[0], 1), SHAPE][kind - 1]
    found = random.random(shape) < random.choice([0.1, 0.9])
    found[random.integers(0, shape[0]), random.integers(0, shape[1])] = True
    return found


def access(random: np.random.Generator, line: int, writes: bool) -> SharedAccess:
    """An access of lanes to the two units that are each one's own, in a block of the cluster; or to any units."""
    count, columns = int(random.choice([1, 2])), None
    rows = np.arange(SHAPE[0], dtype=np.int64)[:, None] * 2
    if random.random() < (0.05 if writes else 0.4):
        rows = random.integers(0, ROWS - 1, [(SHAPE[0], 1), SHAPE, (1, 1)][random.integers(0, 3)])
    if random.random() < 0.3:
        columns = np.arange(SHAPE[1])[None, :] // SIZE * SIZE + (np.arange(SHAPE[1]) + random.integers(0, 2)) % SIZE
        if random.random() < 0.1:
            columns = columns // SIZE * SIZE + random.integers(0, SIZE, SHAPE)
        rows = np.broadcast_to(rows, SHAPE)
    return SharedAccess(
        rows, count, lanes(random), Instruction("ld", (), None, (), line, None, ""), 0, ROWS, columns=columns
    )


def state(history: SharedHistory) -> list[np.ndarray]:
    """All that is kept of the units."""
    kept = [history._writer, history._written, history._lines, history._row_of, history.pending().count]
    kept += [history._gathered.agents, history._gathered.times]
    return [np.array(one) for one in (*kept, *(one[: len(history._readers)] for one in (history._who, history._when)))]


@pytest.mark.parametrize("seed", range(3))
def test_the_core_and_numpy_keep_the_same_of_accesses_and_find_the_same_races(seed: int) -> None:
    native_core()
    random = np.random.default_rng(seed)
    clocks = Clocks(SHAPE, SIZE)
    agent = clocks.add_agents()
    by_core, by_numpy = SharedHistory(ROWS, 4, clocks), SharedHistory(ROWS, 4, clocks)
    assert by_core._core is not None
    by_numpy._core = None
    noted = {"read": 0, "write": 0, "wrong": 0}
    for step in range(1, 300):
        what = str(random.choice(["read", "write"], p=[0.6, 0.4]))
        one = access(random, step, what == "write")
        said = []
        for history in (by_core, by_numpy):
            if history is by_core and what == "write":
                assert (history._by_core("are_writable", one) == AccessResult.FINE) == writable(by_numpy, one)
            try:
                getattr(history, what)(replace(one))
                said.append("")
            except Stop as stop:
                said.append(f"{stop} {stop.lane} {stop.witnesses}")
        assert said[0] == said[1]
        noted["wrong" if said[0] else what] += 1
        assert all((mine == other).all() for mine, other in zip(state(by_core), state(by_numpy), strict=True))
        chance = random.random()
        clocks.tick()
        if said[0] or chance < 0.7:  # lanes of each cluster meet, all or some
            some = np.ones(SHAPE, np.bool_) if said[0] or chance < 0.6 else random.random(SHAPE) < 0.5
            clocks.meet(some, np.arange(SHAPE[1])[None, :] // SIZE)
        elif chance < 0.9:  # an agent has written, or still writes, what some come to know of
            cells = np.arange(4) * SHAPE[1] + step % SHAPE[1]
            for history in (by_core, by_numpy):
                history._writer[cells], history._written[cells] = agent, ALWAYS if chance > 0.87 else clocks.now
            clocks.learn_of(random.random(SHAPE) < 0.95, agent, clocks.tick())
    assert min(noted.values()) > 20, noted


def writable(history: SharedHistory, one: SharedAccess) -> bool:
    """Whether numpy finds nothing wrong with a write."""
    try:
        history.check_writable(replace(one))
    except Stop:
        return False
    return True


@pytest.mark.parametrize("seed", range(3))
def test_the_core_and_numpy_keep_the_same_of_asynchronous_operations(seed: int) -> None:
    native_core()
    random = np.random.default_rng(seed)
    clocks = Clocks(SHAPE, SIZE)
    agents, reader = clocks.add_agents() + np.arange(SHAPE[1]) % SIZE, clocks.add_agents()
    histories = SharedHistory(ROWS, 4, clocks), SharedHistory(ROWS, 4, clocks)
    histories[1]._core = None
    under_way: list[SharedAccess] = []  # writes
    reading: list[SharedAccess] = []
    said: dict[str, list[int]] = {}  # how often each was right and wrong
    for step in range(1, 500):
        kinds = ["read", "write", "start", "check_writable", "check_fenced", "begin_reads", "gather"]
        kinds += ["arrive"] * bool(under_way) + ["end_reads"] * 2 * bool(reading)
        what = str(random.choice(kinds))
        one = access(random, step, what != "read")
        lane = int(random.integers(SHAPE[0])), int(random.integers(SHAPE[1]))
        given: tuple[object, ...] = (one,)
        if what == "start":
            given = agents, one
        elif what == "begin_reads":
            mask = np.zeros(SHAPE, np.bool_)
            mask[lane] = True
            reading.append(replace(one, mask=mask))
            given = (reading[-1],)
        elif what == "arrive":
            given = (under_way.pop(int(random.integers(len(under_way)))),)
        elif what == "end_reads":
            ended = reading.pop(int(random.integers(len(reading))))
            assert ended.mask is not None
            given = ended, tuple(int(at[0]) for at in np.nonzero(ended.mask))
        found = []
        for history in histories:
            if what == "gather":
                row = history._gathered.row(reader + step % SIZE)
                history._gathered.times[row, step % 7 :: 29] = clocks.now
                found.append("")
                continue
            try:
                getattr(history, what)(*given)
                found.append("")
            except Stop as stop:
                found.append(f"{stop} {stop.lane} {stop.witnesses}")
        assert found[0] == found[1]
        said.setdefault(what, [0, 0])[bool(found[0])] += 1
        if found[0] and what == "begin_reads":
            reading.pop()
        if not found[0] and what == "start":
            under_way.append(one)
        assert all((mine == other).all() for mine, other in zip(*map(state, histories), strict=True))
        clocks.tick()
        chance = random.random()
        if found[0] or chance < 0.5:
            clocks.meet(np.ones(SHAPE, np.bool_), np.arange(SHAPE[1])[None, :] // SIZE)
            for agent in {*agents.tolist(), reader, reader + 1}:
                clocks.learn_of(np.ones(SHAPE, np.bool_), agent, clocks.tick())
        if 0.3 < chance < 0.5:
            clocks.fence_proxies(np.ones(SHAPE, np.bool_))
    wrong = {what: numbers[1] for what, numbers in said.items() if what not in ("arrive", "gather", "end_reads")}
    assert min(wrong.values()) > 0 and min(numbers[0] for numbers in said.values()) > 5, said


@pytest.mark.parametrize("seed", range(3))
def test_first_writes_of_a_tensor_are_noted_as_numpy_does(seed: int) -> None:
    native_core()
    random = np.random.default_rng(seed)
    by_core, by_numpy = TouchRecord(4096), TouchRecord(4096)
    first = {True: 0, False: 0}
    for step in range(60):
        each, count = int(random.choice([1, 2, 8])), int(random.integers(1, 8))
        lanes, epochs = random.integers(0, 64, (count, 1)), np.full((count, 1), step, np.int32)
        cells = random.integers(0, 4096 // each, (count, 1))
        units = cells * each + np.arange(each)
        if random.random() < 0.3:
            said = [record.read(units, lanes, epochs, 32) for record in (by_core, by_numpy)]
        else:
            noted = by_core.write_first(cells, each, lanes, epochs)
            said = [None if noted else by_core.write(units, lanes, epochs, 32)]
            said.append(by_numpy.write(units, lanes, epochs, 32))
            first[noted] += 1
        assert said[0] == said[1]
        assert (by_core._writer == by_numpy._writer).all() and (by_core._writer_epoch == by_numpy._writer_epoch).all()
    assert min(first.values()) > 5
