"""Statements that move values, or use them: copies by tensor maps and between blocks, products, and what threads do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from cutegen.parts import acts
from cutegen.parts.acting import Acting
from cutegen.parts.acting import Partition as Part
from cutegen.parts.acts import Act, Barrier, Cell
from cutegen.parts.barriers import barrier_of, place_of
from cutegen.parts.faults import refuse
from cutegen.parts.statements import For, Statement

_SENT = 16  # bytes of a thread's four words


@dataclass(frozen=True)
class Partition(Statement):
    """A `tma_partition`, as two variables: the parts of a tensor's cells, and of the tensor itself, that a tensor map
    moves. Where several blocks load the same tile, each moves one part of `among`, that of its `rank`.
    """

    template = "partition"
    tensor: str  # in the names of its map and of its cells
    shared: str
    whole: str
    source: str
    rank: str = "0"
    among: str = "1"
    boxes: str = ""  # how many loads move a cell, where these are several: then `cells` has it in as many parts
    cells: str = ""
    modes: str = "2"  # that a cell has, and a tile of the tensor: how many

    def acts(self, at: Acting) -> Iterator[Act]:
        boxes = int(at.value(self.boxes)) if self.boxes else 1
        at.partitions[self.shared] = Part(self.tensor, int(at.value(self.rank)), int(at.value(self.among)), boxes)
        return iter(())


@dataclass(frozen=True)
class Load(Statement):
    """A copy by a tensor map to `cell` of a partition, whose bytes it brings to a barrier: of this block or, by a mask
    (a variable), of each block of the cluster whose bit is set. `content` is what is brought, as Python.

    Of a partition in boxes it moves one, by its number `box`. Where the condition `inside` does not hold, nothing of
    the tensor is there, and it is left out: no bytes come, and what products make of that place is not stored.
    """

    template = "load"
    tensor: str  # in the name of its map
    source: str
    to: str
    cell: str
    barriers: str
    index: str
    content: str
    mask: str = ""
    box: str = ""
    inside: str = ""

    @property
    def place(self) -> str:
        return place_of(self.barriers, self.index)

    def acts(self, at: Acting) -> Iterator[Act]:
        return self._brings(at, None)

    def boxes(self, at: Acting, variable: str, numbers: Iterable[int]) -> Iterator[Act]:
        """Yields the acts of the loads of several boxes as those of one load, since nobody waits for a box alone."""
        found, inside = [], []
        for number in numbers:
            at.variables[variable] = number
            found.append(int(at.value(self.box)))
            inside.append(bool(at.value(self.inside)))
        every = at.found(at.partitions, self.to).boxes
        if found != list(range(every)):
            refuse("content", f"{self.to} is loaded in boxes {found}, of {every}", at.agent)
        return self._brings(at, Fraction(sum(inside), every))

    def _brings(self, at: Acting, inside: Fraction | None) -> Iterator[Act]:
        """The copy of a cell, or of the part of it that lies inside the tensor, to all blocks that it serves."""
        at.in_warps(f"load {self.to}")
        bits = int(at.value(self.mask)) if self.mask else 1 << at.agent.block
        name, part, among, boxes = at.found(at.partitions, self.to)
        place, content = (int(at.value(self.cell)), part), tuple(at.value(self.content))
        whole = at.found(at.allocated, name).own // among
        size = whole // boxes if inside is None else int(whole * inside)
        left_out = 0 if inside is None else whole - size
        for block in (rank for rank in range(at.geometry.size) if bits >> rank & 1):
            barrier = barrier_of(at, self.barriers, self.index, block)
            yield acts.Bring(Cell(block, name, place), content, barrier, size, left_out)


@dataclass(frozen=True)
class ForBoxes(For):
    """A loop over the boxes that a load brings, which is all that it does."""

    def acts(self, at: Acting) -> Iterator[Act]:
        for statement in self.body:
            if isinstance(statement, Load):
                yield from statement.boxes(at, self.variable, at.value(self.over))
            else:
                yield from statement.acts(at)


@dataclass(frozen=True)
class Send(Statement):
    """Four words of each thread to the same place in the memory of a peer, as a copy that counts bytes at its barrier:
    to `vector` of those that a thread has of the cell at `index`.
    """

    template = "send"
    to: str
    vector: str
    index: str
    words: str
    barriers: str
    peer: str
    content: str

    def acts(self, at: Acting) -> Iterator[Act]:
        peer = int(at.value(self.peer))
        cell, content = _vector(at, self.to, self.index, self.vector, peer), tuple(at.value(self.content))
        yield acts.Bring(cell, content, Barrier(peer, self.barriers, 0), len(at.active) * _SENT)


@dataclass(frozen=True)
class Add(Statement):
    """Adds what each thread has in `vector` of the cell at `index` of a buffer to four values of its own."""

    template = "add"
    into: str
    buffer: str
    vector: str
    index: str
    content: str

    def acts(self, at: Acting) -> Iterator[Act]:
        cell = _vector(at, self.buffer, self.index, self.vector, at.agent.block)
        at.together("read shared memory")
        yield acts.Look(((cell, tuple(at.value(self.content))),))


def _vector(at: Acting, name: str, index: str, vector: str, block: int) -> Cell:
    """The part of a cell that an agent's threads have at one of their vectors."""
    number = at.found(at.allocated, name).number(at.value(index))
    return Cell(block, name, (number, at.agent.part, int(at.value(vector))))


@dataclass(frozen=True)
class Fragment(Statement):
    """The cells of a buffer as products read them, all that are side by side in it."""

    template = "fragment"
    name: str
    letter: str  # A or B
    buffer: str  # its variable
    mma: str = "tiled_mma"
    thread: str = "thr_mma"  # whose part they are; none where the buffer is laid out as products read it
    view: str = ""  # a variable for the same cells in another layout, if products read them so

    def acts(self, at: Acting) -> Iterator[Act]:
        at.fragments[self.name] = tuple(name for name, one in at.allocated.items() if one.variable == self.buffer)
        return iter(())


@dataclass(frozen=True)
class Multiply(Statement):
    """Products of a stage of two fragments, A and B, as a group of their own, which are added to the registers `sums`,
    or replace what these have where they are `fresh`. `content` is what must stand there, in all parts that it is
    loaded in. Of A they may be only the block of rows with the number `rows`. What threads have written to the
    registers that products use is `fenced` first.
    """

    template = "multiply"
    a: str
    b: str
    stage: str
    content: str
    sums: str = "acc"
    rows: str = ""
    fresh: bool = False
    mma: str = "tiled_mma"
    place_of_a: str = ""  # the index of A's cell, where it is not the stage
    fenced: bool = True
    adds: bool = False  # whether the product was told before to add, always

    def acts(self, at: Acting) -> Iterator[Act]:
        stage, content = int(at.value(self.stage)), tuple(at.value(self.content))
        names = (*at.found(at.fragments, self.a), *at.found(at.fragments, self.b))
        at.together("start a product")
        yield acts.Multiply(tuple((Cell(at.agent.block, name, (stage,)), content) for name in names), (self.sums,))


@dataclass(frozen=True)
class Drain(Statement):
    """Waits for all groups of products but the last `but`."""

    template = "drain"
    but: int

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("wait for products")
        yield acts.Drain(self.but)


@dataclass(frozen=True)
class Fence(Statement):
    """Makes what threads wrote to shared memory visible to the copies that they start afterwards."""

    template = "fence"

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("fence what they wrote")
        yield acts.Fence()


@dataclass(frozen=True)
class Store(Statement):
    """A copy by a tensor map from `cell` of a buffer, which must have the `content`, to global memory."""

    template = "store"
    tensor: str
    target: str
    cell: str
    content: str

    def acts(self, at: Acting) -> Iterator[Act]:
        at.in_warps("store")
        cell = Cell(at.agent.block, self.tensor, (int(at.value(self.cell)),))
        at.ungrouped.append((cell, tuple(at.value(self.content))))
        return iter(())


@dataclass(frozen=True)
class CommitStores(Statement):
    """Makes a group of the stores since the last one."""

    template = "commit_stores"

    def acts(self, at: Acting) -> Iterator[Act]:
        at.in_warps("make a group of stores")
        yield acts.Store(tuple(at.ungrouped))
        at.ungrouped.clear()


@dataclass(frozen=True)
class Stored(Statement):
    """Waits until all groups of stores but the last ones have read shared memory."""

    template = "stored"
    but: str

    def acts(self, at: Acting) -> Iterator[Act]:
        at.in_warps("wait for stores")
        yield acts.Stored(int(at.value(self.but)))


# ------------------------------------------------------------------------------------------------------ by threads


@dataclass(frozen=True)
class Look(Statement):
    """Reads of threads, with lines that the family prints: of `cell`, a tuple, in each of the buffers."""

    reads: tuple[str, ...]
    cell: str
    content: str = "None"

    def acts(self, at: Acting) -> Iterator[Act]:
        place, content = tuple(map(int, at.value(self.cell))), at.value(self.content)
        at.together("read shared memory")
        yield acts.Look(tuple((Cell(at.agent.block, name, place), content) for name in self.reads))


@dataclass(frozen=True)
class Write(Statement):
    """Writes of threads, with lines that the family prints: to `cell`, a tuple, in each of the buffers. Threads that
    `update` elements have read them before.
    """

    writes: tuple[str, ...]
    cell: str
    content: str
    updates: bool = False

    def acts(self, at: Acting) -> Iterator[Act]:
        place, content = tuple(map(int, at.value(self.cell))), tuple(at.value(self.content))
        at.together("write shared memory")
        for name in self.writes:
            yield acts.Write(Cell(at.agent.block, name, place), content, self.updates)


@dataclass(frozen=True)
class Use(Statement):
    """Registers that threads read or write, with lines that the family prints."""

    registers: tuple[str, ...] = ("acc",)

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("use registers")
        yield acts.Use(self.registers)
