"""Goes through every state that any order of the agents comes to, with copies that come at any time.

The number of states grows quickly: this is for one block and small counts, as a test of `one_order`, which is for all
else. It finds only what can go wrong; `one_order` also refuses what goes right without being ordered.

Products start once all agents of the warpgroup have come, and are done for all when they are for one, as there. It has
no moves for acts on tensor memory: runs with these are for `one_order` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from cutegen.parts.acts import (
    Act,
    Arrive,
    Barrier,
    Bring,
    Cell,
    ClusterArrive,
    ClusterWait,
    Content,
    CpAsync,
    CpAsyncCommitGroup,
    CpAsyncWaitGroup,
    Drain,
    Fence,
    FenceInitialised,
    Initialise,
    Look,
    Meet,
    Multiply,
    Run,
    Store,
    Stored,
    Use,
    Wait,
    Write,
)
from cutegen.parts.faults import Kind, refuse
from cutegen.parts.states import UNMADE, Copy, Gathered, Phase, Standing, State, Tables
from cutegen.parts.wording import content_text

Item = TypeVar("Item")


@dataclass(frozen=True)
class Search:
    """How much was looked at."""

    states: int


class TooManyStates(Exception):
    """The limit was reached with states left to look at: nothing is proved."""


def prove(run: Run, limit: int = 1_000_000) -> Search:
    """Raises `Unproved` with the first fault, or `TooManyStates`."""
    orders = _Orders(run)
    start = orders.tables.start()
    seen, left = {start}, [start]
    while left:
        for state in orders.after(left.pop()):
            if state not in seen:
                seen.add(state)
                left.append(state)
        if len(seen) > limit:
            raise TooManyStates(f"more than {limit} states")
    return Search(len(seen))


class _Orders:
    def __init__(self, run: Run) -> None:
        self.tables = Tables(run)
        self.wording = self.tables.wording
        self.cells = list(self.tables.cells)
        self.barriers = list(self.tables.barriers)
        self.moves: dict[type[Act], Callable[[State, int, Any], State | None]] = {
            Initialise: self._initialise,
            FenceInitialised: self._nothing,
            Wait: self._wait,
            Arrive: self._arrive,
            Bring: self._bring,
            Multiply: self._multiply,
            Drain: self._nothing,
            Use: self._nothing,
            Look: self._look,
            Write: self._write,
            CpAsync: self._write,
            CpAsyncCommitGroup: self._nothing,
            CpAsyncWaitGroup: self._nothing,
            Fence: self._nothing,
            Store: self._store,
            Stored: self._nothing,
            Meet: self._meet,
            ClusterArrive: self._nothing,
            ClusterWait: self._cluster_wait,
        }

    def after(self, state: State) -> Iterator[State]:
        """The states that come next: one for each copy that may come, and each agent that may go on."""
        if state.at == self.tables.end:
            self._all_come(state)
            return
        if (alone := self._alone(state)) is not None:
            yield alone
            return
        stuck = True
        for number, copy in enumerate(state.copies):
            stuck = False
            yield self._comes(state, number, copy)
        for number, at in enumerate(state.at):
            if at < self.tables.end[number]:
                act = self.tables.courses[number].acts[at]
                following = self.moves[type(act)](state, number, act)
                if following:
                    stuck = False
                    yield following
        if stuck:
            self._deadlock(state)

    def _alone(self, state: State) -> State | None:
        """The state after an agent goes on at the cluster's barrier, if one can: that it does so now, not later, keeps
        nobody from anything, and no fault from being found.
        """
        for number, at in enumerate(state.at):
            act = self.tables.courses[number].acts[at] if at < self.tables.end[number] else None
            if isinstance(act, ClusterArrive | ClusterWait):
                following = self.moves[type(act)](state, number, act)
                if following:
                    return following
        return None

    # Barriers.

    def _initialise(self, state: State, number: int, act: Initialise) -> State:
        barrier, name = self.tables.barriers[act.barrier], self.wording.barrier(act.barrier)
        if state.phases[barrier].arrivals != UNMADE:
            self._refuse("start", state, number, f"initialises {name}, which has been initialised")
        if act.arrivals < 1:
            text = f"initialises {name} with {act.arrivals} arrivals: its phases are never over"
            self._refuse("arrivals", state, number, text)
        return self._on(state, number)._replace(phases=_put(state.phases, barrier, Phase(0, act.arrivals, 0)))

    def _used(self, state: State, number: int, barrier: Barrier) -> int:
        found = self.tables.barriers[barrier]
        if not self.tables.is_made(state.at, found):
            self._refuse("start", state, number, f"uses {self.wording.barrier(barrier)} before it is initialised")
        return found

    def _wait(self, state: State, number: int, act: Wait) -> State | None:
        if state.phases[self._used(state, number, act.barrier)].parity == act.parity:
            return None
        return self._on(state, number)

    def _arrive(self, state: State, number: int, act: Arrive) -> State:
        self._there(state, number, act.barrier.block, f"arrives at {self.wording.barrier(act.barrier)}")
        barrier = self._used(state, number, act.barrier)
        if act.count > state.phases[barrier].arrivals:
            text = f"arrives at {self.wording.barrier(act.barrier)} more than {self.tables.made[barrier][0]} times"
            self._refuse("arrivals", state, number, f"{text} in a phase")
        phases = self._changed(state.phases, barrier, act.count, act.expected)
        return self._on(state, number)._replace(phases=phases)

    def _there(self, state: State, number: int, block: int, does: str) -> None:
        """A block's own agents are there as they act."""
        if self.tables.ended(state.at, block):
            self._refuse("exit", state, number, f"{does} after block {block} has ended")

    def _changed(self, phases: tuple[Phase, ...], barrier: int, arrivals: int, more: int) -> tuple[Phase, ...]:
        """After so many arrivals, with so many more bytes expected."""
        parity, lacking, size = phases[barrier]
        new = Phase(parity, lacking - arrivals, size + more)
        if new.arrivals == 0 and new.bytes < 0:
            name = self.wording.barrier(self.barriers[barrier])
            refuse("bytes", f"more bytes come to {name} in a phase than are expected ({-new.bytes} more)")
        if new.arrivals == new.bytes == 0:
            new = Phase(1 - parity, self.tables.made[barrier][0], 0)
        return _put(phases, barrier, new)

    # Copies.

    def _bring(self, state: State, number: int, act: Bring) -> State:
        cell = self.tables.cells[act.cell]
        for one in (cell, *self.tables.overlapped[cell]):
            self._may_change(state, number, one, f"loads {self.wording.cell(act.cell)}")
            self._fenced(state, number, one, f"loads {self.wording.cell(act.cell)}")
        barrier = self._used(state, number, act.barrier)
        copy = Copy(cell, self.tables.contents[act.content], barrier, act.bytes)
        cells = self._cleared(state, cell)
        return self._on(state, number)._replace(cells=cells, copies=tuple(sorted((*state.copies, copy))))

    def _cleared(self, state: State, cell: int) -> tuple[Standing, ...]:
        """With nothing in the cells that have memory in common with one."""
        cells = state.cells
        for other in self.tables.overlapped[cell]:
            cells = _put(cells, other, Standing())
        return cells

    def _comes(self, state: State, number: int, copy: Copy) -> State:
        block = self.cells[copy.cell].block
        if self.tables.ended(state.at, block):
            text = f"the load of {self.wording.cell(self.cells[copy.cell])} comes after block {block} has ended"
            refuse("exit", text)
        return state._replace(
            phases=self._changed(state.phases, copy.barrier, 0, -copy.bytes),
            cells=_put(state.cells, copy.cell, Standing(copy.content, loaded=True)),
            copies=state.copies[:number] + state.copies[number + 1 :],
        )

    def _may_change(self, state: State, number: int, cell: int, does: str, reads: bool = False) -> None:
        for reader in self.tables.readers(state.at, cell):
            self._refuse("overwrite", state, number, f"{does} while {reader} reads it")
        if any(copy.cell == cell for copy in state.copies):
            self._refuse("overwrite", state, number, f"{does} while a load to it is under way")
        standing = state.cells[cell]
        if standing.loaded and not standing.read and not reads:
            self._refuse("unread", state, number, f"{does}, whose last load nobody has read")

    # Reads and writes.

    def _multiply(self, state: State, number: int, act: Multiply) -> State | None:
        for cell, content in act.cells:
            does = f"starts a product on {self.wording.cell(cell)}"
            self._ready(state, number, cell, content, does)
            self._fenced(state, number, self.tables.cells[cell], does)
        members = self.tables.warpgroup[number]
        for member in members:
            course, at = self.tables.courses[member], state.at[member]
            other = course.acts[at] if at < len(course.acts) else None
            if not isinstance(other, Multiply):
                return None
            if other != act:
                self._refuse("products", state, number, "starts another product than the rest of its warpgroup")
        return self._read(self._on(state, *members), [cell for cell, _ in act.cells])

    def _look(self, state: State, number: int, act: Look) -> State:
        for cell, content in act.cells:
            self._ready(state, number, cell, content, f"reads {self.wording.cell(cell)}")
            self._there(state, number, cell.block, f"reads {self.wording.cell(cell)}")
        return self._read(self._on(state, number), [cell for cell, _ in act.cells])

    def _store(self, state: State, number: int, act: Store) -> State:
        for cell, content in act.cells:
            self._ready(state, number, cell, content, f"stores {self.wording.cell(cell)}")
            self._fenced(state, number, self.tables.cells[cell], f"stores {self.wording.cell(cell)}")
        return self._read(self._on(state, number), [cell for cell, _ in act.cells])

    def _ready(self, state: State, number: int, cell: Cell, content: Content | None, does: str) -> None:
        place = self.tables.cells[cell]
        standing = state.cells[place]
        under_way = any(copy.cell == place for copy in state.copies)
        if standing.content < 0 or under_way or any(self.tables.copies(state.at, standing.writers)):
            self._refuse("early", state, number, f"{does} before its content has come")
        if content is not None and standing.content != self.tables.contents.get(content):
            found = next(one for one, other in self.tables.contents.items() if other == standing.content)
            text = f"{does} for {content_text(content)}, and finds {content_text(found)}"
            self._refuse("content", state, number, text)

    def _fenced(self, state: State, number: int, cell: int, does: str) -> None:
        for writer, act in state.cells[cell].writers:
            if self.tables.courses[writer].under[state.at[writer]].fence < act:
                text = f"{does}, which {self.tables.names[writer]} wrote and has not fenced"
                self._refuse("fence", state, number, text)

    def _read(self, state: State, cells: list[Cell]) -> State:
        new = list(state.cells)
        for cell in cells:
            place = self.tables.cells[cell]
            new[place] = new[place]._replace(read=True)
        return state._replace(cells=tuple(new))

    def _write(self, state: State, number: int, act: Write | CpAsync) -> State:
        cell, content = self.tables.cells[act.cell], self.tables.contents[act.content]
        does = f"writes {self.wording.cell(act.cell)}"
        self._there(state, number, act.cell.block, does)
        for one in (cell, *self.tables.overlapped[cell]):
            self._may_change(state, number, one, does, reads=isinstance(act, Write) and act.updates)
        old = state.cells[cell]
        writers = dict(old.writers)
        own = old.content == content and any(member in writers for member in self.tables.warpgroup[number])
        if own and old.read and number not in writers:
            self._refuse("overwrite", state, number, f"{does} after that has been read")
        kept = writers if own and not old.read else {}
        replaced = tuple(one for one in old.writers if one[0] == number or one[0] not in kept)
        for copier in self.tables.copies(state.at, replaced):
            self._refuse("overwrite", state, number, f"{does} while the copy of {copier} to it is under way")
        new, cells = tuple(sorted({**kept, number: state.at[number]}.items())), self._cleared(state, cell)
        return self._on(state, number)._replace(cells=_put(cells, cell, Standing(content, writers=new)))

    # Where agents come together.

    def _meet(self, state: State, number: int, act: Meet) -> State | None:
        barrier = self.tables.named[act.barrier]
        threads, come, waiting = state.gathered[barrier]
        if number in waiting:
            return None
        if threads not in (0, act.threads) or come + act.count > act.threads:
            text = f"comes to {self.wording.named(act.barrier)} with {act.count} threads for {act.threads} together,"
            text += f" where {come} have come for {threads}"
            self._refuse("threads", state, number, text)
        if come + act.count == act.threads:
            state = state._replace(gathered=_put(state.gathered, barrier, Gathered()))
            return self._on(state, number, *waiting)
        waits = tuple(sorted((*waiting, *[number] * act.waits)))
        new = _put(state.gathered, barrier, Gathered(act.threads, come + act.count, waits))
        return (state if act.waits else self._on(state, number))._replace(gathered=new)

    def _cluster_wait(self, state: State, number: int, act: ClusterWait) -> State | None:
        arrived = [course.under[at].arrived for course, at in zip(self.tables.courses, state.at, strict=True)]
        return self._on(state, number) if min(arrived) == arrived[number] else None

    def _nothing(self, state: State, number: int, act: Act) -> State:
        """Handles an act whose whole effect follows from how far the agents are: it only advances the agent."""
        return self._on(state, number)

    def _on(self, state: State, *numbers: int) -> State:
        at = list(state.at)
        for number in numbers:
            at[number] += 1
        return state._replace(at=tuple(at))

    # Ends.

    def _all_come(self, state: State) -> None:
        for copy in state.copies:
            refuse("unread", f"all agents end before the load of {self.wording.cell(self.cells[copy.cell])} has come")
        for barrier in range(len(self.barriers)):
            self._bytes_add_up(state, barrier)
        for named, gathered in zip(self.tables.named, state.gathered, strict=True):
            if gathered.come:
                text = f"{self.wording.named(named)}, where {gathered.come} of {gathered.threads} threads have come"
                refuse("threads", f"all agents end with arrivals left at {text}")
        for cell, standing in zip(self.cells, state.cells, strict=True):
            if standing.loaded and not standing.read:
                refuse("unread", f"nobody reads the last load of {self.wording.cell(cell)}")

    def _deadlock(self, state: State) -> None:
        waits = []
        for course, at, name in zip(self.tables.courses, state.at, self.tables.names, strict=True):
            if at == len(course.acts):
                continue
            act = course.acts[at]
            if isinstance(act, Wait):
                self._bytes_add_up(state, self.tables.barriers[act.barrier])
                waits.append(f"{name} waits for parity {act.parity} of {self.wording.barrier(act.barrier)}")
            else:
                waits.append(f"{name} waits for others to {type(act).__name__}")
        refuse("deadlock", f"nobody goes on: {'; '.join(waits)}")

    def _bytes_add_up(self, state: State, barrier: int) -> None:
        phase = state.phases[barrier]
        if not phase.arrivals and phase.bytes:
            name = self.wording.barrier(self.barriers[barrier])
            refuse("bytes", f"a phase of {name} is never over: it expects more bytes than come ({phase.bytes} more)")

    def _refuse(self, kind: Kind, state: State, number: int, does: str) -> NoReturn:
        refuse(kind, f"{self.tables.names[number]} {does}", self.tables.agents[number], state.at[number])


def _put(items: tuple[Item, ...], number: int, new: Item) -> tuple[Item, ...]:
    return (*items[:number], new, *items[number + 1 :])
