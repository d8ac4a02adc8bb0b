"""shfl, vote, match, redux, elect and bar.warp.sync as operations; `exchanges` has what the first four compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.poison import poisoned_lanes
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import WARP, Mask
from cutegen.emulator.operations.operands import Getter, Operation, getter
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Guard, Immediate, Instruction, Operand, Register
from cutegen.emulator.ptx.types import STORAGE, TYPES
from cutegen.emulator.warps import exchanges
from cutegen.emulator.warps.by_warp import by_thread, by_warp, check_converged, taking_part
from cutegen.emulator.warps.core_shuffles import CoreShuffle

_MASKS = 64  # of lanes, whose leaders are kept

EXCHANGES = frozenset(("shfl", "vote", "match", "redux", "elect"))
"""The opcodes of instructions by which the threads of a warp exchange values."""


def exchange_operation(instruction: Instruction, slots: Mapping[str, int]) -> Operation:
    """The operation of an instruction whose opcode is one of `EXCHANGES`. `slots` numbers the registers by name.

    Raises UnsupportedInstruction for modifiers or operands that are not emulated.
    """
    reader = InstructionReader(instruction)
    builders = {"shfl": _shuffle, "match": _match, "elect": _election}
    return builders.get(instruction.opcode, _vote_or_reduction)(reader, slots)


def _source(reader: InstructionReader, operand: Operand, kind: str, slots: Mapping[str, int]) -> tuple[Getter, int]:
    """How to find the bits of an operand of the type `kind`, and the slot of its register, or -1 for a constant."""
    found = reader.source(operand, TYPES[kind])
    slot = slots[found.name] if isinstance(found, Register) else -1
    return getter(found, TYPES[kind].width, slots, {}, reader.instruction), slot


def _check_written(lanes: Lanes, slots: Sequence[int], mask: Mask, instruction: Instruction) -> None:
    """Raises Stop if one of the registers depends, in a lane of the mask, on what was never written."""
    for slot in slots:
        if slot >= 0:
            lanes.get(slot)
        if slot in lanes.poison:
            lanes.refuse(lanes.poison[slot], mask, f"{instruction.name}", instruction)


def _shuffle(reader: InstructionReader, slots: Mapping[str, int]) -> Operation:
    """The operation of shfl.sync. A lane that reads from one that does not take part gets poison."""
    instruction = reader.instruction
    reader.choice("sync")
    kind = reader.choice("idx", "up", "down", "bfly")
    reader.type("b32")
    *results, value_operand, amount_operand, clamp_operand, mask_operand = reader.operands(5, 6)
    registers = [reader.target(o, TYPES[kind]) for o, kind in zip(results, ("b32", "pred"), strict=False)]
    targets = [slots[r.name] for r in registers if r.width]
    value, origin = _source(reader, value_operand, "b32", slots)
    (amount, s1), (clamp, s2), (members, s3) = (
        _source(reader, o, "b32", slots) for o in (amount_operand, clamp_operand, mask_operand)
    )

    by_core = CoreShuffle(kind)

    def shuffle(lanes: Lanes, mask: Mask) -> None:
        _check_written(lanes, (s1, s2, s3), mask, instruction)
        bits = value(lanes)
        if lanes.core is not None:
            operands = bits, amount(lanes), clamp(lanes), members(lanes)
            found = by_core.run(lanes.core, lanes, operands, lanes.poison.get(origin), mask)
            if found is not None:
                lanes.put(targets[0], found.moved, mask, found.lost)
                if len(targets) > 1:
                    lanes.put(targets[1], found.inside, mask)
                return
        check_converged(lanes, members(lanes), mask, instruction)
        moved, inside, source = exchanges.shuffle(
            kind, by_warp(lanes, bits), by_warp(lanes, amount(lanes)), by_warp(lanes, clamp(lanes))
        )
        here = taking_part(lanes, mask)
        if origin in lanes.poison:
            here = here & ~by_warp(lanes, poisoned_lanes(lanes.poison[origin]))
        lost = by_thread(lanes, ~np.take_along_axis(here, source, axis=1))
        uniform = np.ndim(bits) < 2 or bits.shape[0] == 1  # then it does not matter whose value it is
        lanes.put(targets[0], bits if uniform else by_thread(lanes, moved), mask, lost if has_any(lost) else None)
        if len(targets) > 1:
            lanes.put(targets[1], by_thread(lanes, inside), mask)

    return shuffle


def _vote_or_reduction(reader: InstructionReader, slots: Mapping[str, int]) -> Operation:
    """The operation of vote.sync or redux.sync: one result for all threads that take part.

    It is poison where a value is that one of them gives.
    """
    instruction = reader.instruction
    reader.choice("sync")
    if instruction.opcode == "vote":
        kind = reader.choice("all", "any", "uni", "ballot")
        given, result_kind = "pred", reader.type("b32" if kind == "ballot" else "pred")
    else:
        kind = reader.choice("add", "min", "max", "and", "or", "xor")
        result_kind = reader.type(*(("u32", "s32") if kind in ("add", "min", "max") else ("b32",)))
        given = result_kind.name
    target, operand, mask_operand = reader.operands(3)
    result = slots[reader.target(target, result_kind).name]
    negated = isinstance(operand, Guard) and operand.negated
    source, slot = _source(reader, operand, given, slots)
    members, s1 = _source(reader, mask_operand, "b32", slots)
    bits = np.uint32(1) << np.arange(WARP, dtype=np.uint32)

    def vote_or_reduce(lanes: Lanes, mask: Mask) -> None:
        _check_written(lanes, (s1,), mask, instruction)
        check_converged(lanes, members(lanes), mask, instruction)
        value = by_warp(lanes, ~source(lanes) if negated else source(lanes))
        here = taking_part(lanes, mask)
        masks = by_warp(lanes, members(lanes))
        named = np.bitwise_or.reduce(np.where(here, masks, np.uint32(0)), axis=1, keepdims=True)
        if has_any(here & (masks != named)):  # several groups of threads in a warp, each by itself
            groups = [(here & (masks == one), one) for one in np.unique(masks[here])]
        else:
            groups = [(here, named)]
        answer, lost = np.zeros((1, 1), STORAGE[result_kind.width]), None
        for group, own in groups:
            counted = here & ((own & bits) != 0)
            if instruction.opcode == "redux":
                found = exchanges.reduce_members(kind, given, value, counted)
            elif kind == "ballot":
                found = exchanges.ballot(value, counted)
            else:
                found = exchanges.vote(kind, value, counted)
            answer = found if len(groups) == 1 else np.where(group, found, answer)
            if slot in lanes.poison:  # of one thread, and it is that of all that take part
                bad = (counted & by_warp(lanes, poisoned_lanes(lanes.poison[slot]))).any(axis=1, keepdims=True)
                if has_any(bad := group & bad):
                    lost = by_thread(lanes, bad) if lost is None else lost | by_thread(lanes, bad)
        lanes.put(result, by_thread(lanes, answer), mask, lost)

    return vote_or_reduce


def _match(reader: InstructionReader, slots: Mapping[str, int]) -> Operation:
    """The operation of match.sync: which members have the same value, or whether all have.

    It is poison where a value is that one of them gives.
    """
    instruction = reader.instruction
    kind = reader.choice("any", "all")
    reader.choice("sync")
    given = reader.type("b32", "b64")
    *results, operand, mask_operand = reader.operands(*((3, 4) if kind == "all" else (3,)))
    registers = [reader.target(o, TYPES[t]) for o, t in zip(results, ("b32", "pred"), strict=False)]
    source, slot = _source(reader, operand, given.name, slots)
    members, s1 = _source(reader, mask_operand, "b32", slots)

    def match(lanes: Lanes, mask: Mask) -> None:
        _check_written(lanes, (s1,), mask, instruction)
        check_converged(lanes, members(lanes), mask, instruction)
        here = taking_part(lanes, mask)
        everyone = by_warp(lanes, members(lanes)) & exchanges.ballot(here, here)
        alike = exchanges.match(by_warp(lanes, source(lanes))) & everyone
        answers: list[Array] = [alike, np.asarray(alike == everyone)]
        if kind == "all":
            answers[0] = np.where(answers[1], everyone, np.uint32(0))
        lost = None
        if slot in lanes.poison:
            bad = (here & by_warp(lanes, poisoned_lanes(lanes.poison[slot]))).any(axis=1, keepdims=True)
            lost = by_thread(lanes, np.asarray(bad)) if has_any(bad) else None
        for register, answer in zip(registers, answers, strict=False):
            if register.width:
                lanes.put(slots[register.name], by_thread(lanes, answer), mask, lost)

    return match


def _election(reader: InstructionReader, slots: Mapping[str, int]) -> Operation:
    """The operation of elect.sync: the first member of a warp is its leader, whoever else comes."""
    instruction = reader.instruction
    reader.choice("sync")
    number_operand, leads_operand, mask_operand = reader.operands(3)
    unwanted = isinstance(number_operand, Register) and not number_operand.width
    number = Register("_", 0) if unwanted else reader.target(number_operand, TYPES["b32"])
    leads = reader.target(leads_operand, TYPES["pred"])
    members, slot = _source(reader, mask_operand, "b32", slots)
    fixed = mask_operand.bits if isinstance(mask_operand, Immediate) else None

    def elected(lanes: Lanes, mask: Mask) -> tuple[Array, Array]:
        """The number of each lane's leader, and whether the lane leads."""
        check_converged(lanes, members(lanes), mask, instruction)
        here = taking_part(lanes, mask)
        named = by_warp(lanes, members(lanes)) & exchanges.ballot(here, here)
        first = (named[..., None] >> np.arange(WARP, dtype=np.uint32) & np.uint32(1)).argmax(axis=2)
        return by_thread(lanes, first.astype(np.uint32)), by_thread(lanes, np.asarray(first == exchanges.LANES))

    def elect(lanes: Lanes, mask: Mask) -> None:
        _check_written(lanes, (slot,), mask, instruction)
        if fixed is not None:  # with which a loop elects the same leaders in every round, and so does another election
            state = lanes.active(mask), lanes.alive, lanes.left
            key = fixed, *map(id, state)
            if key not in lanes.leaders:
                if len(lanes.leaders) >= _MASKS:
                    lanes.leaders.clear()
                lanes.leaders[key] = state, elected(lanes, mask)
            numbers, leading = lanes.leaders[key][1]
        else:
            numbers, leading = elected(lanes, mask)
        if number.width:
            lanes.put(slots[number.name], numbers, mask)
        if leads.width:
            lanes.put(slots[leads.name], leading, mask)

    return elect


def warp_barrier(reader: InstructionReader, slots: Mapping[str, int]) -> Operation:
    """The operation of bar.warp.sync, whose first modifier has been taken: its members know of each other's past."""
    instruction = reader.instruction
    reader.choice("sync")
    members, slot = _source(reader, reader.operands(1)[0], "b32", slots)

    def meet(lanes: Lanes, mask: Mask) -> None:
        _check_written(lanes, (slot,), mask, instruction)
        check_converged(lanes, members(lanes), mask, instruction)
        threads, blocks = lanes.shape
        warp = np.arange(threads)[:, None] // WARP * blocks + np.arange(blocks)[None, :]
        lanes.team.clocks.meet(whole(lanes.active(mask), lanes.shape), warp)

    return meet
