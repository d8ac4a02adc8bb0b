"""The 16 barriers of a block where some of its warps may meet at one: bar.sync with a count, and bar.arrive.

A barrier opens with the threads that come next, whoever they are. So it must be known who these are: each warp that
comes must come after all those that the barrier has opened with last, as barriers and waits order them. A warp for
which that does not hold might have come before one of them, and opened the barrier in its place: as where one number
serves for two purposes, or for two groups of warps. Where it holds for all, the threads that a barrier opens with are
the same ones in every order in which warps may run, each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import Clocks
from cutegen.emulator.checks.faults import Stop, Witness
from cutegen.emulator.checks.told import Told
from cutegen.emulator.lanes import WARP, first_lane, in_warps
from cutegen.emulator.native.library import AccessResult, core
from cutegen.emulator.ptx.model import Instruction


@dataclass
class _Barrier:
    """A barrier with one number, in all blocks of a batch.

    `expected` is how many threads open it in each block: 0 for all that have not exited, -1 where none has come.
    `arrived` says how often each lane has come since it opened last, `waiting` which lanes wait for it, and `line` is
    the PTX line at which they came. `told` has, for each block to which any have come, what they knew then. `looked` is
    the mask of the lanes that were alive when it was looked at last, whether it opens.

    `came` has the time at which each warp has come since it opened last, shape (warps, blocks), 0 for one that has not;
    `last` has those with which it has opened last, `last_line` their PTX lines, and `last_twice` says which of them
    had come twice.
    """

    expected: Array
    arrived: Array
    waiting: Array
    line: Array
    came: Array
    last: Array
    last_line: Array
    last_twice: Array
    told: dict[int, Told] = field(default_factory=dict)
    looked: Array | None = None

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Its arrays, as the core takes them."""
        here = self.expected, self.arrived, self.waiting, self.line
        return *here, self.came, self.last, self.last_line, self.last_twice


class BlockBarriers:
    """The barriers of the blocks of `clocks`. `opened` counts the times that some of them have opened."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.opened = 0
        self._barriers: dict[int, _Barrier] = {}
        self._core = core()
        fixed = (*clocks.shape, clocks.size, clocks.padded, clocks.members)
        self._given = np.array([*fixed, *[0] * 6], np.int64)
        self._going_on = np.zeros(clocks.shape, np.bool_)
        self._flags = np.zeros((2, clocks.shape[1]), np.bool_)  # of each block: whether any come, and it opens

    def arrive(
        self, number: int, count: int | None, lanes: Array, alive: Array, instruction: Instruction, *, waits: bool
    ) -> None:
        """Lets the lanes of a mask come to the barrier with that number, to wait there where it `waits`.

        `count` is how many threads it expects, None for all; `alive` are the lanes that have not exited. A lane that
        waits may have come before, and counts twice then. Raises Stop for a lane that it does not expect, and for one
        that might have come in the place of another.
        """
        barrier, wanted = self._of(number), count or 0
        barrier.looked = alive
        if self._comes_by_core(barrier, wanted, lanes, alive, instruction, waits=waits):
            return
        shape = self.clocks.shape
        twice = lanes & (barrier.arrived > 0)
        if has_any(twice) and not waits:
            text = f"this thread comes to barrier {number} again, which has not opened since it came last"
            raise Stop("barrier", text, instruction, first_lane(twice, shape))
        blocks = np.asarray(lanes.any(axis=0))
        strange = blocks & (barrier.expected >= 0) & (barrier.expected != wanted)
        if has_any(strange):
            lane = first_lane(lanes & strange, shape)
            others = int(barrier.expected[lane[1]])
            text = f"barrier {number} counts {wanted or 'all'} threads here, and {others or 'all'} where others wait"
            raise Stop("barrier", text, instruction, lane)
        barrier.expected[blocks] = wanted
        barrier.arrived += lanes
        self._check_turn(number, lanes, alive, instruction)
        self._note_told(barrier, lanes, blocks)
        barrier.came[in_warps(lanes).any(axis=1)] = self.clocks.now
        barrier.line[lanes] = instruction.line
        if waits:
            barrier.waiting |= lanes
        self._open(number, alive, instruction)

    def open_for(self, number: int, lanes: Array, alive: Array, instruction: Instruction) -> Array:
        """The lanes of a mask, which have come to the barrier with that number, that need not wait any more."""
        barrier = self._barriers[number]
        if barrier.looked is not alive:
            barrier.looked = alive
            self._open(number, alive, instruction)
        return np.asarray(lanes & ~barrier.waiting)

    def missing(self, number: int, lane: tuple[int, int], alive: Array) -> Array:
        """The lanes of a block that have not come to the barrier at which one of its lanes waits."""
        mine = np.zeros(self.clocks.shape, np.bool_)
        mine[:, lane[1]] = True
        return np.asarray(mine & alive & (self._barriers[number].arrived == 0))

    def came(self, number: int, lane: tuple[int, int]) -> tuple[int, int]:
        """How many threads have come to the barrier at which a lane waits, and how many it expects (0: all)."""
        barrier = self._barriers[number]
        return int(barrier.arrived[:, lane[1]].sum()), int(barrier.expected[lane[1]])

    def _open(self, number: int, alive: Array, instruction: Instruction) -> None:
        """Opens the barrier with that number in those blocks where all have come, who then know of each other."""
        barrier, shape = self._barriers[number], self.clocks.shape
        came = barrier.arrived > 0
        some = came.any(axis=0)
        everyone = (came | ~alive).all(axis=0)
        warps = self._whole_warps(barrier.arrived, alive) * WARP
        counted = barrier.expected > 0
        if has_any(many := some & counted & (warps > barrier.expected)):
            lane = first_lane(came & many, shape)
            text = f"{warps[lane[1]]} threads come to barrier {number}, which counts {barrier.expected[lane[1]]}"
            raise Stop("barrier", text, instruction, lane)
        opened = some & np.where(counted, warps == barrier.expected, everyone)
        if not has_any(opened):
            return
        self._check_aligned(barrier, came & opened, alive, instruction)
        self._let_learn(barrier, barrier.waiting & opened, opened)
        barrier.last = np.where(opened, barrier.came, barrier.last)
        barrier.last_line = np.where(opened, in_warps(barrier.line).max(axis=1), barrier.last_line)
        barrier.last_twice = np.where(opened, in_warps(barrier.arrived).max(axis=1) > 1, barrier.last_twice)
        barrier.came[:, opened] = barrier.arrived[:, opened] = barrier.waiting[:, opened] = 0
        barrier.expected[opened] = -1

    def _let_learn(self, barrier: _Barrier, lanes: Array, opened: Array) -> None:
        """Lets the lanes that go on, where the barrier has `opened`, know what all have told that came there."""
        self.opened += 1
        if len(opened) == 1:
            self.clocks.learn(lanes, barrier.told.pop(0))
            return
        blocks = np.flatnonzero(opened)
        told = [barrier.told.pop(block) for block in blocks.tolist()]
        self.clocks.learn_by_groups(lanes, _by_block(blocks, len(opened)), told)

    def _of(self, number: int) -> _Barrier:
        """The barrier with that number."""
        if number not in self._barriers:
            shape = self.clocks.shape
            none = np.zeros(shape, np.int32)
            warps = np.zeros((self.clocks.padded // WARP, shape[1]), np.int32)
            self._barriers[number] = _Barrier(
                np.full(shape[1], -1, np.int64),
                none,
                np.zeros(shape, np.bool_),
                none.copy(),
                warps,
                warps.copy(),
                warps.copy(),
                warps.astype(np.bool_),
            )
        return self._barriers[number]

    def _comes_by_core(
        self, barrier: _Barrier, wanted: int, lanes: Array, alive: Array, instruction: Instruction, *, waits: bool
    ) -> bool:
        """Does what `arrive` does, if the core finds that all is in order; returns whether it does."""
        if self._core is None:
            return False
        clocks, given = self.clocks, self._given
        held, known = clocks.held_rows()
        together = _is_aligned(instruction)
        given[5:] = known.shape[1], clocks.now + 1, instruction.line, wanted, waits, together
        arrays = (lanes, alive, *barrier.arrays, held, known, self._going_on, self._flags)
        result = self._core.accesses["meet_at_barrier"](arrays, given.ctypes.data)
        if result == AccessResult.WRONG:
            return False
        come, opened = self._flags
        self._note_told(barrier, lanes, come)
        if result == AccessResult.NEW:
            self._let_learn(barrier, self._going_on, opened)
        return True

    def _check_turn(self, number: int, lanes: Array, alive: Array, instruction: Instruction) -> None:
        """Raises Stop for a warp that has come whole, and might have come before those that opened the barrier last."""
        barrier = self._barriers[number]
        blocks = np.flatnonzero(lanes.any(axis=0) & barrier.last.any(axis=0))
        if not blocks.size:
            return
        came, here = in_warps((barrier.arrived > 0)[:, blocks]), in_warps(alive[:, blocks])
        whole = np.asarray(in_warps(lanes[:, blocks]).any(axis=1) & (came | ~here).all(axis=1))
        last = barrier.last[:, blocks]
        racing = whole[:, None] & (last > self.clocks.runs_known(blocks))
        if not has_any(racing):
            return
        warp, other, column = (int(index) for index in np.argwhere(racing)[0])
        block = int(blocks[column])
        again = " twice" * bool(barrier.last_twice[other, block])
        text = (
            f"nothing orders this thread's coming to barrier {number} after that of warp {other}, which came{again} as "
            "it opened last: in another order it opens with one in the place of the other. Give one of the two uses a "
            f"barrier of another number, or let this warp wait until warp {other} has come"
        )
        thread = warp * WARP + int(lanes[warp * WARP : (warp + 1) * WARP, block].argmax())
        line = int(barrier.last_line[other, block])
        witness = Witness(f"where warp {other} (threads from {other * WARP} on) came", line)
        raise Stop("barrier", text, instruction, (thread, block), witnesses=(witness,))

    def _note_told(self, barrier: _Barrier, lanes: Array, come: Array) -> None:
        """Notes what the lanes of a mask know that come to a barrier: what they do later it does not order.

        `come` says of each block whether any of its lanes do.
        """
        self.clocks.tick()
        blocks = np.flatnonzero(come)
        told = self.clocks.told_by_groups(lanes, _by_block(blocks, len(come)), len(blocks)) if len(blocks) else []
        for block, one in zip(blocks.tolist(), told, strict=True):
            barrier.told[block] = one.and_what(barrier.told.get(block))

    def _whole_warps(self, arrived: Array, alive: Array) -> Array:
        """How often warps of each block have come with all of their threads that are alive."""
        came, here = in_warps(arrived), in_warps(alive)
        least = np.where(here, came, np.iinfo(np.int32).max).min(axis=1)
        return np.asarray(np.where(here.any(axis=1), least, came.max(axis=1)).sum(axis=0))

    def _check_aligned(self, barrier: _Barrier, lanes: Array, alive: Array, instruction: Instruction) -> None:
        """Raises Stop for a lane that came at another instruction than its warp, where that must come together."""
        if not _is_aligned(instruction):
            return
        here, lines, there = (in_warps(value) for value in (lanes, barrier.line, alive & ~lanes))
        last = np.where(here, lines, 0).max(axis=1, keepdims=True)
        bad = (here & (lines != last)) | (here.any(axis=1, keepdims=True) & there)
        if has_any(bad):
            warp = int(bad.any(axis=(1, 2)).argmax())
            thread, block = first_lane(bad[warp], bad[warp].shape)
            text = "this thread waits at another barrier than the other threads of its warp"
            raise Stop("barrier", text, instruction, (warp * WARP + thread, block))


def _is_aligned(instruction: Instruction) -> bool:
    """Whether all threads of a warp must execute an instruction together that comes to a barrier."""
    return instruction.opcode == "bar" or "aligned" in instruction.modifiers


def _by_block(blocks: Array, count: int) -> Array:
    """The groups of lanes, as `Clocks` take them, where each of some blocks, of `count` in all, is a group."""
    groups = np.zeros((1, count), np.int64)
    groups[0, blocks] = np.arange(len(blocks))
    return groups
