"""Vector clocks: the knowledge that each thread has of the past of all others in its cluster, which decides the order.

Time is a counter over the whole batch, which goes on at every release. An access is stamped with the time at which it
is made. It is ordered before what a thread does now if the thread knows its maker beyond that time: if the maker has
released later, and the thread has acquired that, through however many others. So it does not matter in which order the
lanes happened to run.

A thread is known by its number in the cluster, its *member* number: block after block in the order of their ranks,
each with as many numbers as its whole warps have threads. Behind them come *agents*, which do what is not done by
threads: one for each mbarrier and block, which makes the writes that are counted there, and is known up to the end of
the last of its phases that a thread has waited for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.core_rows import CoreRows, Own
from cutegen.emulator.checks.known_rows import KnownRows
from cutegen.emulator.checks.told import Told
from cutegen.emulator.lanes import WARP, Mask, spread
from cutegen.emulator.native.library import core

ALWAYS = np.iinfo(np.int32).max
"""A time after all others: that of what is under way, and that up to which a member knows itself."""

_AGENTS = 16  # of each block of a cluster: for so many there is room at once
_NOTHING = np.zeros((1, 0), np.int32)

Groups = Array | None
"""Which of the lanes of a mask are together: the number of each one's group, in the mask's order, or that of each
block, shape (1, blocks); None if they are all."""


class Clocks:
    """The knowledge of the lanes of a batch of `shape` = (threads, blocks), whose clusters have `size` blocks each.

    The blocks of a cluster are next to each other, in the order of their ranks. `now` is the time. `agents` is the
    number that the next agent gets.
    """

    def __init__(self, shape: tuple[int, int], size: int) -> None:
        self.shape, self.size = shape, size
        self.padded = -(-shape[0] // WARP) * WARP
        self.members = self.padded * size
        self.clusters = shape[1] // size
        self.now = 1
        self.agents = self.members
        self.warps = self.members // WARP
        # What a member knows of itself, and of its own warp, is not looked at there: that is always before
        self._rows = KnownRows(self.warps + self.members + _AGENTS * size)
        self._known = self._rows.holder((self.clusters, self.members))
        self._has_proxy_fence = False
        self._covered = self._rows.holder((self.clusters, self.members))  # what each knows that proxy fences cover
        self._cover_times: Array = np.zeros((self.clusters, self.members), np.int32)  # of what it wrote itself
        self._fenced = self._rows.holder((self.clusters, self.members))  # what each member knew at its last fence
        self._fence_times: Array = np.zeros((self.clusters, self.members), np.int32)
        thread, block = np.indices(shape)
        self.member: Array = block % size * self.padded + thread
        """The member number of each lane, shape (threads, blocks)."""
        self.cluster: Array = block // size
        """The number of each lane's cluster in the batch, shape (threads, blocks)."""
        self._place: Array = self.cluster * self.members + self.member
        found = core()
        self._by_core = None if found is None else CoreRows(found, self, self._rows)

    @property
    def proxy_fences(self) -> tuple[Array, Array] | None:
        """The coverage of proxy fences, None if there was none: the number of each member's row among the rows of
        `held_rows`, and the time up to which its own fences cover its own writes; both of shape (clusters, members).
        """
        return (self._covered, self._cover_times) if self._has_proxy_fence else None

    def lane(self, cluster: int, member: int) -> tuple[int, int]:
        """The lane (thread, block) of a member of a cluster."""
        return member % self.padded, cluster * self.size + member // self.padded

    def rank_of(self, agent: int) -> int:
        """The rank of the block that has the mbarrier of an agent."""
        return (agent - self.members) % self.size

    def add_agents(self) -> int:
        """Makes room for one agent for each block of a cluster, and returns the number of that of rank 0."""
        first = self.agents
        self.agents += self.size
        if self.warps + self.agents > self._rows.width:
            self._rows.widen(_AGENTS * self.size)
        return first

    def tick(self) -> int:
        """Lets the time go on: what was done before this is before the time that it returns."""
        self.now += 1
        return self.now

    # ------------------------------------------------------------------------------------------ release and acquire

    def told(self, lanes: Array, *, relaxed: bool = False) -> Told:
        """The knowledge of the lanes of a mask, with their own actions until now, a row for each in the mask's order.

        A `relaxed` release tells of memory only what was known at the last fence. The caller lets the time go on first.
        """
        places, members = self._place[lanes], self.member[lanes]
        known = self._rows.of(self._known.reshape(-1)[places])
        fenced = self._rows.of(self._fenced.reshape(-1)[places]) if relaxed else None
        self._with_own(known, fenced, np.arange(len(places)), places, members)
        if relaxed or not self._has_proxy_fence:
            return Told(known, self.warps, None)
        proxy = self._rows.of(self._covered.reshape(-1)[places])
        self._with_own_fences(proxy, np.arange(len(places)), places, members)
        return Told(known, self.warps, proxy)

    def told_together(self, lanes: Array, *, relaxed: bool = False) -> Told:
        """The joint knowledge of the lanes of a mask, all of one cluster: `told` joined, with no row for each lane."""
        return self.told_by_groups(lanes, None, 1, relaxed=relaxed)[0]

    def told_by_groups(self, lanes: Array, groups: Groups, count: int, *, relaxed: bool = False) -> list[Told]:
        """The joint knowledge of the lanes of each of `count` groups, with their own actions until now.

        Each group is in one cluster.
        """
        if self._by_core is not None and not relaxed:
            known, proxy = self._by_core.tell(self._known, lanes, groups, count, Own.NOW, self.now), None
            if self._has_proxy_fence:
                proxy = self._by_core.tell(self._covered, lanes, groups, count, Own.TIMES, 0, self._cover_times)
            return [
                Told(known[i : i + 1], self.warps, proxy if proxy is None else proxy[i : i + 1]) for i in range(count)
            ]
        groups = _each_group(lanes, groups)
        places, members = self._place[lanes], self.member[lanes]
        known = self._rows.largest(self._known.reshape(-1)[places], groups, count)
        fenced = self._rows.largest(self._fenced.reshape(-1)[places], groups, count) if relaxed else None
        self._with_own(known, fenced, groups, places, members)
        if relaxed or not self._has_proxy_fence:
            return [Told(known[i : i + 1], self.warps, None) for i in range(count)]
        proxy = self._rows.largest(self._covered.reshape(-1)[places], groups, count)
        self._with_own_fences(proxy, groups, places, members)
        return [Told(known[i : i + 1], self.warps, proxy[i : i + 1]) for i in range(count)]

    def _with_own(self, known: Array, fenced: Array | None, rows: Array, places: Array, members: Array) -> None:
        """Adds to rows what members themselves do until now, or have done until their fences, where those are given.

        `rows` has the number of the row of each member.
        """
        known[rows, members // WARP] = self.now
        columns = self.warps + members
        if fenced is None:
            known[rows, columns] = self.now  # which nobody knows of more than
        else:
            known[:, self.warps :] = fenced[:, self.warps :]
            known[rows, columns] = np.maximum(known[rows, columns], self._fence_times.reshape(-1)[places])

    def _with_own_fences(self, covered: Array, rows: Array, places: Array, members: Array) -> None:
        """Adds to rows of what proxy fences cover that of members' own ones; `rows` has the row of each member."""
        columns = self.warps + members
        covered[rows, columns] = np.maximum(covered[rows, columns], self._cover_times.reshape(-1)[places])

    def learn(self, lanes: Array, told: Told) -> None:
        """Adds the given times to the clocks of the lanes of a mask, from one row."""
        self.learn_by_groups(lanes, None, [told])

    def learn_by_groups(self, lanes: Array, groups: Groups, told: Sequence[Told]) -> None:
        """Adds the given times to the clocks of the lanes of a mask, from one row per group."""
        if self._by_core is not None:
            self._by_core.learn(self._known, lanes, groups, [one.known for one in told])
            if any(one.proxy is not None for one in told):
                proxies = [_NOTHING if one.proxy is None else one.proxy for one in told]
                self._by_core.learn(self._covered, lanes, groups, proxies)
            return
        places, groups = self._place[lanes], _each_group(lanes, groups)
        self._rows.learn(self._known, places, groups, self._rows_of([one.known for one in told]))
        if any(one.proxy is not None for one in told):
            self._rows.learn(self._covered, places, groups, self._rows_of([one.proxy for one in told]))

    def _rows_of(self, told: Sequence[Array | None]) -> Array:
        """The rows of `told` at full width, one each: zeros where one is None, and for agents that it does not have."""
        rows = np.zeros((len(told), self._rows.width), np.int32)
        for row, one in zip(rows, told, strict=True):
            if one is not None:
                row[: one.shape[1]] = one[0]
        return rows

    def learn_of(self, lanes: Array, agent: int, time: int) -> None:
        """Lets the lanes of a mask know that what an agent did before that time is before."""
        more = np.zeros((1, self.warps + agent + 1), np.int32)
        more[0, -1] = time
        self.learn(lanes, Told(more, self.warps, None))

    def meet(self, lanes: Array, groups: Array) -> None:
        """Lets all lanes of a mask know what those of the same group do; `groups` has a number for each lane.

        Those of a group are in one cluster.
        """
        self.tick()
        numbers, mine = np.unique(spread(groups, self.shape)[lanes], return_inverse=True)
        self.learn_by_groups(lanes, mine, self.told_by_groups(lanes, mine, len(numbers)))

    def fence(self, lanes: Array) -> None:
        """A fence of the lanes of a mask: their next relaxed release passes on their current clocks."""
        self.tick()
        where = self.cluster[lanes], self.member[lanes]
        self._fenced[where], self._fence_times[where] = self._known[where], self.now

    def fence_proxies(self, lanes: Array) -> None:
        """A proxy fence of the lanes of a mask: it covers all that is ordered before it."""
        self.tick()
        self._has_proxy_fence = True
        where = self.cluster[lanes], self.member[lanes]
        self._covered[where], self._cover_times[where] = self._known[where], self.now  # which has all that was covered

    # -------------------------------------------------------------------------------------------------- what is known

    def before(self, clusters: Array, members: Array, others: Array, times: Array) -> Array:
        """Whether what `others` did at those times is ordered before what members of clusters do now.

        All four broadcast to the shape of the result. What nobody did, whose number is negative, is before everything.
        """
        known = self._rows.times(self._known[clusters, members], self.warps + np.maximum(others, 0))
        return np.asarray((known > times) | (others < 0) | ((others == members) & (times != ALWAYS)))

    def is_before(self, cluster: int, member: int, other: int, time: int) -> bool:
        """`before` of one entry."""
        if other < 0 or (other == member and time != ALWAYS):
            return True
        return self._rows.time(self._known[cluster, member], self.warps + other) > time

    def ran_before(self, clusters: Array, members: Array, others: Array, times: Array) -> Array:
        """Whether the warps of `others` have run since those times, as members know, independent of memory."""
        known = self._rows.times(self._known[clusters, members], others // WARP)
        return np.asarray((known > times) | (others // WARP == members // WARP))

    def covered(self, clusters: Array, members: Array, others: Array, times: Array) -> Array:
        """Whether a proxy fence covers what `others` wrote at those times, and is before what members do now."""
        if not self._has_proxy_fence:
            return spread(others < 0, np.broadcast_shapes(others.shape, times.shape))
        until = self._rows.times(self._covered[clusters, members], self.warps + others.clip(0, self.members - 1))
        own = (others == members) & (self._cover_times[clusters, members] > times)
        return np.asarray((until > times) | own | (others < 0))

    def bits_before(self, clusters: Array, members: Array, first: Array, times: Array) -> Array:
        """For each entry of the arguments, which of the 32 members from `first` on did at that time what is before.

        Bit i of a result, uint32, is for the member `first` + i.
        """
        if not len(times):
            return np.zeros(0, np.uint32)
        # neighbours are most often alike
        numbers = self._known[clusters, members].astype(np.int64)
        code = numbers * self.members + first
        new = np.ones(len(code), np.bool_)
        new[1:] = (code[1:] != code[:-1]) | (times[1:] != times[:-1])
        at = np.flatnonzero(new)
        rows = self._rows.times(numbers[at, None], self.warps + first[at, None] + np.arange(WARP))
        known = np.packbits(rows > times[at, None], bitorder="little").view("<u4")
        known = known if len(at) == len(code) else known[np.cumsum(new) - 1]
        own = members - first
        here = (own >= 0) & (own < WARP) & (times != ALWAYS)
        return np.asarray(np.where(here, known | np.uint32(1) << (own & (WARP - 1)).astype(np.uint32), known))

    def all_before(self, clusters: Array, members: Array, first: Array, times: Array) -> Array:
        """Whether what all threads of a block did at a time is before, where `first` is its first member.

        So it is only if all of them have since released, which those that have exited never do.
        """
        others = first[:, None] + np.arange(self.shape[0])
        known = self._rows.times(self._known[clusters, members][:, None], self.warps + others) > times[:, None]
        own = (others == members[:, None]) & (times[:, None] != ALWAYS)
        return np.asarray((known | own).all(axis=1))

    def runs_known(self, blocks: Array) -> Array:
        """Up to which time some thread of each warp knows each warp of its block to have run, in some blocks.

        The shape is (warps that know, warps that have run, blocks).
        """
        ranks, warps = blocks % self.size, self.padded // WARP
        members = ranks[:, None] * self.padded + np.arange(self.padded)
        numbers = self._known[(blocks // self.size)[:, None], members].reshape(len(blocks), warps, WARP)
        found: Array = np.zeros((warps, warps, len(blocks)), np.int32)
        for index, rank in enumerate(ranks.tolist()):
            distinct, rows = np.unique(numbers[index], return_inverse=True)
            known = self._rows.of(distinct, slice(rank * warps, (rank + 1) * warps))
            found[:, :, index] = known[rows.reshape(warps, WARP)].max(axis=1)
        found[np.arange(warps), np.arange(warps)] = ALWAYS
        return found

    def has_run(self, lanes: Array, rank: Array) -> Array:
        """Whether each lane of a mask knows that the block of its cluster with that rank has started to run."""
        warps = self.padded // WARP
        numbers = self._known.reshape(-1)[self._place[lanes]]
        known = self._rows.times(numbers[:, None], rank[:, None] * warps + np.arange(warps))
        return np.asarray((known.max(axis=1) > 0) | (self.member[lanes] // self.padded == rank))

    def held_rows(self) -> tuple[Array, Array]:
        """The number of the row that each member has, shape (clusters, members), and these rows as they are now.

        They have a column for each warp first, and then one for each member and agent.
        """
        return self._known, self._rows.all()

    def known_of(self, lanes: Array, agents: Array) -> Array:
        """Up to which time the lanes of a mask know agents, one for all of them or one each, shape (lanes,)."""
        return self._rows.times(self._known.reshape(-1)[self._place[lanes]], self.warps + agents)

    def least_known(self, clusters: Array, first: Array, start: int) -> Array:
        """Up to which time all threads of warps know each member and agent from the number `start` on.

        There is a row for each warp; `clusters` and `first` are its cluster and its first member.
        """
        members = first[:, None] + np.arange(WARP)
        known = self._rows.of(self._known[clusters[:, None], members], slice(self.warps, None))
        known[np.arange(len(first))[:, None], np.arange(WARP), members] = ALWAYS
        return np.asarray(known[:, :, start:].min(axis=1))

    def least_covered(self, clusters: Array, first: Array) -> Array | None:
        """Up to which time proxy fences that all threads of warps know of cover what each member wrote, a row for each
        warp; None if there was none.
        """
        if not self._has_proxy_fence:
            return None
        members = first[:, None] + np.arange(WARP)
        where = clusters[:, None], members
        found = self._rows.of(self._covered[where], slice(self.warps, self.warps + self.members))
        own = np.arange(len(first))[:, None], np.arange(WARP), members
        found[own] = np.maximum(found[own], self._cover_times[where])
        return np.asarray(found.min(axis=1))

    def row(self, lane: tuple[int, int]) -> Array:
        """The times up to which a lane (thread, block) knows each member and agent, shape (members and agents,)."""
        known = self._rows.of(self._known[self.cluster[lane], self.member[lane]], slice(self.warps, None))
        known[self.member[lane]] = ALWAYS
        return known

    def rows_by_groups(self, lanes: Array, groups: Array, count: int) -> Array:
        """The times up to which the lanes of each of `count` groups together know each member and agent.

        The shape is (count, members and agents). `groups` has the number of each lane's group, in the mask's order.
        """
        known = self._rows.largest(self._known.reshape(-1)[self._place[lanes]], groups, count)[:, self.warps :]
        known[groups, self.member[lanes]] = ALWAYS
        return known


def _each_group(lanes: Array, groups: Groups) -> Array:
    """The number of the group of each of the lanes of a mask, in its order."""
    if groups is None:
        return np.zeros(int(np.count_nonzero(lanes)), np.int64)
    return groups if groups.ndim == 1 else groups[0][np.nonzero(lanes)[1]]


def whole(mask: Mask, shape: tuple[int, int]) -> Array:
    """A mask with an entry for each lane of the shape."""
    return np.ones(shape, np.bool_) if mask is None else spread(mask, shape)
