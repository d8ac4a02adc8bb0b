"""Statements of threads that all copy their part of tiles to stages of shared memory, and multiply from there.

Tiles come by `cp.async`, or through registers. Names of variables follow CuTe: for a tensor `A` its tiles are `tAgA`,
its stages `tAsA`, and its registers on the way `tArA`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from cutegen.parts import acts
from cutegen.parts.acting import Acting, Allocated
from cutegen.parts.acts import Act, Cell, Content
from cutegen.parts.faults import refuse
from cutegen.parts.held import Step
from cutegen.parts.statements import Statement


@dataclass(frozen=True)
class Array(Statement):
    """Buffers, tensors or registers of so many places, with lines that the family prints."""

    names: tuple[str, ...]
    length: str

    def acts(self, at: Acting) -> Iterator[Act]:
        for name in self.names:
            at.allocated[name] = Allocated((int(at.value(self.length)),), 0, 0, name, name)
        return iter(())


def _is_made(at: Acting, pred: str) -> bool:
    """Whether a copy under predicates is made, where it is in bounds: None are none."""
    found = at.value(pred) if pred else None
    return found is None or bool(found)


def _brought(at: Acting, tensor: str, stage: str, content: Content) -> Cell:
    """The stage that an agent brings a tile to, where it may not be already."""
    cell = Cell(at.agent.block, tensor, (at.place(tensor, stage),))
    if at.held.cells.get(cell) == content:
        text = f"{at.agent.role} brings tile {content[0]} of {tensor} to stage {cell.place[0]}, where it is already"
        refuse("overwrite", text, at.agent)
    at.held.cells[cell] = content
    return cell


@dataclass(frozen=True)
class CopyTile(Statement):
    """A `cp.async` of each thread's part of a tile to a stage; its rows are `rows` elements further, each by one of
    these offsets.
    """

    template = "copy_tile"
    tensor: str
    tile: str
    stage: str
    pred: str = ""
    rows: str = ""

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together(f"copy {self.tensor}")
        if _is_made(at, self.pred):
            content = (at.place(f"g{self.tensor}", self.tile),)
            yield acts.CpAsync(_brought(at, self.tensor, self.stage, content), content)


@dataclass(frozen=True)
class CpAsyncCommitGroup(Statement):
    """Makes a group of each thread's copies since the last one."""

    template = "cp_async_commit_group"

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("make a group of copies")
        yield acts.CpAsyncCommitGroup()


@dataclass(frozen=True)
class CpAsyncWaitGroup(Statement):
    """Waits, in each thread for its own, for all groups of copies but the last ones."""

    template = "cp_async_wait_group"
    but: str

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("wait for copies")
        yield acts.CpAsyncWaitGroup(int(at.value(self.but)))


@dataclass(frozen=True)
class CopyToRegisters(Statement):
    """Reads of each thread's part of a tile into registers, which keep what they have where `pred` does not hold. Its
    rows are `rows` elements further, each by one of these offsets.
    """

    template = "copy_to_registers"
    tensor: str
    tile: str
    pred: str = ""
    rows: str = ""

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together(f"read {self.tensor}")
        if _is_made(at, self.pred):
            at.held.tiles[self.tensor] = (at.place(f"g{self.tensor}", self.tile),)
        return iter(())


@dataclass(frozen=True)
class CopyFromRegisters(Statement):
    """Writes of what was read into registers to a stage."""

    template = "copy_from_registers"
    tensor: str
    stage: str

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together(f"write {self.tensor} to shared memory")
        content = at.held.tiles.get(self.tensor, ("nothing",))
        yield acts.Write(_brought(at, self.tensor, self.stage, content), content)


# -------------------------------------------------------------------------------------------------------- fragments


@dataclass(frozen=True)
class ReadFragment(Statement):
    """Reads of what each thread multiplies of one k of a stage, by a tiled `copy` if it names one.

    `source` is the view of the stages of `buffer`, `target` that of the registers `fragment`. Where nothing was brought
    to the stage, nothing comes of it: that may not be multiplied.
    """

    template = "read_fragment"
    buffer: str
    source: str
    target: str
    fragment: str
    k: str
    stage: str
    copy: str = ""

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together(f"read fragments of {self.buffer}")
        cell = Cell(at.agent.block, self.buffer, (at.place(self.buffer, self.stage),))
        k, content = at.place(self.fragment, self.k), at.held.cells.get(cell)
        at.held.fragments[self.fragment, k] = None if content is None else (content, k)
        if content is not None:
            yield acts.Look(((cell, content),))


@dataclass(frozen=True)
class ConvertFragment(Statement):
    """The conversion of what was read of one k, in the registers `source`, to another type."""

    template = "convert_fragment"
    fragment: str
    source: str
    k: str
    dtype: str

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("convert fragments")
        k = at.place(self.fragment, self.k)
        at.held.fragments[self.fragment, k] = at.held.fragments.get((self.source, k))
        return iter(())


@dataclass(frozen=True)
class MultiplyAdd(Statement):
    """The products of one k of two fragments, which are added to the registers `sums`."""

    template = "multiply_add"
    a: str
    b: str
    k: str
    sums: str = "acc"

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("multiply")
        k = int(at.value(self.k))
        one, other = (at.held.fragments.get((name, k)) for name in (self.a, self.b))
        where = f"{at.agent.role} multiplies {self.a} and {self.b} of k_block {k}"
        if one is None or other is None:
            refuse("fragment", f"{where}, of which nothing has been read", at.agent)
        if one != other:
            refuse("fragment", f"{where}, which are of the steps {one} and {other}", at.agent)
        at.held.sums.setdefault(self.sums, Counter())[one] += 1
        return iter(())


@dataclass(frozen=True)
class Summed(Statement):
    """A use of sums, with lines that the family prints: each of `steps` of each of `tiles` has been added once."""

    tiles: str
    steps: str
    sums: str = "acc"

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("use sums")
        found = at.held.sums.get(self.sums, Counter())
        wanted = product(range(int(at.value(self.tiles))), range(int(at.value(self.steps))))
        steps: set[Step] = {((tile,), k) for tile, k in wanted}
        for step in {*found, *steps}:
            content, k = step
            if found[step] != 1 or step not in steps:
                text = f"{at.agent.role} multiplies k_block {k} of tile {content[0]} {found[step]} times"
                refuse("sum", text, at.agent)
        return iter(())


@dataclass(frozen=True)
class StoreSums(Statement):
    """Writes of each thread's `sums` to the buffer of the output, which takes the place of all stages of others."""

    template = "store_sums"
    output: str
    over: tuple[str, ...]
    sums: str = "acc"

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("write sums to shared memory")
        stages = ((name, stage) for name in self.over for stage in range(at.allocated[name].length))
        for name, stage in ((self.output, 0), *stages):
            cell = Cell(at.agent.block, name, (stage,))
            at.held.cells[cell] = ("sums",)
            yield acts.Write(cell, ("sums",))


@dataclass(frozen=True)
class ReadSums(Statement):
    """Reads of the sums that all threads have stored, with lines that the family prints."""

    output: str

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("read sums")
        cell = Cell(at.agent.block, self.output, (0,))
        content = at.held.cells.get(cell)
        if content is None:
            refuse("early", f"{at.agent.role} reads sums from shared memory, where it has stored none", at.agent)
        yield acts.Look(((cell, content),))
