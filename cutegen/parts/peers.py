"""Uses of another block's shared memory, which stays only as long as that block has not ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cutegen.parts.clocks import Actor, Event
from cutegen.parts.faults import refuse


@dataclass
class Peers:
    """The last use of each block by each agent: whoever knows that it is over, knows it of all before.

    Copies need no look: each is read (`memory`), by an agent that knows that it has come, and that is of the block or
    uses it later.
    """

    touches: dict[tuple[int, int], tuple[Actor, Event, str]] = field(default_factory=dict)

    def touched(self, actor: Actor, block: int, does: str) -> None:
        if block != actor.agent.block:
            self.touches[block, actor.column] = actor, actor.event, does

    def all_stayed(self, actors: Sequence[Actor]) -> None:
        """Whether an agent of the block, as it ends, knows that each use of the block is over."""
        for (block, _), (actor, event, does) in self.touches.items():
            if not any(own.knows(event) for own in actors if own.agent.block == block):
                refuse("exit", f"{actor.name} {does}: block {block} may have ended by then", actor.agent)
