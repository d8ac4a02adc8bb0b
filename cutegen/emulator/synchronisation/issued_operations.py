"""Asynchronous operations that single threads issue to tensor cores (tcgen05), until a commit's arrival ends them.

A thread's operations are made by an agent of its own (`checks.clocks`), so that a commit of another thread orders none
of them. Each operation reads shared memory until the arrival of a tcgen05.commit that the same thread has executed
later; any such commit ends it.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.clocks import Clocks
from cutegen.emulator.checks.shared_history import SharedHistory

Lane = tuple[int, int]


@dataclass
class Issued:
    """An operation at the PTX line `line`, started at the time `when`, that reads the units `cells` of shared memory.

    `ended` says that they are no longer read.
    """

    cells: Array
    line: int
    when: int
    ended: bool = False


class IssuedOperations:
    """The operations of all threads of a batch, and the agents that make them."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self._agents: dict[int, int] = {}  # thread of a block -> its agent in the block of rank 0
        self._open: dict[Lane, list[Issued]] = {}
        # When, and at which PTX line, each agent has last started what touches a block, by the block
        self._latest: dict[int, dict[int, tuple[int, int]]] = {}

    def agent(self, lane: Lane) -> int:
        """The number of the agent that makes what a lane (thread, block) issues."""
        thread, block = lane
        if thread not in self._agents:
            self._agents[thread] = self.clocks.add_agents()
        return self._agents[thread] + block % self.clocks.size

    def begin(self, lane: Lane, blocks: list[int], cells: Array, line: int, log: SharedHistory) -> None:
        """Starts an operation of a lane that touches memory of some blocks. The units `cells` are all different."""
        log.begin_gather(cells, line)
        self._open.setdefault(lane, []).append(Issued(cells, line, self.clocks.now))
        for block in blocks:
            self._latest.setdefault(block, {})[self.agent(lane)] = self.clocks.now, line

    def tracked(self, lane: Lane) -> list[Issued]:
        """The operations that a commit of a lane tracks now: all that have not ended."""
        left = self._open[lane] = [one for one in self._open.get(lane, []) if not one.ended]
        return list(left)

    def end(self, agent: int, operations: list[Issued], log: SharedHistory) -> None:
        """Ends the reads of operations of an agent, unless another commit has."""
        for one in operations:
            if not one.ended:
                one.ended = True
                log.end_gather(one.cells, agent, one.when, one.line)

    def touching(self, block: int) -> list[tuple[int, int, int]]:
        """The agents that have touched a block's memory, each with when it did so last, and the PTX line of that."""
        return [(agent, *latest) for agent, latest in self._latest.get(block, {}).items()]
