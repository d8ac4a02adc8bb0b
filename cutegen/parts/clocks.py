"""Vector clocks: what each agent knows to have happened in every order.

A clock counts, for each agent, the acts that are known to be done, and for each mbarrier the phases that are known to
be over. Clocks spread only where one agent cannot go on before another has done something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from cutegen.parts.acts import Act, Agent

Clock: TypeAlias = "list[int]"


class Event(NamedTuple):
    """An act of an agent: whoever has that time in the agent's column of its clock, knows that the act is done."""

    column: int
    time: int


class Seen:
    """The acts and phases that an agent knew of at some time."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def knows(self, event: Event) -> bool:
        return self.clock[event.column] >= event.time


class Actor(Seen):
    """An agent on its way through its acts, with its clock."""

    def __init__(self, agent: Agent, name: str, acts: Sequence[Act], column: int, width: int) -> None:
        self.agent, self.name, self.acts, self.column = agent, name, acts, column
        super().__init__([0] * width)
        self.at = 0
        self.clock[column] = 1
        self.fenced: Clock = [0] * width  # as it last fenced barriers that it had initialised

    @property
    def done(self) -> bool:
        return self.at == len(self.acts)

    @property
    def act(self) -> Act:
        return self.acts[self.at]

    @property
    def event(self) -> Event:
        """The present act. Whoever knows it, knows all acts before it."""
        return Event(self.column, self.clock[self.column])

    def goes_on(self) -> None:
        self.at += 1
        self.clock[self.column] += 1

    def learns(self, clock: Clock) -> None:
        merge(self.clock, clock)


def merge(into: Clock, more: Clock) -> None:
    into[:] = map(max, into, more)
