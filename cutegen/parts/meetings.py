"""Where agents come together: named barriers, the warpgroup that starts a product, the barrier of the cluster."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.parts.acts import Meet, Multiply
from cutegen.parts.clocks import Actor, Clock, Event, merge
from cutegen.parts.faults import refuse


class Meeting:
    """One time that a barrier is passed: complete once so many have come."""

    def __init__(self, expected: int, width: int) -> None:
        self.expected, self.come = expected, 0
        self.clock: Clock = [0] * width
        self.events: list[Event] = []

    @property
    def complete(self) -> bool:
        return self.come == self.expected

    def join(self, actor: Actor, count: int = 1, tells: Clock | None = None) -> None:
        """So many threads come; who passes learns what the actor knows, or what it `tells`."""
        self.come += count
        merge(self.clock, actor.clock if tells is None else tells)
        self.events.append(actor.event)

    def known_complete(self, actor: Actor) -> bool:
        return self.complete and all(map(actor.knows, self.events))


class Named:
    """A named barrier in one order of the agents. Who comes must know that it was passed before: the threads that pass
    together are then the same in every order.
    """

    def __init__(self, name: str, width: int) -> None:
        self.name, self.width = name, width
        self.passed = 0
        self.last: Meeting | None = None
        self.now: Meeting | None = None

    def join(self, actor: Actor, act: Meet) -> Meeting:
        if self.last and not self.last.known_complete(actor):
            text = f"{actor.name} comes to {self.name} without knowing that those before, who pass it for the time"
            text += f" {self.passed}, have all come: it may pass with them"
            refuse("threads", text, actor.agent, actor.at)
        meeting = self.now = self.now or Meeting(act.threads, self.width)
        if act.threads != meeting.expected:
            text = f"{actor.name} comes to {self.name} for {act.threads} threads, others for {meeting.expected}"
            refuse("threads", text, actor.agent, actor.at)
        if meeting.come + act.count > meeting.expected:
            text = f"{actor.name} comes to {self.name} with {act.count} threads, which lacks"
            text += f" {meeting.expected - meeting.come} of {meeting.expected}"
            refuse("threads", text, actor.agent, actor.at)
        meeting.join(actor, act.count)
        if meeting.complete:
            self.last, self.now, self.passed = meeting, None, self.passed + 1
        return meeting


class Together:
    """A warpgroup's start of products, each of which needs all of its agents."""

    def __init__(self, members: Sequence[Actor], width: int) -> None:
        self.members, self.width = members, width
        self.now: Meeting | None = None
        self.act: Multiply | None = None

    @property
    def starts(self) -> bool:
        """Whether the next who joins is the first."""
        return self.now is None

    def join(self, actor: Actor, act: Multiply) -> Meeting:
        meeting = self.now = self.now or Meeting(len(self.members), self.width)
        if self.act not in (None, act):
            text = f"{actor.name} starts another product than the other agents of its warpgroup"
            refuse("products", text, actor.agent, actor.at)
        self.act = act
        meeting.join(actor)
        if meeting.complete:
            self.now = self.act = None
        return meeting


class ClusterBarrier:
    def __init__(self, members: int, width: int) -> None:
        self.members, self.width = members, width
        self.meetings: list[Meeting] = []

    def arrive(self, actor: Actor, times: int, tells: Clock) -> Meeting:
        """`times`: that it has arrived before."""
        if times == len(self.meetings):
            self.meetings.append(Meeting(self.members, self.width))
        self.meetings[times].join(actor, tells=tells)
        return self.meetings[times]
