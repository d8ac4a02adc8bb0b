"""Mbarriers: the C core finds those that lanes use, and tests their phases, as numpy does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulator_kit import native_core, said

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.memory.placement import BASE, PEER_BITS
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.synchronisation.mbarrier_table import Looked
from cutegen.emulator.synchronisation.mbarrier_uses import Uses
from cutegen.emulator.synchronisation.team import Team

INSTRUCTION = Instruction("mbarrier", (), None, (), 7, None, "")
SHARED = 64


def narrow(value: Array) -> Array:
    """The same, as a scalar of numpy's if it is the same for all lanes: registers hold such ones, too."""
    return np.asarray(value)[0, 0] if (value == value[0, 0]).all() else value  # type: ignore[no-any-return]


class Pair:
    """Two teams with the same mbarriers, of which the first one is looked at by the core."""

    def __init__(self, shape: tuple[int, int], size: int, random: np.random.Generator) -> None:
        self.teams = [Team(shape, size) for _ in range(2)]
        self.shape, self.size, self.random = shape, size, random
        self.looks = self.found = 0
        assert self.teams[0].mbarriers.table is not None

    def uses(self, team: Team, lanes: Array, address: Array) -> Uses:
        """The uses at addresses, as operations find them in numpy."""
        there = address.astype(np.int64)
        peers = there >> PEER_BITS
        own = np.broadcast_to(np.arange(self.shape[1])[None, :], self.shape)
        columns = np.where(peers > 0, own // self.size * self.size + peers - 1, own)
        team.visit(lanes, columns, INSTRUCTION)
        return Uses(
            lanes, ((address & (1 << PEER_BITS) - 1) - BASE)[lanes].astype(np.int64), columns[lanes], INSTRUCTION
        )

    def arrive(self, lanes: Array, address: Array, amounts: Array | None, counted: bool) -> None:
        """Arrives in both, and compares what comes of it."""
        most = 1 << 20 if counted else 0
        expects = amounts is not None and not counted

        def by_core(team: Team) -> object:
            table = team.mbarriers.table
            assert table is not None
            looked = Looked(lanes, narrow(address), 0, SHARED, 7, amounts, most, (team.visits, team.gone))
            found = table.users(looked)
            phases = None
            if found is not None:
                phases = team.mbarriers.arrive_found(found, counted=counted, expects=expects, relaxed=False)
            self.looks, self.found = self.looks + 1, self.found + (phases is not None)
            if found is None or phases is None:
                return by_numpy(team)
            each = np.asarray(phases, np.int64)
            return np.broadcast_to(each if found.groups is None else each[found.groups], int(lanes.sum())).copy()

        def by_numpy(team: Team) -> object:
            uses = self.uses(team, lanes, address)
            ones = np.ones(len(uses.offsets), np.int64)
            more = ones if amounts is None else amounts[lanes].astype(np.int64)
            given = (more if counted else ones), (more if expects else 0 * ones)
            return team.mbarriers.arrive(uses, *given, relaxed=False)

        self.compare(by_core, by_numpy)

    def test(self, lanes: Array, address: Array, parity: Array) -> None:
        """Tests phases in both, and compares what comes of it."""

        def by_core(team: Team) -> object:
            table = team.mbarriers.table
            assert table is not None
            looked = Looked(lanes, narrow(address), 0, SHARED, 7, narrow(parity), 0, (team.visits, team.gone))
            found = table.learners(looked)
            self.looks, self.found = self.looks + 1, self.found + (found is not None)
            if found is None:
                return by_numpy(team)
            team.mbarriers.see_found(found[1], relaxed=False)
            return found[0]

        def by_numpy(team: Team) -> object:
            done = np.zeros(self.shape, np.bool_)
            wanted = parity[lanes].astype(np.int64)
            uses = self.uses(team, lanes, address)
            done[lanes] = team.mbarriers.test(uses, wanted, parity=True, relaxed=False)
            return done

        self.compare(by_core, by_numpy)

    def compare(self, by_core: Callable[[Team], object], by_numpy: Callable[[Team], object]) -> None:
        """Does something in both ways; raises Stop if it is a fault."""
        results = [said(lambda: by_core(self.teams[0])), said(lambda: by_numpy(self.teams[1]))]
        assert results[0] == results[1]
        one, other = self.teams
        assert (one.mbarriers.state() == other.mbarriers.state()).all()
        assert (one.mbarriers.changes == other.mbarriers.changes).all()
        assert (one.clocks._rows.of(one.clocks._known) == other.clocks._rows.of(other.clocks._known)).all()
        for key, mbarrier in one.mbarriers._all.items():
            same = other.mbarriers._all[key]
            assert mbarrier.ended == same.ended and (mbarrier.used == same.used).all()
        assert (one.visits == other.visits).all()
        if isinstance(results[0], str):
            raise Stop("mbarrier", results[0], INSTRUCTION, (0, 0))


@pytest.mark.parametrize("shape,size", [((64, 4), 2), ((96, 1), 1), ((40, 3), 1)])
def test_lanes_arrive_and_find_phases_ended_as_in_numpy(shape: tuple[int, int], size: int) -> None:
    native_core()
    random, faults = np.random.default_rng(shape[0]), 0
    looks = found = 0
    for _ in range(120):
        pair = Pair(shape, size, random)
        everyone, first = np.ones(shape, np.bool_), np.zeros(shape, np.bool_)
        first[0] = True
        count = int(random.choice([1, 2, 32, 64]))
        own = np.broadcast_to(np.arange(shape[1])[None, :], shape)
        for team in pair.teams:
            for place in range(3):
                uses = Uses(first, np.full(shape[1], 8 * place), own[first], INSTRUCTION)
                team.mbarriers.make(uses, np.full(shape[1], count))
            team.mbarriers.publish(first)
            team.clocks.meet(everyone, team.clocks.cluster)
        try:
            for _ in range(int(random.integers(3, 25))):
                warps = random.random((-(-shape[0] // 32), shape[1])) < random.choice([0.3, 1])
                lanes = np.repeat(warps, 32, axis=0)[: shape[0]]
                if random.random() < 0.3:
                    lanes = lanes & (np.arange(shape[0]) % 32 == 0)[:, None]
                if not lanes.any():
                    continue
                places = random.integers(0, 3, (-(-shape[0] // 32), 1))
                places = places * int(random.random() < 0.5)
                address = BASE + 8 * np.broadcast_to(np.repeat(places, 32, axis=0)[: shape[0]], shape)
                if random.random() < 0.3 and not places.any():
                    address = address + (random.integers(0, size, shape) + 1 << PEER_BITS)
                address = address.astype(random.choice([np.uint32, np.uint64]))
                if random.random() < 0.02:
                    address = address + address.dtype.type(24)
                if random.random() < 0.5:
                    pair.test(
                        lanes,
                        address,
                        random.integers(0, 2, shape).astype(np.uint32) * np.uint32(random.random() < 0.2),
                    )
                    continue
                if count < 32:
                    lanes = lanes & (np.cumsum(lanes, axis=0) <= count)
                amounts = random.choice(np.asarray(["none", "bytes", "counts"]), p=[0.7, 0.1, 0.2])
                each = np.full(shape, {"none": 0, "bytes": 0, "counts": 1}[str(amounts)], np.uint32)
                pair.arrive(lanes, address, None if amounts == "none" else each, str(amounts) == "counts")
        except Stop:
            faults += 1
        looks, found = looks + pair.looks, found + pair.found
    assert found > looks // 2 and 10 < faults < 119
