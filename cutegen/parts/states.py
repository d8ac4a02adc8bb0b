"""States of a run: where its agents are, and what barriers, named barriers and cells hold there.

Products and stores under way are no part of a state: they follow from where the agents are (`courses`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from cutegen.parts.acts import (
    Act,
    Agent,
    Arrive,
    Barrier,
    Bring,
    Cell,
    Content,
    CpAsync,
    Initialise,
    Look,
    Meet,
    Multiply,
    NamedBarrier,
    Run,
    Store,
    Wait,
    Write,
)
from cutegen.parts.courses import Course, courses_of, warpgroup_of
from cutegen.parts.wording import Wording

Key = TypeVar("Key")
UNMADE = -1


class Phase(NamedTuple):
    """The phase of a barrier that is under way."""

    parity: int
    arrivals: int  # that it lacks; UNMADE before it is initialised
    bytes: int  # that are expected and have not come


class Gathered(NamedTuple):
    """Who has come to a named barrier since it was passed."""

    threads: int = 0  # that pass together: 0 where none has come
    come: int = 0
    waiting: tuple[int, ...] = ()


class Standing(NamedTuple):
    """The contents of a cell, how they came there, and whether they have been read."""

    content: int = -1
    loaded: bool = False
    read: bool = False
    writers: tuple[tuple[int, int], ...] = ()  # agents, and which of their acts


class Copy(NamedTuple):
    """A copy under way."""

    cell: int
    content: int
    barrier: int
    bytes: int


class State(NamedTuple):
    at: tuple[int, ...]  # the number of the next act of each agent
    phases: tuple[Phase, ...]
    gathered: tuple[Gathered, ...]
    cells: tuple[Standing, ...]
    copies: tuple[Copy, ...]


class Tables:
    """A run with numbers for all that states speak of."""

    def __init__(self, run: Run) -> None:
        self.wording = Wording.of(run)
        courses = courses_of(run, self.wording)
        self.agents: list[Agent] = list(run.acts)
        self.names = [self.wording.agent(agent) for agent in self.agents]
        self.courses: list[Course] = list(courses.values())
        self.end = tuple(len(course.acts) for course in self.courses)
        acts = [act for course in self.courses for act in course.acts]
        self.barriers: dict[Barrier, int] = _numbered(
            a.barrier for a in acts if isinstance(a, Initialise | Wait | Arrive | Bring)
        )
        self.named: dict[NamedBarrier, int] = _numbered(a.barrier for a in acts if isinstance(a, Meet))
        self.cells: dict[Cell, int] = _numbered(cell for act in acts for cell in cells_of(act))
        self.overlapped = [self._overlapped(run, cell) for cell in self.cells]
        self.contents: dict[Content, int] = _numbered(a.content for a in acts if isinstance(a, Bring | Write | CpAsync))
        # Of each barrier the arrivals that it is initialised with, by which agent, and which act of that does it
        self.made = {
            self.barriers[act.barrier]: (act.arrivals, number, at)
            for number, course in enumerate(self.courses)
            for at, act in enumerate(course.acts)
            if isinstance(act, Initialise)
        }
        self.blocks: dict[int, list[int]] = defaultdict(list)
        warpgroups: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for number, agent in enumerate(self.agents):
            self.blocks[agent.block].append(number)
            warpgroups[warpgroup_of(agent)].append(number)
        self.warpgroups = list(warpgroups.values())
        self.warpgroup = [warpgroups[warpgroup_of(agent)] for agent in self.agents]
        self.product_cells = [[self._numbers(product) for product in course.products] for course in self.courses]
        self.store_cells = [[self._numbers(store) for store in course.stores] for course in self.courses]

    def _overlapped(self, run: Run, cell: Cell) -> list[int]:
        """The cells that have memory in common with one."""
        others = run.overlaps.get((cell.name, cell.place[0]), ()) if cell.place else ()
        return [
            number
            for other, number in self.cells.items()
            if other.block == cell.block and other.place and (other.name, other.place[0]) in others
        ]

    def _numbers(self, act: Act) -> frozenset[int]:
        return frozenset(self.cells[cell] for cell in cells_of(act))

    def start(self) -> State:
        return State(
            (0,) * len(self.agents),
            (Phase(0, UNMADE, 0),) * len(self.barriers),
            (Gathered(),) * len(self.named),
            (Standing(),) * len(self.cells),
            (),
        )

    def readers(self, at: tuple[int, ...], cell: int) -> Iterator[str]:
        """The products and stores under way that read a cell."""
        for members in self.warpgroups:
            first = members[0]
            drained = max(self.courses[member].under[at[member]].drained for member in members)
            started = self.courses[first].under[at[first]].products
            if any(cell in cells for cells in self.product_cells[first][drained:started]):
                yield f"a product of {self.names[first]}"
        for number, course in enumerate(self.courses):
            under = course.under[at[number]]
            if any(cell in cells for cells in self.store_cells[number][under.stored : under.stores]):
                yield f"the store of {self.names[number]}"

    def is_made(self, at: tuple[int, ...], barrier: int) -> bool:
        """Whether a barrier has been initialised, and fenced after that."""
        if barrier not in self.made:
            return False
        _, number, act = self.made[barrier]
        return self.courses[number].under[at[number]].initialised > act

    def copies(self, at: tuple[int, ...], writers: tuple[tuple[int, int], ...]) -> Iterator[str]:
        """Those of a cell's writers whose own copies to it are under way: they have not waited for them."""
        for number, act in writers:
            course = self.courses[number]
            if course.copies.get(act, -1) >= course.under[at[number]].copied:
                yield self.names[number]

    def ended(self, at: tuple[int, ...], block: int) -> bool:
        return all(at[number] == self.end[number] for number in self.blocks[block])


def cells_of(act: Act) -> list[Cell]:
    match act:
        case Bring(cell=cell) | Write(cell=cell) | CpAsync(cell=cell):
            return [cell]
        case Multiply(cells=pairs) | Look(cells=pairs) | Store(cells=pairs):
            return [cell for cell, _ in pairs]
    return []


def _numbered(things: Iterator[Key]) -> dict[Key, int]:
    return {thing: number for number, thing in enumerate(dict.fromkeys(things))}
