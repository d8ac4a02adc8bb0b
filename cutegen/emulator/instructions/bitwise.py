"""Logic, shifts, bit fields, the permutation of bytes, and mov.

The semantics are those of the PTX ISA 9.1, sections 9.7.8 (logic and shifts), 9.7.1 (bit fields and counts of bits) and
9.7.9 (prmt and mov).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, Function
from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.ptx.model import Immediate, Operand, Register, Vector
from cutegen.emulator.ptx.types import TYPES, Bits, Type

_BITS = ("b16", "b32", "b64")
_U32 = TYPES["u32"]


def build_logic(reader: InstructionReader) -> PureOp:
    """Builds and, or, xor and not of bits or predicates, and cnot, which is 1 where the value is zero."""
    opcode = reader.instruction.opcode
    kind = reader.type(*_BITS, *(("pred",) if opcode != "cnot" else ()))
    if opcode == "not":
        return reader.operation(np.logical_not if kind.kind == "pred" else np.invert, [kind], [kind])
    if opcode == "cnot":
        return reader.operation(lambda a: (np.asarray(a) == 0).astype(kind.dtype), [kind], [kind])
    function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[opcode]
    return reader.operation(function, [kind], [kind] * 2)


def build_lop3(reader: InstructionReader) -> PureOp:
    """Builds lop3: any function of three bits, given by its truth table."""
    kind = reader.type("b32")
    table_operand = reader.last_operand()
    if not isinstance(table_operand, Immediate) or table_operand.width is not None:
        reader.fail("the table is no constant")
    table = table_operand.bits & 0xFF

    def look_up(a: Array, b: Array, c: Array, _: Array) -> Any:
        result: Any = np.uint32(0)
        for row in range(8):
            if table >> row & 1:
                term = (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
                result = result | term
        return np.asarray(result | ((a | b | c) & np.uint32(0)), dtype=np.uint32)

    return reader.operation(look_up, [kind], [kind] * 4)


def build_shift(reader: InstructionReader) -> PureOp:
    """Builds shl and shr: amounts beyond the width count as the width; shr of signed types brings in the sign."""
    right = reader.instruction.opcode == "shr"
    kind = reader.type(*_BITS, *(("s16", "u16", "s32", "u32", "s64", "u64") if right else ()))
    amount_operand = reader.last_operand()
    last = kind.width - 1

    def by_constant(amount: int) -> Function:
        # One numpy call: nearly every shift is by a constant.
        if amount > last and kind.kind != "s":
            return lambda a, _: np.zeros_like(a)
        count = kind.dtype.type(min(amount, last))
        return (lambda a, _: a >> count) if right else (lambda a, _: a << count)

    def shift(a: Array, count: Array) -> Any:
        inside = np.minimum(count, np.uint32(last)).astype(kind.dtype)
        if right and kind.kind == "s":
            return a >> inside
        moved = a >> inside if right else a << inside
        return np.where(count > np.uint32(last), kind.dtype.type(0), moved)

    if isinstance(amount_operand, Immediate):
        return reader.operation(by_constant(amount_operand.bits & 0xFFFFFFFF), [kind], [kind, _U32])
    return reader.operation(shift, [kind], [kind, _U32])


def build_funnel(reader: InstructionReader) -> PureOp:
    """Builds shf: the shifted pair b:a of words; it takes the upper word (left) or the lower one (right)."""
    kind = reader.type("b32")
    left = reader.choice("l", "r") == "l"
    wrap = reader.choice("wrap", "clamp") == "wrap"

    def shift(a: Array, b: Array, c: Array) -> Any:
        count = (c & np.uint32(31) if wrap else np.minimum(c, np.uint32(32))).astype(np.uint64)
        both = (np.asarray(b).astype(np.uint64) << np.uint64(32)) | a
        return ((both << count) >> np.uint64(32) if left else both >> count).astype(np.uint32)

    return reader.operation(shift, [kind], [kind] * 3)


def build_extract(reader: InstructionReader) -> PureOp:
    """Builds bfe: c bits of a from bit b on; for signed types, what lies beyond the end is filled with the sign."""
    kind = reader.type("u32", "u64", "s32", "s64")
    width, unsigned = kind.width, np.dtype(f"u{kind.width // 8}").type
    one = unsigned(1)

    def extract(a: Array, b: Array, c: Array) -> Any:
        bits = np.asarray(a).view(unsigned)
        position, length = b & np.uint32(0xFF), c & np.uint32(0xFF)
        start = np.minimum(position, np.uint32(width - 1)).astype(unsigned)
        field = np.where(position < width, bits >> start, unsigned(0))
        kept = np.minimum(length, np.uint32(width - 1)).astype(unsigned)
        mask = np.where(length >= width, ~unsigned(0), (one << kept) - one)
        field = field & mask
        if kind.kind == "s":
            top = np.minimum(position.astype(np.uint32) + length - np.uint32(1), np.uint32(width - 1))
            sign = np.where(length == 0, unsigned(0), (bits >> top.astype(unsigned)) & one)
            field = np.where(sign != 0, field | ~_present(position, length, width, unsigned, mask), field)
        return field.view(kind.dtype)

    return reader.operation(extract, [kind], [kind, _U32, _U32])


def _present(position: Array, length: Array, width: int, unsigned: type[np.unsignedinteger], mask: Array) -> Array:
    """The bits of a field that lie inside the word that it is taken from.

    The field has `length` bits from `position` on, whose bits `mask` has once they are moved down to bit 0.
    """
    inside = np.maximum(width - position.astype(np.int64), 0)
    inside = np.minimum(inside, length.astype(np.int64))
    part = (unsigned(1) << np.minimum(inside, width - 1).astype(unsigned)) - unsigned(1)
    present: Array = np.where(inside >= width, ~unsigned(0), part) & mask
    return present


def build_insert(reader: InstructionReader) -> PureOp:
    """Builds bfi: the low d bits of a, put into b from bit c on; what falls beyond the end is dropped."""
    kind = reader.type("b32", "b64")
    width, unsigned = kind.width, kind.dtype.type
    one = unsigned(1)

    def insert(a: Array, b: Array, c: Array, d: Array) -> Any:
        position, length = c & np.uint32(0xFF), d & np.uint32(0xFF)
        start = np.minimum(position, np.uint32(width - 1)).astype(kind.dtype)
        kept = np.minimum(length, np.uint32(width - 1)).astype(kind.dtype)
        mask = np.where(length >= width, ~unsigned(0), (one << kept) - one)
        mask = np.where(position < width, mask << start, unsigned(0))
        return (b & ~mask) | ((a << start) & mask)

    return reader.operation(insert, [kind], [kind, kind, _U32, _U32])


def build_count(reader: InstructionReader) -> PureOp:
    """Builds popc and clz: how many bits are set, and how many zeros lead. The result has 32 bits."""
    kind = reader.type("b32", "b64")
    clz = reader.instruction.opcode == "clz"

    def count(a: Array) -> Any:
        return (np.uint32(kind.width) - bit_length(a)) if clz else popcount(a)

    return reader.operation(count, [_U32], [kind])


def popcount(value: Array) -> Array:
    """How many bits are set, as uint32. `value` has an unsigned type."""
    raw = np.ascontiguousarray(value)
    octets = raw[..., None].view(np.uint8)
    total: Array = np.unpackbits(octets, axis=-1).sum(axis=-1, dtype=np.uint32)
    return total


def bit_length(value: Array) -> Array:
    """One more than the index of the highest bit that is set, as uint32; 0 for 0. `value` has an unsigned type."""
    filled = np.asarray(value)
    step = 1
    while step < filled.dtype.itemsize * 8:
        filled = filled | (filled >> filled.dtype.type(step))
        step *= 2
    return popcount(filled)


def build_find(reader: InstructionReader) -> PureOp:
    """Builds bfind: the index of the highest bit that is set, or all ones if none is.

    For signed types it is the highest bit that differs from the sign. With `.shiftamt` it is the amount by which a left
    shift brings that bit to the top.
    """
    kind = reader.type("u32", "u64", "s32", "s64")
    amount = reader.flag("shiftamt")

    def find(a: Array) -> Any:
        value = np.asarray(a)
        bits = value.view(np.dtype(f"u{kind.width // 8}"))
        if kind.kind == "s":
            bits = np.where(value < 0, ~bits, bits)
        length = bit_length(bits)
        found = np.uint32(kind.width) - length if amount else length - np.uint32(1)
        return np.where(length == 0, np.uint32(0xFFFFFFFF), found)

    return reader.operation(find, [_U32], [kind])


def build_reverse(reader: InstructionReader) -> PureOp:
    """Builds brev: the bits in reverse order."""
    kind = reader.type("b32", "b64")

    def reverse(a: Array) -> Any:
        octets = np.ascontiguousarray(a)[..., None].view(np.uint8)
        turned = np.packbits(np.unpackbits(octets, axis=-1, bitorder="little"), axis=-1, bitorder="big")
        # The first bit went to the top of the first byte: now the bytes have to change places.
        return np.ascontiguousarray(turned[..., ::-1]).view(kind.dtype)[..., 0]

    return reader.operation(reverse, [kind], [kind])


_PERMUTATIONS = {
    # For each mode the four bytes (of b:a, byte 0 lowest) that selectors 0 to 3 choose, lowest result byte first.
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


def _byte(both: Array, index: Array) -> Array:
    """Byte `index` of uint64 values, byte 0 being the lowest."""
    shifted: Array = (both >> (index * np.uint64(8))) & np.uint64(0xFF)
    return shifted


def build_permute(reader: InstructionReader) -> PureOp:
    """Builds prmt: four of the eight bytes of b:a, chosen by c.

    In the default mode c has four selectors, whose top bit spreads the sign of the byte over all its bits.
    """
    mode = reader.choice(*_PERMUTATIONS, default="default")
    kind = reader.type("b32")
    selector = reader.last_operand()

    def fixed(choice: int) -> Function:
        """The function for a constant selector: a few shifts and masks of 32-bit words."""
        nibbles = [choice >> (4 * i) & 0xF for i in range(4)]

        def permute_fixed(a: Array, b: Array, _: Array) -> Any:
            result: Array | None = None
            for i, nibble in enumerate(nibbles):
                word, place = (b if nibble & 4 else a), 8 * (nibble & 3)
                byte = (word >> np.uint32(place)) & np.uint32(0xFF)
                if nibble & 8:
                    byte = (byte >> np.uint32(7)) * np.uint32(0xFF)
                byte = byte << np.uint32(8 * i)
                result = byte if result is None else result | byte
            return np.asarray(result)

        return permute_fixed

    def permute(a: Array, b: Array, c: Array) -> Any:
        both = (np.asarray(b).astype(np.uint64) << np.uint64(32)) | a
        result = np.zeros_like(both)
        for i in range(4):
            if mode == "default":
                nibble = (np.asarray(c).astype(np.uint64) >> np.uint64(4 * i)) & np.uint64(0xF)
                byte = _byte(both, nibble & np.uint64(7))
                byte = np.where(nibble > np.uint64(7), (byte >> np.uint64(7)) * np.uint64(0xFF), byte)
            else:
                places = np.asarray([row[i] for row in _PERMUTATIONS[mode]], dtype=np.uint64)
                byte = _byte(both, places[np.asarray(c & np.uint32(3)).astype(np.intp)])
            result = result | (byte << np.uint64(8 * i))
        return result.astype(np.uint32)

    if mode == "default" and isinstance(selector, Immediate):
        return reader.operation(fixed(selector.bits & 0xFFFF), [kind], [kind] * 3)
    return reader.operation(permute, [kind], [kind] * 3)


def build_move(reader: InstructionReader) -> PureOp:
    """Builds mov: a copy of one register, or of a vector of registers to one or from one."""
    kind = reader.type("pred", *_BITS, "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64")
    operands = reader.instruction.operands
    if len(operands) != 2 or not any(isinstance(o, Vector) for o in operands):
        return reader.operation(lambda a: a, [kind], [kind])
    target, source = reader.operands(2)
    if kind.kind != "b":
        reader.fail(f"a vector of .{kind.name}")
    if isinstance(source, Vector) and isinstance(target, Register):
        return _pack(reader, target, source, kind)
    if isinstance(target, Vector) and not isinstance(source, Vector):
        return _unpack(reader, target, source, kind)
    reader.fail("these operands")


def _part(reader: InstructionReader, vector: Vector, kind: Type) -> Type:
    """The type of each element of a vector that makes up a value of `kind`."""
    count = len(vector.items)
    if count not in (2, 4) or kind.width // count < 16:
        reader.fail(f"a vector of {count}")
    return TYPES[f"b{kind.width // count}"]


def _pack(reader: InstructionReader, target: Register, source: Vector, kind: Type) -> PureOp:
    """Builds mov of a vector of registers to one register; the first element goes to the lowest bits."""
    part = _part(reader, source, kind)
    width, storage = part.width, kind.dtype.type
    if target.width != kind.width:
        reader.fail("the vector does not fit the register")
    items = tuple(reader.source(item, part) for item in source.items)

    def pack(sources: Sequence[Bits]) -> list[Bits]:
        result = np.asarray(sources[0]).astype(storage)
        for index, item in enumerate(sources[1:], 1):
            result = result | (np.asarray(item).astype(storage) << storage(index * width))
        return [result]

    return PureOp((target,), items, (width,) * len(items), pack)


def _unpack(reader: InstructionReader, target: Vector, source: Operand, kind: Type) -> PureOp:
    """Builds mov of one register to a vector of registers; the first element takes the lowest bits."""
    part = _part(reader, target, kind)
    width, storage = part.width, kind.dtype.type
    targets = tuple(i for i in target.items if isinstance(i, Register))
    if len(targets) != len(target.items) or any(t.width not in (0, width) for t in targets):
        reader.fail("the vector does not fit the register")

    def unpack(sources: Sequence[Bits]) -> list[Bits]:
        return [(np.asarray(sources[0]) >> storage(i * width)).astype(part.dtype) for i in range(len(targets))]

    return PureOp(targets, (reader.source(source, kind),), (kind.width,), unpack)
