"""cvt from and to the packed formats of 8 bits, e4m3x2 and e5m2x2 (PTX ISA 9.1, section 9.7.9.21)."""

from __future__ import annotations

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.arithmetic.f8_formats import F8_FORMATS
from cutegen.emulator.arithmetic.formats import CODECS, NAN16
from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.ptx.types import Type

F8_PAIRS = ("e4m3x2", "e5m2x2")


def build_to_f8(reader: InstructionReader, result: Type, source: Type) -> PureOp:
    """Builds cvt of two f32, the first of which goes to the upper half, or of one f16x2 to a pair.

    It rounds to nearest, always with `.satfinite`; `.relu` makes what is below 0 a 0.
    """
    if source.name not in ("f32", "f16x2"):
        reader.fail(f".{source.name} to .{result.name}")
    reader.choice("rn")
    reader.choice("satfinite")
    relu, form = reader.flag("relu"), F8_FORMATS[result.element.name]

    def narrow(value: Array) -> Array:
        value = np.asarray(value).astype(np.float64)
        if relu:
            value = np.where((value > 0) | np.isnan(value), value, 0.0)
        return form.narrow(value).astype(np.uint16)

    def packed(upper: Array, lower: Array) -> Array:
        both: Array = (narrow(upper) << np.uint16(8)) | narrow(lower)
        return both

    def of_halves(pair: Array) -> Array:
        halves = np.ascontiguousarray(pair)[..., None].view(np.float16)
        return packed(halves[..., 1], halves[..., 0])

    if source.name == "f32":
        return reader.operation(packed, [result], [source, source])
    return reader.operation(of_halves, [result], [source])


def build_from_f8(reader: InstructionReader, result: Type, source: Type) -> PureOp:
    """Builds cvt of a pair to one f16x2, which holds all numbers of both formats; a NaN becomes the canonical one."""
    if result.name != "f16x2":
        reader.fail(f".{source.name} to .{result.name}")
    reader.choice("rn")
    relu = reader.flag("relu")
    values = F8_FORMATS[source.element.name].values
    if relu:
        values = np.where((values > 0) | np.isnan(values), values, 0.0)
    halves = np.asarray(CODECS["f16"].narrow(values, "rn")).view(np.uint16)
    halves = np.where(np.isnan(values), NAN16, halves).astype(np.uint32)

    def widen(pair: Array) -> Array:
        low, eight = np.uint16(0xFF), np.uint16(8)
        both: Array = (halves[np.asarray(pair) >> eight] << np.uint32(16)) | halves[np.asarray(pair) & low]
        return both

    return reader.operation(widen, [result], [source])
