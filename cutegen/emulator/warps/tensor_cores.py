"""The semantics of Ampere's matrix instructions for whole warps: ldmatrix, stmatrix and mma.sync.

A fragment is a matrix as the registers of the lanes hold it: an array of uint32 of shape (warps, 32, registers).

How mma.sync computes. For floats the PTX ISA 9.1, section 9.7.14.5.14, promises products and sums of at least single
precision (sums of at least half precision if C and D are f16). It leaves open in what order and how the sums are
rounded, what subnormal operands count as, and which NaN results. Here the products are exact; their sum with the
accumulator is formed in float64 and rounded once, to nearest, to the accumulator's type; subnormal operands keep their
values; and a NaN is that of `arithmetic.formats`. Hardware cuts more: results can differ in the last bits if the sum is
not exact, and agree if it is (small integers). So `Mma.approximate` is True for all forms of floats. For floats of 8
bits the accumulators of sm_89 keep 14 bits (`cutegen.atoms.mma.ADA_F8`): in its code each sum of 16 products and the
accumulator is cut to 14 bits instead of rounded. The bits that the hardware cuts off before that, where it aligns each
product to the largest, are not modelled.

Forms of integers are exact: the sum wraps, or with `.satfinite` is limited to 32 bits, once for the instruction. That
section does not say whether a sum that is out of range only on the way is limited there.

The section also leaves the layout of tf32 to the implementation; here it is a float32 whose lowest 13 bits are
ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np

from cutegen.atoms.mma import ADA, ADA_F8, FusedSum
from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.arithmetic.f8_formats import F8_FORMATS
from cutegen.emulator.arithmetic.formats import CODECS, NAN32
from cutegen.emulator.instructions.reader import fitted
from cutegen.emulator.ptx.errors import UnsupportedInstruction
from cutegen.emulator.ptx.model import Immediate, Instruction, Operand, Register, Vector
from cutegen.emulator.ptx.types import TYPES
from cutegen.emulator.warps.product_types import cut, widened

_ELEMENTS = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4, "e4m3": 4, "e5m2": 4}
"""The type of A or B -> how many of its elements a register holds."""
_FORMS = {
    **{(f"f{w}", "f16"): (8, 16) for w in (16, 32)},
    **{(f"f{w}", kind): (16, 32) for w in (16, 32) for kind in F8_FORMATS},
    ("f32", "bf16"): (8, 16),
    ("f32", "tf32"): (4, 8),
    ("s32", "s8"): (16, 32),
    ("s32", "u8"): (16, 32),
}
"""The type of D and C, and that of A and B -> the values that k may have in m16n8k."""


@dataclass(frozen=True, slots=True)
class FragmentPlaces:
    """Where the elements of a fragment lie in its matrix, which has `shape` = (rows, columns).

    `row` and `column` are arrays of shape (32 lanes, elements of a lane). Elements are in the order of the registers,
    and in a register from the low bits up. Rows count along m (for B along k), columns along k (for B, C and D along
    n).
    """

    row: Array
    column: Array
    shape: tuple[int, int]

    def to_matrix(self, values: Array) -> Array:
        """The matrices, shape (warps, rows, columns), from the elements of the lanes, shape (warps, 32, elements)."""
        matrix = np.empty((values.shape[0], *self.shape), dtype=values.dtype)
        matrix[:, self.row, self.column] = values
        return matrix

    def from_matrix(self, matrix: Array) -> Array:
        """The elements of the lanes, shape (warps, 32, elements), from the matrices, shape (warps, rows, columns)."""
        return np.ascontiguousarray(matrix[:, self.row, self.column])


def _lanes(registers: int, elements: int) -> tuple[Array, Array, Array, Array]:
    """Four arrays of shape (32, registers * elements), for each element that a lane holds.

    They are the lane's group (lane / 4), its number in the group, the register, and the element in the register.
    """
    lane = np.arange(32)[:, None]
    index = np.arange(registers * elements)[None, :]
    group, thread, register, element = np.broadcast_arrays(lane // 4, lane % 4, index // elements, index % elements)
    return group, thread, register, element


@cache
def places_a(kind: str, k: int) -> FragmentPlaces:
    """The places of A of m16n8k: 16 rows, k columns; registers alternate between the upper and the lower 8 rows."""
    per = _ELEMENTS[kind]
    group, thread, register, element = _lanes(16 * k // (32 * per), per)
    return FragmentPlaces(group + 8 * (register % 2), 4 * per * (register // 2) + per * thread + element, (16, k))


@cache
def places_b(kind: str, k: int) -> FragmentPlaces:
    """The places of B of m16n8k: k rows, 8 columns."""
    per = _ELEMENTS[kind]
    group, thread, register, element = _lanes(8 * k // (32 * per), per)
    return FragmentPlaces(4 * per * register + per * thread + element, group, (k, 8))


@cache
def places_c() -> FragmentPlaces:
    """The places of C and D of m16n8: 16 rows, 8 columns, for all types."""
    group, thread, pair, element = _lanes(2, 2)
    return FragmentPlaces(group + 8 * pair, 2 * thread + element, (16, 8))


@dataclass(frozen=True, slots=True)
class Mma:
    """One mma.sync of m16n8k: the registers of its fragments, and what it computes for whole warps.

    `kind`, `b_kind` and `accumulator` are the types of A, of B, and of C and D. `saturate` says that sums of integers
    are limited to 32 bits, `fused` how sums in f32 are cut, if they are.
    """

    destinations: tuple[Register, ...]
    a: tuple[Register, ...]
    b: tuple[Register, ...]
    c: tuple[Register | Immediate, ...]
    k: int
    kind: str
    b_kind: str
    accumulator: str
    saturate: bool
    fused: FusedSum | None = None

    @property
    def approximate(self) -> bool:
        """Whether PTX only bounds the result instead of giving every bit of it."""
        return self.accumulator != "s32"

    def __call__(self, a: Array, b: Array, c: Array) -> Array:
        """The fragment of D = A @ B + C from those of A, B and C: uint32 of shape (warps, 32, registers)."""
        left = places_a(self.kind, self.k).to_matrix(_values(a, self.kind))
        right = places_b(self.b_kind, self.k).to_matrix(_values(b, self.b_kind))
        start = places_c().to_matrix(_accumulators(c, self.accumulator))
        with np.errstate(all="ignore"):
            if self.fused is not None:
                return self._cut(left, right, start, self.fused)
            total = np.matmul(left, right) + start
            result = places_c().from_matrix(total)
            if self.accumulator == "s32":
                whole = result.astype(np.int64)
                if self.saturate:
                    whole = np.clip(whole, -(2**31), 2**31 - 1)
                return whole.astype(np.uint32)
            if self.accumulator == "f16":
                return np.ascontiguousarray(CODECS["f16"].narrow(result, "rn")).view(np.uint32)
            return _single_bits(result.astype(np.float32))

    def _cut(self, left: Array, right: Array, total: Array, fused: FusedSum) -> Array:
        """The fragment of D where sums of so many products are cut one behind the other."""
        for at in range(0, self.k, fused.terms):
            terms = slice(at, at + fused.terms)
            total = cut(total + np.matmul(left[:, :, terms], right[:, terms]), fused.bits).astype(np.float64)
        return _single_bits(places_c().from_matrix(total).astype(np.float32))


def _single_bits(values: Array) -> Array:
    """The bits of float32, with each NaN as arithmetic gives it."""
    return np.where(np.isnan(values), NAN32, values.view(np.uint32))


def _values(fragment: Array, kind: str) -> Array:
    """The elements of a fragment of A or B as float64, which holds them and sums of products of integers exactly."""
    words = np.ascontiguousarray(fragment)
    if kind in ("s8", "u8"):
        return words.view({"s8": np.int8, "u8": np.uint8}[kind]).astype(np.float64)
    return widened(words.view({1: np.uint32, 2: np.uint16, 4: np.uint8}[_ELEMENTS[kind]]), kind)


def _accumulators(fragment: Array, kind: str) -> Array:
    """The elements of a fragment of C as float64."""
    words = np.ascontiguousarray(fragment)
    return words.view({"f16": np.float16, "f32": np.float32, "s32": np.int32}[kind]).astype(np.float64)


def compile_mma(instruction: Instruction, target: str) -> Mma:
    """Reads mma.sync.aligned.m16n8k.row.col with four types, of code for a target such as sm_80.

    Raises UnsupportedInstruction for any other form.
    """

    def fail(why: str) -> UnsupportedInstruction:
        return UnsupportedInstruction(instruction.name, instruction.line, instruction.text, why)

    modifiers = list(instruction.modifiers)
    saturate = "satfinite" in modifiers
    if saturate:
        modifiers.remove("satfinite")
    if len(modifiers) != 9 or modifiers[:2] != ["sync", "aligned"] or modifiers[3:5] != ["row", "col"]:
        raise fail("only mma.sync.aligned.SHAPE.row.col.D.A.B.C")
    shape = re.fullmatch(r"m16n8k(\d+)", modifiers[2])
    d, kind, b_kind, c = modifiers[5:]
    signs, of_8_bits = {kind, b_kind} <= {"s8", "u8"}, {kind, b_kind} <= set(F8_FORMATS)
    if d != c or (kind != b_kind and not (signs or of_8_bits)) or (saturate and not signs):
        raise fail("these types together")
    if shape is None or int(shape[1]) not in _FORMS.get((d, kind), ()):
        raise fail("this shape with these types")
    k, per = int(shape[1]), _ELEMENTS[kind]
    count = {"a": 16 * k // (32 * per), "b": 8 * k // (32 * per), "c": 2 if d == "f16" else 4}
    operands = instruction.operands
    if len(operands) != 4:
        raise fail(f"{len(operands)} operands")

    def registers(operand: Operand, wanted: int, widths: tuple[int, ...] = (32,)) -> tuple[Register, ...]:
        items = operand.items if isinstance(operand, Vector) else (operand,)
        found = tuple(i for i in items if isinstance(i, Register) and i.width in widths)
        if len(found) != wanted or len(items) != wanted:
            raise fail(f"a fragment of {len(items)} registers, {wanted} of 32 bits were expected")
        return found

    def accumulator(item: Register | Immediate) -> Register | Immediate:
        if isinstance(item, Register):
            return registers(item, 1)[0]
        value = fitted(item, TYPES[c])
        if value is None:
            raise fail(f"a constant that is no .{c}")
        return value

    start = operands[3].items if isinstance(operands[3], Vector) else ()
    accumulators = tuple(map(accumulator, start))
    if len(accumulators) != count["c"]:
        raise fail(f"an accumulator of {len(accumulators)} registers, {count['c']} were expected")
    return Mma(
        registers(operands[0], count["c"], (0, 32)),
        registers(operands[1], count["a"]),
        registers(operands[2], count["b"]),
        accumulators,
        k,
        kind,
        b_kind,
        d,
        saturate,
        ADA_F8 if of_8_bits and d == "f32" and target == ADA else None,
    )


@dataclass(frozen=True, slots=True)
class MatrixCopy:
    """One ldmatrix or stmatrix of `count` matrices, each of 8 rows of 16 bytes.

    Lanes 0 to 8 * count - 1 give the addresses of the rows in shared memory, in order, each a multiple of 16. The
    addresses of the other lanes are not looked at.
    """

    registers: tuple[Register, ...]
    count: int
    transposed: bool

    def fragment(self, rows: Array) -> Array:
        """Computes ldmatrix: the registers of the lanes from the rows in memory.

        The rows are uint16 of shape (warps, 8 * count, 8), the registers uint32 of shape (warps, 32, count).
        """
        matrices: Array = rows.reshape(rows.shape[0], self.count, 8, 8)
        if self.transposed:
            matrices = matrices.swapaxes(-1, -2)
        # Lane 4 r + c holds elements 2 c and 2 c + 1 of row r.
        words = np.ascontiguousarray(matrices).view(np.uint32).reshape(rows.shape[0], self.count, 32)
        return np.ascontiguousarray(words.swapaxes(1, 2))

    def rows(self, fragment: Array) -> Array:
        """Computes stmatrix: the rows in memory from the registers of the lanes.

        The registers are uint32 of shape (warps, 32, count), the rows uint16 of shape (warps, 8 * count, 8).
        """
        words = np.ascontiguousarray(fragment.swapaxes(1, 2))
        matrices: Array = words.view(np.uint16).reshape(fragment.shape[0], self.count, 8, 8)
        if self.transposed:
            matrices = matrices.swapaxes(-1, -2)
        return np.ascontiguousarray(matrices).reshape(fragment.shape[0], 8 * self.count, 8)


def compile_matrix_copy(instruction: Instruction) -> MatrixCopy:
    """Reads ldmatrix or stmatrix.sync.aligned.m8n8 of b16, with or without .trans, in shared memory.

    Raises UnsupportedInstruction for any other form.
    """

    def fail(why: str) -> UnsupportedInstruction:
        return UnsupportedInstruction(instruction.name, instruction.line, instruction.text, why)

    left = list(instruction.modifiers)
    transposed = "trans" in left
    if transposed:
        left.remove("trans")
    counts = {"x1": 1, "x2": 2, "x4": 4}
    fits = len(left) == 6 and left[:3] == ["sync", "aligned", "m8n8"] and left[3] in counts and left[5] == "b16"
    if not fits or left[4] not in ("shared", "shared::cta"):
        raise fail("only .sync.aligned.m8n8.x1/x2/x4{.trans}.shared.b16")
    load = instruction.opcode == "ldmatrix"
    if len(instruction.operands) != 2:
        raise fail("these operands")
    operand = instruction.operands[0 if load else 1]
    items = operand.items if isinstance(operand, Vector) else (operand,)
    registers = tuple(i for i in items if isinstance(i, Register) and (i.width == 32 or load and i.width == 0))
    if len(items) != counts[left[3]] or len(registers) != len(items):
        raise fail(f"{len(items)} registers, {counts[left[3]]} of 32 bits were expected")
    return MatrixCopy(registers, counts[left[3]], transposed)
