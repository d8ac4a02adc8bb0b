"""The state of the lanes that run at once: their registers, what is known about them, and their memories.

A register holds an array of raw bits that broadcasts to the lanes and is never changed in place. What was never
written is poison (`checks.poison`): it may be moved and computed with, as kernels do that read ahead, but it must not
decide anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.origins import Origins
from cutegen.emulator.checks.poison import Poison, all_ones, poison_whole, poisoned_lanes
from cutegen.emulator.lanes import Mask, both, first_lane
from cutegen.emulator.memory.global_access import GlobalAccess
from cutegen.emulator.memory.local_memory import LocalMemory
from cutegen.emulator.memory.shared_memory import SharedMemory
from cutegen.emulator.native.library import core
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.ptx.types import STORAGE
from cutegen.emulator.synchronisation.team import Team

_NAN32 = np.uint32(0x7FFFFFFF)
_MASKS, _MERGED = 64, 256  # so many masks are kept, and so often what is left of poison in one


class Lanes:
    """All state of the blocks that run at once. `shape` is (threads of a block, blocks).

    `widths` are those of the registers in bits. `bits[i]` is what register i holds, as raw bits; `wide[i]` is the same
    as float64 where a multiply-add of float32 has written it. One of the two may be None where the other one is not;
    both are None for a register that was never written. `poison[i]` has a one for each bit that means nothing; it is
    missing where there is none.

    `alive` is the mask of the lanes that have not exited; where an operation gets None as its mask, all of those are
    meant. `left` are those that have exited after work of their own, while others of their warp went on; None: no lane.
    `parameters` are the bytes of the parameter space, and `specials` the values of the special registers.
    `underflow` is set by numpy's arithmetic when it underflows. `products` has what several registers got in `wide` at
    once, as one array and as its parts, by their slots. `open` is the last instruction whose result PTX left open for
    the operands that it had. `origins`, where there are any, say where poison comes from; then a fault is noted there.
    `core` is the compiled core, where it is used. `kept` is for what operations make once of these lanes, by name.
    """

    def __init__(
        self,
        widths: list[int],
        shape: tuple[int, int],
        shared: SharedMemory,
        local: LocalMemory,
        access: GlobalAccess,
        parameters: bytes,
        specials: Mapping[str, Array],
        team: Team | None = None,
    ) -> None:
        self.widths, self.shape = widths, shape
        self.bits: list[Array | None] = [None] * len(widths)
        self.wide: list[Array | None] = [None] * len(widths)
        self.poison: dict[int, Array] = {}
        self.alive: Mask = None
        self.left: Mask = None
        self.shared, self.local, self.access = shared, local, access
        self.parameters, self.specials = parameters, specials
        self.underflow = False
        self.products: dict[tuple[int, ...], tuple[Array, list[Array]]] = {}
        self.open: Instruction | None = None
        self.origins: Origins | None = None
        self.warps: dict[int, tuple[Mask, Array]] = {}  # by the identity of a mask, of which warps it has all lanes
        self.leaders: dict[tuple[int, ...], tuple[object, tuple[Array, Array]]] = {}  # as elect.sync found them
        self.core = core()
        self.kept: dict[str, object] = {}
        self._team = team
        self._known: dict[tuple[tuple[int, ...], bytes], Array] = {}
        self._same: dict[int, Array] = {}  # the same masks, by their ids
        self._outside: dict[tuple[int, int], tuple[Array, Array]] = {}
        self._left: dict[tuple[int, int], tuple[Array, Array, Poison]] = {}
        self._clean: dict[tuple[int, int], tuple[Array, Array, bool]] = {}
        self._whole: dict[int, tuple[Array, bool]] = {}
        self._joined: dict[tuple[int, int, int], tuple[Array, Poison, Array, Poison]] = {}

    @property
    def team(self) -> Team:
        """The state that the lanes share for synchronisation beyond whole-block barriers; there must be one."""
        assert self._team is not None
        return self._team

    @property
    def in_clusters(self) -> bool:
        """Whether the lanes have a team, so that addresses may be those of other blocks of a cluster."""
        return self._team is not None

    def get(self, slot: int) -> Array:
        """The raw bits of a register. One that was never written reads as zeros, all of whose bits are poison."""
        bits = self.bits[slot]
        if bits is not None:
            return bits
        wide = self.wide[slot]
        if wide is None:
            bits = np.zeros((), STORAGE[self.widths[slot]])
            self.poison[slot] = all_ones(self.widths[slot])
        else:
            narrow = wide.astype(np.float32)
            bits = narrow.view(np.uint32)
            nan = np.isnan(narrow)
            if has_any(nan):
                bits = np.where(nan, _NAN32, bits)
        self.bits[slot] = bits
        return bits

    def put(self, slot: int, bits: Array, mask: Mask, poison: Poison = None) -> None:
        """Writes a register in the lanes of the mask.

        `poison` has a one for each bit that means nothing, or is a mask of the lanes in which every bit does.
        """
        if poison is not None and poison.dtype == np.bool_:
            poison = poison_whole(poison, self.widths[slot])
        if mask is None:
            self.bits[slot], self.wide[slot] = bits, None
            if poison is not None:
                self.poison[slot] = poison
            elif self.poison:
                self.poison.pop(slot, None)
            return
        if self.bits[slot] is None and self.wide[slot] is None:
            self.bits[slot] = bits
            outside = self.outside(mask, self.widths[slot])
            self.poison[slot] = outside if poison is None else outside | poison
            return
        before = self.poison.get(slot)
        if before is not None and poison is None and before is self.outside(mask, self.widths[slot]):
            self.bits[slot], self.wide[slot] = bits, None  # what the other lanes have means nothing
            return
        self.put_merged(slot, np.where(mask, bits, self.get(slot)), mask, poison)

    def put_merged(self, slot: int, bits: Array, mask: Array, poison: Poison) -> None:
        """The same of bits that are those of the register in the lanes that are not in the mask."""
        self.bits[slot], self.wide[slot] = bits, None
        before, merged = self.poison.get(slot), None
        if poison is None:
            if before is None or before is self.outside(mask, self.widths[slot]):
                return
            merged = self.poison_left(before, mask, self.widths[slot])
        else:
            merged = self._poison_joined(poison, before, mask, self.widths[slot])
        if merged is None:
            self.poison.pop(slot, None)
        else:
            self.poison[slot] = merged

    def outside(self, mask: Array, width: int) -> Array:
        """Poison of every bit of a register that is `width` bits wide, in all lanes but those of the mask.

        For one mask that is one array, so that what is found of one register holds for all others.
        """
        found = self._outside.get((id(mask), width))
        if found is None:
            mask = self.known(mask)
            found = self._outside.get((id(mask), width))
            if found is None:
                if len(self._outside) >= _MASKS:
                    self._outside.clear()
                found = self._outside[id(mask), width] = mask, poison_whole(~mask, width)
        return found[1]

    def known(self, mask: Array) -> Array:
        """The mask, as the same array for all masks that are equal, so that what is found of it is found once."""
        if self._same.get(id(mask)) is mask:
            return mask
        key = mask.shape, mask.tobytes()
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MASKS:
                self._known.clear()
                self._same.clear()
            found = self._known[key] = mask.copy()
            self._same[id(found)] = found
        return found

    def clean(self, slots: Sequence[int], mask: Mask) -> bool:
        """Whether no register of some slots has a poisoned bit in a lane of the mask, where None is every lane."""
        last: Poison = None
        for slot in slots:
            poison = self.poison.get(slot)
            if poison is last or poison is None:
                continue
            if mask is None or not self.beyond(poison, mask):
                return False
            last = poison
        return True

    def beyond(self, poison: Array, mask: Array) -> bool:
        """Whether poison is in no lane of a mask; many registers have the same one."""
        key = id(poison), id(mask)
        found = self._clean.get(key)
        if found is None:
            if len(self._clean) >= _MERGED:
                self._clean.clear()
            inside = np.count_nonzero(poisoned_lanes(poison) & mask)
            found = self._clean[key] = poison, mask, not inside
        return found[2]

    def is_whole(self, poison: Array) -> bool:
        """Whether poison is of every bit or of none, in each lane; many registers have the same one."""
        found = self._whole.get(id(poison))
        if found is None:
            if len(self._whole) >= _MERGED:
                self._whole.clear()
            whole = poison.dtype == np.bool_ or bool(((poison == 0) | (poison == ~poison.dtype.type(0))).all())
            found = self._whole[id(poison)] = poison, whole
        return found[1]

    def poison_left(self, before: Array, mask: Array, width: int) -> Poison:
        """The poison that is left once the lanes of the mask have none; None if no lane has any left."""
        key = id(before), id(mask)
        if key not in self._left:
            merged = np.where(mask, np.zeros((), STORAGE[width]), before)
            if len(self._left) >= _MERGED:
                self._left.clear()
            self._left[key] = before, mask, merged if has_any(merged) else None
        return self._left[key][2]

    def _poison_joined(self, poison: Array, before: Poison, mask: Array, width: int) -> Poison:
        """Poison in the lanes of the mask, and what was there before in the others."""
        key = id(poison), id(before), id(mask)
        if key not in self._joined:
            joined = np.where(mask, poison, np.zeros((), STORAGE[width]) if before is None else before)
            if len(self._joined) >= _MERGED:
                self._joined.clear()
            self._joined[key] = poison, before, mask, joined if has_any(joined) else None
        return self._joined[key][3]

    def active(self, mask: Mask) -> Mask:
        """The lanes of the mask that have not exited; None only if those are all lanes of the batch."""
        return self.alive if mask is None else mask

    def guard(self, slot: int, negated: bool, mask: Mask, instruction: Instruction) -> Any:
        """The lanes of the mask in which a predicate holds: the mask itself for all of them, False for none of them.

        `negated` inverts the predicate. Raises Stop if the predicate depends on what was never written.
        """
        value = self.get(slot)
        self.refuse_register(slot, mask, "a predicate", instruction)
        held = np.count_nonzero(value)
        size = value.size if isinstance(value, np.ndarray) else 1
        if held == (0 if negated else size):
            return mask
        if held == (size if negated else 0):
            return False
        lanes = both(self.active(mask), ~value if negated else value)
        assert lanes is not None
        return lanes if has_any(lanes) else False

    def undecided(self, slot: int, mask: Mask) -> Mask:
        """The lanes of the mask in which a predicate depends on what was never written, or None if there are none."""
        if self.bits[slot] is None:
            self.get(slot)
        if self.clean((slot,), mask):
            return None
        lanes = both(self.active(mask), poisoned_lanes(self.poison[slot]))
        return np.asarray(lanes) if lanes is not None and has_any(lanes) else None  # numpy's scalars are no arrays

    def without(self, mask: Mask, lanes: Array) -> Any:
        """The lanes of the mask but for those of another one; False if there are none left."""
        left = both(self.active(mask), ~lanes)
        assert left is not None
        return np.asarray(left) if has_any(left) else False

    def spoil(self, slots: Sequence[int], mask: Array, predicate: int) -> None:
        """Makes every bit of these registers poison in the lanes of the mask, because the predicate's is."""
        self.lose(slots, mask)
        if self.origins is not None:
            self.origins.spoil(slots, predicate, mask)

    def lose(self, slots: Sequence[int], mask: Array) -> None:
        """Makes every bit of these registers poison in the lanes of the mask; many then have one array."""
        made: dict[tuple[int, int], tuple[Poison, Array]] = {}
        for slot in slots:
            self.bits[slot], self.wide[slot] = self.get(slot), None
            before, width = self.poison.get(slot), self.widths[slot]
            if (id(before), width) not in made:
                lost = poison_whole(mask, width)
                made[id(before), width] = before, lost if before is None else np.where(mask, lost, before)
            self.poison[slot] = made[id(before), width][1]

    def refuse_register(self, slot: int, mask: Mask, what: str, instruction: Instruction) -> None:
        """Raises Stop if a register has a poisoned bit in a lane of the mask. `what` names it, as for `refuse`."""
        if slot in self.poison and not self.clean((slot,), mask):
            self.refuse(self.poison[slot], mask, what, instruction)

    def refuse(self, poison: Array, mask: Mask, what: str, instruction: Instruction) -> None:
        """Raises Stop if a lane of the mask has a poisoned bit. `what` names the value, for instance "a predicate"."""
        bad = both(self.active(mask), poisoned_lanes(poison))
        assert bad is not None
        if has_any(bad):
            stop = self.refusal(bad, what, instruction)
            if self.origins is None:
                raise stop
            self.origins.first = self.origins.first or stop

    def refusal(self, bad: Array, what: str, instruction: Instruction, why: str = "") -> Stop:
        """The fault that a value depends on what was never written, in the first of the lanes `bad`.

        `what` names the value, and `why` adds what is wrong with that.
        """
        lane = first_lane(bad, self.shape)
        text = f"{what} depends on a register or on memory that was never written{why}"
        if self.open is not None:
            text += f", or on the division by zero of PTX line {self.open.line}, whose result is open"
        if self._team is not None and self._team.products.in_flight:
            text += ", or on an accumulator of wgmma before a wait for the product"
        stop = Stop("never-written", text, instruction, lane)
        return stop if self.origins is None else self.origins.explained(stop, self)
