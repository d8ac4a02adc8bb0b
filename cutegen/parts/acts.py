"""Acts: what the statements of a kernel do to barriers and shared memory, which is all that a proof looks at.

A role of a kernel has no branch that depends on time. So for given sizes every agent, which is some threads of a block
that go through a role together, does a fixed list of acts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias


class Agent(NamedTuple):
    """Threads that act together: of the block with that rank in its cluster, in a role, of one of its warpgroups (0
    where it has one), the part of it with that number.
    """

    block: int
    role: str
    group: int
    part: int


class Barrier(NamedTuple):
    """An mbarrier of a block: one of the array of that name."""

    block: int
    name: str
    index: int  # type: ignore[assignment]  # not the method of tuples


class Cell(NamedTuple):
    """Shared memory of a block that is loaded, written, read and stored as one: part of the buffer of that name."""

    block: int
    name: str
    place: tuple[int, ...]


class NamedBarrier(NamedTuple):
    """A barrier of a block by its number (`bar.sync`, `bar.arrive`)."""

    block: int
    number: int


Content: TypeAlias = "tuple[object, ...]"
"""The contents of a cell, for example the tile and the step of k that were loaded."""


@dataclass(frozen=True)
class Initialise:
    """Gives a barrier of the agent's block the number of arrivals that end each of its phases."""

    barrier: Barrier
    arrivals: int


@dataclass(frozen=True)
class FenceInitialised:
    """The barriers that this agent has initialised are seen by whoever it meets afterwards, and by copies."""


@dataclass(frozen=True)
class Wait:
    """Goes on once the phase of that parity of a barrier is over; at once where the phase before it is (a fresh
    barrier is in phase 0: a wait for parity 1 passes).
    """

    barrier: Barrier
    parity: int


@dataclass(frozen=True)
class Arrive:
    """So many arrivals at a barrier, which may be a peer's, and so many bytes that its phase waits for besides."""

    barrier: Barrier
    count: int
    expected: int = 0


@dataclass(frozen=True)
class Bring:
    """Starts an asynchronous copy to a cell, which may be a peer's. At some later time the cell has the content, and a
    barrier of the same block so many bytes. `left_out` are those of the cell which it does not bring, since none of
    the tensor lies there.
    """

    cell: Cell
    content: Content
    barrier: Barrier
    bytes: int
    left_out: int = 0


@dataclass(frozen=True)
class Multiply:
    """Starts a group of products that read cells, which must have those contents, and use registers by name. They run
    on until they are drained. A product is an act of all agents of a warpgroup: none starts it alone. What they make of
    cells that loads have `left_out` is not used, and these may have any contents.
    """

    cells: tuple[tuple[Cell, Content], ...]
    registers: tuple[str, ...] = ()
    left_out: tuple[tuple[Cell, Content], ...] = ()


@dataclass(frozen=True)
class StartProducts:
    """One thread starts products of tensor memory (tcgen05.mma), which read cells that must have those contents, and
    write columns: they replace what stands there, or with `adds` add to it. They run on until a barrier tells of them.
    `content` is the step of the sum. What they make of cells that loads have `left_out` is not used.
    """

    cells: tuple[tuple[Cell, Content], ...]
    columns: Cell
    content: Content
    adds: bool
    left_out: tuple[tuple[Cell, Content], ...] = ()


@dataclass(frozen=True)
class Commit:
    """An arrival at a barrier of the agent's block, which comes once all products are done that it has started."""

    barrier: Barrier


@dataclass(frozen=True)
class AllocateColumns:
    """Columns of tensor memory of the block become its own."""

    columns: Cell


@dataclass(frozen=True)
class FreeColumns:
    """Columns of tensor memory are given back: nothing may read or write them any more."""

    columns: Cell


@dataclass(frozen=True)
class LoadColumns:
    """Starts a load of columns, which must hold the sum of those steps, to registers by name."""

    columns: Cell
    steps: tuple[Content, ...]
    registers: str


@dataclass(frozen=True)
class WaitLoads:
    """Waits until all loads of columns that the agent has started are done."""


@dataclass(frozen=True)
class TensorFence:
    """Orders accesses to tensor memory with barriers: with `after` those behind it after what the agent knows by
    barriers, else what barriers tell later after the accesses before it.
    """

    after: bool


@dataclass(frozen=True)
class Drain:
    """Waits until all groups of products but the last `but` are done."""

    but: int


@dataclass(frozen=True)
class Use:
    """Reads or writes registers by name: no product under way may use them."""

    registers: tuple[str, ...]


@dataclass(frozen=True)
class Look:
    """Reads cells by the threads themselves. They must have those contents; None: the last written ones."""

    cells: tuple[tuple[Cell, Content | None], ...]


@dataclass(frozen=True)
class Write:
    """Writes a cell by the threads themselves, or their part of it: agents of one warpgroup write it together. Those
    that `update` it have read what they replace, each its own part.
    """

    cell: Cell
    content: Content
    updates: bool = False


@dataclass(frozen=True)
class CpAsync:
    """Starts asynchronous copies of the threads themselves to a cell, or to their part of it: agents of one warpgroup
    fill it together. They are done once an agent has waited for the group that it commits next.
    """

    cell: Cell
    content: Content


@dataclass(frozen=True)
class CpAsyncCommitGroup:
    """Makes a group of the agent's copies since the last one, which may be none."""


@dataclass(frozen=True)
class CpAsyncWaitGroup:
    """Waits until all of the agent's groups of copies but the last `but` are done: for these threads alone."""

    but: int


@dataclass(frozen=True)
class Fence:
    """Makes what these threads wrote visible to asynchronous copies that are started afterwards."""


@dataclass(frozen=True)
class Store:
    """Starts an asynchronous copy from cells, whose writers must all have fenced before, as a group of its own. They
    must have those contents; None: the last written ones.
    """

    cells: tuple[tuple[Cell, Content | None], ...]


@dataclass(frozen=True)
class Stored:
    """Waits until all groups of stores but the last `but` have read their cells."""

    but: int


@dataclass(frozen=True)
class Meet:
    """`count` threads come to a named barrier that `threads` pass together, and wait there, or only arrive."""

    barrier: NamedBarrier
    threads: int
    count: int
    waits: bool


@dataclass(frozen=True)
class ClusterArrive:
    """Arrives at the barrier of the cluster, without waiting. Where it is `relaxed`, those who wait learn of nothing
    that this agent did but of the barriers that it had initialised and fenced.
    """

    relaxed: bool = False


@dataclass(frozen=True)
class ClusterWait:
    """Waits until all threads of the cluster have arrived at its barrier as often as this one has."""


Act: TypeAlias = (
    "Initialise | FenceInitialised | Wait | Arrive | Bring | Multiply | Drain | Use | Look | Write | CpAsync"
    " | CpAsyncCommitGroup | CpAsyncWaitGroup | Fence | Store | Stored | Meet | ClusterArrive | ClusterWait"
    " | StartProducts | Commit | AllocateColumns | FreeColumns | LoadColumns | WaitLoads | TensorFence"
)


@dataclass(frozen=True)
class Run:
    """The acts of each agent of a cluster, in order, from the start of its blocks to their ends. `overlaps` maps a
    cell, by name and first number, to the cells that share memory with it: these lose their contents once it is loaded
    or written.
    """

    acts: Mapping[Agent, Sequence[Act]]
    overlaps: Mapping[tuple[str, int], Set[tuple[str, int]]] = field(default_factory=dict)
