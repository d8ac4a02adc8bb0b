"""cp.async.bulk without tensor maps, its groups and its waits, and cp.async.mbarrier.arrive.

A copy moves its bytes at once. But what it writes in shared memory is an agent's until the phase of its mbarrier has
ended, and what it reads there counts as being read until the wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask
from cutegen.emulator.memory.runs import (
    PIECE,
    Landing,
    check_run,
    load_global,
    load_shared,
    store_global,
    store_shared,
)
from cutegen.emulator.operations.addresses import Pointer, read_pointer
from cutegen.emulator.operations.async_stores import check_same_block, start_writes
from cutegen.emulator.operations.copies_together import copy_together
from cutegen.emulator.operations.mbarrier_operations import Numbers, SharedOperand, read_mbarrier, read_number
from cutegen.emulator.operations.operands import Note, Operation, Places
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Immediate, Instruction, Operand
from cutegen.emulator.synchronisation.bulk_groups import BulkCopy, single
from cutegen.emulator.synchronisation.mbarrier_uses import Uses
from cutegen.emulator.synchronisation.mbarriers import MOST

Lane = tuple[int, int]
_COUNTED = "mbarrier::complete_tx::bytes"


def bulk_copy_operation(instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note) -> Operation:
    """The operation of cp.async.bulk, or of its commit_group or wait_group.

    Raises UnsupportedInstruction for tensor maps, multicast, byte masks, reductions and cache policies.
    """
    reader = InstructionReader(instruction)
    del reader.left[:2]
    what = reader.choice("commit_group", "wait_group", default="")
    if what == "commit_group":
        reader.operands(0)
        return lambda lanes, mask: lanes.team.bulk_groups.commit(whole(lanes.active(mask), lanes.shape))
    if what == "wait_group":
        read = reader.flag("read")
        (left,) = reader.operands(1)
        if not isinstance(left, Immediate) or left.width is not None or left.bits >> 63:
            reader.fail("a count that is no constant")
        count = left.bits

        def wait(lanes: Lanes, mask: Mask) -> None:
            lanes.team.bulk_groups.wait(count, whole(lanes.active(mask), lanes.shape), read=read)

        return wait
    return _copy(reader, slots, places, note)


def _copy(reader: InstructionReader, slots: Mapping[str, int], places: Places, note: Note) -> Operation:
    """The operation of one of the copies: from global to shared memory, the other way, or to a peer's."""
    spaces = reader.left[:2]
    del reader.left[:2]
    note("shared", 8)
    if spaces == ["global", "shared::cta"]:
        reader.choice("bulk_group")
        target, source, size = reader.operands(3)
        note("global", PIECE)
        return _each(
            _to_global(
                read_pointer(reader, target, "global", slots, places), _place(reader, source, "shared", slots, places)
            ),
            read_number(reader, size, slots),
            reader.instruction,
        )
    if spaces not in (["shared::cluster", "global"], ["shared::cta", "global"], ["shared::cluster", "shared::cta"]):
        reader.fail("these state spaces")
    reader.choice(_COUNTED)
    target, source, size, mbarrier = reader.operands(4)
    to = _place(reader, target, spaces[0], slots, places)
    counter = replace(read_mbarrier(reader, mbarrier, spaces[0], slots, places), counted=True)
    if spaces[1] == "global":
        note("global", PIECE)
        origin = read_pointer(reader, source, "global", slots, places)
        together = partial(copy_together, origin=origin, to=to, counter=counter)
        return _each(_from_global(to, origin, counter), read_number(reader, size, slots), reader.instruction, together)
    one = _to_peer(to, _place(reader, source, "shared", slots, places), counter)
    return _each(one, read_number(reader, size, slots), reader.instruction)


One = Callable[[Lanes, Lane, int, Instruction], None]
"""Makes the copy of one lane, of so many bytes."""


def _each(one: One, sizes: Numbers, instruction: Instruction, together: Callable[..., bool] | None = None) -> Operation:
    """The operation that makes the copies of all lanes of a mask: `together` where it can, else one after the other.

    Then the first one that is wrong says so.
    """

    def copy(lanes: Lanes, mask: Mask) -> None:
        here, given = whole(lanes.active(mask), lanes.shape), sizes(lanes, mask)
        whole_pieces = not has_any(given % PIECE) and (given <= MOST).all()
        if together is not None and whole_pieces and together(lanes, here=here, sizes=given, instruction=instruction):
            return
        for thread, block, size in zip(*np.nonzero(here), given.tolist(), strict=True):
            lane = int(thread), int(block)
            if size % PIECE or size > MOST:
                text = f"a bulk copy of {size} bytes, which must be a multiple of {PIECE}, at most {MOST}"
                raise Stop("misaligned", text, instruction, lane)
            if size:
                one(lanes, lane, size, instruction)

    return copy


def _place(
    reader: InstructionReader, operand: Operand, space: str, slots: Mapping[str, int], places: Places
) -> SharedOperand:
    """An operand in brackets as a place in shared memory, 16 bytes of which must lie together."""
    found = read_mbarrier(reader, operand, space, slots, places)
    return replace(found, align=PIECE, counted=True)


def _address(lanes: Lanes, pointer: Pointer, lane: Lane, instruction: Instruction) -> int:
    """The global address that a lane has. Raises Stop if it is misaligned."""
    address = pointer.known_at(lanes, lane, instruction)
    if address % PIECE:
        lanes.access.aligned(pointer.base(lanes), pointer.offset, PIECE, single(lane, lanes.shape), instruction)
    return address


def begin_reads(lanes: Lanes, operand: SharedOperand, lane: Lane, size: int) -> tuple[SharedAccess, Array, Array]:
    """The bytes that a lane's copy reads in shared memory from now on, and which of them were never written.

    Raises Stop for a fault.
    """
    access = replace(operand, size=size).access_of(lanes, lane)[0]
    log = lanes.shared.log
    assert isinstance(log, SharedHistory)
    data, lost = load_shared(lanes.shared, access)
    log.begin_reads(access)
    log.check_fenced(access)
    return access, data, lost


def _from_global(to: SharedOperand, origin: Pointer, counter: SharedOperand) -> One:
    """The copy from global to shared memory."""

    def copy(lanes: Lanes, lane: Lane, size: int, instruction: Instruction) -> None:
        data, lost, landing = load_global(
            lanes.access, _address(lanes, origin, lane, instruction), size, lane, instruction
        )
        access, uses = target_of(lanes, to, counter, lane, size)
        write_bytes(lanes, access, uses, data, lost, lambda observer: landing())

    return copy


def _to_peer(to: SharedOperand, origin: SharedOperand, counter: SharedOperand) -> One:
    """The copy from the block's shared memory to that of a block of the cluster."""

    def copy(lanes: Lanes, lane: Lane, size: int, instruction: Instruction) -> None:
        access, data, lost = begin_reads(lanes, origin, lane, size)
        log = lanes.shared.log
        assert isinstance(log, SharedHistory)
        target, uses = target_of(lanes, to, counter, lane, size)
        write_bytes(lanes, target, uses, data, lost, lambda observer: log.end_reads(access, observer))

    return copy


def write_bytes(
    lanes: Lanes,
    access: SharedAccess,
    uses: Uses,
    data: Array,
    lost: Array,
    seen: Callable[[Lane], None],
    counted: int | None = None,
) -> None:
    """Writes what a lane's copy has read to shared memory; `seen` gets the lane that first knows of that.

    The mbarrier counts all of its bytes, or as many as are `counted`. It may be one of a pair's other block, if the
    instruction says so.
    """
    in_pair = "cta_group::2" in uses.instruction.modifiers
    if not in_pair:
        check_same_block(lanes, access, uses)
    check_run(lanes.shared, access, "writes")
    log = lanes.shared.log
    assert isinstance(log, SharedHistory)
    log.check_writable(access)
    log.check_fenced(access)
    size = len(data) if counted is None else counted
    agents = lanes.team.mbarriers.shown_agents(uses)
    if in_pair:
        agents = np.full_like(agents, agents[uses.blocks[0]])  # the agent that writes, in any block
    start_writes(lanes, access, uses, size, seen, agents)
    store_shared(lanes.shared, access, data, lost)


def target_of(
    lanes: Lanes, to: SharedOperand, counter: SharedOperand, lane: Lane, size: int
) -> tuple[SharedAccess, Uses]:
    """Where a lane's copy writes so many bytes, and the mbarrier that counts them. Raises Stop for a fault."""
    uses = counter.uses_of(lanes, lane)
    return to.of_size(size).access_of(lanes, lane)[0], uses


def _to_global(target: Pointer, origin: SharedOperand) -> One:
    """The copy from shared to global memory, which a bulk group of the thread has."""

    def copy(lanes: Lanes, lane: Lane, size: int, instruction: Instruction) -> None:
        address = _address(lanes, target, lane, instruction)
        access, data, lost = begin_reads(lanes, origin, lane, size)
        if has_any(lost):
            raise lanes.refusal(single(lane, lanes.shape), "what is copied to global memory", instruction)
        landing = store_global(lanes.access, address, data, lane, instruction)
        begin_copy(lanes, lane, access, landing)

    return copy


def begin_copy(lanes: Lanes, lane: Lane, access: SharedAccess, landing: Landing) -> None:
    """Adds to the bulk group of a lane a copy that reads shared memory by an access; `landing` says that it arrived."""
    log = lanes.shared.log
    assert isinstance(log, SharedHistory)
    done = BulkCopy(access.instruction.line, lambda: log.end_reads(access, lane), landing)
    lanes.team.bulk_groups.begin(lane, done)


def copies_arrival(instruction: Instruction, slots: Mapping[str, int], places: Places) -> Operation:
    """The operation of cp.async.mbarrier.arrive: the thread's cp.async so far arrive at an mbarrier when they land.

    Without `.noinc` the mbarrier expects that arrival besides all others.
    """
    reader = InstructionReader(instruction)
    del reader.left[:3]
    reader.type("b64")
    counts = reader.flag("noinc")
    space = reader.choice("shared", "shared::cta", default="")
    (operand,) = reader.operands(1)
    where = read_mbarrier(reader, operand, space, slots, places)

    def arrive(lanes: Lanes, mask: Mask) -> None:
        uses = where.uses(lanes, mask)
        active = lanes.active(mask)
        log = lanes.shared.log
        assert isinstance(log, SharedHistory)
        lanes.team.mbarriers.check(uses)
        lanes.shared.commit(active)
        for access in lanes.shared.wait(0, active):
            for offset in dict.fromkeys(uses.offsets.tolist()):
                chosen = uses.offsets == offset
                part = np.zeros(lanes.shape, np.bool_)
                part[uses.lanes] = chosen
                part &= whole(access.mask, lanes.shape)
                if has_any(part):
                    inside = part[uses.lanes]
                    some = Uses(part, uses.offsets[inside], uses.blocks[inside], instruction)
                    log.start(lanes.team.mbarriers.agents(some), replace(access, mask=part))
                    log.arrive(replace(access, mask=part))
        if counts:
            ones = np.ones(len(uses.offsets), np.int64)
            lanes.team.mbarriers.arrive(uses, ones, 0 * ones, relaxed=True)

    return arrive
