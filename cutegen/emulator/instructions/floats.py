"""Floating-point add, sub, mul, mad, fma, div, rcp, sqrt, min, max, abs, neg, copysign and testp.

The semantics are those of the PTX ISA 9.1, sections 9.7.3 to 9.7.5; the arithmetic is in `arithmetic.float_functions`.

Which NaN results: those sections leave the NaN of 16 and 32 bits open, but for the canonical one that min and max with
`.NaN` and `.relu` write. Here every NaN result is that one, 0x7FFF or 0x7FFFFFFF. Only abs and neg change nothing but
the sign of a NaN, as the sections say that future devices may, and abs.f64 hands a NaN on unchanged. Payloads of NaNs
of float64 are "supported", without more being said: here the result is the first NaN operand, made quiet.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, Function, elementwise
from cutegen.emulator.arithmetic.float_functions import ROUNDINGS, float_function, with_modifiers
from cutegen.emulator.arithmetic.formats import widen_bf16
from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.ptx.types import TYPES, Type


def _packed(core: Function, kind: Type) -> Function:
    """A function on values of `kind`, which may be packed, from one on its elements."""
    return elementwise(core, kind.element.dtype) if kind.lanes > 1 else core


def build_arithmetic(reader: InstructionReader) -> PureOp:
    """Builds add, sub, mul, mad and fma of floats, packed or not, and mixed forms such as fma.rn.f32.f16."""
    mad = reader.instruction.opcode == "mad"
    opcode = "fma" if mad else reader.instruction.opcode
    count = 3 if opcode == "fma" else 2
    kind = reader.type("f32", "f64", *(() if mad else ("f16", "bf16", "f16x2", "bf16x2", "f32x2")))
    if reader.left and reader.left[-1] == "f32":
        return _build_mixed(reader, opcode, kind)
    contractible = opcode != "fma" and not set(reader.left) & set(ROUNDINGS)
    mode = reader.choice(*ROUNDINGS, default=None if opcode == "fma" else "rn")
    if kind.element.width == 16 and mode != "rn":
        reader.fail(f"rounding .{mode} for {kind.name}")
    ftz = kind.element.name in ("f16", "f32") and reader.flag("ftz")
    sat = kind.element.name in ("f16", "f32") and kind.name != "f32x2" and reader.flag("sat")
    relu = opcode == "fma" and kind.element.width == 16 and reader.flag("relu")
    core = float_function(opcode, kind.element, mode, ftz, sat, relu)
    return reader.operation(_packed(core, kind), [kind], [kind] * count, contractible=contractible)


def _build_mixed(reader: InstructionReader, opcode: str, narrow: Type) -> PureOp:
    """Builds add, sub and fma of f32 whose first operands have the type `narrow`, f16 or bf16."""
    wide = reader.type("f32")
    if narrow.name not in ("f16", "bf16") or reader.instruction.opcode in ("mul", "mad"):
        reader.fail(f"mixed with .{narrow.name}")
    contractible = opcode != "fma" and not set(reader.left) & set(ROUNDINGS)
    mode = reader.choice(*ROUNDINGS, default=None if opcode == "fma" else "rn")
    core = float_function(opcode, wide, mode, sat=reader.flag("sat"))

    def widen(value: Array) -> Any:
        return widen_bf16(np.asarray(value)) if narrow.name == "bf16" else np.asarray(value).astype(np.float32)

    if opcode == "fma":
        return reader.operation(lambda a, b, c: core(widen(a), widen(b), c), [wide], [narrow, narrow, wide])
    return reader.operation(lambda a, c: core(widen(a), c), [wide], [narrow, wide], contractible=contractible)


def build_division(reader: InstructionReader) -> PureOp:
    """Builds div, rcp and sqrt of floats with a rounding. Their approximate forms are in `approximate`."""
    opcode = reader.instruction.opcode
    kind = reader.type("f32", "f64")
    mode = reader.choice(*ROUNDINGS)
    ftz = kind.name == "f32" and reader.flag("ftz")
    return reader.operation(float_function(opcode, kind, mode, ftz), [kind], [kind] * (2 if opcode == "div" else 1))


def _extreme(kind: Type, largest: bool, nan: bool, xorsign: bool) -> Function:
    """The function of max (or min) on values of `kind`, which is not packed.

    With `nan` one NaN operand makes the result NaN. With `xorsign` the sizes of the operands are compared, and the
    result has the exclusive or of their signs.
    """
    pick = np.maximum if largest else np.minimum
    unsigned = np.dtype(f"u{kind.width // 8}").type
    sign = unsigned(1 << (kind.width - 1))
    quiet = unsigned({16: 0x7FFF, 32: 0x7FFFFFFF, 64: 0x7FF8000000000000}[kind.width])

    def extreme(a: Array, b: Array) -> Any:
        a, b = np.asarray(a), np.asarray(b)
        au, bu = a.view(unsigned), b.view(unsigned)
        if xorsign:
            av, bv = (au & ~sign).view(a.dtype), (bu & ~sign).view(a.dtype)
        else:
            av, bv = a, b
        x, y = (widen_bf16(av), widen_bf16(bv)) if kind.name == "bf16" else (av, bv)
        chosen = pick(x, y)
        if not nan:
            # Not numpy's fmin and fmax: those hand signalling NaNs on.
            chosen = np.where(np.isnan(x), y, np.where(np.isnan(y), x, chosen))
        lost = np.isnan(chosen)
        bits = (
            (chosen.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
            if kind.name == "bf16"
            else chosen.view(unsigned)
        )
        # Zeros differ by sign: -0 counts as less than +0, and numpy takes either.
        both = (x == 0) & (y == 0)
        xu, yu = av.view(unsigned), bv.view(unsigned)
        bits = np.where(both, (xu & yu) if largest else (xu | yu), bits)
        if xorsign:
            bits = bits | ((au ^ bu) & sign)
        return np.where(lost, quiet, bits).astype(unsigned).view(a.dtype)

    return extreme


def build_extreme(reader: InstructionReader) -> PureOp:
    """Builds min and max of floats, for which -0 is less than +0.

    One NaN operand is passed over; with `.NaN` it makes the result NaN. From sm_100 on there may be three operands.
    """
    kind = reader.type("f16", "bf16", "f32", "f64", "f16x2", "bf16x2")
    nan = kind.name != "f64" and reader.flag("NaN")
    xorsign = kind.name != "f64" and reader.flag("xorsign")
    if xorsign and not reader.flag("abs"):
        reader.fail(".xorsign without .abs")
    ftz = kind.element.name in ("f16", "f32") and reader.flag("ftz")
    core = _extreme(kind.element, reader.instruction.opcode == "max", nan, xorsign)
    core = with_modifiers(core, kind.element, ftz, False, False)
    if kind.name == "f32" and not xorsign and len(reader.instruction.operands) == 4:
        return reader.operation(lambda a, b, c: core(core(a, b), c), [kind], [kind] * 3)
    return reader.operation(_packed(core, kind), [kind], [kind] * 2)


def build_sign(reader: InstructionReader) -> PureOp:
    """Builds abs, neg and copysign of floats, which change the sign only; copysign gives b the sign of a."""
    opcode = reader.instruction.opcode
    kind = reader.type("f32", "f64", *(() if opcode == "copysign" else ("f16", "bf16", "f16x2", "bf16x2")))
    ftz = opcode != "copysign" and kind.element.name in ("f16", "f32") and reader.flag("ftz")
    unsigned = np.dtype(f"u{kind.width // 8}").type
    element = kind.element.width
    sign = unsigned(sum(1 << (element * i + element - 1) for i in range(kind.lanes)))

    def with_sign(*operands: Array) -> Any:
        bits = [np.asarray(x).view(unsigned) for x in operands]
        if opcode == "abs":
            positive = (bits[0] & ~sign).view(kind.dtype)
            return np.where(np.isnan(operands[0]), operands[0], positive) if kind.name == "f64" else positive
        if opcode == "neg":
            return (bits[0] ^ sign).view(kind.dtype)
        return ((bits[0] & sign) | (bits[1] & ~sign)).view(kind.dtype)

    core: Function = with_sign
    if ftz and kind.lanes == 1:
        core = with_modifiers(with_sign, kind, True, False, False)
    elif ftz:
        reader.fail(f".ftz with .{kind.name}")
    return reader.operation(core, [kind], [kind] * (2 if opcode == "copysign" else 1))


def build_testp(reader: InstructionReader) -> PureOp:
    """Builds testp with each of its tests; zeros count as normal."""
    kind = reader.type("f32", "f64")
    test = reader.choice("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    tiny = np.finfo(kind.dtype).tiny
    tests: dict[str, Function] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & ((np.abs(a) >= tiny) | (a == 0)),
        "subnormal": lambda a: (np.abs(a) < tiny) & (a != 0),
    }
    return reader.operation(tests[test], [TYPES["pred"]], [kind])
