"""cvt: between integers, between floats, and from one to the other (PTX ISA 9.1, section 9.7.9)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, Function
from cutegen.emulator.arithmetic.exact_values import to_odd, two_sum
from cutegen.emulator.arithmetic.float_functions import ROUNDINGS
from cutegen.emulator.arithmetic.formats import CODECS, NAN32, canonical_f32, drop_bits, flush, saturate, widen_bf16
from cutegen.emulator.instructions.f8_conversions import F8_PAIRS, build_from_f8, build_to_f8
from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.ptx.types import TYPES, Type

_WHOLE: dict[str, Function] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_LARGEST = {"f16": 65504.0, "bf16": float(2**128 - 2**120)}
_U32 = TYPES["u32"]


def build_convert(reader: InstructionReader) -> PureOp:
    """Builds cvt, with its roundings, `.ftz`, `.sat`, `.relu` and `.satfinite`; also to f16x2 and bf16x2,
    and between those and pairs of 8 bits.

    Which modifiers go with which types is as ptxas 13.0 has it. `.sat` goes where something can lie outside, but not
    with bf16 on either side. `.relu` and `.satfinite` go from f32 to 16 bits, to nearest or towards zero, without
    `.sat` and `.ftz`. A rounding goes where something is rounded; from bf16 it may also stand where nothing is.
    """
    source = reader.type()
    result = reader.type()
    if result.name in F8_PAIRS:
        return build_to_f8(reader, result, source)
    if source.name in F8_PAIRS:
        return build_from_f8(reader, result, source)
    if result.name in ("f16x2", "bf16x2") and source.name == "f32":
        return _build_pair(reader, result, source)
    if result.name == "tf32" and source.name == "f32":
        return _build_tf32(reader, result, source)
    plain = (*"su", "f", "bf")
    if source.kind not in plain or result.kind not in plain or max(source.lanes, result.lanes) > 1:
        reader.fail(f".{source.name} to .{result.name}")
    if source.kind in "su" and result.kind in "su":
        have, want = np.iinfo(source.dtype), np.iinfo(result.dtype)
        sat = (have.min < want.min or have.max > want.max) and reader.flag("sat")
        return reader.operation(_integers(source, result, sat), [result], [source])
    if {source.name, result.name} in ({"bf16", "s8"}, {"bf16", "u8"}):
        reader.fail(f".{source.name} to .{result.name}")
    ftz = "f32" in (source.name, result.name) and reader.flag("ftz")
    sat = "bf16" not in (source.name, result.name) and reader.flag("sat")
    if result.kind in "su":
        return reader.operation(_to_integer(source, result, reader.choice(*_WHOLE), ftz), [result], [source])
    if source.kind in "su":
        mode = reader.choice(*ROUNDINGS)
        return reader.operation(
            _finish(_from_integer(source, result, mode), result, ftz, sat, False), [result], [source]
        )
    return _build_between_floats(reader, result, source, ftz, sat)


def _integers(source: Type, result: Type, sat: bool) -> Function:
    """The function from one integer type to another, which cuts high bits off or, with `sat`, limits the value."""
    if not sat:
        return lambda a: np.asarray(a).astype(result.dtype)
    have, want = np.iinfo(source.dtype), np.iinfo(result.dtype)
    low = source.dtype.type(max(int(have.min), int(want.min)))
    high = source.dtype.type(min(int(have.max), int(want.max)))
    return lambda a: np.clip(a, low, high).astype(result.dtype)


def _widen(value: Array, kind: Type, ftz: bool) -> Array:
    """Values of a float type as float64, exactly; with `ftz` subnormal float32 become zero."""
    value = np.asarray(value)
    if ftz and kind.name == "f32":
        value = flush(value)
    return (widen_bf16(value) if kind.name == "bf16" else value).astype(np.float64)


def _to_integer(source: Type, result: Type, rounding: str, ftz: bool) -> Function:
    """The function from a float type to an integer type.

    Values out of range become the nearest end of it. NaN becomes 0, but the top bit alone if the source is f64 or the
    result has 64 bits.
    """
    limits = np.iinfo(result.dtype)
    low, over = np.float64(limits.min), np.float64(2.0 ** (result.width - (result.kind == "s")))
    undefined: Any = 0
    if source.name == "f64" or result.width == 64:
        undefined = 1 << (result.width - 1)
        undefined = int(limits.min) if result.kind == "s" else undefined
    undefined = result.dtype.type(undefined)
    top, bottom = result.dtype.type(limits.max), result.dtype.type(limits.min)
    whole = _WHOLE[rounding]

    def convert(a: Array) -> Array:
        value = whole(_widen(a, source, ftz))
        inside = (value > low) & (value < over)
        safe = np.where(inside, value, 0.0)
        if result.name == "u64":
            half = np.float64(2.0**63)
            large = safe >= half
            cast = np.where(large, safe - half, safe).astype(np.int64).astype(np.uint64)
            cast = np.where(large, cast + np.uint64(1 << 63), cast)
        else:
            cast = safe.astype(np.int64).astype(result.dtype)
        cast = np.where(value >= over, top, np.where(value <= low, bottom, cast))
        return np.where(np.isnan(value), undefined, cast)

    return convert


def _from_integer(source: Type, result: Type, mode: str) -> Function:
    """The function from an integer type to a float type, with a rounding mode."""

    def convert(a: Array) -> Array:
        value = np.asarray(a)
        if source.width < 64:
            exact = value.astype(np.float64)
        else:
            # Two halves that float64 holds, added with the error kept.
            half = source.dtype.type(32)
            low = (value & source.dtype.type(0xFFFFFFFF)).astype(np.float64)
            nearest, rest = two_sum((value >> half).astype(np.float64) * 2.0**32, low)
            if result.name == "f64":
                return _nudge(nearest, rest, mode)
            exact = to_odd(nearest, rest)
        if result.name == "f64":
            return exact
        return CODECS[result.name].narrow(exact, mode)

    return convert


def _nudge(nearest: Array, rest: Array, mode: str) -> Array:
    """The float64 that `mode` asks for, of an exact value nearest + rest that was rounded to `nearest`."""
    if mode == "rn":
        return nearest
    down = np.nextafter(nearest, -np.inf)
    up = np.nextafter(nearest, np.inf)
    below = np.where(rest < 0, down, nearest)
    above = np.where(rest > 0, up, nearest)
    if mode == "rz":
        return np.where(nearest > 0, below, above)
    return below if mode == "rm" else above


def _finish(core: Function, result: Type, ftz: bool, sat: bool, relu: bool) -> Function:
    """Adds what `.ftz`, `.sat` and `.relu` do to the results of a function, which have the type `result`."""

    def finished(*operands: Array) -> Array:
        value = np.asarray(core(*operands))
        if ftz and result.name == "f32":
            value = flush(value)
        if sat:
            value = saturate(value)
        if relu:
            value = _on_values(lambda v: np.where((v > 0) | np.isnan(v), v, v.dtype.type(0)), value, result)
        return value

    return finished if ftz or sat or relu else core


def _on_values(function: Function, value: Array, kind: Type) -> Array:
    """Applies a function to values of a float type; bf16 is passed as bits."""
    if kind.name != "bf16":
        return np.asarray(function(value))
    codec = CODECS["bf16"]
    return codec.narrow(np.asarray(function(codec.widen(value))), "rn")


def _build_between_floats(reader: InstructionReader, result: Type, source: Type, ftz: bool, sat: bool) -> PureOp:
    """Builds cvt from one float type to another, or to whole numbers of the same type."""
    whole = reader.choice(*_WHOLE, default="-")
    core: Function
    if whole != "-":
        if source.name != result.name or source.name == "bf16":
            reader.fail(f".{whole} from .{source.name} to .{result.name}")
        core = lambda a: _WHOLE[whole](flush(a) if ftz else a)  # noqa: E731
        return reader.operation(_finish(_quiet(core, result), result, ftz, sat, False), [result], [source])
    if result.width < source.width or (result.width == source.width and result.name != source.name):
        mode = reader.choice(*ROUNDINGS)
        limited = source.name == "f32" and mode in ("rn", "rz") and not (ftz or sat)
        relu, finite = limited and reader.flag("relu"), limited and reader.flag("satfinite")
        codec = CODECS[result.name]
        core = lambda a: codec.narrow(_limit(_widen(a, source, ftz), result, finite), mode)  # noqa: E731
        return reader.operation(_finish(core, result, ftz, sat, relu), [result], [source])
    if result.name == source.name:
        core = lambda a: flush(a) if ftz else a  # noqa: E731
        return reader.operation(_finish(_quiet(core, result), result, ftz, sat, False), [result], [source])
    if source.name == "bf16":
        reader.choice(*ROUNDINGS, default="-")  # nothing to round
    if result.name == "f64":
        core = lambda a: _quiet_f64(_widen(a, source, ftz))  # noqa: E731
    elif source.name == "bf16":
        core = widen_bf16
    else:
        core = lambda a: canonical_f32(np.asarray(a).astype(np.float32))  # noqa: E731
    return reader.operation(_finish(core, result, ftz, sat, False), [result], [source])


def _quiet_f64(value: Array) -> Array:
    """float64 values with signalling NaNs made quiet, which numpy's own widening of float16 does not do."""
    bits = value.view(np.uint64)
    quiet: Array = np.where(np.isnan(value), bits | np.uint64(1 << 51), bits).view(np.float64)
    return quiet


def _quiet(core: Function, kind: Type) -> Function:
    """Makes every NaN that a function returns the canonical one, if its type is f32."""
    return (lambda a: canonical_f32(np.asarray(core(a)))) if kind.name == "f32" else core


def _limit(value: Array, kind: Type, finite: bool) -> Array:
    """Applies `.satfinite` if `finite`: limits infinities and values too large for `kind` to its largest number."""
    if not finite:
        return value
    largest = np.float64(_LARGEST[kind.name])
    return np.where(np.isnan(value), value, np.clip(value, -largest, largest))


def _build_pair(reader: InstructionReader, result: Type, source: Type) -> PureOp:
    """Builds cvt of two f32 to the halves of one f16x2 or bf16x2; the first one goes to the upper half."""
    mode = reader.choice("rn", "rz")
    relu, finite = reader.flag("relu"), reader.flag("satfinite")
    single = result.element
    codec = CODECS[single.name]
    widen: Function = np.asarray if single.name == "bf16" else lambda v: _widen(v, source, False)  # it takes f32 too
    narrow = _finish(lambda v: codec.narrow(_limit(widen(v), single, finite), mode), single, False, False, relu)

    def convert_pair(a: Array, b: Array) -> Array:
        upper = np.asarray(narrow(a)).view(np.uint16).astype(np.uint32)
        lower = np.asarray(narrow(b)).view(np.uint16).astype(np.uint32)
        both: Array = (upper << np.uint32(16)) | lower
        return both

    return reader.operation(convert_pair, [result], [source, source])


def _build_tf32(reader: InstructionReader, result: Type, source: Type) -> PureOp:
    """Builds cvt of f32 to tf32: a float32 whose last 13 bits are rounded away."""
    mode = reader.choice("rn", "rz", "rna")
    relu, finite = mode != "rna" and reader.flag("relu"), reader.flag("satfinite")
    top = np.float32(2.0**128 - 2.0**117)

    def convert(a: Array) -> Array:
        value = np.asarray(a)
        if finite:
            value = np.where(np.isnan(value), value, np.clip(value, -top, top)).astype(np.float32)
        rounded = drop_bits(value.view(np.uint32), 13, mode)
        if relu:
            rounded = np.where(value < 0, np.uint32(0), rounded & np.uint32(0x7FFFFFFF))
        return np.where(np.isnan(value), NAN32, rounded)

    return reader.operation(convert, [result], [source])
