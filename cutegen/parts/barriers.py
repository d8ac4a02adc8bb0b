"""Statements on barriers: of a block, of its peers, of some threads, of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cutegen.parts import acts
from cutegen.parts.acting import Acting
from cutegen.parts.acts import Act, Barrier, NamedBarrier
from cutegen.parts.statements import Statement


def barrier_of(at: Acting, barriers: str, index: str, block: int | None = None) -> Barrier:
    """A barrier of an array by an index as Python, of this block or of another one."""
    return Barrier(at.agent.block if block is None else block, barriers, int(at.value(index)))


def place_of(barriers: str, index: str) -> str:
    """A barrier of an array as Python: the first by the array's name alone."""
    return barriers if index == "0" else f"{barriers} + {index}"


@dataclass(frozen=True)
class Wait(Statement):
    """Waits for the phase of that parity of a barrier."""

    template = "wait"
    barriers: str
    index: str
    parity: str

    @property
    def place(self) -> str:
        return place_of(self.barriers, self.index)

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together(f"wait at {self.place}")
        yield acts.Wait(barrier_of(at, self.barriers, self.index), int(at.value(self.parity)))


@dataclass(frozen=True)
class Expect(Statement):
    """An arrival of each thread at a barrier, whose phase waits for so many bytes besides."""

    template = "expect"
    barriers: str
    index: str
    bytes: str

    @property
    def place(self) -> str:
        return place_of(self.barriers, self.index)

    def acts(self, at: Acting) -> Iterator[Act]:
        barrier, count = barrier_of(at, self.barriers, self.index), len(at.active)
        yield acts.Arrive(barrier, count, count * int(at.value(self.bytes)))


@dataclass(frozen=True)
class Arrive(Statement):
    """An arrival of each thread at a barrier, of this block or of the `peer` with that rank."""

    template = "arrive"
    barriers: str
    index: str
    peer: str = ""

    @property
    def place(self) -> str:
        return place_of(self.barriers, self.index)

    def acts(self, at: Acting) -> Iterator[Act]:
        peer = self.peer or str(at.agent.block)
        for block, count in at.counted(int, peer):
            yield acts.Arrive(barrier_of(at, self.barriers, self.index, block), count)


@dataclass(frozen=True)
class Meet(Statement):
    """A named barrier that so many threads pass together; one that does not wait only arrives."""

    template = "meet"
    number: str
    threads: int
    waits: bool = True

    def acts(self, at: Acting) -> Iterator[Act]:
        at.in_warps(f"come to the named barrier {self.number}")
        barrier = NamedBarrier(at.agent.block, int(at.value(self.number)))
        yield acts.Meet(barrier, self.threads, len(at.active), self.waits)


@dataclass(frozen=True)
class ClusterArrive(Statement):
    """An arrival at the barrier of the cluster, by which those who wait learn of what these threads did, or `relaxed`
    only of the barriers that they had initialised and fenced.
    """

    template = "cluster_arrive"
    relaxed: bool = False

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("arrive at the cluster's barrier")
        yield acts.ClusterArrive(self.relaxed)


@dataclass(frozen=True)
class ClusterWait(Statement):
    """Waits until all threads of the cluster have arrived."""

    template = "cluster_wait"

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("wait for the cluster")
        yield acts.ClusterWait()
