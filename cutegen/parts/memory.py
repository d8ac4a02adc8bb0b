"""Shared memory in one order of the agents. Each access is checked to be ordered after those that it must follow, so
that every reader finds the same content in every order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from cutegen.parts.acts import Bring, Cell, Content, CpAsync, Look, Multiply, Run, StartProducts, Store, Write
from cutegen.parts.clocks import Actor, Event, Seen
from cutegen.parts.courses import Course, Warpgroup, warpgroup_of
from cutegen.parts.faults import Kind, refuse
from cutegen.parts.phases import Phase
from cutegen.parts.wording import Wording, content_text


@dataclass
class Read:
    """A read of a cell. An event of `ends` is one that shows that it is done: none while it runs."""

    reader: str
    ends: list[Event] = field(default_factory=list)

    def known_done(self, actor: Seen) -> bool:
        return any(map(actor.knows, self.ends))


@dataclass
class Written:
    """An agent's write or copy to a cell, or to a part of it. `event` is its completion, None while it is under way;
    `fenced` is the fence after it, if there was one.
    """

    writer: str
    event: Event | None
    fenced: Event | None = None

    def known_done(self, actor: Actor) -> bool:
        return self.event is not None and actor.knows(self.event)


@dataclass
class Standing:
    """The contents of a cell since it was loaded or written, who did that, and who has read them."""

    content: Content | None = None
    phase: Phase | None = None  # that a load's bytes belong to
    loader: str = ""
    group: Warpgroup | None = None
    writes: dict[int, Written] = field(default_factory=dict)  # by the column of the agent
    reads: list[Read] = field(default_factory=list)
    updated: bool = False  # whether threads have read it, each what it then replaced
    before: tuple[Standing, ...] = ()  # while others may still write their part over these


class Memory:
    def __init__(self, wording: Wording, run: Run) -> None:
        self.wording, self.overlaps = wording, run.overlaps
        self.cells: dict[Cell, Standing] = defaultdict(Standing)
        self.copies: dict[int, list[list[Written]]] = defaultdict(lambda: [[]])  # groups; the last is not committed
        self.unfenced: dict[int, list[Written]] = defaultdict(list)
        self.products: dict[Warpgroup, list[list[Read]]] = defaultdict(list)
        self.stores: dict[int, list[list[Read]]] = defaultdict(list)

    def bring(self, actor: Actor, act: Bring, phase: Phase) -> None:
        name = self.wording.cell(act.cell)
        for old in self._taken(act.cell):
            self._replace(actor, old, f"loads {name}")
            for written in old.writes.values():
                if not (written.fenced and actor.knows(written.fenced)):
                    text = f"{actor.name} loads {name}, which {written.writer} wrote and has not fenced for sure"
                    self._refuse("fence", actor, text)
        self.cells[act.cell] = Standing(act.content, phase, actor.name)

    def write(self, actor: Actor, act: Write) -> None:
        written = self._changed(actor, act, "writes")
        written.event = actor.event
        self.unfenced[actor.column].append(written)

    def copy(self, actor: Actor, act: CpAsync) -> None:
        self.copies[actor.column][-1].append(self._changed(actor, act, "copies"))

    def commit(self, actor: Actor) -> None:
        self.copies[actor.column].append([])

    def wait(self, actor: Actor, course: Course) -> None:
        """Turns copies that threads have waited for into writes of these threads, done and not yet fenced."""
        for number in range(course.under[actor.at].copied, course.under[actor.at + 1].copied):
            for written in self.copies[actor.column][number]:
                written.event = actor.event
                self.unfenced[actor.column].append(written)

    def _changed(self, actor: Actor, act: Write | CpAsync, does: str) -> Written:
        """Records an agent's write or copy to a cell, which may be one part of what several agents write together."""
        old, group = self.cells[act.cell], warpgroup_of(actor.agent)
        own = old.group == group and old.content == act.content
        joins = own and (actor.column not in old.writes or not old.reads)
        if joins and old.reads:
            part = f"{does} its part of {content_text(act.content)} to {self.wording.cell(act.cell)}"
            self._overwrite(actor, part, f"{old.reads[0].reader} reads it", "which may be earlier")
        before = old.before if joins else self._taken(act.cell)
        reads = isinstance(act, Write) and act.updates
        for one in before:
            self._replace(actor, one, f"{does} {content_text(act.content)} to {self.wording.cell(act.cell)}", reads)
        new = old if joins else Standing(act.content, group=group, before=before)
        if not joins:
            for one in before:
                one.before = ()
            self.cells[act.cell] = new
        new.writes[actor.column] = written = Written(actor.name, None)
        return written

    def _taken(self, cell: Cell) -> tuple[Standing, ...]:
        """Returns the contents of a cell and of the cells that share memory with it; the latter lose their contents."""
        others = self.overlaps.get((cell.name, cell.place[0]), ()) if cell.place else ()
        found = [self.cells[cell]]
        for other in [*self.cells] if others else ():
            if other.block == cell.block and (other.name, other.place[0]) in others:
                found.append(self.cells.pop(other))
        return tuple(found)

    def _replace(self, actor: Actor, old: Standing, does: str, reads: bool = False) -> None:
        if old.phase and not old.phase.known_over(actor):
            self._overwrite(actor, does, f"the load of {old.loader} to it is under way")
        self._no_reader(actor, old, does)
        old.updated |= reads
        self._seen(actor, old)
        for written in old.writes.values():
            if not written.known_done(actor):
                self._overwrite(actor, does, f"{written.writer} writes it")

    def fence(self, actor: Actor) -> None:
        for written in self.unfenced.pop(actor.column, ()):
            written.fenced = actor.event

    def look(self, actor: Actor, act: Look) -> None:
        for cell, content in act.cells:
            self._ready(actor, cell, content, f"reads {self.wording.cell(cell)}", fenced=False)
            self.cells[cell].reads.append(Read(actor.name, [actor.event]))

    def multiply(self, actor: Actor, act: Multiply, *, first: bool) -> None:
        """An agent comes to a product, the first of its warpgroup or a later one. Each must know by itself that the
        cells are ready.
        """
        for cell, content in act.cells:
            self._ready(actor, cell, content, f"starts a product on {self.wording.cell(cell)}", fenced=True)
        if first:
            reads = [Read(f"a product of {actor.name}") for _ in act.cells]
            for (cell, _), read in zip(act.cells, reads, strict=True):
                self.cells[cell].reads.append(read)
            self.products[warpgroup_of(actor.agent)].append(reads)

    def start_products(self, actor: Actor, act: StartProducts, fenced: Seen) -> list[Read]:
        """Returns the reads of products that a thread starts, once what it knew at its last fence suffices for them."""
        reads = []
        for cell, content in act.cells:
            does = f"starts a product on {self.wording.cell(cell)}"
            self._ready(actor, cell, content, does, fenced=True)
            phase = self.cells[cell].phase
            if phase and not phase.known_over(fenced):
                text = f"{actor.name} {does} without tcgen05.fence::after_thread_sync behind the wait for its load"
                self._refuse("fence", actor, text)
            reads.append(Read(f"a product of {actor.name}"))
            self.cells[cell].reads.append(reads[-1])
        return reads

    def drain(self, actor: Actor, course: Course) -> None:
        """All products that are done for this agent are done for its warpgroup: whoever knows of this act knows it."""
        started = self.products[warpgroup_of(actor.agent)]
        for number in range(course.under[actor.at].drained, course.under[actor.at + 1].drained):
            for read in started[number]:
                read.ends.append(actor.event)

    def store(self, actor: Actor, act: Store) -> None:
        reads = []
        for cell, content in act.cells:
            self._ready(actor, cell, content, f"stores {self.wording.cell(cell)}", fenced=True)
            reads.append(Read(f"the store of {actor.name}"))
            self.cells[cell].reads.append(reads[-1])
        self.stores[actor.column].append(reads)

    def stored(self, actor: Actor, course: Course) -> None:
        for number in range(course.under[actor.at].stored, course.under[actor.at + 1].stored):
            for read in self.stores[actor.column][number]:
                read.ends.append(actor.event)

    def unread(self) -> Iterator[tuple[Cell, Standing]]:
        """Loads that nobody has read."""
        for cell, standing in self.cells.items():
            for one in (standing, *standing.before):
                if one.phase and not one.reads and not one.updated:
                    yield cell, one

    def _ready(self, actor: Actor, cell: Cell, content: Content | None, does: str, *, fenced: bool) -> None:
        standing = self.cells[cell]
        if standing.phase is None and not standing.writes:
            self._refuse("early", actor, f"{actor.name} {does}, which nothing has been loaded or written to")
        if standing.phase and not standing.phase.known_over(actor):
            self._refuse("early", actor, f"{actor.name} {does} before the load of {standing.loader} has come for sure")
        for written in standing.writes.values():
            if not written.known_done(actor):
                self._refuse("early", actor, f"{actor.name} {does} before {written.writer} has written it for sure")
            if fenced and not (written.fenced and actor.knows(written.fenced)):
                text = f"{actor.name} {does}, which {written.writer} wrote and has not fenced for sure"
                self._refuse("fence", actor, text)
        if content is not None and standing.content is not None and content != standing.content:
            text = f"{actor.name} {does} for {content_text(content)}, and finds {content_text(standing.content)}"
            self._refuse("content", actor, text)

    def _no_reader(self, actor: Actor, old: Standing, does: str) -> None:
        for read in old.reads:
            if not read.known_done(actor):
                self._overwrite(actor, does, f"{read.reader} reads {self._what(old)} in it")

    def _seen(self, actor: Actor, old: Standing) -> None:
        if old.phase and not old.reads and not old.updated:
            text = f"{actor.name} overwrites {self._what(old)}, which {old.loader} loaded and nobody has read"
            self._refuse("unread", actor, text)

    def _what(self, standing: Standing) -> str:
        return content_text(standing.content) if standing.content is not None else "what stands"

    def _overwrite(self, actor: Actor, does: str, other: str, why: str = "which may be later") -> None:
        self._refuse("overwrite", actor, f"{actor.name} {does} while {other}, {why}")

    def _refuse(self, kind: Kind, actor: Actor, text: str) -> None:
        refuse(kind, text, actor.agent, actor.at)
