"""mbarriers in the shared memory of a batch's blocks: counts of arrivals and of bytes, phases, and what they order.

A phase ends when no arrival and no byte is still to come. Who waits for it knows then what those knew who arrived in
it, and sees the asynchronous writes that were counted in it, which its agent made (`checks.clocks`). The scopes of
mbarrier instructions are not looked at: each of them is taken to be as wide as the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import ALWAYS, Clocks
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.told import Told
from cutegen.emulator.native.library import core
from cutegen.emulator.synchronisation.bulk_groups import single
from cutegen.emulator.synchronisation.mbarrier import Arrival, Mbarrier, fault_of
from cutegen.emulator.synchronisation.mbarrier_table import FoundMbarriers, MbarrierTable
from cutegen.emulator.synchronisation.mbarrier_uses import SortedUses, Uses, sort_uses

MOST = (1 << 20) - 1
"""The largest count of arrivals, and of bytes either way (PTX ISA 9.1, section of mbarrier)."""

_APART = 1 << 32  # more than any time


class Mbarriers:
    """All mbarriers of the blocks of `clocks` that have been initialised and not invalidated."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self._all: dict[tuple[int, int], Mbarrier] = {}
        self._agents: dict[int, int] = {}  # offset -> the agent of the block of rank 0
        # Of each agent of a cluster, (cluster, agent): when its last write arrived, and the PTX line of that
        self._writes: dict[tuple[int, int], tuple[int, int]] = {}
        self._under_way: dict[tuple[int, int], int] = {}  # how many writes of an agent there are that have not arrived
        # Of each block: how often a phase of one of its mbarriers has ended, or one has come or gone
        self.changes: Array = np.zeros(clocks.shape[1], np.int64)
        found = core()
        self.table = None if found is None else MbarrierTable(found, clocks)

    def state(self) -> Array:
        """Of each mbarrier what its phase waits for, and the phase's parity, shape (mbarriers, 5)."""
        found = [(b.block, b.offset, b.pending, b.bytes, b.phase & 1) for b in self._all.values()]
        return np.asarray(found, np.int64).reshape(-1, 5)

    # ----------------------------------------------------------------------------------------- one by one, and groups

    def make(self, uses: Uses, counts: Array) -> None:
        """Initialises mbarriers. Raises Stop for one that is there, and for a count that PTX does not allow."""
        clocks = self.clocks
        members = clocks.member[uses.lanes]
        for i, (block, offset) in enumerate(zip(uses.blocks.tolist(), uses.offsets.tolist(), strict=True)):
            there, count = self._all.get((block, offset)), int(counts[i])
            if there is not None:
                text = (
                    f"initialises the mbarrier at byte {offset} of shared memory, which PTX line {there.line} has done"
                )
                raise fault_of(text + ", and nothing has invalidated", uses, i, there)
            if not 1 <= count <= MOST:
                raise fault_of(f"a count of {count} arrivals, where 1 to {MOST} are possible", uses, i)
            if offset not in self._agents:
                self._agents[offset] = clocks.add_agents()
            agent = self._agents[offset] + block % clocks.size
            used = np.zeros(clocks.members, np.int32)
            line = uses.instruction.line
            made = Mbarrier(offset, block, count, count, int(members[i]), clocks.now, line, agent, used)
            self._all[block, offset] = made
            if self.table is not None:
                self.table.add(made)
            self.changes[block] += 1

    def unmake(self, uses: Uses) -> None:
        """Invalidates mbarriers. Raises Stop for one that somebody's use is not ordered before that."""
        clocks = self.clocks
        for index, mbarrier in self._each(uses):
            row = clocks.row(uses.lane(int(index[0])))[: clocks.members]
            late = (mbarrier.used > 0) & (row <= mbarrier.used)
            if has_any(late):
                thread, block = clocks.lane(mbarrier.block // clocks.size, int(late.argmax()))
                text = (
                    f"invalidates the mbarrier at byte {mbarrier.offset}, which thread {thread} of block {block} of the"
                )
                raise fault_of(f"{text} batch uses, and nothing orders the two", uses, int(index[0]), mbarrier)
            del self._all[mbarrier.block, mbarrier.offset]
            if self.table is not None:
                self.table.remove(mbarrier)
            self.changes[mbarrier.block] += 1

    def publish(self, lanes: Array) -> None:
        """fence.mbarrier_init in the lanes of a mask: what they have initialised is seen by who runs after them."""
        self.clocks.tick()
        makers = {*zip(self.clocks.cluster[lanes].tolist(), self.clocks.member[lanes].tolist(), strict=True)}
        for mbarrier in self._all.values():
            if not mbarrier.published and (mbarrier.block // self.clocks.size, mbarrier.maker) in makers:
                mbarrier.published = self.clocks.now
                if self.table is not None:
                    self.table.note(mbarrier)

    def arrive(self, uses: Uses, counts: Array, more: Array, *, relaxed: bool, completes: bool = True) -> Array:
        """Arrives `counts` times with each lane, which expects so many `more` bytes first; returns the phases of that.

        A `relaxed` arrival orders no memory; one that does not `complete` must not end the phase. Raises Stop for
        arrivals that are not expected.
        """
        self.clocks.tick()
        sorted_uses = sort_uses(uses)
        tells = self.clocks.told_by_groups(uses.lanes, sorted_uses.numbers, len(sorted_uses.keys), relaxed=relaxed)
        phases = np.zeros(len(uses.offsets), np.int64)
        for number, (index, mbarrier) in enumerate(self._each(uses, sorted_uses)):
            steps, told = [index], tells[number]
            if counts[index].sum() > mbarrier.pending:
                steps = [index[i : i + 1] for i in range(len(index))]
            for some in steps:
                phases[some] = mbarrier.phase
                self._expect(mbarrier, int(more[some].sum()), uses, int(some[0]))
                mbarrier.pending -= int(counts[some].sum())
                self._check_expected(mbarrier, uses, int(some[0]))
                if len(steps) > 1:
                    told = self.clocks.told(single(uses.lane(int(some[0])), self.clocks.shape), relaxed=relaxed)
                mbarrier.told = told.and_what(mbarrier.told)
                if self._settle(mbarrier) and not completes:
                    text = f"an arrival with .noComplete ends a phase of the mbarrier at byte {mbarrier.offset}"
                    raise fault_of(text, uses, int(some[0]), mbarrier)
        return phases

    def arrive_late(self, uses: Uses, told: Told) -> None:
        """The arrivals that asynchronous operations make once they have ended; each tells what is `told`."""
        for place in zip(uses.blocks.tolist(), uses.offsets.tolist(), strict=True):
            if (mbarrier := self._all.get(place)) is not None:
                mbarrier.pending -= 1
                self._check_expected(mbarrier, uses, 0)
                mbarrier.told = told.and_what(mbarrier.told)
                self._settle(mbarrier)

    def arrive_found(self, found: FoundMbarriers, *, counted: bool, expects: bool, relaxed: bool) -> list[int] | None:
        """Arrives once with each lane that was found, or as often as its amount if that is `counted`.

        It `expects` its amount of bytes first. Returns the phase of each mbarrier, or None where more arrive than the
        phase waits for, or expect more bytes than an mbarrier counts: `arrive` is to do it then. The uses are noted all
        the same, as `arrive` would note them.
        """
        for one, lanes, _, amount in found.each:
            late = (amount if counted else lanes) > one.pending
            if late or expects and abs(one.bytes + amount) > MOST:
                return None
        self.clocks.tick()
        tells = self.clocks.told_by_groups(found.lanes, found.groups, len(found.each), relaxed=relaxed)
        phases = []
        for (one, lanes, _, amount), told in zip(found.each, tells, strict=True):
            phases.append(one.phase)
            one.bytes += amount if expects else 0
            one.pending -= amount if counted else lanes
            one.told = told.and_what(one.told)
            self._settle(one)
        return phases

    def see_found(self, found: FoundMbarriers, *, relaxed: bool) -> None:
        """Lets lanes know what the phases have told that they have found to have ended."""
        if not found.each:
            return
        told = [one.known for one, *_ in found.each if one.known is not None]
        told = [one.relaxed() for one in told] if relaxed else told
        self.clocks.learn_by_groups(found.lanes, found.groups, told)
        for one, _, lane, _ in found.each:
            for seen in one.unseen:
                seen(lane)
            one.unseen.clear()

    def expect(self, uses: Uses, more: Array) -> None:
        """Expects so many `more` bytes with each lane, or fewer where they are negative, as these have come."""
        self.clocks.tick()
        for index, mbarrier in self._each(uses):
            self._expect(mbarrier, int(more[index].sum()), uses, int(index[0]))
            self._settle(mbarrier)

    def agents(self, uses: Uses) -> Array:
        """The number of the agent of each block, shape (blocks,), of the one mbarrier that lanes use in each block.

        Raises Stop for an mbarrier that is not there.
        """
        found = np.full(self.clocks.shape[1], -1, np.int64)
        for _, mbarrier in self._each(uses):
            found[mbarrier.block] = mbarrier.agent
        return found

    def shown_agents(self, uses: Uses) -> Array:
        """The same, for copies that are to count there. Raises Stop for what no fence has shown to the async proxy.

        That is a fence.mbarrier_init of the thread that has initialised it, or a proxy fence after that. Waiting for
        the thread does not do: its store to the mbarrier is of the generic proxy (PTX ISA 9.1, section 9.7.13.4).
        """
        clocks = self.clocks
        clusters, members = clocks.cluster[uses.lanes], clocks.member[uses.lanes]
        found = np.full(clocks.shape[1], -1, np.int64)
        for index, mbarrier in self._each(uses):
            found[mbarrier.block] = mbarrier.agent
            if mbarrier.published:
                continue
            maker, made = np.asarray(mbarrier.maker), np.asarray(mbarrier.made)
            shown = clocks.covered(clusters[index], members[index], maker, made)
            if not shown.all():
                text = f"the mbarrier at byte {mbarrier.offset} of shared memory was initialised (PTX line "
                text += (
                    f"{mbarrier.line}) with no fence.mbarrier_init or fence.proxy.async before a bulk copy counts there"
                )
                raise fault_of(text, uses, int(index[int((~shown).argmax())]), mbarrier)
        return found

    def check(self, uses: Uses) -> None:
        """Raises Stop for an mbarrier that is not there, or not known to be."""
        for _ in self._each(uses):
            pass

    def test(self, uses: Uses, wanted: Array, *, parity: bool, relaxed: bool) -> Array:
        """Which of the lanes find that the phase has ended that they ask for; these then know what that orders.

        `wanted` is the parity of the phase, or its number. Raises Stop for a phase that this cannot tell any more.
        """
        sorted_uses = sort_uses(uses)
        numbers = self._phases(uses, sorted_uses, wanted) if parity else wanted
        ended = np.asarray([len(times) for times in self._ended(sorted_uses)])[sorted_uses.numbers]
        late, done = ended >= numbers + 2, ended > numbers
        some_late = has_any(late)
        found: list[tuple[Array, Mbarrier]] = []
        problem: Stop | None = None
        try:
            for index, mbarrier in self._each(uses, sorted_uses):
                if some_late and has_any(late[index]):
                    at = int(index[int(late[index].argmax())])
                    text = f"waits for phase {numbers[at]} of the mbarrier at byte {mbarrier.offset}, and its phase "
                    how = "a parity" if parity else "a state"
                    text += f"{mbarrier.phase - 1} has ended, too: {how} does not tell them apart"
                    raise fault_of(text, uses, at, mbarrier)
                if mbarrier.known is not None and (some := index[done[index]]).size:
                    found.append((some, mbarrier))
        except Stop as stop:
            problem = stop  # which comes after those that the lanes before have found
        self._see(uses, found, relaxed=relaxed)
        if problem is not None:
            raise problem
        return done

    def _see(self, uses: Uses, found: list[tuple[Array, Mbarrier]], *, relaxed: bool) -> None:
        """Lets entries know what the phase has told that they have found to have ended, for each of some mbarriers."""
        if not found:
            return
        lanes = np.zeros(self.clocks.shape, np.bool_)
        groups = np.full(len(uses.offsets), -1, np.int64)
        told = []
        for number, (some, mbarrier) in enumerate(found):
            groups[some] = number
            assert mbarrier.known is not None
            told.append(mbarrier.known.relaxed() if relaxed else mbarrier.known)
        lanes[uses.lanes] = groups >= 0
        self.clocks.learn_by_groups(lanes, groups[groups >= 0], told)
        for some, mbarrier in found:
            for seen in mbarrier.unseen:
                seen(uses.lane(int(some[0])))
            mbarrier.unseen.clear()

    def describe(self, uses: Uses, wanted: Array, *, parity: bool) -> str:
        """Says in words which phase the first of the lanes waits for, and what its mbarrier still expects."""
        sorted_uses = sort_uses(uses)
        numbers = self._phases(uses, sorted_uses, wanted) if parity else wanted
        for index, mbarrier in self._each(uses, sorted_uses):
            number = int(numbers[index[0]])
            text = f"the end of phase {number} of the mbarrier at byte {mbarrier.offset} of shared memory"
            return f"{text}: {mbarrier} are still to come in its phase {mbarrier.phase}"
        return ""

    def writes_to(self, block: int) -> list[tuple[int, int, int]]:
        """The agents of a block that have written, each with when its last write arrived, and the PTX line of that."""
        cluster, rank = divmod(block, self.clocks.size)
        agents = (first + rank for first in self._agents.values())
        return [(agent, *self._writes[cluster, agent]) for agent in agents if (cluster, agent) in self._writes]

    def started(self, block: int, offset: int, line: int) -> None:
        """Notes that an asynchronous operation at that PTX line is to write, which is counted at an mbarrier."""
        key = block // self.clocks.size, self._all[block, offset].agent
        self._under_way[key] = self._under_way.get(key, 0) + 1
        self._writes[key] = ALWAYS, line

    def arrived(self, arrivals: Sequence[Arrival], line: int) -> None:
        """Notes that operations which have started at that PTX line have written, each counted at another mbarrier."""
        clocks = self.clocks
        written = clocks.now
        clocks.tick()
        for one in arrivals:
            key = one.block // clocks.size, self._agents[one.offset] + one.block % clocks.size
            self._under_way[key] -= 1
            if not self._under_way[key]:
                self._writes[key] = written, line
            mbarrier = self._all.get((one.block, one.offset))
            if mbarrier is not None:
                if one.seen is not None:
                    mbarrier.arriving.append(one.seen)
                mbarrier.bytes -= one.size
                self._settle(mbarrier)

    def written(self, rows: Sequence[int], size: int, line: int) -> None:
        """Notes that operations at that PTX line have started and written `size` bytes each, which are counted at the
        mbarriers in those rows of the table, all different ones.
        """
        clocks, table = self.clocks, self.table
        written = clocks.now
        clocks.tick()
        assert table is not None
        for one in map(table.at, rows):
            key = one.block // clocks.size, one.agent
            self._writes[key] = (ALWAYS if self._under_way.setdefault(key, 0) else written), line
            one.bytes -= size
            self._settle(one)

    # ---------------------------------------------------------------------------------------------------------- parts

    def _each(self, uses: Uses, sorted_uses: SortedUses | None = None) -> Iterator[tuple[Array, Mbarrier]]:
        """The mbarriers that are used, in the order of their first uses, each with the entries that use it.

        Raises Stop for one that is not there, or is not known to be.
        """
        clocks, found = self.clocks, sorted_uses or sort_uses(uses)
        places = uses.places
        if len(places) == 1 and (one := self._all.get(found.keys[0])) is not None:
            lane = uses.lane(0)
            cluster, member = int(clocks.cluster[lane]), int(clocks.member[lane])
            if clocks.is_before(cluster, member, one.maker, one.made):
                one.used[member] = clocks.now
                yield found.index[0], one
                return
        clusters, members = clocks.cluster.reshape(-1).take(places), clocks.member.reshape(-1).take(places)
        all_of_them = [self._all.get(key) for key in found.keys]
        rows = [(0, 0, 0) if one is None else (one.maker, one.made, one.published) for one in all_of_them]
        makers, made, published = np.asarray(rows, np.int64).T.take(found.numbers, axis=1)
        known = clocks.before(clusters, members, makers, made)
        if has_any(published):
            known |= (published > 0) & clocks.ran_before(clusters, members, makers, published - 1)
        all_known = bool(known.all())
        for (block, offset), mbarrier, index in zip(found.keys, all_of_them, found.index, strict=True):
            if mbarrier is None:
                text = f"no mbarrier has been initialised at byte {offset} of shared memory"
                lane = uses.lane(int(index[0]))
                text += f" of the block of rank {block % clocks.size} in the cluster" if block != lane[1] else ""
                raise fault_of(text, uses, int(index[0]))
            if not all_known and not known[index].all():
                text = f"the mbarrier at byte {offset} of shared memory was initialised by a thread (PTX line "
                text += f"{mbarrier.line}), and nothing orders this after that"
                raise fault_of(text, uses, int(index[int((~known[index]).argmax())]), mbarrier)
            mbarrier.used[members[index]] = clocks.now
            yield index, mbarrier

    def _ended(self, found: SortedUses) -> list[list[int]]:
        """When the phases of each mbarrier ended: none of one that is not there."""
        return [[] if (one := self._all.get(key)) is None else one.ended for key in found.keys]

    def _phases(self, uses: Uses, found: SortedUses, parity: Array) -> Array:
        """The phases that entries ask for by a parity: the last one that has ended as their lanes know, or the next."""
        agents = [0 if (one := self._all.get(key)) is None else one.agent for key in found.keys]
        known = self.clocks.known_of(uses.lanes, np.asarray(agents, np.int64)[found.numbers])
        ended = self._ended(found)  # of one mbarrier after the other
        times = np.asarray([time + number * _APART for number, each in enumerate(ended) for time in each], np.int64)
        first = np.cumsum([0, *(len(each) for each in ended)])[found.numbers]
        last = np.searchsorted(times, known + found.numbers * _APART, side="right") - first
        return np.asarray(np.where((last & 1) == (parity & 1), last, last - 1))

    def _check_expected(self, mbarrier: Mbarrier, uses: Uses, at: int) -> None:
        """Raises Stop if more have arrived than the phase waits for, with the entry `at` as the last of them."""
        if mbarrier.pending < 0:
            text = f"arrives at the mbarrier at byte {mbarrier.offset} when all {mbarrier.count} arrivals of its phase "
            text += f"{mbarrier.phase} have come, and {mbarrier.bytes} bytes are still to come"
            raise fault_of(text, uses, at, mbarrier)

    def _expect(self, mbarrier: Mbarrier, more: int, uses: Uses, at: int) -> None:
        """Adds to the bytes that are still to come. Raises Stop if they are too many."""
        mbarrier.bytes += more
        if abs(mbarrier.bytes) > MOST:
            text = (
                f"{mbarrier.bytes} bytes to come at the mbarrier at byte {mbarrier.offset}, at most {MOST} are possible"
            )
            raise fault_of(text, uses, at, mbarrier)

    def _settle(self, mbarrier: Mbarrier) -> bool:
        """Ends the phase of an mbarrier if nothing is still to come; returns whether it has."""
        if mbarrier.pending or mbarrier.bytes:
            return False
        told = mbarrier.told
        assert told is not None  # a count is at least 1
        mbarrier.known, mbarrier.told = told.of_agent(mbarrier.agent, self.clocks.now), None
        mbarrier.ended.append(self.clocks.now)
        if self.table is not None:
            self.table.note(mbarrier)
        self.changes[mbarrier.block] += 1
        mbarrier.pending = mbarrier.count
        mbarrier.unseen += mbarrier.arriving
        mbarrier.arriving = []
        return True
