"""mma, ldmatrix and stmatrix as operations on the lanes' state; `tensor_cores` has what they compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.poison import poison_whole, poisoned_lanes
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import WARP, Mask, both
from cutegen.emulator.memory.runs import PIECE, store_units
from cutegen.emulator.operations.addresses import read_pointer
from cutegen.emulator.operations.operands import Note, Operation, Places
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Immediate, Instruction, Register
from cutegen.emulator.warps.by_warp import by_thread, by_warp, check_whole_warps, registers_by_warp, whole_warps
from cutegen.emulator.warps.core_matrices import CoreMatrixLoad, CoreMma
from cutegen.emulator.warps.tensor_cores import Mma, compile_matrix_copy, places_a, places_b, places_c


def _fragment(lanes: Lanes, registers: Sequence[Array]) -> Array:
    """The bits of the registers of a fragment: uint32 of shape (warps, 32, registers)."""
    return np.stack([by_warp(lanes, one) for one in registers], axis=-1)


def _poison(lanes: Lanes, registers: Sequence[Register | Immediate], slots: Mapping[str, int]) -> Array:
    """Which registers of a fragment have poisoned bits: bool of shape (warps, 32, registers)."""
    none = np.zeros((), np.bool_)
    parts = [
        by_warp(lanes, none if isinstance(r, Immediate) else poisoned_lanes(lanes.poison.get(slots[r.name], none)))
        for r in registers
    ]
    return np.stack(parts, axis=-1)


def multiply_operation(mma: Mma, instruction: Instruction, slots: Mapping[str, int]) -> Operation:
    """The operation of mma.sync, whose semantics are `mma`. `slots` numbers the registers by name."""
    width = {"f16": 2}.get(mma.accumulator, 1)  # accumulators in a register
    none, by_core = np.zeros((), np.uint32), CoreMma(mma)
    sources = [
        (None, np.asarray(one.bits, np.uint32)) if isinstance(one, Immediate) else (slots[one.name], none)
        for one in (*mma.a, *mma.b, *mma.c)
    ]
    read = {slot for slot, _ in sources}

    def poison_of_result(lanes: Lanes) -> Array | None:
        """Which registers of D hold an element that depends on poison: in its row of A, its column of B or its own C.

        An array of bool of shape (warps, 32, registers of D), or None if there is no poison in A, B and C.
        """
        a, b, c = (_poison(lanes, registers, slots) for registers in (mma.a, mma.b, mma.c))
        if not (has_any(a) or has_any(b) or has_any(c)):
            return None
        per = places_a(mma.kind, mma.k)
        rows: Array = np.asarray(per.to_matrix(np.repeat(a, per.row.shape[1] // a.shape[-1], axis=-1)).any(axis=2))
        per = places_b(mma.b_kind, mma.k)
        columns: Array = np.asarray(per.to_matrix(np.repeat(b, per.row.shape[1] // b.shape[-1], axis=-1)).any(axis=1))
        elements = places_c().from_matrix(rows[:, :, None] | columns[:, None, :])
        registers: Array = elements.reshape(*elements.shape[:2], -1, width).any(axis=-1) | c
        return registers

    def multiply(lanes: Lanes, mask: Mask) -> None:
        check_whole_warps(lanes, mask, instruction)
        held = [constant if slot is None else lanes.get(slot) for slot, constant in sources]
        found = None if lanes.core is None else by_core.run(lanes.core, lanes, held)
        if found is None:
            fragments = (held[: len(mma.a)], held[len(mma.a) : -len(mma.c)], held[-len(mma.c) :])
            result = mma(*(_fragment(lanes, registers) for registers in fragments))
            found = np.stack([by_thread(lanes, result[..., i]) for i in range(len(mma.destinations))])
        bad = None if lanes.poison.keys().isdisjoint(read) else poison_of_result(lanes)
        for i, register in enumerate(mma.destinations):
            if register.width:
                lost = None if bad is None else by_thread(lanes, bad[..., i])
                lanes.put(slots[register.name], found[i], mask, lost)

    return multiply


def matrix_copy_operation(instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note) -> Operation:
    """The operation of ldmatrix or stmatrix, of `count` matrices: 8 * count lanes address a row of 16 bytes each.

    `note` gets the smallest access. Raises UnsupportedInstruction for forms that are not emulated.
    """
    copy = compile_matrix_copy(instruction)
    load = instruction.opcode == "ldmatrix"
    pointed = read_pointer(
        InstructionReader(instruction), instruction.operands[1 if load else 0], "shared", slots, places
    )
    offset, rows, by_core = pointed.offset, 8 * copy.count, CoreMatrixLoad(copy)
    note("shared", 2)

    def leading(lanes: Lanes, mask: Mask) -> Mask:
        """The lanes of the mask that give an address."""
        return lanes.active(mask) if rows == WARP else both(lanes.active(mask), _first(lanes.shape[0], rows))

    def load_matrices(lanes: Lanes, mask: Mask) -> None:
        where = pointed.known_base(lanes, mask, instruction)
        check_whole_warps(lanes, mask, instruction)
        values, bad = lanes.shared.load(where, offset, 2, 8, leading(lanes, mask), instruction)
        filled = None if lanes.core is None else by_core.run(lanes.core, lanes, values)
        if filled is None:
            found = copy.fragment(_rows(lanes, values, rows))
            filled = np.stack([by_thread(lanes, found[..., i]) for i in range(copy.count)])
        poison: Array | None = None
        if any(b is not None for b in bad):
            none = np.zeros((1, 1), np.uint16)
            marks = [none if b is None else poison_whole(poisoned_lanes(b), 16) for b in bad]
            poison = copy.fragment(_rows(lanes, marks, rows))
        for i, register in enumerate(copy.registers):
            if register.width:
                lost = None if poison is None else by_thread(lanes, np.asarray(poison)[..., i])
                lanes.put(slots[register.name], filled[i], mask, lost)

    def store_matrices(lanes: Lanes, mask: Mask) -> None:
        where = pointed.known_base(lanes, mask, instruction)
        warps, memory = whole_warps(lanes, mask, instruction), lanes.shared
        access = memory.access(where, offset, PIECE, leading(lanes, mask), instruction)
        memory.check_free(access, "writes")
        memory.log.write(access)
        stored = [slots[register.name] for register in copy.registers]
        given = [lanes.get(slot) for slot in stored]  # an uninitialised one becomes poison
        clean, known = lanes.clean(stored, lanes.active(mask)), np.zeros((), np.uint32)
        poison = None if clean else [lanes.poison.get(slot, known) for slot in stored]
        if memory.put_matrices(access, given, poison, copy.transposed):
            return
        held, lost = registers_by_warp(lanes, stored), None
        if not clean:
            lost = marks_of(lanes, stored)
            for j in range(access.count):
                memory.keep_origins(access, j, by_thread(lanes, lost[..., j]))
            lost = lost[warps, :rows]
        first = by_warp(lanes, access.rows)[warps, :rows, None] + np.arange(access.count)
        columns = np.broadcast_to((warps % lanes.shape[1])[:, None, None], first.shape)
        units = copy.rows(held[:, warps].transpose(1, 2, 0)).view(memory.data.dtype)
        store_units(memory, first, columns, units, lost)

    def marks_of(lanes: Lanes, stored: Sequence[int]) -> Array:
        """Which units that are stored mean nothing, shape (warps, 32, units of a row)."""
        known = np.zeros((), np.uint32)
        poison = np.stack([by_warp(lanes, lanes.poison.get(slot, known)) for slot in stored], axis=-1)
        halves = np.zeros((poison.shape[0], WARP, PIECE // 2), np.bool_)
        halves[:, :rows] = copy.rows(poison) != 0
        return halves.repeat(2 // lanes.shared.unit, axis=-1)

    return load_matrices if load else store_matrices


@lru_cache(maxsize=64)
def _first(threads: int, rows: int) -> Array:
    """The mask of the first lanes of each warp, shape (threads, 1)."""
    return (np.arange(threads) % WARP < rows)[:, None]


def _rows(lanes: Lanes, values: Sequence[Array], rows: int) -> Array:
    """Eight `values` of each of the first `rows` lanes of a warp, as shape (warps, rows, 8)."""
    return np.stack([by_warp(lanes, v)[:, :rows] for v in values], axis=-1)
