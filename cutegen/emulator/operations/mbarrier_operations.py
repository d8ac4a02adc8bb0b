"""mbarrier instructions as operations on the lanes' state, but for the waits, which are in `phase_waits`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask, first_lane, spread
from cutegen.emulator.memory.placement import BASE, WINDOW
from cutegen.emulator.operations.addresses import Pointer, read_pointer
from cutegen.emulator.operations.operands import Getter, Operation, Places, getter
from cutegen.emulator.operations.peers import whose_memory
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction, Operand, Register
from cutegen.emulator.ptx.types import TYPES
from cutegen.emulator.synchronisation.bulk_groups import single
from cutegen.emulator.synchronisation.mbarrier_table import Looked
from cutegen.emulator.synchronisation.mbarrier_uses import Uses
from cutegen.emulator.synchronisation.mbarriers import MOST

SIZE = 8
"""The bytes of an mbarrier."""


@dataclass(frozen=True)
class SharedOperand:
    """An operand that says where in shared memory an mbarrier is, or other data of `size` bytes.

    It is a `pointer` in the state space shared, shared::cluster, or "" for a generic address. What is `counted` ends
    with a phase of an mbarrier. Its address is a multiple of `align`.
    """

    pointer: Pointer
    space: str
    instruction: Instruction
    size: int = SIZE
    counted: bool = False
    align: int = SIZE

    def of_size(self, size: int) -> SharedOperand:
        """The same of so many bytes."""
        return self if size == self.size else replace(self, size=size)

    def access(self, lanes: Lanes, mask: Mask) -> tuple[SharedAccess, Array]:
        """The bytes that the lanes of a mask use, and the blocks that have them, for each lane.

        Raises Stop for an address that is out of bounds or misaligned, and for a peer's that may not be used.
        """
        active = lanes.active(mask)
        address, offset = self.pointer.known_base(lanes, mask, self.instruction), self.pointer.offset
        columns = None
        if not self.space:
            outside = whole(active, lanes.shape) & (address.astype(np.int64) + offset < WINDOW)
            if has_any(outside):
                lane = first_lane(outside, lanes.shape)
                raise Stop("out-of-bounds", "a generic address outside of shared memory", self.instruction, lane)
            address = address - np.uint64(WINDOW)
        if self.space != "shared":
            address, offset, columns = whose_memory(
                lanes, address, offset, active, self.instruction, counted=self.counted
            )
        access = lanes.shared.access(address, offset, self.size, active, self.instruction, columns, self.align)
        own = np.arange(lanes.shape[1])[None, :]
        return access, spread(own if columns is None else columns, lanes.shape)

    def access_of(self, lanes: Lanes, lane: tuple[int, int]) -> tuple[SharedAccess, Array]:
        """`access` of one lane: found without arrays of all lanes where it is in order and in the lane's own block."""
        memory, mask = lanes.shared, single(lane, lanes.shape)
        address = self.pointer.known_at(lanes, lane, self.instruction) - (0 if self.space else WINDOW)
        row, unit = address - memory.base, memory.unit
        if not 0 <= row <= memory.size - self.size or row % self.align or row % unit:
            return self.access(lanes, mask)
        if memory.touched is not None:
            memory.touched.append((row, row, self.size))
        row //= unit
        count = self.size // unit
        access = SharedAccess(np.full((1, 1), row), count, mask, self.instruction, row, row + count)
        return access, np.full((1, 1), lane[1])

    def uses_of(self, lanes: Lanes, lane: tuple[int, int]) -> Uses:
        """`uses` for one lane."""
        access, blocks = self.access_of(lanes, lane)
        if blocks.size > 1:
            return self.uses(lanes, single(lane, lanes.shape))
        assert access.mask is not None
        return Uses(access.mask, access.rows[0] * lanes.shared.unit, blocks[0], self.instruction)

    def looked(self, lanes: Lanes, mask: Mask, amounts: Array | None, most: int = 0) -> Looked | None:
        """Where the lanes of a mask use mbarriers, for the core to find; None where it is not to look.

        `amounts` are numbers that the lanes have, from 1 to `most` where that is not 0.
        """
        shared, pointer = lanes.shared, self.pointer
        address = pointer.base(lanes)
        if not lanes.clean((pointer.slot,), mask):
            return None
        shift = pointer.offset - (0 if self.space else WINDOW) - (shared.base - BASE)
        peers = None if self.space == "shared" else (lanes.team.visits, lanes.team.gone)
        here = whole(lanes.active(mask), lanes.shape)
        return Looked(here, address, shift, shared.size, self.instruction.line, amounts, most, peers)

    def note_look(self, lanes: Lanes, mask: Mask) -> None:
        """Notes that lanes have touched mbarriers, at which the core has looked, where somebody wants to know it."""
        touched = lanes.shared.touched
        if touched is not None:
            low, high, _ = lanes.shared.extents.of(np.asarray(self.pointer.base(lanes)), lanes.active(mask))
            shift = self.pointer.offset - (0 if self.space else WINDOW) - lanes.shared.base
            touched.append((low + shift, high + shift, self.size))

    def uses(self, lanes: Lanes, mask: Mask) -> Uses:
        """Which mbarriers the lanes of a mask use. Raises Stop as `access` does."""
        return self.access_and_uses(lanes, mask)[1]

    def access_and_uses(self, lanes: Lanes, mask: Mask) -> tuple[SharedAccess, Uses]:
        """The bytes that the lanes of a mask use, and which mbarriers these are. Raises Stop as `access` does."""
        access, blocks = self.access(lanes, mask)
        here = whole(lanes.active(mask), lanes.shape)
        offsets = spread(access.rows, lanes.shape)[here] * lanes.shared.unit
        return access, Uses(here, offsets, blocks[here], self.instruction)


def read_mbarrier(
    reader: InstructionReader, operand: Operand, space: str, slots: Mapping[str, int], places: Places
) -> SharedOperand:
    """An operand in brackets as the place of an mbarrier.

    `space` is shared, shared::cta, shared::cluster, or "" for a generic address.
    """
    window = "shared" if space == "shared::cta" else space
    pointer = read_pointer(reader, operand, window.partition("::")[0], slots, places)
    return SharedOperand(pointer, window, reader.instruction)


@dataclass(frozen=True)
class Numbers:
    """Whole numbers that lanes have, which `get` finds; they are in the slot `slot`, if they are in a register."""

    get: Getter
    slot: int
    instruction: Instruction

    def __call__(self, lanes: Lanes, mask: Mask) -> Array:
        """Those of the lanes of a mask, one for each of them. Raises Stop for what was never written."""
        found = self.get(lanes)
        if self.slot in lanes.poison:
            lanes.refuse(lanes.poison[self.slot], mask, "a count", self.instruction)
        here = whole(lanes.active(mask), lanes.shape)
        return spread(found, lanes.shape)[here].astype(np.int64)

    def clean(self, lanes: Lanes, mask: Mask) -> Array | None:
        """Those of all lanes, which broadcast to them, or None if one may depend on what was never written."""
        found = self.get(lanes)
        return found if lanes.clean((self.slot,), mask) else None


def mbarrier_operation(instruction: Instruction, slots: Mapping[str, int], places: Places) -> Operation:
    """The operation of an mbarrier instruction that does not wait.

    Raises UnsupportedInstruction for mbarrier.arrive_drop, and for forms that PTX does not have.
    """
    reader = InstructionReader(instruction)
    reader.type("b64")
    what = reader.choice("init", "inval", "arrive", "expect_tx", "complete_tx", "pending_count")
    if what == "pending_count":
        reader.fail("this form")
    if what in ("init", "inval"):
        return _making(reader, what == "init", slots, places)
    if what == "arrive":
        return _arriving(reader, slots, places)
    return _counting(reader, what == "expect_tx", slots, places)


def read_number(reader: InstructionReader, operand: Operand, slots: Mapping[str, int]) -> Numbers:
    """How to find a count in the lanes of a mask, as whole numbers, one for each of them."""
    source = reader.source(operand, TYPES["u32"])
    slot = slots[source.name] if isinstance(source, Register) else -1
    return Numbers(getter(source, 32, slots, {}, reader.instruction), slot, reader.instruction)


def _making(reader: InstructionReader, makes: bool, slots: Mapping[str, int], places: Places) -> Operation:
    """The operation of mbarrier.init, or of mbarrier.inval, which lets its bytes be used otherwise."""
    space = reader.choice("shared", "shared::cta", default="")
    operand, *more = reader.operands(2 if makes else 1)
    where = read_mbarrier(reader, operand, space, slots, places)
    count = read_number(reader, more[0], slots) if makes else None

    def make(lanes: Lanes, mask: Mask) -> None:
        access, uses = where.access_and_uses(lanes, mask)
        if count is not None:
            lanes.team.mbarriers.make(uses, count(lanes, mask))
            lanes.shared.check_free(access, "initialises an mbarrier in")
        else:
            lanes.team.mbarriers.unmake(uses)
        lanes.shared.log.write(access)
        lanes.shared.mark_barrier(access, count is not None)

    return make


def _arriving(reader: InstructionReader, slots: Mapping[str, int], places: Places) -> Operation:
    """The operation of mbarrier.arrive, which may expect bytes first. Its result is the number of the phase."""
    expects, completes = reader.flag("expect_tx"), not reader.flag("noComplete")
    relaxed = reader.choice("release", "relaxed", default="") == "relaxed"
    reader.choice("cta", "cluster", default="")
    space = reader.choice("shared", "shared::cta", "shared::cluster", default="")
    target, operand, *more = reader.operands(*((3,) if expects or not completes else (2, 3)))
    if not isinstance(target, Register) or target.width not in (0, 64):
        reader.fail("no register to write to")
    if target.width and space == "shared::cluster":
        reader.fail("a state of an mbarrier that may be a peer's")
    if expects and not completes:
        reader.fail("modifier .noComplete")
    where = read_mbarrier(reader, operand, space, slots, places)
    given = read_number(reader, more[0], slots) if more else None
    slot = slots[target.name] if target.width else -1
    return _Arrivals(where, given, expects, completes, relaxed, slot)


@dataclass(frozen=True, eq=False)
class _Arrivals:
    """Arrivals at the mbarriers at `where`: as many of each lane as is `given`, or one.

    Where they `expect` bytes first, these are `given`. One that does not `complete` must not end a phase; a `relaxed`
    one orders no memory. The number of the phase goes to the register in the slot `slot`, if that is not negative.
    """

    where: SharedOperand
    given: Numbers | None
    expects: bool
    completes: bool
    relaxed: bool
    slot: int

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        if self.completes and self._by_core(lanes, mask):
            return
        uses = self.where.uses(lanes, mask)
        none, one = np.zeros(len(uses.offsets), np.int64), np.ones(len(uses.offsets), np.int64)
        given, expects = self.given, self.expects
        counts = one if given is None or expects else given(lanes, mask)
        if has_any(bad := (counts < 1) | (counts > MOST)):
            text = f"{counts[bad][0]} arrivals at once, where 1 to {MOST} are possible"
            raise Stop("mbarrier", text, self.where.instruction, uses.lane(int(bad.argmax())))
        more = given(lanes, mask) if given is not None and expects else none
        mbarriers = lanes.team.mbarriers
        phases = mbarriers.arrive(uses, counts, more, relaxed=self.relaxed, completes=self.completes)
        self._put(lanes, mask, uses.lanes, phases)

    def _by_core(self, lanes: Lanes, mask: Mask) -> bool:
        """Does the same where the core finds that all is in order; returns whether it does."""
        mbarriers, amounts = lanes.team.mbarriers, None
        if mbarriers.table is None:
            return False
        counted = self.given is not None and not self.expects
        if self.given is not None and (amounts := self.given.clean(lanes, mask)) is None:
            return False
        looked = self.where.looked(lanes, mask, amounts, MOST if counted else 0)
        found = None if looked is None else mbarriers.table.users(looked)
        if found is None:
            return False
        phases = mbarriers.arrive_found(found, counted=counted, expects=self.expects, relaxed=self.relaxed)
        if phases is None:
            return False
        self.where.note_look(lanes, mask)
        each = np.asarray(phases, np.uint64)
        self._put(lanes, mask, found.lanes, each if found.groups is None else each[found.groups])
        return True

    def _put(self, lanes: Lanes, mask: Mask, here: Array, phases: Array) -> None:
        """Gives the lanes that have arrived the number of the phase, if they want it."""
        if self.slot >= 0:
            found = np.zeros(lanes.shape, np.uint64)
            found[here] = phases
            lanes.put(self.slot, found, mask)


def _counting(reader: InstructionReader, expects: bool, slots: Mapping[str, int], places: Places) -> Operation:
    """The operation of mbarrier.expect_tx, or of mbarrier.complete_tx."""
    reader.flag("relaxed")
    reader.choice("cta", "cluster", default="")
    space = reader.choice("shared", "shared::cta", "shared::cluster", default="")
    operand, amount = reader.operands(2)
    where = read_mbarrier(reader, operand, space, slots, places)
    given = read_number(reader, amount, slots)

    def expect(lanes: Lanes, mask: Mask) -> None:
        more = given(lanes, mask)
        lanes.team.mbarriers.expect(where.uses(lanes, mask), more if expects else -more)

    return expect
