"""Statements on tensor memory: products that one thread starts, commits, loads of columns, and the columns' lives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cutegen.atoms.targets import WARP
from cutegen.parts import acts
from cutegen.parts.acting import Acting
from cutegen.parts.acts import Act, Cell
from cutegen.parts.barriers import barrier_of, place_of
from cutegen.parts.faults import refuse
from cutegen.parts.statements import Statement

_ADDRESS = ("address",)  # what the cell holds in which a warp finds the columns that were allocated


@dataclass(frozen=True)
class AllocateColumns(Statement):
    """A warp allocates columns of tensor memory, whose address it writes to the variable `held` of shared memory."""

    template = "allocate_columns"
    columns: str  # how many
    held: str
    names: tuple[str, ...]  # of parts of the columns in proofs

    def acts(self, at: Acting) -> Iterator[Act]:
        _by_one_warp(at, "allocate tensor memory")
        for name in self.names:
            yield acts.AllocateColumns(Cell(at.agent.block, name, ()))
        yield acts.Write(Cell(at.agent.block, self.held, (0,)), _ADDRESS)


@dataclass(frozen=True)
class TakeColumns(Statement):
    """The address of allocated columns, as a variable."""

    template = "take_columns"
    variable: str
    held: str

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("read the address of tensor memory")
        yield acts.Look(((Cell(at.agent.block, self.held, (0,)), _ADDRESS),))


@dataclass(frozen=True)
class FreeColumns(Statement):
    """A warp frees columns of tensor memory."""

    template = "free_columns"
    variable: str
    columns: str
    names: tuple[str, ...]

    def acts(self, at: Acting) -> Iterator[Act]:
        _by_one_warp(at, "free tensor memory")
        for name in self.names:
            yield acts.FreeColumns(Cell(at.agent.block, name, ()))


@dataclass(frozen=True)
class StartProducts(Statement):
    """Products of a stage of two fragments, A and B, into columns; CuTeDSL has one thread of the warp start them. They
    replace what stands in the columns unless `adds`, as Python, holds. `content` is what must stand in the stage.
    """

    template = "start_products"
    a: str
    b: str
    sums: str  # the variable of the columns
    name: str  # theirs in proofs
    stage: str
    content: str
    adds: str

    def acts(self, at: Acting) -> Iterator[Act]:
        _by_one_warp(at, "start products")
        stage, content = int(at.value(self.stage)), tuple(at.value(self.content))
        names = (*at.found(at.fragments, self.a), *at.found(at.fragments, self.b))
        cells = tuple((Cell(at.agent.block, name, (stage,)), content) for name in names)
        yield acts.StartProducts(cells, Cell(at.agent.block, self.name, ()), content, bool(at.value(self.adds)))


@dataclass(frozen=True)
class Commit(Statement):
    """An arrival at a barrier, by the thread that started products, once all of these are done."""

    template = "commit"
    barriers: str
    index: str

    @property
    def place(self) -> str:
        return place_of(self.barriers, self.index)

    def acts(self, at: Acting) -> Iterator[Act]:
        if len(at.active) > 1:
            refuse(
                "partial", f"{len(at.active)} threads commit products at {self.place}, and one started them", at.agent
            )
        yield acts.Commit(barrier_of(at, self.barriers, self.index))


@dataclass(frozen=True)
class LoadColumns(Statement):
    """A load of columns, each warp of its lanes, to registers. `steps` has the steps that the columns hold the sum of,
    as Python.
    """

    template = "load_columns"
    copy: str
    source: str
    registers: str
    name: str
    steps: str

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("load columns")
        steps = tuple(map(tuple, at.value(self.steps)))
        yield acts.LoadColumns(Cell(at.agent.block, self.name, ()), steps, self.registers)


@dataclass(frozen=True)
class WaitLoads(Statement):
    """Waits for the loads of columns."""

    template = "wait_loads"

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("wait for loads of columns")
        yield acts.WaitLoads()


@dataclass(frozen=True)
class TensorFence(Statement):
    """The fence of tensor memory behind a barrier, with `after`, or before one."""

    template = "tensor_fence"
    after: bool

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("fence tensor memory")
        yield acts.TensorFence(self.after)


def _by_one_warp(at: Acting, does: str) -> None:
    if len({at.threads[place] // WARP for place in at.active}) != 1 or len(at.active) != WARP:
        refuse("partial", f"{len(at.active)} threads of {at.agent.role} {does}, and one warp must", at.agent)
