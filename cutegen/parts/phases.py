"""The phases of an mbarrier, with what is known as each of them ends.

The phases are the same in every order of the agents if these hold of one order:

- who arrives or brings bytes knows that the phase before is over, so that what they add cannot fall into that one;
- who waits knows that the phase before the one that it waits for is over. Otherwise it could come when the barrier has
  the same parity two phases before, and pass;
- a phase ends only after all who wait for the one before it have passed: they could otherwise find the parity changed
  back, and wait for ever.
"""

from __future__ import annotations

from cutegen.parts.clocks import Actor, Clock, Event, Seen, merge
from cutegen.parts.faults import refuse


class Phase:
    """A phase under way or over: who has arrived, what has come, who has passed the wait for the phase before."""

    def __init__(self, number: int, column: int, pending: int, width: int) -> None:
        self.number, self.column, self.pending = number, column, pending
        self.bytes = 0  # that are expected and have not come
        self.over = False
        self.brought = False  # whether bytes came, or an end of products, whose coming only the barrier tells
        self.arrivals: dict[int, int] = {}  # the last arrival of each agent, by column
        self.arrived: Clock = [0] * width  # what is known by the arrivals
        self.clock: Clock = [0] * width  # by the copies; by all once it is over
        self.expects: list[tuple[Actor, Event]] = []  # expected bytes without an arrival
        self.passed: list[tuple[Actor, Event]] = []

    @property
    def end(self) -> Event:
        """Whoever knows it, was told that the phase is over."""
        return Event(self.column, self.number + 1)

    def known_over(self, actor: Seen) -> bool:
        """Whether it is over in every order as the actor comes here: it was told, or it knows of all that ends it."""
        if actor.clock[self.column] > self.number:
            return True
        known = all(actor.clock[column] >= time for column, time in self.arrivals.items())
        return self.over and not self.brought and known


class Barriers:
    """An mbarrier in one order of the agents, from where it is initialised: its phase under way and the two before."""

    def __init__(self, actor: Actor, name: str, arrivals: int, column: int, width: int) -> None:
        if arrivals < 1:
            text = f"{actor.name} initialises {name} with {arrivals} arrivals: its phases would never be over"
            refuse("arrivals", text, actor.agent, actor.at)
        self.name, self.initialised, self.column, self.width = name, arrivals, column, width
        self.fence: Event | None = None  # after it was initialised
        self.now = Phase(0, column, arrivals, width)
        self.last: Phase | None = None
        self.before_last: Phase | None = None

    def seen(self, actor: Actor) -> bool:
        """Whether an actor knows that it is initialised, and that a fence came after that."""
        return self.fence is not None and actor.knows(self.fence)

    def wait(self, actor: Actor, parity: int) -> bool:
        """Whether it passes."""
        if self.now.number % 2 == parity:
            return False
        if self.before_last and not self.before_last.known_over(actor):
            early, target = self.before_last.number, self.now.number - 1
            refuse(
                "wait",
                f"{actor.name} waits for phase {target} of {self.name} (parity {parity}) without knowing that phase"
                f" {early} is over: it may come before that, pass at once, and go on two phases early",
                actor.agent,
                actor.at,
            )
        if self.last:
            actor.learns(self.last.clock)
        self.now.passed.append((actor, actor.event))
        return True

    def arrive(self, actor: Actor, count: int, expected: int) -> None:
        self._in_this_phase(actor, f"arrives at {self.name}" if count else f"expects bytes at {self.name}")
        self._arrivals_left(actor, count)
        self.now.pending -= count
        self.now.bytes += expected
        if count:
            self.now.arrivals[actor.column] = actor.event.time
            merge(self.now.arrived, actor.clock)
        else:
            self.now.expects.append((actor, actor.event))
        self._end(actor)

    def bring(self, actor: Actor, size: int) -> Phase:
        """Returns the phase that the bytes fall into."""
        phase = self.now
        self._in_this_phase(actor, f"starts a copy that brings {size} bytes to {self.name}")
        phase.bytes -= size
        phase.brought = True
        merge(phase.clock, actor.clock)
        self._end(actor)
        return phase

    def commit(self, actor: Actor) -> Phase:
        """Returns the phase that an arrival falls into which comes once an agent's products are done."""
        phase = self.now
        self._in_this_phase(actor, f"commits products at {self.name}")
        self._arrivals_left(actor, 1)
        phase.pending -= 1
        phase.brought = True
        merge(phase.clock, actor.clock)
        self._end(actor)
        return phase

    def _arrivals_left(self, actor: Actor, count: int) -> None:
        if count > self.now.pending:
            refuse(
                "arrivals",
                f"{actor.name} arrives at {self.name} {count} times in its phase {self.now.number}, which lacks"
                f" {self.now.pending} of {self.initialised} arrivals",
                actor.agent,
                actor.at,
            )

    def _in_this_phase(self, actor: Actor, does: str) -> None:
        if self.last and not self.last.known_over(actor):
            refuse(
                "stray",
                f"{actor.name} {does} for its phase {self.now.number} without knowing that phase {self.last.number} is"
                f" over: that may fall into phase {self.last.number}",
                actor.agent,
                actor.at,
            )

    def _end(self, actor: Actor) -> None:
        phase = self.now
        if phase.pending:
            return
        if phase.bytes < 0:
            refuse(
                "bytes",
                f"more bytes come to {self.name} in its phase {phase.number} than are expected ({-phase.bytes} more)",
                actor.agent,
                actor.at,
            )
        if phase.bytes == 0:
            self._all_expected(phase)
            merge(phase.clock, phase.arrived)
            phase.clock[self.column] = phase.number + 1
            self._all_passed(phase)
            phase.over = True
            self.before_last, self.last = self.last, phase
            self.now = Phase(phase.number + 1, self.column, self.initialised, self.width)

    def _all_expected(self, phase: Phase) -> None:
        for actor, event in phase.expects:
            if phase.arrived[event.column] < event.time:
                text = f"{actor.name} expects bytes at {self.name}, whose phase {phase.number} may be over before that"
                refuse("stray", text, actor.agent)

    def _all_passed(self, phase: Phase) -> None:
        for actor, event in phase.passed:
            if phase.clock[event.column] < event.time:
                refuse(
                    "overrun",
                    f"phase {phase.number} of {self.name} may be over before {actor.name} has seen that phase"
                    f" {phase.number - 1} is: it would wait for ever, or for a later phase",
                    actor.agent,
                )
