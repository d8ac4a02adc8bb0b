"""The registers of the lanes in flight, and what is known about them.

A register holds an array of raw bits that broadcasts to the lanes, and is never changed in place. What was never
written is poison: it may be moved and computed with, as kernels do that read ahead, but must not decide anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cutegen.emulator.access import GlobalAccess
from cutegen.emulator.lanes import Array, Mask, Stop, both, first
from cutegen.emulator.poison import Poison, ones, some, whole
from cutegen.emulator.shared import SharedMemory
from cutegen.emulator.types import STORAGE, Instruction

_NAN32 = np.uint32(0x7FFFFFFF)


class Lanes:
    """All state of the blocks that run at once. `shape` is (threads of a block, blocks).

    `bits[i]` is register i, or None if nothing has written it since `wide[i]` (float32 values held as float64, by
    multiply-add) or at all. `poison[i]` has a one for each bit that means nothing. `alive` leaves out lanes that have
    exited; a mask of None means all that are alive. `open` is the last instruction whose result PTX left open.
    """

    def __init__(
        self,
        widths: list[int],
        shape: tuple[int, int],
        shared: SharedMemory,
        access: GlobalAccess,
        parameters: bytes,
        specials: Mapping[str, Array],
    ) -> None:
        self.widths, self.shape = widths, shape
        self.bits: list[Array | None] = [None] * len(widths)
        self.wide: list[Array | None] = [None] * len(widths)
        self.poison: dict[int, Array] = {}
        self.alive: Mask = None
        self.shared, self.access = shared, access
        self.parameters, self.specials = parameters, specials
        self.underflow = False
        self.open: Instruction | None = None

    def get(self, slot: int) -> Array:
        """A register's bits. One that was never written reads as poisoned zeros."""
        bits = self.bits[slot]
        if bits is not None:
            return bits
        wide = self.wide[slot]
        if wide is None:
            bits = np.zeros((), STORAGE[self.widths[slot]])
            self.poison[slot] = ones(self.widths[slot])
        else:
            narrow = wide.astype(np.float32)
            bits = narrow.view(np.uint32)
            nan = np.isnan(narrow)
            if nan.any():
                bits = np.where(nan, _NAN32, bits)
        self.bits[slot] = bits
        return bits

    def put(self, slot: int, bits: Array, mask: Mask, poison: Poison = None) -> None:
        """Writes the lanes of the mask. `poison`: its bits, or lanes of which every bit is poisoned."""
        if poison is not None and poison.dtype == np.bool_:
            poison = whole(poison, self.widths[slot])
        if mask is None:
            self.bits[slot], self.wide[slot] = bits, None
            if poison is not None:
                self.poison[slot] = poison
            elif self.poison:
                self.poison.pop(slot, None)
            return
        if self.bits[slot] is None and self.wide[slot] is None:
            self.bits[slot] = bits
            outside = whole(~mask, self.widths[slot])
            self.poison[slot] = outside if poison is None else outside | poison
            return
        old = self.get(slot)
        self.bits[slot], self.wide[slot] = np.where(mask, bits, old), None
        before = self.poison.get(slot)
        if before is not None or poison is not None:
            zero = np.zeros((), STORAGE[self.widths[slot]])
            merged = np.where(mask, zero if poison is None else poison, zero if before is None else before)
            if merged.any():
                self.poison[slot] = merged
            else:
                self.poison.pop(slot, None)

    def active(self, mask: Mask) -> Mask:
        """The mask without lanes that have exited; None only if that is every lane."""
        return self.alive if mask is None else mask

    def guard(self, slot: int, negated: bool, mask: Mask, instruction: Instruction) -> Any:
        """The lanes of the mask whose predicate holds: None for all of them, False for none of them."""
        value = self.get(slot)
        if slot in self.poison:
            self.refuse(self.poison[slot], mask, "a predicate", instruction)
        held = np.count_nonzero(value)
        size = value.size if isinstance(value, np.ndarray) else 1
        if held == (0 if negated else size):
            return mask
        if held == (size if negated else 0):
            return False
        lanes = both(self.active(mask), ~value if negated else value)
        assert lanes is not None
        return lanes if lanes.any() else False

    def refuse(self, poison: Array, mask: Mask, what: str, instruction: Instruction) -> None:
        """Raises if a lane of the mask has a poisoned bit."""
        bad = both(self.active(mask), some(poison))
        assert bad is not None
        if bad.any():
            lane = first(bad, self.shape)
            text = f"{what} depends on a register or on memory that was never written"
            if self.open is not None:
                text += f", or on the division by zero of PTX line {self.open.line}, whose result is open"
            raise Stop("never-written", text, instruction, lane)
