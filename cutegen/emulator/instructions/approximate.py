"""The approximate functions: ex2, lg2, rcp, rsqrt, sqrt, tanh, sin, cos and div with `.approx`, and div with `.full`.

PTX documents bounds for them, not values. Here the value is computed in float64 and rounded once to the result's type,
so that it lies within every bound; the result of a GPU may differ from it by as much as `APPROXIMATE` says.

Special cases (zeros, infinities, NaN, subnormal numbers, `.ftz`) are those of the tables of the PTX ISA 9.1, sections
9.7.3.8 (div), 9.7.3.13 and 9.7.3.14 (rcp), 9.7.3.15 (sqrt), 9.7.3.16 and 9.7.3.17 (rsqrt), 9.7.3.18 (sin), 9.7.3.19
(cos), 9.7.3.20 (lg2), 9.7.3.21 and 9.7.4.10 (ex2), 9.7.3.22 and 9.7.4.9 (tanh). Forms that those sections do not have
(ex2 of bf16 without `.ftz`, tanh with it) are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, Function, elementwise
from cutegen.emulator.arithmetic.exponentials import exp2
from cutegen.emulator.arithmetic.float_functions import with_modifiers
from cutegen.emulator.arithmetic.formats import CODECS, canonical_f32
from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.ptx.types import TYPES


@dataclass(frozen=True, slots=True)
class Bound:
    """How far a device's result may be from the exact value: |device - exact| <= max(relative * |exact|, absolute).

    With `.ftz`, the exact value is the function of the flushed operands. `where` says for which operands the bound
    holds; for others, and where `relative` is infinite, PTX promises only the special cases.
    """

    relative: float
    absolute: float
    where: str = "all finite operands"


def _ulps(count: float, where: str = "all finite operands") -> Bound:
    """The bound of a result that is up to `count` units in the last place of float32 from the correctly rounded one.

    That one is half a unit from the exact value.
    """
    return Bound((count + 0.5) * 2.0**-23, (count + 0.5) * 2.0**-149, where)


_ANGLES = "-2 pi to 2 pi (up to 100 pi the error may be 2**-14.7, beyond there is no bound)"
_NONE = Bound(math.inf, 0.0, "nowhere: PTX gives no bound")
APPROXIMATE: dict[str, Bound] = {
    "ex2.approx.f32": _ulps(2),
    "ex2.approx.f16": Bound(2.0**-9.9, 0.0, "results that are normal numbers"),
    "ex2.approx.bf16": Bound(2.0**-7, 0.0),
    "lg2.approx.f32": Bound(2.0**-22, 2.0**-22, "operands above zero"),
    "rcp.approx.f32": _ulps(1),
    "rcp.approx.f64": _NONE,
    "rsqrt.approx.f32": Bound(2.0**-22.9, 0.0, "operands above zero"),
    "rsqrt.approx.f64": _NONE,
    "sqrt.approx.f32": Bound(2.0**-23, 0.0, "operands above zero"),
    "tanh.approx.f32": Bound(2.0**-11, 0.0),
    "tanh.approx.f16": Bound(0.0, 2.0**-10.987),
    "tanh.approx.bf16": Bound(0.0, 2.0**-8),
    "sin.approx.f32": Bound(0.0, 2.0**-20.5, _ANGLES),
    "cos.approx.f32": Bound(0.0, 2.0**-20.5, _ANGLES),
    "div.approx.f32": _ulps(2, "divisors from 2**-126 to 2**126"),
    "div.full.f32": _ulps(2),
}
"""Opcode, kind of approximation and type (the element of a packed type) -> the bound that PTX documents without `.ftz`.

The absolute error of lg2 is bounded for operands between 0.5 and 2, where |lg2| < 1, and its relative error elsewhere.
"""


_FUNCTIONS: dict[str, Function] = {
    "ex2": exp2,
    "lg2": np.log2,
    "rcp": lambda a: 1.0 / a,
    "rsqrt": lambda a: 1.0 / np.sqrt(a),
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "div": np.divide,
}
_TYPES: dict[str, tuple[str, ...]] = {
    "ex2": ("f32", "f16", "bf16", "f16x2", "bf16x2"),
    "tanh": ("f32", "f16", "bf16", "f16x2", "bf16x2"),
    "rcp": ("f32", "f64"),
    "rsqrt": ("f32", "f64"),
}


def build_approximate(reader: InstructionReader) -> PureOp:
    """Builds any of the approximate functions."""
    opcode = reader.instruction.opcode
    kind = reader.type(*_TYPES.get(opcode, ("f32",)))
    manner = "full" if opcode == "div" and reader.leads("full") else reader.choice("approx")
    exactly = _FUNCTIONS[opcode]
    if kind.name == "f64":
        return _build_f64(reader)
    ftz = reader.flag("ftz")
    single = kind.element
    codec = CODECS[single.name]
    if ftz and (single.name == "f16" or opcode == "tanh"):
        reader.fail(f".ftz of {opcode}.approx.{kind.name}")
    if not ftz and single.name == "bf16" and opcode == "ex2":
        reader.fail("ex2 of bf16 exists with .ftz only")

    def rounded(*operands: Array) -> Array:
        return codec.narrow(exactly(*[codec.widen(x) for x in operands]), "rn")

    def divide(a: Array, b: Array) -> Array:
        # Divisors beyond 2**126 give 0 (NaN for an infinite dividend): the reciprocal is flushed on the way.
        huge = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
        sign = np.where(np.signbit(a) != np.signbit(b), np.float32(-0.0), np.float32(0.0))
        lost = np.where(np.isfinite(a), sign, np.float32(np.nan))
        return canonical_f32(np.where(huge, lost, rounded(a, b)).astype(np.float32))

    core: Function = divide if manner == "approx" and opcode == "div" else rounded
    if single.name != "bf16":
        core = with_modifiers(core, single, ftz, False, False)
    elif ftz:
        core = _flushed_bf16(core)
    core = elementwise(core, single.dtype) if kind.lanes > 1 else core
    return reader.operation(core, [kind], [kind] * (2 if opcode == "div" else 1), approximate=True)


def _flushed_bf16(core: Function) -> Function:
    """Adds `.ftz` to a function on the bits of bf16: subnormal operands and results become zeros of their sign."""
    exponent, sign = np.uint16(0x7F80), np.uint16(0x8000)

    def flush(bits: Array) -> Array:
        return np.where((bits & exponent) == 0, bits & sign, bits)

    return lambda a: flush(core(flush(a)))


def _build_f64(reader: InstructionReader) -> PureOp:
    """Builds rcp.approx and rsqrt.approx of f64. With `.ftz` only the upper 32 bits of operand and result count."""
    opcode = reader.instruction.opcode
    ftz = reader.flag("ftz")
    if opcode == "rcp" and not ftz:
        reader.fail("rcp.approx.f64 exists with .ftz only")
    upper = np.uint64(0xFFFFFFFF00000000)
    exponent, sign = np.uint64(0x7FF0000000000000), np.uint64(1 << 63)
    quiet = np.uint64(0x7FFFFFFF00000000)
    exactly = _FUNCTIONS[opcode]

    def invert(a: Array) -> Array:
        bits = np.asarray(a).view(np.uint64)
        if not ftz:
            value = exactly(np.asarray(a))
            inverse: Array = np.where(np.isnan(value), np.uint64(0x7FF8000000000000), value.view(np.uint64)).view(
                np.float64
            )
            return inverse
        cut = np.where((bits & exponent) == 0, bits & sign, bits & upper)
        value = exactly(cut.view(np.float64))
        # To the nearest number of 20 fraction bits; that may carry into the exponent, which is right.
        result = (np.asarray(value).view(np.uint64) + np.uint64(0x80000000)) & upper
        result = np.where((result & exponent) == 0, result & sign, result)
        found: Array = np.where(np.isnan(np.asarray(a)) | np.isnan(value), quiet, result).view(np.float64)
        return found

    kind = TYPES["f64"]
    return reader.operation(invert, [kind], [kind], approximate=True)


def bound(name: str) -> Bound | None:
    """The bound for an instruction, given by its whole name (`ex2.approx.ftz.f32`), or None if it is exact.

    With `.ftz` a result may be zero where it would be subnormal otherwise.
    """
    parts = name.split(".")
    key = ".".join((parts[0], next((p for p in parts if p in ("approx", "full")), ""), parts[-1].split("x2")[0]))
    found = APPROXIMATE.get(key)
    if found is None or "ftz" not in parts or not math.isfinite(found.relative):
        return found
    return replace(found, absolute=max(found.absolute, 2.0**-126 * (1 + 2 * found.relative)))
