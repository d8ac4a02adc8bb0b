"""When a run's agents do what, given how long each act takes: everything as early as barriers let it.

An agent is busy with an act for some time, and what the act starts (a copy, a product) is done some time after that
act began. Time is in any unit, as numbers or fractions. Of a run that is proved (`one_order`), these times do not
depend on the order in which agents are followed: each wait ends when the last of what it waits for is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from cutegen.parts.acts import (
    Act,
    Agent,
    Arrive,
    Bring,
    ClusterArrive,
    ClusterWait,
    CpAsync,
    CpAsyncCommitGroup,
    CpAsyncWaitGroup,
    Drain,
    Initialise,
    Meet,
    Multiply,
    NamedBarrier,
    Run,
    Store,
    Stored,
    Wait,
)
from cutegen.parts.courses import Warpgroup, warpgroup_of
from cutegen.parts.wording import Wording

Time: TypeAlias = "int | Fraction"


class Taken(NamedTuple):
    """How long an agent is busy with an act, and how long after its beginning what it starts is done."""

    busy: Time = 0
    done: Time = 0


class Span(NamedTuple):
    """An act of an agent: when it begins, when the agent goes on, and when what it started is done.

    An act that waits begins when the agent comes to it.
    """

    agent: Agent
    act: Act
    start: Time
    end: Time
    done: Time


class Stuck(Exception):
    """Raised where nobody can go on: the run has a deadlock."""


def timed(
    run: Run, taken: Mapping[Agent, Sequence[Taken]], unit: Callable[[Warpgroup], Hashable] = lambda group: group
) -> list[Span]:
    """The spans of all agents, each agent's in its order. Raises Stuck.

    `taken` has how long the acts of each agent take, in their order. `unit` names what makes the products of a
    warpgroup: those of one unit are made one after the other.
    """
    return _Following(run, taken, unit).spans()


@dataclass
class _Phases:
    """An mbarrier: when its phases ended, and what the one under way lacks."""

    arrivals: int
    pending: int = field(init=False)
    bytes: int = 0
    latest: Time = 0
    ends: list[Time] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pending = self.arrivals

    def come(self, time: Time, count: int, size: int) -> None:
        """Arrivals, and bytes that are expected (more than 0) or come (less)."""
        self.pending -= count
        self.bytes += size
        self.latest = max(self.latest, time)
        if not self.pending and not self.bytes:
            self.ends.append(self.latest)
            self.pending, self.latest = self.arrivals, 0

    def over(self, parity: int) -> Time | None:
        """When the phase of that parity ended; None while it has not."""
        if len(self.ends) % 2 == parity:
            return None
        return self.ends[-1] if self.ends else 0


@dataclass
class _Meeting:
    """Threads or agents that wait for each other: so many have come, the last of them at that time."""

    of: int
    come: int = 0
    latest: Time = 0

    def join(self, time: Time, count: int = 1) -> None:
        self.come += count
        self.latest = max(self.latest, time)

    @property
    def complete(self) -> bool:
        return self.come >= self.of


@dataclass
class _Walker:
    """An agent on its way: the act that it is at, and its time; what it started, by when that is done."""

    agent: Agent
    at: int = 0
    now: Time = 0
    since: Time | None = None  # when it came to the act at which it waits
    meeting: _Meeting | None = None
    stores: list[Time] = field(default_factory=list)
    copies: list[Time] = field(default_factory=list)  # groups of cp.async
    ungrouped: Time = 0  # by when the copies are done that no group has yet
    arrived: int = 0
    waited: int = 0


class _Following:
    def __init__(self, run: Run, taken: Mapping[Agent, Sequence[Taken]], unit: Callable[[Warpgroup], Hashable]) -> None:
        self.run, self.taken, self.unit = run, taken, unit
        self.walkers = [_Walker(agent) for agent in run.acts]
        every = (act for acts in run.acts.values() for act in acts)
        self.barriers = {act.barrier: _Phases(act.arrivals) for act in every if isinstance(act, Initialise)}
        self.named: dict[NamedBarrier, _Meeting] = {}
        self.cluster: list[_Meeting] = []
        self.members: dict[Warpgroup, int] = defaultdict(int)
        for agent in run.acts:
            self.members[warpgroup_of(agent)] += 1
        self.starting: dict[Warpgroup, _Meeting] = {}
        self.products: dict[Warpgroup, list[Time]] = defaultdict(list)
        self.started: dict[Agent, int] = defaultdict(int)
        self.free: dict[Hashable, Time] = defaultdict(int)
        self.found: list[Span] = []

    def spans(self) -> list[Span]:
        while sum(self._go_on(walker) for walker in self.walkers):
            pass
        if stuck := [walker for walker in self.walkers if walker.at < len(self.run.acts[walker.agent])]:
            raise Stuck(f"nobody goes on: {Wording.of(self.run).agent(stuck[0].agent)} waits at its act {stuck[0].at}")
        return self.found

    def _go_on(self, walker: _Walker) -> int:
        acts, start = self.run.acts[walker.agent], walker.at
        while walker.at < len(acts) and self._does(walker, acts[walker.at]):
            walker.at += 1
        return walker.at - start

    def _does(self, walker: _Walker, act: Act) -> bool:
        """Whether the agent does its act, rather than wait for others."""
        came = walker.now if walker.since is None else walker.since
        waits_until = self._waits_until(walker, act)
        if waits_until is None:
            walker.since = came
            return False
        busy, done = self.taken[walker.agent][walker.at]
        begins = max(walker.now, waits_until)
        walker.now, walker.since = begins + busy, None
        self.found.append(Span(walker.agent, act, came, walker.now, self._effect(walker, act, begins, done)))
        return True

    def _waits_until(self, walker: _Walker, act: Act) -> Time | None:
        """From when on the agent can do its act; None where that is not known yet."""
        group = warpgroup_of(walker.agent)
        match act:
            case Wait():
                return self.barriers[act.barrier].over(act.parity)
            case Drain():
                return _done(self.products[group][: self.started[walker.agent]], act.but)
            case Stored():
                return _done(walker.stores, act.but)
            case CpAsyncWaitGroup():
                return _done(walker.copies, act.but)
            case Meet():
                return self._met(walker, act)
            case Multiply():
                return self._together(walker, group)
            case ClusterWait():
                meeting = self.cluster[walker.waited] if walker.waited < len(self.cluster) else None
                return meeting.latest if meeting is not None and meeting.complete else None
        return 0

    def _met(self, walker: _Walker, act: Meet) -> Time | None:
        if walker.meeting is None:
            meeting = self.named.setdefault(act.barrier, _Meeting(act.threads))
            meeting.join(walker.now, act.count)
            if meeting.complete:
                del self.named[act.barrier]
            if not act.waits:
                return walker.now
            walker.meeting = meeting
        return self._left(walker)

    def _together(self, walker: _Walker, group: Warpgroup) -> Time | None:
        if walker.meeting is None:
            meeting = walker.meeting = self.starting.setdefault(group, _Meeting(self.members[group]))
            meeting.join(walker.now)
            if meeting.complete:
                del self.starting[group]
        return self._left(walker)

    def _left(self, walker: _Walker) -> Time | None:
        """When the agent's meeting was complete."""
        meeting = walker.meeting
        assert meeting is not None
        if not meeting.complete:
            return None
        walker.meeting = None
        return meeting.latest

    def _effect(self, walker: _Walker, act: Act, begins: Time, done: Time) -> Time:
        """Lets an act have its effect on others; when that is done."""
        ends = begins + done
        match act:
            case Arrive():
                self.barriers[act.barrier].come(walker.now, act.count, act.expected)
            case Bring():
                self.barriers[act.barrier].come(ends, 0, -act.bytes)
            case Store():
                walker.stores.append(ends)
            case CpAsync():
                walker.ungrouped = max(walker.ungrouped, ends)
            case CpAsyncCommitGroup():
                walker.copies.append(walker.ungrouped)
                walker.ungrouped = 0
            case Multiply():
                return self._product(walker.agent, begins, done)
            case ClusterArrive():
                if walker.arrived == len(self.cluster):
                    self.cluster.append(_Meeting(len(self.walkers)))
                self.cluster[walker.arrived].join(walker.now)
                walker.arrived += 1
            case ClusterWait():
                walker.waited += 1
        return max(walker.now, ends)

    def _product(self, agent: Agent, begins: Time, done: Time) -> Time:
        """When a product is done. The first agent of its warpgroup that goes on from its start gives it to its unit."""
        group = warpgroup_of(agent)
        made, number = self.products[group], self.started[agent]
        if number == len(made):
            unit = self.unit(group)
            self.free[unit] = max(begins, self.free[unit]) + done
            made.append(self.free[unit])
        self.started[agent] += 1
        return made[number]


def _done(groups: list[Time], but: int) -> Time:
    """When all groups but the last `but` are done."""
    return max(groups[: max(0, len(groups) - but)], default=0)
