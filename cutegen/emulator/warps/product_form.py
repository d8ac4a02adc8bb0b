"""wgmma.mma_async as it is written: its shape, types, accumulators and constants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.arithmetic.f8_formats import F8_FORMATS
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import WARP
from cutegen.emulator.operations.operands import Getter, getter
from cutegen.emulator.ptx.model import Immediate, Instruction, Operand, Register, Vector
from cutegen.emulator.ptx.types import TYPES
from cutegen.emulator.warps.product_types import KINDS
from cutegen.emulator.warps.tensor_cores import FragmentPlaces, places_a

_FACTOR = 4
"""Registers that A has, of each type."""


@dataclass(frozen=True)
class ProductForm:
    """A wgmma.mma_async of m64 by `columns`: the slots of its accumulators, and how to find its other operands.

    `a` finds the descriptor of A; where A is in registers, it is None, and `factor` has their slots, `names` what
    the PTX calls them.
    """

    instruction: Instruction
    columns: int
    kinds: tuple[str, str]
    slots: tuple[int, ...]
    factor: tuple[int, ...]
    names: tuple[str, ...]
    a: Getter | None
    b: Getter
    keeps: Getter
    origins: tuple[int, ...]
    signs: tuple[int, int]
    transposed: tuple[bool, bool]

    @property
    def descriptors(self) -> tuple[Getter, ...]:
        """How to find the descriptors of those of A and B that are in shared memory."""
        return (self.b,) if self.a is None else (self.a, self.b)

    @property
    def fragment(self) -> FragmentPlaces | None:
        """Where the elements in the registers of A lie in the 16 rows of a warp; None if A is not in registers."""
        return places_a(self.kinds[0], self.depth) if self.factor else None

    @property
    def itemsize(self) -> int:
        return KINDS[self.kinds[0]][0]

    @property
    def depth(self) -> int:
        return KINDS[self.kinds[0]][1]


def by_lane(products: Array) -> Array:
    """Rearranges entries for products, shape (warps, 16, columns), as their registers: shape (slots, warps, 32)."""
    # Register i of lane l has row l // 4 + 8 * (i // 2 % 2) and column 8 * (i // 4) + 2 * (l % 4) + i % 2
    warps, _, columns = products.shape
    found = products.reshape(warps, 2, 8, columns // 8, 4, 2).transpose(3, 1, 5, 0, 2, 4)
    return found.reshape(columns // 2, warps, WARP)


def read_form(reader: InstructionReader, slots: Mapping[str, int]) -> ProductForm:
    """Reads wgmma.mma_async with A in shared memory or registers, B in shared memory, and accumulators of float32."""
    shape = re.fullmatch(r"m64n(\d+)k(\d+)", reader.left[0]) if reader.left else None
    kinds = reader.left[1:]
    del reader.left[:]
    of_8_bits = set(kinds[1:]) <= set(F8_FORMATS)  # of which either type multiplies the other
    if len(kinds) != 3 or kinds[0] != "f32" or kinds[1] not in KINDS or (kinds[1] != kinds[2] and not of_8_bits):
        reader.fail("these types together")
    kind = kinds[1]
    columns = int(shape[1]) if shape else 0
    if shape is None or int(shape[2]) != KINDS[kind][1] or columns % 8 or not 8 <= columns <= 256:
        reader.fail("this shape with these types")
    fits = kind in ("bf16", "f16")  # and can be transposed, in shared memory
    in_registers = isinstance(reader.instruction.operands[1], Vector) if len(reader.instruction.operands) > 1 else False
    accumulators, a, b, keeps, *rest = reader.operands(6 + fits * (1 if in_registers else 2))
    registers = _fragment(reader, accumulators, columns // 2, "an accumulator")
    factor = _fragment(reader, a, _FACTOR, "A") if in_registers else ()
    numbers = [_constant(reader, one) for one in rest]
    if any(sign not in (1, -1) for sign in numbers[:2]) or any(bit not in (0, 1) for bit in numbers[2:]):
        reader.fail("these constants")
    told = (b,) if in_registers else (a, b)
    sources = [reader.source(one, TYPES[k]) for one, k in (*((one, "b64") for one in told), (keeps, "pred"))]
    *find_a, find_b = (getter(one, 64, slots, {}, reader.instruction) for one in sources[:-1])
    return ProductForm(
        reader.instruction,
        columns,
        (kinds[1], kinds[2]),
        _the_same(tuple(slots[register.name] for register in registers)),
        tuple(slots[register.name] for register in factor),
        tuple(register.name for register in factor),
        find_a[0] if find_a else None,
        find_b,
        getter(sources[-1], 1, slots, {}, reader.instruction),
        tuple(slots[one.name] for one in sources if isinstance(one, Register)),
        (numbers[0], numbers[1]),
        (bool(numbers[2]) and not in_registers, bool(numbers[-1])) if len(numbers) > 2 else (False, False),
    )


def _fragment(reader: InstructionReader, operand: Operand, count: int, what: str) -> tuple[Register, ...]:
    """An operand as so many registers of 32 bits; `what` says what they hold."""
    items = operand.items if isinstance(operand, Vector) else ()
    found = tuple(item for item in items if isinstance(item, Register) and item.width == 32)
    if not len(found) == len(items) == count:
        reader.fail(f"{what} of {len(items)} registers, {count} of 32 bits were expected")
    return found


@lru_cache(maxsize=256)
def _the_same(slots: tuple[int, ...]) -> tuple[int, ...]:
    """The slots, as one object for all products that have the same."""
    return slots


def _constant(reader: InstructionReader, operand: Operand) -> int:
    """An operand as a small whole number with a sign."""
    if not isinstance(operand, Immediate) or operand.width is not None:
        reader.fail("a constant was expected")
    return operand.bits - (1 << 64) if operand.bits >> 63 else operand.bits
