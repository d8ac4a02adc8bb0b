"""Instructions that a warp's threads make together: shuffles, votes, matrix loads and products.

The lanes' arrays, shape (threads, blocks), become (warps, 32) for `warp_functions.py` and `tensor_cores.py`, and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from cutegen.emulator import tensor_cores, warp_functions
from cutegen.emulator.form import TYPES, Form
from cutegen.emulator.lanes import Array, Mask, Stop, first
from cutegen.emulator.moves import pointer
from cutegen.emulator.poison import some, whole
from cutegen.emulator.pure import Getter, Places, getter
from cutegen.emulator.state import Lanes
from cutegen.emulator.types import Guard, Immediate, Instruction, Operand, Register

WARP = 32
Operation = Callable[[Lanes, Mask], None]
Note = Callable[[str, int], None]
_EVERYONE = np.asarray(0xFFFFFFFF, np.uint32)


def warp_operation(instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note) -> Operation | None:
    """The operation, or None for an instruction of single threads."""
    name = instruction.opcode
    if name == "shfl":
        return _shuffle(Form(instruction), slots)
    if name in ("vote", "redux"):
        return _together(Form(instruction), slots)
    if name == "mma":
        return _multiply(instruction, slots)
    if name in ("ldmatrix", "stmatrix"):
        return _matrix(instruction, slots, places, note)
    return None


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
    """Raises unless every thread that `members` (a 32-bit mask a lane) names makes the instruction now, or has exited.

    The threads would wait for each other even at several instructions of one kind in different branches: that, which
    compilers do not make, is a fault here.
    """
    if lanes.active(mask) is None and np.ndim(members) == 0 and int(members) == int(_EVERYONE):
        return
    here, named = _here(lanes, mask), by_warp(lanes, members)
    bits = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
    alive = by_warp(lanes, np.ones((1, 1), np.bool_) if lanes.alive is None else lanes.alive)
    union = np.bitwise_or.reduce(np.where(here, named, np.uint32(0)), axis=1, keepdims=True)
    missing = by_thread(lanes, ((union & bits) != 0) & alive & ~here)
    if missing.any():
        text = f"{instruction.name} names this thread in its member mask, but it is not there with the others"
        raise Stop("converged", text, instruction, first(missing, lanes.shape))
    strange = by_thread(lanes, here & ((named & bits) == 0))
    if strange.any():
        text = f"{instruction.name} is made by a thread that its member mask does not name"
        raise Stop("converged", text, instruction, first(strange, lanes.shape))


def _whole_warps(lanes: Lanes, mask: Mask, instruction: Instruction) -> None:
    """Raises unless warps make the instruction with all their 32 threads: none may have exited, or never have been."""
    rest = lanes.shape[0] % WARP
    if lanes.active(mask) is None and not rest:
        return
    here = _here(lanes, mask)
    missing = here.any(axis=1, keepdims=True) & ~here
    absent = by_thread(lanes, missing)
    if absent.any():
        text = f"{instruction.name} needs all threads of a warp, but this one is not there with the others"
        raise Stop("converged", text, instruction, first(absent, lanes.shape))
    if missing.any():
        short = by_thread(lanes, here & missing.any(axis=1, keepdims=True))
        text = f"{instruction.name} is made by a warp of {rest} threads"
        raise Stop("converged", text, instruction, first(short, lanes.shape))


# ---------------------------------------------------------------------------------------------- shuffles and votes


def _source(form: Form, operand: Operand, kind: str, slots: Mapping[str, int]) -> tuple[Getter, int]:
    """How to find an operand's bits, and its slot or -1."""
    found = form.source(operand, TYPES[kind])
    slot = slots[found.name] if isinstance(found, Register) else -1
    return getter(found, TYPES[kind].width, slots, {}, form.instruction), slot


def _known(lanes: Lanes, slots: Sequence[int], mask: Mask, instruction: Instruction) -> None:
    for slot in slots:
        if slot in lanes.poison:
            lanes.refuse(lanes.poison[slot], mask, f"{instruction.name}", instruction)


def _shuffle(form: Form, slots: Mapping[str, int]) -> Operation:
    instruction = form.instruction
    form.choice("sync")
    kind = form.choice("idx", "up", "down", "bfly")
    form.type("b32")
    *results, value_operand, amount_operand, clamp_operand, mask_operand = form.done(5, 6)
    registers = [form.target(o, TYPES[kind]) for o, kind in zip(results, ("b32", "pred"), strict=False)]
    targets = [slots[r.name] for r in registers if r.width]
    value, origin = _source(form, value_operand, "b32", slots)
    (amount, s1), (clamp, s2), (members, s3) = (
        _source(form, o, "b32", slots) for o in (amount_operand, clamp_operand, mask_operand)
    )

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
        lanes.put(targets[0], bits if uniform else by_thread(lanes, moved), mask, lost if lost.any() else None)
        if len(targets) > 1:
            lanes.put(targets[1], by_thread(lanes, inside), mask)

    return operation


def _together(form: Form, slots: Mapping[str, int]) -> Operation:
    """vote and redux."""
    instruction = form.instruction
    form.choice("sync")
    if instruction.opcode == "vote":
        kind = form.choice("all", "any", "uni", "ballot")
        given, result_kind = "pred", form.type("b32" if kind == "ballot" else "pred")
    else:
        kind = form.choice("add", "min", "max", "and", "or", "xor")
        result_kind = form.type(*(("u32", "s32") if kind in ("add", "min", "max") else ("b32",)))
        given = result_kind.name
    target, operand, mask_operand = form.done(3)
    result = slots[form.target(target, result_kind).name]
    negated = isinstance(operand, Guard) and operand.negated
    source, slot = _source(form, operand, given, slots)
    members, s1 = _source(form, mask_operand, "b32", slots)
    bits = np.uint32(1) << np.arange(WARP, dtype=np.uint32)

    def operation(lanes: Lanes, mask: Mask) -> None:
        _known(lanes, (slot, s1), mask, instruction)
        converged(lanes, members(lanes), mask, instruction)
        value = by_warp(lanes, ~source(lanes) if negated else source(lanes))
        here = _here(lanes, mask)
        named = np.bitwise_or.reduce(np.where(here, by_warp(lanes, members(lanes)), np.uint32(0)), axis=1)
        counted = here & ((named[:, None] & bits) != 0)
        if instruction.opcode == "redux":
            answer = warp_functions.reduce_members(kind, given, value, counted)
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
        _whole_warps(lanes, mask, instruction)
        result = mma(*(_fragment(lanes, registers, slots) for registers in (mma.a, mma.b, mma.c)))
        bad = spread(lanes) if lanes.poison else None
        for i, register in enumerate(mma.destinations):
            if register.width:
                lost = None if bad is None else by_thread(lanes, bad[..., i])
                lanes.put(slots[register.name], by_thread(lanes, result[..., i]), mask, lost)

    return operation


def _matrix(instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note) -> Operation:
    """ldmatrix and stmatrix: each of the first 8 * count lanes addresses a row of 16 bytes."""
    copy = tensor_cores.compile_matrix_copy(instruction)
    load = instruction.opcode == "ldmatrix"
    pointed = pointer(Form(instruction), instruction.operands[1 if load else 0], "shared", slots, places)
    offset, rows = pointed.offset, 8 * copy.count
    note("shared", 2)

    def operation(lanes: Lanes, mask: Mask) -> None:
        where = pointed.at(lanes, mask, instruction)
        _whole_warps(lanes, mask, instruction)
        leading = (np.arange(lanes.shape[0]) % WARP < rows)[:, None]
        active = lanes.active(mask)
        leading = leading if active is None else leading & active
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
