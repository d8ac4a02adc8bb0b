"""Integer arithmetic: add, sub, mul, mad, mul24, mad24, sad, div, rem, abs, neg, min, max, dp4a and dp2a.

The semantics are those of the PTX ISA 9.1, section 9.7.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, Function, elementwise
from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.ptx.types import TYPES, Type

_INTEGERS = ("s16", "u16", "s32", "u32", "s64", "u64")


def _unsigned(value: Array, width: int) -> Array:
    """The bits of integers that are `width` bits wide, as unsigned numbers."""
    return np.asarray(value).view(np.dtype(f"u{width // 8}"))


def wide(kind: Type) -> Type:
    """The type twice as wide as `kind`."""
    return TYPES[f"{kind.kind}{2 * kind.width}"]


def multiply_wide(a: Array, b: Array, kind: Type) -> Array:
    """The whole product of values of `kind`, which has 16 or 32 bits, in the type twice as wide."""
    dtype = wide(kind).dtype
    product: Array = np.asarray(a).astype(dtype) * np.asarray(b).astype(dtype)
    return product


def multiply_high(a: Array, b: Array, kind: Type) -> Array:
    """The upper half of the product of values of `kind`."""
    if kind.width < 64:
        high: Array = (multiply_wide(a, b, kind) >> wide(kind).dtype.type(kind.width)).astype(kind.dtype)
        return high
    x, y = _unsigned(a, 64), _unsigned(b, 64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + ((x0 * y0) >> half)
    other = x0 * y1 + (middle & low)
    high = x1 * y1 + (middle >> half) + (other >> half)
    if kind.kind == "s":
        # A negative factor counts as 2**64 more than it is.
        zero = np.uint64(0)
        high = high - np.where(np.asarray(a) < 0, y, zero) - np.where(np.asarray(b) < 0, x, zero)
    return high.view(kind.dtype)


def _saturated(function: Function) -> Function:
    """Makes a function of s32 that limits its results to the range of s32 from one of int64 that does not overflow."""
    low, high = np.int64(-(2**31)), np.int64(2**31 - 1)

    def saturate(*operands: Array) -> Any:
        exact = function(*[np.asarray(x).astype(np.int64) for x in operands])
        return np.clip(exact, low, high).astype(np.int32)

    return saturate


def build_sum(reader: InstructionReader) -> PureOp:
    """Builds add and sub of integers, with `.sat` for s32, and the packed forms of add."""
    function = np.add if reader.instruction.opcode == "add" else np.subtract
    kind = reader.type(*_INTEGERS, *(("s16x2", "u16x2") if reader.instruction.opcode == "add" else ()))
    if kind.name == "s32" and reader.flag("sat"):
        return reader.operation(_saturated(function), [kind], [kind] * 2)
    core: Function = elementwise(function, kind.element.dtype) if kind.lanes > 1 else function
    return reader.operation(core, [kind], [kind] * 2)


def build_product(reader: InstructionReader) -> PureOp:
    """Builds mul and mad of integers with `.lo`, `.hi` or `.wide`, and mad.hi.sat.s32."""
    kind = reader.type(*_INTEGERS)
    part = reader.choice("lo", "hi", "wide")
    if part == "wide" and kind.width == 64:
        reader.fail("a product of 128 bits")
    result = wide(kind) if part == "wide" else kind
    if part == "lo":
        multiply: Function = np.multiply
    elif part == "hi":
        multiply = lambda a, b: multiply_high(a, b, kind)  # noqa: E731
    else:
        multiply = lambda a, b: multiply_wide(a, b, kind)  # noqa: E731
    if reader.instruction.opcode == "mul":
        return reader.operation(multiply, [result], [kind] * 2)
    if part == "hi" and kind.name == "s32" and reader.flag("sat"):
        add: Function = _saturated(np.add)
    else:
        add = np.add
    return reader.operation(lambda a, b, c: add(multiply(a, b), c), [result], [kind, kind, result])


def build_product24(reader: InstructionReader) -> PureOp:
    """Builds mul24 and mad24.

    The low 24 bits of the operands count; of the product it is bits 0 to 31 (`.lo`) or 16 to 47 (`.hi`).
    """
    kind = reader.type("s32", "u32")
    high = reader.choice("lo", "hi") == "hi"
    eight = kind.dtype.type(8)

    def multiply(a: Array, b: Array) -> Any:
        product = multiply_wide((a << eight) >> eight, (b << eight) >> eight, kind)
        shifted: Array = (product >> product.dtype.type(16)) if high else product
        return shifted.astype(kind.dtype)

    if reader.instruction.opcode == "mul24":
        return reader.operation(multiply, [kind], [kind] * 2)
    return reader.operation(lambda a, b, c: multiply(a, b) + c, [kind], [kind] * 3)


def build_sad(reader: InstructionReader) -> PureOp:
    """Builds sad: c + |a - b|."""
    kind = reader.type(*_INTEGERS)
    unsigned = TYPES[f"u{kind.width}"]

    def add_difference(a: Array, b: Array, c: Array) -> Any:
        x, y, z = (_unsigned(v, kind.width) for v in (a, b, c))
        return (z + np.where(a < b, y - x, x - y)).view(kind.dtype)

    return reader.operation(add_difference, [kind], [kind, kind, kind if kind.kind == "s" else unsigned])


def build_division(reader: InstructionReader) -> PureOp:
    """Builds div and rem of integers, towards zero. PTX leaves the result of a division by zero open."""
    kind = reader.type(*_INTEGERS)
    remainder = reader.instruction.opcode == "rem"
    bits = np.dtype(f"u{kind.width // 8}").type
    zero = bits(0)

    def divide(a: Array, b: Array) -> Any:
        a, b = np.asarray(a), np.asarray(b)
        x, y = a.view(bits), b.view(bits)
        if kind.kind == "s":
            # Magnitudes as unsigned numbers: the most negative value has one too.
            x, y = np.where(a < 0, zero - x, x), np.where(b < 0, zero - y, y)
        divisor = np.where(y == 0, bits(1), y)
        result = x % divisor if remainder else x // divisor
        if kind.kind == "s":
            result = np.where((a < 0) if remainder else (a < 0) != (b < 0), zero - result, result)
        return np.asarray(result).view(kind.dtype)

    return reader.operation(divide, [kind], [kind] * 2, undefined=lambda sources: np.asarray(sources[1] == 0))


def build_sign(reader: InstructionReader) -> PureOp:
    """Builds abs and neg of signed integers; the most negative value stays as it is."""
    kind = reader.type("s16", "s32", "s64")
    function = np.abs if reader.instruction.opcode == "abs" else np.negative
    return reader.operation(function, [kind], [kind])


def build_extreme(reader: InstructionReader) -> PureOp:
    """Builds min and max of integers, with `.relu` for s32 and s16x2, and their packed forms."""
    function: Function = np.maximum if reader.instruction.opcode == "max" else np.minimum
    kind = reader.type(*_INTEGERS, "s16x2", "u16x2")
    core = function
    if kind.name in ("s32", "s16x2") and reader.flag("relu"):
        core = lambda a, b: np.maximum(function(a, b), kind.element.dtype.type(0))  # noqa: E731
    return reader.operation(elementwise(core, kind.element.dtype) if kind.lanes > 1 else core, [kind], [kind] * 2)


def build_dot(reader: InstructionReader) -> PureOp:
    """Builds dp4a and dp2a: products of bytes, or of 16-bit halves with bytes, added to c modulo 2**32."""
    b_kind, a_kind = reader.type("s32", "u32"), reader.type("s32", "u32")
    signed = "s" in (a_kind.kind, b_kind.kind)
    c_kind = TYPES["s32" if signed else "u32"]
    byte_pairs = reader.instruction.opcode == "dp4a"
    upper = not byte_pairs and reader.choice("lo", "hi") == "hi"
    a_part = np.dtype(("i" if a_kind.kind == "s" else "u") + ("1" if byte_pairs else "2"))
    b_part = np.dtype(("i" if b_kind.kind == "s" else "u") + "1")

    def parts(value: Array, dtype: np.dtype[np.generic]) -> Any:
        return np.ascontiguousarray(value)[..., None].view(dtype).astype(np.int64)

    def dot(a: Array, b: Array, c: Array) -> Any:
        x, y = parts(a, a_part), parts(b, b_part)
        if not byte_pairs:
            y = y[..., 2:] if upper else y[..., :2]
        total = (x * y).sum(axis=-1) + np.asarray(c).astype(np.int64)
        return total.astype(np.uint32).view(c_kind.dtype)

    return reader.operation(dot, [c_kind], [a_kind, b_kind, c_kind])
