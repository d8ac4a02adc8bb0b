"""Races for tensor memory: the last write of each part of it and the reads since, compared with the order of threads.

Instructions reach tensor memory by whole groups of 16 lanes, so that a group of lanes in one column is the smallest
part of which accesses are kept. Writers and readers are warps, known by the number of their first thread among the
members of the cluster, and the agents of threads that start products (`checks.clocks`): what a warp does together is
ordered before whoever is ordered after any thread of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import ALWAYS, Clocks
from cutegen.emulator.checks.faults import Stop, Witness
from cutegen.emulator.lanes import WARP
from cutegen.emulator.ptx.model import Instruction

GROUP = 16
"""Lanes of tensor memory that instructions reach together."""

_PLACES = 1 << 32  # more than any time

Lane = tuple[int, int]


@dataclass(frozen=True)
class TensorPart:
    """Cells of the tensor memory of the block with the number `block` in the batch: some columns of some lanes.

    `groups` are the numbers of groups of 16 lanes, shape (groups, 1), and `columns` those of the columns that each of
    these has, shape (1, columns).
    """

    block: int
    groups: Array
    columns: Array

    @property
    def index(self) -> tuple[int, Array, Array]:
        """The index that picks the part from arrays of shape (blocks, groups, columns)."""
        return self.block, self.groups, self.columns

    def cell(self, number: int) -> str:
        """The entry with that number, in words."""
        group, column = divmod(number, self.columns.size)
        lane = int(self.groups[group, 0]) * GROUP
        return f"tensor memory (lanes {lane} to {lane + GROUP - 1}, column {int(self.columns[0, column])})"


@dataclass(frozen=True)
class Touch:
    """An access to tensor memory by the instruction that a lane (thread, block) executes.

    `who` is the member or agent that makes it. What an agent `who` has written before is in order for it where the
    access is one of those that are `pipelined`. `verb` says in a fault what it does.
    """

    instruction: Instruction
    lane: Lane
    who: int
    verb: Literal["reads", "writes", "frees"]
    pipelined: bool = False


class TensorHistory:
    """The last writer, and the readers since, of each part of the tensor memory of the blocks of `clocks`.

    The arrays have the shape (blocks, groups, columns); of the writers they hold the numbers plus one, so that zeros
    stand for nobody.
    """

    def __init__(self, clocks: Clocks, lanes: int, columns: int) -> None:
        self.clocks = clocks
        self._shape = lanes // GROUP, columns
        whole = clocks.shape[1], *self._shape
        self._writer: Array = np.zeros(whole, np.int32)
        self._written: Array = np.zeros(whole, np.int32)
        self._lines: Array = np.zeros(whole, np.int32)
        # Of each reader of a block: when it has read each part since the last write, and at which PTX line
        self._reads: dict[int, dict[int, tuple[Array, Array]]] = {}
        self._landing: dict[int, list[TensorPart]] = {}  # the stores of each warp, by its first lane's number

    def check_read(self, touch: Touch, part: TensorPart) -> None:
        """Raises Stop unless the last write of each cell is ordered before the access."""
        found = self._writer[part.index], self._written[part.index]
        for who, when, number in _different(*found):
            if self._is_before(touch, who - 1, when):
                continue
            line = int(self._lines[part.index].reshape(-1)[number])
            raise self._in_flight(touch, part.cell(number), who - 1, line)

    def check_write(self, touch: Touch, part: TensorPart) -> None:
        """Raises Stop unless the last write of each cell, and all reads since, are ordered before the access."""
        self.check_read(touch, part)
        for reader, (times, lines) in self._reads.get(part.block, {}).items():
            when = times[part.index[1:]]
            if not has_any(when):
                continue
            for _, time, number in _different(np.where(when > 0, 1, 0), when):
                if not self._is_before(touch, reader, time):
                    line = int(lines[part.index[1:]].reshape(-1)[number])
                    raise self._read_by(touch, part.cell(number), reader, line)

    def note_read(self, touch: Touch, part: TensorPart) -> None:
        """Notes the reads of an access, which was looked at."""
        of_block = self._reads.setdefault(part.block, {})
        if touch.who not in of_block:
            of_block[touch.who] = np.zeros(self._shape, np.int32), np.zeros(self._shape, np.int32)
        times, lines = of_block[touch.who]
        times[part.index[1:]], lines[part.index[1:]] = self.clocks.now, touch.instruction.line

    def note_write(self, touch: Touch, part: TensorPart, *, lands: bool = False) -> None:
        """Notes the writes of an access, which was looked at: those of a warp's store that `lands` only at its wait."""
        self._writer[part.index] = touch.who + 1
        self._written[part.index] = ALWAYS if lands else self.clocks.now
        self._lines[part.index] = touch.instruction.line
        for times, _ in self._reads.get(part.block, {}).values():
            times[part.index[1:]] = 0
        if lands:
            self._landing.setdefault(self._number(touch), []).append(part)

    def land(self, lane: Lane, who: int) -> None:
        """Notes that the stores of the warp whose first lane and member are given have been made."""
        for part in self._landing.pop(lane[0] * self.clocks.shape[1] + lane[1], ()):
            mine = (self._writer[part.index] == who + 1) & (self._written[part.index] == ALWAYS)
            self._written[part.index] = np.where(mine, self.clocks.now, self._written[part.index])

    def forget(self, part: TensorPart) -> None:
        """Notes that columns are new: nobody has touched them."""
        self._writer[part.index] = 0
        for times, _ in self._reads.get(part.block, {}).values():
            times[part.index[1:]] = 0

    def _number(self, touch: Touch) -> int:
        """The number of the lane of an access among all lanes."""
        return touch.lane[0] * self.clocks.shape[1] + touch.lane[1]

    def _is_before(self, touch: Touch, who: int, when: int) -> bool:
        """Whether the access of `who` at some time is ordered before one that a lane makes now."""
        clocks, lane = self.clocks, touch.lane
        cluster, member = int(clocks.cluster[lane]), int(clocks.member[lane])
        if who < 0 or (touch.pipelined and who == touch.who):
            return True
        if who >= clocks.members:
            return clocks.is_before(cluster, member, who, when)
        if when != ALWAYS and member // WARP == who // WARP:
            return True
        return any(clocks.is_before(cluster, member, who + i, when) for i in range(WARP))

    def _in_flight(self, touch: Touch, where: str, who: int, line: int) -> Stop:
        """The fault that a write is not known to be over."""
        if who >= self.clocks.members:
            text = f"an asynchronous tensor core operation (PTX line {line}) writes: no wait for the mbarrier of a "
            text += "tcgen05.commit behind it lies between"
        elif who // WARP == int(self.clocks.member[touch.lane]) // WARP:
            text = f"this warp stores (PTX line {line}): no tcgen05.wait::st lies between"
        else:
            text = f"{self._warp(who)} stores (PTX line {line}): nothing orders this after its tcgen05.wait::st"
        witness = Witness("the operation that writes it", line)
        text = f"{touch.verb} {where}, which {text}"
        return Stop("in-flight", text, touch.instruction, touch.lane, witnesses=(witness,))

    def _read_by(self, touch: Touch, where: str, who: int, line: int) -> Stop:
        """The fault that a read is not known to be over."""
        reader = "an asynchronous tensor core operation" if who >= self.clocks.members else self._warp(who)
        text = f"{touch.verb} {where}, which {reader} reads (PTX line {line}), and nothing orders the two"
        witness = Witness(f"{reader} reads it here", line)
        return Stop("race", text, touch.instruction, touch.lane, witnesses=(witness,))

    def _warp(self, member: int) -> str:
        """The warp of a member in words."""
        return f"warp {member % self.clocks.padded // WARP}"


def _different(who: Array, when: Array) -> list[tuple[int, int, int]]:
    """The different pairs of accessors, but for zeros, and times, each with the number of its first entry."""
    codes = (who.astype(np.int64) * _PLACES + when).reshape(-1)
    if (codes == codes[0]).all():
        pairs = [(int(codes[0]), 0)]
    else:
        found, first = np.unique(codes, return_index=True)
        pairs = [*zip(found.tolist(), first.tolist(), strict=True)]
    return [(*divmod(code, _PLACES), number) for code, number in pairs if code >= _PLACES]
