"""One mbarrier: what its phase waits for, what it has told, and the bytes that arrive at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.faults import Stop, Witness
from cutegen.emulator.checks.told import Told
from cutegen.emulator.synchronisation.mbarrier_uses import Uses

Seen = Callable[[tuple[int, int]], None]
"""Receives the lane (thread, block) that is the first to know that an asynchronous operation has completed."""


@dataclass(frozen=True)
class Arrival:
    """`size` bytes that have been written, which are counted at the mbarrier at the byte `offset` of a block.

    `seen` gets the lane that is the first to know, once one has found that the phase has ended.
    """

    block: int
    offset: int
    size: int
    seen: Seen | None = None


@dataclass
class Mbarrier:
    """One mbarrier, at the byte `offset` of the shared memory of the block with the number `block` in the batch.

    It expects `count` arrivals in each phase; `pending` of them and `bytes` are still to come in this one. `ended` are
    the times at which phases ended. `maker` is the member that initialised it, at the time `made`, and at `published`
    (0: never) a fence of that member showed that to the cluster. `agent` is the number of its agent. `told` is what the
    arrivals of this phase have told, and `known` what those of the phase before had. `used` has the time at which each
    member used it last. `arriving` want to know who finds first that this phase has ended, and `unseen` that one before
    has. The table of the core has it in the row `row`.
    """

    offset: int
    block: int
    count: int
    pending: int
    maker: int
    made: int
    line: int
    agent: int
    used: Array
    row: int = -1
    bytes: int = 0
    published: int = 0
    ended: list[int] = field(default_factory=list)
    told: Told | None = None
    known: Told | None = None
    arriving: list[Seen] = field(default_factory=list)
    unseen: list[Seen] = field(default_factory=list)

    @property
    def phase(self) -> int:
        """How many phases have ended."""
        return len(self.ended)

    def __str__(self) -> str:
        return f"{self.pending} of {self.count} arrivals and {self.bytes} bytes"


def fault_of(text: str, uses: Uses, index: int, mbarrier: Mbarrier | None = None) -> Stop:
    """The fault of the lane of one entry of uses, with the mbarrier that it is about, if there is one."""
    witnesses = () if mbarrier is None else (Witness("initialised here", mbarrier.line),)
    byte = int(uses.offsets[index])
    return Stop("mbarrier", text, uses.instruction, uses.lane(index), address=byte, witnesses=witnesses)
