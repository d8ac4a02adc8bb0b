"""What each thread knows of the past of all others in its cluster: vector clocks, from which follows what is ordered.

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

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.lanes import WARP, Mask

ORDER, AFTER, PROXY = 0, 1, 2
"""What is known of another's past: what memory shows of it; that it has run; and what its proxy fences cover."""

ALWAYS = np.iinfo(np.int32).max
"""A time after all others."""
_LAYERS = 3
_AGENTS = 8  # for how many more of them there is room at once


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
        columns = self.members + _AGENTS
        self._known: Array = np.zeros((_LAYERS, self.clusters, self.members, columns), np.int32)
        own = np.arange(self.members)
        self._known[:PROXY, :, own, own] = ALWAYS
        thread, block = np.indices(shape)
        self.member: Array = block % size * self.padded + thread
        """The member number of each lane, shape (threads, blocks)."""
        self.cluster: Array = block // size
        """The number of each lane's cluster in the batch, shape (threads, blocks)."""
        self._fenced: Array | None = None  # what threads knew at their last fence

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
        if self.agents > self._known.shape[3]:
            more = np.zeros((*self._known.shape[:3], max(_AGENTS, self.size)), np.int32)
            self._known = np.concatenate([self._known, more], axis=3)
            if self._fenced is not None:
                self._fenced = np.concatenate([self._fenced, more[ORDER]], axis=2)
        return first

    def tick(self) -> int:
        """Lets the time go on: what was done before this is before the time that it returns."""
        self.now += 1
        return self.now

    # ------------------------------------------------------------------------------------------ release and acquire

    def told(self, lanes: Array, *, relaxed: bool = False) -> Array:
        """What the lanes of a mask know, and do until now: shape (layers, lanes, others), lanes in the mask's order.

        A `relaxed` release tells of memory only what was known at the last fence. The caller lets the time go on first.
        """
        clusters, members = self.cluster[lanes], self.member[lanes]
        rows: Array = self._known[:, clusters, members]
        each = np.arange(len(members))
        rows[:PROXY, each, members] = self.now
        if relaxed:
            fenced = self._fenced
            rows[ORDER] = 0 if fenced is None else fenced[clusters, members]
            rows[PROXY] = 0
        return rows

    def learn(self, lanes: Array, rows: Array) -> None:
        """Lets the lanes of a mask know what is told to each, shape (layers, lanes or 1, others or fewer)."""
        clusters, members = self.cluster[lanes], self.member[lanes]
        known = self._known[:, clusters, members, : rows.shape[2]]
        self._known[:, clusters, members, : rows.shape[2]] = np.maximum(known, rows)

    def meet(self, lanes: Array, groups: Array) -> None:
        """Lets all lanes of a mask know what those of the same group do; `groups` has a number for each lane."""
        self.tick()
        rows, numbers = self.told(lanes), np.broadcast_to(groups, self.shape)[lanes]
        first, index = np.unique(numbers, return_inverse=True)
        joined = np.zeros((rows.shape[0], len(first), rows.shape[2]), np.int32)
        for number in range(len(first)):
            joined[:, number] = rows[:, index == number].max(axis=1)
        self.learn(lanes, joined[:, index])

    def fence(self, lanes: Array) -> None:
        """A fence of the lanes of a mask: what they know now is told by their next relaxed release."""
        self.tick()
        if self._fenced is None:
            self._fenced = np.zeros(self._known.shape[1:], np.int32)
        self._fenced[self.cluster[lanes], self.member[lanes]] = self.told(lanes)[ORDER]

    def fence_proxies(self, lanes: Array) -> None:
        """A proxy fence of the lanes of a mask: it covers all that is ordered before it."""
        self.tick()
        rows = self.told(lanes)
        rows[PROXY], rows[AFTER] = rows[ORDER], 0
        clusters, members = self.cluster[lanes], self.member[lanes]
        self._known[PROXY, clusters, members] = np.maximum(self._known[PROXY, clusters, members], rows[PROXY])

    # -------------------------------------------------------------------------------------------------- what is known

    def before(self, clusters: Array, members: Array, others: Array, times: Array, layer: int = ORDER) -> Array:
        """Whether what `others` did at those times is ordered before what members of clusters do now.

        All four broadcast to the shape of the result. What nobody did, whose number is negative, is before everything.
        """
        return np.asarray((self._known[layer, clusters, members, others] > times) | (others < 0))

    def bits_before(self, clusters: Array, members: Array, first: Array, times: Array) -> Array:
        """For each entry of the arguments, which of the 32 members from `first` on did at that time what is before.

        Bit i of a result, uint32, is for the member `first` + i.
        """
        span = np.arange(WARP)
        known = self._known[ORDER, clusters[:, None], members[:, None], first[:, None] + span] > times[:, None]
        return np.asarray(np.bitwise_or.reduce(np.where(known, np.uint32(1) << span.astype(np.uint32), 0), axis=1))

    def all_before(self, clusters: Array, members: Array, first: Array, times: Array) -> Array:
        """Whether what all threads of a block did at a time is before, where `first` is its first member.

        So it is only if all of them have since released, which those that have exited never do.
        """
        span = np.arange(self.shape[0])
        known = self._known[ORDER, clusters[:, None], members[:, None], first[:, None] + span]
        return np.asarray((known > times[:, None]).all(axis=1))

    def has_run(self, lanes: Array, rank: Array) -> Array:
        """Whether each lane of a mask knows that the block of its cluster with that rank has started to run."""
        clusters, members = self.cluster[lanes], self.member[lanes]
        known = self._known[AFTER, clusters, members, : self.members].reshape(-1, self.size, self.padded)
        return np.asarray(known.max(axis=2)[np.arange(len(members)), rank] > 0)

    def row(self, lane: tuple[int, int], layer: int = ORDER) -> Array:
        """What a lane (thread, block) knows of all others, shape (others,), not to be changed."""
        return np.asarray(self._known[layer, self.cluster[lane], self.member[lane]])

    def rows(self, lanes: Array, layer: int = ORDER) -> Array:
        """What the lanes of a mask know, shape (lanes, others)."""
        return np.asarray(self._known[layer, self.cluster[lanes], self.member[lanes]])


def whole(mask: Mask, shape: tuple[int, int]) -> Array:
    """A mask with an entry for each lane of the shape."""
    return np.ones(shape, np.bool_) if mask is None else np.broadcast_to(mask, shape)
