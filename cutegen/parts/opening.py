"""Statements that a kernel opens with: what it allocates in shared memory, and barriers before anyone uses them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cutegen.parts import acts
from cutegen.parts.acting import Acting, Allocated
from cutegen.parts.acts import Act, Barrier, NamedBarrier
from cutegen.parts.barriers import place_of
from cutegen.parts.declared import Barriers, Buffer
from cutegen.parts.statements import Statement


@dataclass(frozen=True)
class Allocate(Statement):
    """Shared memory of its own for a buffer."""

    template = "allocate"
    buffer: Buffer

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together(f"allocate {self.buffer.variable}")
        one = self.buffer
        for name in one.cells:
            shape = tuple(map(int, at.value(f"({one.copies},)")))
            own, within = one.bytes // len(one.cells), one.within or one.variable
            at.allocated[name] = Allocated(shape, one.bytes, own, one.variable, within)
        return iter(())


@dataclass(frozen=True)
class Overlay(Allocate):
    """A buffer in the place of another one."""

    template = "overlay"


@dataclass(frozen=True)
class AllocateBarriers(Statement):
    """Shared memory for an array of barriers."""

    template = "allocate_barriers"
    barriers: Barriers

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together(f"allocate {self.barriers.name}")
        name, length = self.barriers.name, int(at.value(self.barriers.length))
        at.allocated[name] = Allocated((length,), self.barriers.bytes, self.barriers.bytes, name, name)
        return iter(())


@dataclass(frozen=True)
class Initialise(Statement):
    """A barrier of an array with its number of arrivals, by each thread that comes here: it had better be one."""

    template = "initialise"
    barriers: Barriers
    index: str

    @property
    def place(self) -> str:
        return place_of(self.barriers.name, self.index)

    def acts(self, at: Acting) -> Iterator[Act]:
        for index in at.each(self.index):
            barrier = Barrier(at.agent.block, self.barriers.name, int(index))
            yield acts.Initialise(barrier, int(at.value(self.barriers.arrivals)))


@dataclass(frozen=True)
class FenceInitialised(Statement):
    """Barriers that the thread has initialised are seen by whoever it meets afterwards, and by copies."""

    template = "fence_initialised"

    def acts(self, at: Acting) -> Iterator[Act]:
        yield acts.FenceInitialised()


@dataclass(frozen=True)
class SyncThreads(Statement):
    """All threads of the block come together, at its barrier 0."""

    template = "sync_threads"

    def acts(self, at: Acting) -> Iterator[Act]:
        at.in_warps("come to the barrier of the block")
        yield acts.Meet(NamedBarrier(at.agent.block, 0), at.block_threads, len(at.active), waits=True)
