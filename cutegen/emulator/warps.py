"""Instructions that a warp's threads make together: shuffles, votes, matrix loads and products.

The lanes' arrays, shape (threads, blocks), become (warps, 32) for `warp_functions.py` and `tensor_cores.py`, and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from cutegen.emulator import tensor_cores, warp_functions
from cutegen.emulator.lanes import Array, Mask, Stop, first
from cutegen.emulator.poison import some, whole
from cutegen.emulator.pure import Getter, getter
from cutegen.emulator.state import Lanes
from cutegen.emulator.types import (
    Address,
    Guard,
    Immediate,
    Instruction,
    Operand,
    Register,
    Special,
    Symbol,
    UnsupportedInstruction,
)

WARP = 32
Operation = Callable[[Lanes, Mask], None]
Note = Callable[[str, int], None]
_SHUFFLES = ("idx", "up", "down", "bfly")
_VOTES = {("sync", "all", "pred"), ("sync", "any", "pred"), ("sync", "uni", "pred"), ("sync", "ballot", "b32")}
_REDUCTIONS = {("sync", o, t) for o in ("add", "min", "max") for t in ("u32", "s32")} | {
    ("sync", o, "b32") for o in ("and", "or", "xor")
}
_EVERYONE = np.asarray(0xFFFFFFFF, np.uint32)


def warp_operation(instruction: Instruction, slots: Mapping[str, int], note: Note) -> Operation | None:
    """The operation, or None for an instruction of single threads."""
    name, modifiers = instruction.opcode, instruction.modifiers
    if name == "shfl":
        if len(modifiers) != 3 or modifiers[0] != "sync" or modifiers[2] != "b32" or modifiers[1] not in _SHUFFLES:
            raise _no(instruction)
        return _shuffle(instruction, slots)
    if name in ("vote", "redux"):
        if modifiers not in (_VOTES if name == "vote" else _REDUCTIONS):
            raise _no(instruction)
        return _together(instruction, slots)
    if name == "mma":
        return _multiply(instruction, slots)
    if name in ("ldmatrix", "stmatrix"):
        return _matrix(instruction, slots, note)
    return None


def _no(instruction: Instruction, why: str = "") -> UnsupportedInstruction:
    return UnsupportedInstruction(instruction.name, instruction.line, instruction.text, why)


# ------------------------------------------------------------------------------------------------------------- shapes


def by_warp(lanes: Lanes, value: Array) -> Array:
    """Lanes as (warps of all blocks, 32); threads that a last warp lacks hold zeros."""
    threads, blocks = lanes.shape
    value = np.broadcast_to(value, lanes.shape)
    warps = -(-threads // WARP)
    if threads % WARP:
        value = np.concatenate([value, np.zeros((warps * WARP - threads, blocks), value.dtype)])
    return np.ascontiguousarray(value.reshape(warps, WARP, blocks).swapaxes(1, 2)).reshape(warps * blocks, WARP)


def by_thread(lanes: Lanes, value: Array) -> Array:
    """The inverse of `by_warp`; one column stands for all lanes of a warp."""
    threads, blocks = lanes.shape
    wide = np.broadcast_to(value, (value.shape[0], WARP)).reshape(-1, blocks, WARP)
    return np.ascontiguousarray(wide.swapaxes(1, 2)).reshape(-1, blocks)[:threads]


def _here(lanes: Lanes, mask: Mask) -> Array:
    active = lanes.active(mask)
    return by_warp(lanes, np.ones((1, 1), np.bool_) if active is None else active)


def converged(lanes: Lanes, members: Array, mask: Mask, instruction: Instruction) -> None:
    """Raises unless every thread that `members` (a 32-bit mask a lane) names makes the instruction now."""
    if lanes.active(mask) is None and np.ndim(members) == 0 and int(members) == int(_EVERYONE):
        return
    here, named = _here(lanes, mask), by_warp(lanes, members)
    bits = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
    exists = by_warp(lanes, np.ones((1, 1), np.bool_))
    union = np.bitwise_or.reduce(np.where(here, named, np.uint32(0)), axis=1, keepdims=True)
    missing = by_thread(lanes, ((union & bits) != 0) & exists & ~here)
    if missing.any():
        text = f"{instruction.name} names this thread in its member mask, but it is not there with the others"
        raise Stop("converged", text, instruction, first(missing, lanes.shape))
    strange = by_thread(lanes, here & ((named & bits) == 0))
    if strange.any():
        text = f"{instruction.name} is made by a thread that its member mask does not name"
        raise Stop("converged", text, instruction, first(strange, lanes.shape))


# ---------------------------------------------------------------------------------------------- shuffles and votes


def _source(operand: Operand, slots: Mapping[str, int], instruction: Instruction) -> tuple[Getter, int]:
    if not isinstance(operand, Register | Immediate | Special | Symbol):
        raise _no(instruction, "its operands")
    return getter(operand, 32, slots, {}, instruction), slots[operand.name] if isinstance(operand, Register) else -1


def _known(lanes: Lanes, slots: Sequence[int], mask: Mask, instruction: Instruction) -> None:
    for slot in slots:
        if slot in lanes.poison:
            lanes.refuse(lanes.poison[slot], mask, f"{instruction.name}", instruction)


def _shuffle(instruction: Instruction, slots: Mapping[str, int]) -> Operation:
    *results, value_operand, amount_operand, clamp_operand, mask_operand = instruction.operands
    if len(results) not in (1, 2) or not all(isinstance(r, Register) for r in results):
        raise _no(instruction, "its operands")
    targets = [slots[r.name] if isinstance(r, Register) and r.width else -1 for r in results]
    value, origin = _source(value_operand, slots, instruction)
    (amount, s1), (clamp, s2), (members, s3) = (
        _source(o, slots, instruction) for o in (amount_operand, clamp_operand, mask_operand)
    )
    kind = instruction.modifiers[1]

    def operation(lanes: Lanes, mask: Mask) -> None:
        _known(lanes, (s1, s2, s3), mask, instruction)
        converged(lanes, members(lanes), mask, instruction)
        bits = value(lanes)
        moved, inside, source = warp_functions.shuffle(
            kind, by_warp(lanes, bits), by_warp(lanes, amount(lanes)), by_warp(lanes, clamp(lanes))
        )
        here = _here(lanes, mask)
        if origin in lanes.poison:
            here = here & ~by_warp(lanes, some(lanes.poison[origin]))
        lost = by_thread(lanes, ~np.take_along_axis(here, source, axis=1))
        uniform = np.ndim(bits) < 2 or bits.shape[0] == 1  # then it does not matter whose value it is
        if targets[0] >= 0:
            lanes.put(targets[0], bits if uniform else by_thread(lanes, moved), mask, lost if lost.any() else None)
        if len(targets) > 1 and targets[1] >= 0:
            lanes.put(targets[1], by_thread(lanes, inside), mask)

    return operation


def _together(instruction: Instruction, slots: Mapping[str, int]) -> Operation:
    """vote and redux."""
    if len(instruction.operands) != 3 or not isinstance(instruction.operands[0], Register):
        raise _no(instruction, "its operands")
    target, operand, mask_operand = instruction.operands[0], *instruction.operands[1:]
    negated = isinstance(operand, Guard) and operand.negated
    source = operand.register if isinstance(operand, Guard) else operand
    if not isinstance(source, Register):
        raise _no(instruction, "its operands")
    result, slot = slots[target.name], slots[source.name]
    members, s1 = _source(mask_operand, slots, instruction)
    _, kind, form = instruction.modifiers
    bits = np.uint32(1) << np.arange(WARP, dtype=np.uint32)

    def operation(lanes: Lanes, mask: Mask) -> None:
        _known(lanes, (slot, s1), mask, instruction)
        converged(lanes, members(lanes), mask, instruction)
        value = by_warp(lanes, ~lanes.get(slot) if negated else lanes.get(slot))
        here = _here(lanes, mask)
        named = np.bitwise_or.reduce(np.where(here, by_warp(lanes, members(lanes)), np.uint32(0)), axis=1)
        counted = here & ((named[:, None] & bits) != 0)
        if instruction.opcode == "redux":
            answer = warp_functions.reduce_members(kind, form, value, counted)
        elif kind == "ballot":
            answer = warp_functions.ballot(value, counted)
        else:
            answer = warp_functions.vote(kind, value, counted)
        lanes.put(result, by_thread(lanes, answer), mask)

    return operation


# --------------------------------------------------------------------------------------------------------- matrices


def _fragment(lanes: Lanes, registers: Sequence[Register | Immediate], slots: Mapping[str, int]) -> Array:
    parts = [
        by_warp(lanes, np.asarray(r.bits, np.uint32) if isinstance(r, Immediate) else lanes.get(slots[r.name]))
        for r in registers
    ]
    return np.stack(parts, axis=-1)


def _poison(lanes: Lanes, registers: Sequence[Register | Immediate], slots: Mapping[str, int]) -> Array:
    """Like `_fragment`, of bool."""
    none = np.zeros((), np.bool_)
    parts = [
        by_warp(lanes, none if isinstance(r, Immediate) else some(lanes.poison.get(slots[r.name], none)))
        for r in registers
    ]
    return np.stack(parts, axis=-1)


def _multiply(instruction: Instruction, slots: Mapping[str, int]) -> Operation:
    mma = tensor_cores.compile_mma(instruction)
    width = {"f16": 2}.get(mma.accumulator, 1)  # accumulators in a register

    def spread(lanes: Lanes) -> Array | None:
        """Which elements of D depend on poison: those whose row of A, column of B or own C does."""
        a, b, c = (_poison(lanes, registers, slots) for registers in (mma.a, mma.b, mma.c))
        if not (a.any() or b.any() or c.any()):
            return None
        per = tensor_cores.places_a(mma.kind, mma.k)
        rows: Array = np.asarray(per.to_matrix(np.repeat(a, per.row.shape[1] // a.shape[-1], axis=-1)).any(axis=2))
        per = tensor_cores.places_b(mma.b_kind, mma.k)
        columns: Array = np.asarray(per.to_matrix(np.repeat(b, per.row.shape[1] // b.shape[-1], axis=-1)).any(axis=1))
        both = tensor_cores.places_c().from_matrix(rows[:, :, None] | columns[:, None, :])
        whole: Array = both.reshape(*both.shape[:2], -1, width).any(axis=-1) | c
        return whole

    def operation(lanes: Lanes, mask: Mask) -> None:
        converged(lanes, _EVERYONE, mask, instruction)
        result = mma(*(_fragment(lanes, registers, slots) for registers in (mma.a, mma.b, mma.c)))
        bad = spread(lanes) if lanes.poison else None
        for i, register in enumerate(mma.destinations):
            if register.width:
                lost = None if bad is None else by_thread(lanes, bad[..., i])
                lanes.put(slots[register.name], by_thread(lanes, result[..., i]), mask, lost)

    return operation


def _matrix(instruction: Instruction, slots: Mapping[str, int], note: Note) -> Operation:
    """ldmatrix and stmatrix: each of the first 8 * count lanes addresses a row of 16 bytes."""
    copy = tensor_cores.compile_matrix_copy(instruction)
    load = instruction.opcode == "ldmatrix"
    address = instruction.operands[1 if load else 0]
    if not isinstance(address, Address) or not isinstance(address.base, Register):
        raise _no(instruction, "an address in a register was expected")
    slot, offset, rows = slots[address.base.name], address.offset, 8 * copy.count
    note("shared", 2)

    def operation(lanes: Lanes, mask: Mask) -> None:
        _known(lanes, (slot,), mask, instruction)
        converged(lanes, _EVERYONE, mask, instruction)
        leading = (np.arange(lanes.shape[0]) % WARP < rows)[:, None]
        active = lanes.active(mask)
        leading = leading if active is None else leading & active
        where = lanes.get(slot)
        if load:
            values, bad = lanes.shared.load(where, offset, 2, 8, leading, instruction)
            found = copy.fragment(_rows(lanes, values, rows))
            none = np.zeros((1, 1), np.uint16)
            marks = [none if b is None else whole(some(b), 16) for b in bad]
            poison: Array | None = None
            if any(b is not None for b in bad):
                poison = copy.fragment(_rows(lanes, marks, rows))
            for i, register in enumerate(copy.registers):
                if register.width:
                    lost = None if poison is None else by_thread(lanes, np.asarray(poison)[..., i])
                    lanes.put(slots[register.name], by_thread(lanes, found[..., i]), mask, lost)
            return
        parts = copy.rows(_fragment(lanes, copy.registers, slots))
        marks_in = copy.rows(_poison(lanes, copy.registers, slots) * np.uint32(0x00010001))
        padded = np.zeros((parts.shape[0], WARP, 8), np.uint16)
        padded[:, :rows] = parts
        marked = np.zeros_like(padded)
        marked[:, :rows] = marks_in
        values = [by_thread(lanes, padded[..., i]) for i in range(8)]
        masks = [by_thread(lanes, whole(marked[..., i] != 0, 16)) for i in range(8)] if lanes.poison else [None] * 8
        lanes.shared.store(where, offset, 2, values, masks, leading, instruction)

    return operation


def _rows(lanes: Lanes, values: Sequence[Array], rows: int) -> Array:
    """Eight values of the leading lanes, as (warps, rows, 8)."""
    return np.stack([by_warp(lanes, v)[:, :rows] for v in values], axis=-1)
