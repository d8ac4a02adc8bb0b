"""Proves a run from one order of its agents, with vector clocks: every other order does the same.

Agents take turns, each going on until it must wait; copies come as they are started. Nothing in an agent's list depends
on time. So orders could differ only where an access is not ordered after another, or where a wait, an arrival or bytes
could belong to another phase of a barrier. Each act is checked to know enough for neither to be possible (`memory`,
`phases`, `meetings`). The cost grows with the number of acts, not with that of the orders.

Two things are taken for granted of products: they start once all agents of the warpgroup have come, and when they are
done for one of these agents (`Drain`), they are done for all. Kernels rely on it, whose first warp alone releases a
stage.

More is asked than that nothing goes wrong: each agent that starts a product must have waited for its operands by
itself, and knowledge must come by what the acts say. A run that is right only since one agent is slower is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cutegen.parts.acts import (
    Act,
    Agent,
    AllocateColumns,
    Arrive,
    Barrier,
    Bring,
    ClusterArrive,
    ClusterWait,
    Commit,
    CpAsync,
    CpAsyncCommitGroup,
    CpAsyncWaitGroup,
    Drain,
    Fence,
    FenceInitialised,
    FreeColumns,
    Initialise,
    LoadColumns,
    Look,
    Meet,
    Multiply,
    NamedBarrier,
    Run,
    StartProducts,
    Store,
    Stored,
    TensorFence,
    Use,
    Wait,
    WaitLoads,
    Write,
)
from cutegen.parts.clocks import Actor
from cutegen.parts.courses import Warpgroup, courses_of, warpgroup_of
from cutegen.parts.faults import refuse
from cutegen.parts.meetings import ClusterBarrier, Meeting, Named, Together
from cutegen.parts.memory import Memory
from cutegen.parts.peers import Peers
from cutegen.parts.phases import Barriers
from cutegen.parts.tensor_memory import TensorMemory
from cutegen.parts.wording import Wording


@dataclass(frozen=True)
class Proof:
    """How much was looked at: the acts of all agents, and the phases of barriers that ended."""

    acts: int
    phases: int


def prove(run: Run) -> Proof:
    """Raises `Unproved` with the first fault."""
    return _Order(run).follow()


class _Order:
    def __init__(self, run: Run) -> None:
        self.wording = Wording.of(run)
        self.courses = courses_of(run, self.wording)
        names = sorted({act.barrier for acts in run.acts.values() for act in acts if isinstance(act, Initialise)})
        self.columns = {barrier: column for column, barrier in enumerate(names, len(run.acts))}
        self.width = len(run.acts) + len(names)
        self.actors = [
            Actor(agent, self.wording.agent(agent), acts, column, self.width)
            for column, (agent, acts) in enumerate(run.acts.items())
        ]
        self.barriers: dict[Barrier, Barriers] = {}  # that are initialised
        self.unfenced: dict[Agent, list[Barriers]] = defaultdict(list)
        self.named: dict[NamedBarrier, Named] = {}
        self.warpgroups = self._warpgroups()
        self.cluster = ClusterBarrier(len(self.actors), self.width)
        self.memory = Memory(self.wording, run)
        self.tensor_memory = TensorMemory(self.wording)
        self.peers = Peers()
        self.joined: dict[Agent, Meeting] = {}  # where agents wait for others to come
        self.awaited = False  # whether the agent whose turn it is has come where others waited for it
        self.moves: dict[type[Act], Callable[[Actor, Any], bool]] = {
            Initialise: self._initialise,
            FenceInitialised: self._fence_initialised,
            Wait: self._wait,
            Arrive: self._arrive,
            Bring: self._bring,
            Multiply: self._multiply,
            Drain: self._drain,
            Use: self._use,
            Look: self._look,
            Write: self._write,
            CpAsync: self._cp_async,
            CpAsyncCommitGroup: self._commit_group,
            CpAsyncWaitGroup: self._wait_group,
            Fence: self._fence,
            Store: self._store,
            Stored: self._stored,
            Meet: self._meet,
            ClusterArrive: self._cluster_arrive,
            ClusterWait: self._cluster_wait,
            StartProducts: self._start_products,
            Commit: self._commit,
            AllocateColumns: lambda actor, act: self.tensor_memory.allocate(actor, act),
            FreeColumns: lambda actor, act: self.tensor_memory.free(actor, act),
            LoadColumns: lambda actor, act: self.tensor_memory.load(actor, act),
            WaitLoads: lambda actor, act: self.tensor_memory.wait(actor),
            TensorFence: lambda actor, act: self.tensor_memory.fence(actor, act),
        }

    def _warpgroups(self) -> dict[Warpgroup, Together]:
        members: dict[Warpgroup, list[Actor]] = defaultdict(list)
        for actor in self.actors:
            members[warpgroup_of(actor.agent)].append(actor)
        return {group: Together(actors, self.width) for group, actors in members.items()}

    def follow(self) -> Proof:
        while sum(self._go_on(actor) for actor in self.actors):
            pass
        self._no_deadlock()
        self._all_come()
        self.peers.all_stayed(self.actors)
        self.tensor_memory.all_freed()
        acts = sum(len(actor.acts) for actor in self.actors)
        return Proof(acts, sum(barrier.now.number for barrier in self.barriers.values()))

    def _go_on(self, actor: Actor) -> int:
        """As far as the agent comes, or up to where others have waited for it, who go on first; how many acts."""
        start, self.awaited = actor.at, False
        while not actor.done and not self.awaited and self.moves[type(actor.act)](actor, actor.act):
            actor.goes_on()
        return actor.at - start

    # Each act, which returns whether the agent goes on.

    def _initialise(self, actor: Actor, act: Initialise) -> bool:
        name = self.wording.barrier(act.barrier)
        if act.barrier in self.barriers:
            refuse("start", f"{actor.name} initialises {name}, which has been initialised", actor.agent, actor.at)
        made = Barriers(actor, name, act.arrivals, self.columns[act.barrier], self.width)
        self.barriers[act.barrier] = made
        self.unfenced[actor.agent].append(made)
        return True

    def _fence_initialised(self, actor: Actor, act: FenceInitialised) -> bool:
        for barrier in self.unfenced.pop(actor.agent, ()):
            barrier.fence = actor.event
        actor.fenced = list(actor.clock)
        return True

    def _used(self, actor: Actor, barrier: Barrier) -> Barriers:
        """A barrier as an actor uses it, who must know that it is initialised."""
        found = self.barriers.get(barrier)
        if found is None or not found.seen(actor):
            text = f"{actor.name} uses {self.wording.barrier(barrier)}, which may not be initialised and fenced by then"
            refuse("start", text, actor.agent, actor.at)
        return found

    def _wait(self, actor: Actor, act: Wait) -> bool:
        return self._used(actor, act.barrier).wait(actor, act.parity)

    def _arrive(self, actor: Actor, act: Arrive) -> bool:
        self._used(actor, act.barrier).arrive(actor, act.count, act.expected)
        self.peers.touched(actor, act.barrier.block, f"arrives at {self.wording.barrier(act.barrier)}")
        return True

    def _bring(self, actor: Actor, act: Bring) -> bool:
        phase = self._used(actor, act.barrier).bring(actor, act.bytes)
        self.memory.bring(actor, act, phase)
        return True

    def _multiply(self, actor: Actor, act: Multiply) -> bool:
        together = self.warpgroups[warpgroup_of(actor.agent)]
        if actor.agent not in self.joined:
            self.memory.multiply(actor, act, first=together.starts)
            self.joined[actor.agent] = together.join(actor, act)
        return self._met(actor)

    def _drain(self, actor: Actor, act: Drain) -> bool:
        self.memory.drain(actor, self.courses[actor.agent])
        return True

    def _use(self, actor: Actor, act: Use) -> bool:
        self.tensor_memory.use(actor, act)  # of wgmma's registers `courses` looks at it
        return True

    def _start_products(self, actor: Actor, act: StartProducts) -> bool:
        reads = self.memory.start_products(actor, act, self.tensor_memory.fenced(actor))
        return self.tensor_memory.start(actor, act, reads)

    def _commit(self, actor: Actor, act: Commit) -> bool:
        return self.tensor_memory.commit(actor, self._used(actor, act.barrier).commit(actor))

    def _look(self, actor: Actor, act: Look) -> bool:
        self.memory.look(actor, act)
        for cell, _ in act.cells:
            self.peers.touched(actor, cell.block, f"reads {self.wording.cell(cell)}")
        return True

    def _write(self, actor: Actor, act: Write) -> bool:
        self.memory.write(actor, act)
        self.peers.touched(actor, act.cell.block, f"writes {self.wording.cell(act.cell)}")
        return True

    def _cp_async(self, actor: Actor, act: CpAsync) -> bool:
        self.memory.copy(actor, act)
        return True

    def _commit_group(self, actor: Actor, act: CpAsyncCommitGroup) -> bool:
        self.memory.commit(actor)
        return True

    def _wait_group(self, actor: Actor, act: CpAsyncWaitGroup) -> bool:
        self.memory.wait(actor, self.courses[actor.agent])
        return True

    def _fence(self, actor: Actor, act: Fence) -> bool:
        self.memory.fence(actor)
        return True

    def _store(self, actor: Actor, act: Store) -> bool:
        self.memory.store(actor, act)
        return True

    def _stored(self, actor: Actor, act: Stored) -> bool:
        self.memory.stored(actor, self.courses[actor.agent])
        return True

    def _meet(self, actor: Actor, act: Meet) -> bool:
        if actor.agent not in self.joined:
            barrier = self.named.setdefault(act.barrier, Named(self.wording.named(act.barrier), self.width))
            meeting = barrier.join(actor, act)
            if not act.waits:
                return True
            self.joined[actor.agent] = meeting
            self.awaited = meeting.complete
        return self._met(actor)

    def _met(self, actor: Actor) -> bool:
        meeting = self.joined[actor.agent]
        if not meeting.complete:
            return False
        actor.learns(meeting.clock)
        del self.joined[actor.agent]
        return True

    def _cluster_arrive(self, actor: Actor, act: ClusterArrive) -> bool:
        tells = actor.fenced if act.relaxed else actor.clock
        self.awaited = self.cluster.arrive(actor, self.courses[actor.agent].under[actor.at].arrived, tells).complete
        return True

    def _cluster_wait(self, actor: Actor, act: ClusterWait) -> bool:
        meeting = self.cluster.meetings[self.courses[actor.agent].under[actor.at].waited]
        if meeting.complete:
            actor.learns(meeting.clock)
        return meeting.complete

    # What holds once nobody goes on.

    def _no_deadlock(self) -> None:
        stuck = [actor for actor in self.actors if not actor.done]
        if not stuck:
            return
        waited = [self.barriers[actor.act.barrier] for actor in stuck if isinstance(actor.act, Wait)]
        for barrier in waited:
            self._bytes_add_up(barrier)
        refuse("deadlock", f"nobody goes on: {'; '.join(map(self._waits_for, stuck))}", stuck[0].agent, stuck[0].at)

    def _bytes_add_up(self, barrier: Barriers) -> None:
        phase = barrier.now
        if not phase.pending and phase.bytes:
            text = f"phase {phase.number} of {barrier.name} is never over: it expects more bytes than come"
            refuse("bytes", f"{text} ({phase.bytes} more)")

    def _waits_for(self, actor: Actor) -> str:
        match actor.act:
            case Wait(barrier, parity):
                name, phase = self.barriers[barrier].name, self.barriers[barrier].now
                lacks = [f"{phase.pending} of {self.barriers[barrier].initialised} arrivals"] * (phase.pending > 0)
                lacks += [f"{phase.bytes} bytes"] * (phase.bytes > 0)
                what = f"phase {phase.number} of {name} (parity {parity}), which lacks {' and '.join(lacks)}"
                return f"{actor.name} waits for {what}"
            case Meet(barrier=named):
                meeting = self.joined[actor.agent]
                come = f"{meeting.come} of {meeting.expected} threads have come"
                return f"{actor.name} waits at {self.wording.named(named)}, where {come}"
            case Multiply():
                return f"{actor.name} waits for the rest of its warpgroup to start a product"
        late = [other.name for other in self.actors if self._arrived(other) < self._arrived(actor)]
        return f"{actor.name} waits at the cluster's barrier for {', '.join(late)}"

    def _arrived(self, actor: Actor) -> int:
        return self.courses[actor.agent].under[actor.at].arrived

    def _all_come(self) -> None:
        for barrier in self.barriers.values():
            self._bytes_add_up(barrier)
        for named in self.named.values():
            if named.now:
                come = f"{named.now.come} of {named.now.expected} threads have come"
                refuse("threads", f"all agents end with arrivals left at {named.name}, where {come}")
        for cell, standing in self.memory.unread():
            text = f"{standing.loader} loads {self.wording.cell(cell)}, which nobody waits for or reads"
            refuse("unread", text)
