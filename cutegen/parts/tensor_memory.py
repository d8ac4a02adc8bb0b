"""Tensor memory in one order of the agents: each access is ordered after those that it must follow, and fenced.

What is asked is the letter of PTX ISA 9.1, section 9.7.16.6: behind a wait stands `tcgen05.fence::after_thread_sync`
before columns are accessed, and between loads and the barrier that tells of them stand `tcgen05.wait::ld` and
`tcgen05.fence::before_thread_sync`. An agent is known to be fenced for what it knew at its last fence of the first
kind.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NoReturn

from cutegen.parts.acts import AllocateColumns, Cell, Content, FreeColumns, LoadColumns, StartProducts, TensorFence, Use
from cutegen.parts.clocks import Actor, Event, Seen
from cutegen.parts.faults import Kind, refuse
from cutegen.parts.memory import Read
from cutegen.parts.phases import Phase
from cutegen.parts.wording import Wording, content_text


@dataclass
class Columns:
    """The steps of the sum that stands in columns, the products that wrote it, and the loads since."""

    allocated: Event
    steps: list[Content] = field(default_factory=list)
    products: list[tuple[int, Read]] = field(default_factory=list)  # each with the column of its agent
    loads: list[Read] = field(default_factory=list)


class TensorMemory:
    def __init__(self, wording: Wording) -> None:
        self.wording = wording
        self.columns: dict[Cell, Columns] = {}
        self.clocks: dict[int, Seen] = {}  # of each agent at its last fence after barriers
        self.running: dict[int, list[Read]] = defaultdict(list)  # what products of an agent read and write
        self.loading: dict[int, list[tuple[str, Read]]] = defaultdict(list)  # by registers
        self.loaded: dict[int, list[Read]] = defaultdict(list)  # that have been waited for, and not fenced

    def fenced(self, actor: Actor) -> Seen:
        """The acts and phases that an agent knew of at its last fence after barriers."""
        return self.clocks.get(actor.column, Seen([0] * len(actor.clock)))

    def allocate(self, actor: Actor, act: AllocateColumns) -> bool:
        if act.columns in self.columns:
            self._refuse("start", actor, f"allocates {self.wording.cell(act.columns)}, which has been allocated")
        self.columns[act.columns] = Columns(actor.event)
        return True

    def start(self, actor: Actor, act: StartProducts, reads: list[Read]) -> bool:
        """A thread starts products, whose reads of shared memory are `reads`."""
        does = f"starts a product into {self.wording.cell(act.columns)}"
        columns = self._of(actor, act.columns, does)
        self._no_load(actor, columns, does)
        for column, product in columns.products:
            if column != actor.column:
                self._done(actor, product, does, "overwrite")
        if not act.adds:
            columns.steps.clear()
            columns.loads.clear()  # which are known to be done
        elif not columns.steps:
            self._refuse("early", actor, f"{does}, and adds to what nothing has been written to")
        columns.steps.append(act.content)
        product = Read(f"a product of {actor.name}")
        columns.products.append((actor.column, product))
        self.running[actor.column] += [*reads, product]
        return True

    def commit(self, actor: Actor, phase: Phase) -> bool:
        """Whoever knows that the phase is over, knows that all products are done that the agent has started."""
        for read in self.running[actor.column]:
            read.ends.append(phase.end)
        return True

    def load(self, actor: Actor, act: LoadColumns) -> bool:
        does = f"loads {self.wording.cell(act.columns)}"
        columns = self._of(actor, act.columns, does)
        for _, product in columns.products:
            self._done(actor, product, does, "early")
        if sorted(columns.steps, key=str) != sorted(act.steps, key=str):
            found, wanted = (", ".join(map(content_text, steps)) or "nothing" for steps in (columns.steps, act.steps))
            self._refuse("content", actor, f"{does} for the sum of {wanted}, and finds that of {found}")
        read = Read(f"a load of {actor.name}")
        columns.loads.append(read)
        self.loading[actor.column].append((act.registers, read))
        return True

    def wait(self, actor: Actor) -> bool:
        self.loaded[actor.column] += [read for _, read in self.loading.pop(actor.column, ())]
        return True

    def use(self, actor: Actor, act: Use) -> None:
        for registers, _ in self.loading[actor.column]:
            if registers in act.registers:
                text = f"uses registers {registers}, to which columns are loaded: it has not waited for that"
                self._refuse("registers", actor, text)

    def fence(self, actor: Actor, act: TensorFence) -> bool:
        if act.after:
            self.clocks[actor.column] = Seen(list(actor.clock))
        else:
            for read in self.loaded.pop(actor.column, ()):
                read.ends.append(actor.event)
        return True

    def free(self, actor: Actor, act: FreeColumns) -> bool:
        does = f"frees {self.wording.cell(act.columns)}"
        columns = self._of(actor, act.columns, does)
        self._no_load(actor, columns, does)
        for _, product in columns.products:
            self._done(actor, product, does, "overwrite")
        if columns.steps and not columns.loads:
            self._refuse("unread", actor, f"{does}, whose sum nobody has loaded")
        del self.columns[act.columns]
        return True

    def all_freed(self) -> None:
        """Refuses columns that are left."""
        for cell in self.columns:
            refuse("exit", f"a block ends with {self.wording.cell(cell)} of its tensor memory: nobody has freed it")

    def _of(self, actor: Actor, cell: Cell, does: str) -> Columns:
        columns = self.columns.get(cell)
        if columns is None or not actor.knows(columns.allocated):
            self._refuse("start", actor, f"{does}, which may not be allocated by then, or not any more")
        return columns

    def _no_load(self, actor: Actor, columns: Columns, does: str) -> None:
        for load in columns.loads:
            self._done(actor, load, does, "overwrite")

    def _done(self, actor: Actor, work: Read, does: str, kind: Kind) -> None:
        """Refuses what an agent does unless it knows that the work is done, and has fenced since it knows that."""
        if not work.known_done(actor):
            self._refuse(kind, actor, f"{does} while {work.reader} may be under way, or no fence tells that it is done")
        if not work.known_done(self.fenced(actor)):
            text = f"{does} without tcgen05.fence::after_thread_sync behind the barrier that tells of {work.reader}"
            self._refuse("fence", actor, text)

    def _refuse(self, kind: Kind, actor: Actor, text: str) -> NoReturn:
        refuse(kind, f"{actor.name} {text}", actor.agent, actor.at)
