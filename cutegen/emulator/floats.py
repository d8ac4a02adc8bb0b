"""Floating-point add, sub, mul, fma, div, rcp, sqrt, min, max, abs, neg, copysign and testp, as PTX defines them.

float32 and float64 to nearest are numpy's own, which follow IEEE 754 as the device does. Directed roundings and the
16-bit formats go through exact values (`rounding`).

Which NaN: the PTX ISA manual (sections 9.7.3 and 9.7.4) leaves the NaN of 16 and 32 bits unspecified, but for the
canonical one that min, max (``.NaN``) and ``.relu`` write; here every NaN result is that one, 0x7FFF or 0x7FFFFFFF.
(abs and neg change the sign of a NaN only, as the manual says future devices may; abs.f64 hands a NaN on unchanged.)
Payloads of float64 NaNs are "supported", without more: here the first NaN operand's, made quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutegen.emulator import exact
from cutegen.emulator.fma import fma_exact, fma_f32, fma_f64
from cutegen.emulator.form import ROUNDINGS, TYPES, Array, Form, Function, Type, elementwise
from cutegen.emulator.rounding import (
    NAN16,
    canonical_f32,
    canonical_f64,
    flush,
    narrow_bf16,
    narrow_f16,
    narrow_f32,
    saturate,
    to_odd,
    two_product,
    two_sum,
    widen_bf16,
)
from cutegen.emulator.types import PureOp


@dataclass(frozen=True, slots=True)
class Codec:
    """How a format's values go to float64 and come back from an exact value (float64, rounded to odd)."""

    widen: Callable[[Array], Array]
    narrow: Callable[[Array, str], Array]


def _wide(value: Array) -> Array:
    return np.asarray(value).astype(np.float64)


CODECS = {
    "f16": Codec(_wide, narrow_f16),
    "bf16": Codec(lambda bits: widen_bf16(np.asarray(bits)).astype(np.float64), narrow_bf16),
    "f32": Codec(_wide, lambda value, mode: canonical_f32(narrow_f32(value, mode))),
}


def signed_zero(result: Array, operands: Sequence[Array]) -> Array:
    """Rounding down: an exact zero sum is negative, unless all that was added is +0."""
    negative = np.signbit(operands[0])
    for operand in operands[1:]:
        negative = negative | np.signbit(operand)
    fixed: Array = np.where((result == 0) & negative, -0.0, result)
    return fixed


def _sum_exact(a: Array, b: Array, mode: str) -> Array:
    total = to_odd(*two_sum(a, b))
    return signed_zero(total, (a, b)) if mode == "rm" else total


def _fma_exact(a: Array, b: Array, c: Array, mode: str) -> Array:
    total = fma_exact(a, b, c)
    return signed_zero(total, (a * b, c)) if mode == "rm" else total


def _quotient_exact(a: Array, b: Array) -> Array:
    """a / b of values with at most 24 bits, rounded to odd."""
    q = a / b
    product, low = two_product(q, b)
    rest = (a - product) - low
    return to_odd(q, np.where(np.isfinite(rest), rest * np.sign(b), 0.0))


def _root_exact(a: Array) -> Array:
    root = np.sqrt(a)
    square, low = two_product(root, root)
    rest = (a - square) - low
    return to_odd(root, np.where(np.isfinite(rest), rest, 0.0))


EXACT: dict[str, Function] = {
    "add": _sum_exact,
    "sub": lambda a, b, mode: _sum_exact(a, -b, mode),
    "mul": lambda a, b, mode: a * b,
    "fma": _fma_exact,
    "div": lambda a, b, mode: _quotient_exact(a, b),
    "rcp": lambda a, mode: _quotient_exact(np.ones_like(a), a),
    "sqrt": lambda a, mode: _root_exact(a),
}
"""float64 operands of at most 24 significant bits in, exact results rounded to odd out."""

NATIVE: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": lambda a: np.divide(a.dtype.type(1), a),
    "sqrt": np.sqrt,
}


def _scalar_f64(opcode: str, mode: str) -> Function:
    """A float64 operation with a directed rounding, lane by lane: rare enough not to deserve more."""

    def finite(values: Sequence[float]) -> float:
        if opcode == "add":
            return exact.fma(values[0], 1.0, values[1], mode)
        if opcode == "sub":
            return exact.fma(values[0], 1.0, -values[1], mode)
        if opcode == "mul":
            return exact.fma(values[0], values[1], -0.0 if mode != "rm" else 0.0, mode)
        if opcode == "div":
            return exact.divide(values[0], values[1], mode)
        if opcode == "rcp":
            return exact.divide(1.0, values[0], mode)
        return exact.square_root(values[0], mode)

    def run(*operands: Array) -> Any:
        lanes = [np.array(x) for x in np.broadcast_arrays(*operands)]
        plain = np.asarray(NATIVE[opcode](*lanes))
        ready = np.logical_and.reduce([np.isfinite(x) for x in lanes])
        if opcode in ("div", "rcp", "sqrt"):
            # Poles, zeros and negative radicands are the same in every rounding.
            ready &= (lanes[-1] > 0) if opcode == "sqrt" else (lanes[-1] != 0)
        if opcode == "mul":
            ready &= (lanes[0] != 0) & (lanes[1] != 0)
        result = plain.copy().reshape(-1)
        chosen = np.nonzero(ready.reshape(-1))[0]
        columns = [x.reshape(-1)[chosen].tolist() for x in lanes]
        result[chosen] = [finite(values) for values in zip(*columns, strict=True)]
        return canonical_f64(result.reshape(plain.shape), *operands)

    return run


def function(opcode: str, kind: Type, mode: str, ftz: bool = False, sat: bool = False, relu: bool = False) -> Function:
    """add, sub, mul, fma, div, rcp or sqrt on values of ``kind`` (not packed) with one rounding."""
    core: Function
    if kind.name == "f64":
        if opcode == "fma":
            core = lambda a, b, c: fma_f64(a, b, c, mode)  # noqa: E731
        elif mode == "rn":
            native = NATIVE[opcode]
            core = lambda *x: canonical_f64(native(*x), *x)  # noqa: E731
        else:
            core = _scalar_f64(opcode, mode)
    elif kind.name == "f32" and mode == "rn":
        if opcode == "fma":
            core = fma_f32
        else:
            native = NATIVE[opcode]
            core = lambda *x: canonical_f32(native(*x))  # noqa: E731
    else:
        codec, exactly = CODECS[kind.name], EXACT[opcode]
        core = lambda *x: codec.narrow(exactly(*[codec.widen(v) for v in x], mode), mode)  # noqa: E731
    return decorate(core, kind, ftz, sat, relu)


def decorate(core: Function, kind: Type, ftz: bool, sat: bool, relu: bool) -> Function:
    """Adds ``.ftz`` (operands and result), ``.sat`` and ``.relu`` to a function."""
    if not (ftz or sat or relu):
        return core
    codec = CODECS.get(kind.name)

    def run(*operands: Array) -> Any:
        if ftz:
            operands = tuple(flush(np.asarray(x)) for x in operands)
        result = np.asarray(core(*operands))
        if ftz:
            result = flush(result)
        if sat:
            if kind.name == "bf16":
                assert codec is not None
                return codec.narrow(saturate(codec.widen(result)), "rn")
            result = saturate(result)
        if relu:
            if kind.name == "bf16":
                return np.where((result & np.uint16(0x8000) != 0) & (result != NAN16), np.uint16(0), result)
            result = np.where((result > 0) | np.isnan(result), result, result.dtype.type(0))
        return result

    return run


def _packed(core: Function, kind: Type) -> Function:
    return elementwise(core, kind.element.dtype) if kind.lanes > 1 else core


def build_arithmetic(form: Form) -> PureOp:
    """add, sub, mul, fma (and mad) of floats, packed or not, and their mixed forms ``fma.rn.f32.f16``."""
    mad = form.instruction.opcode == "mad"
    opcode = "fma" if mad else form.instruction.opcode
    count = 3 if opcode == "fma" else 2
    kind = form.type("f32", "f64", *(() if mad else ("f16", "bf16", "f16x2", "bf16x2", "f32x2")))
    if form.left and form.left[-1] == "f32":
        return _build_mixed(form, opcode, kind)
    contractible = opcode != "fma" and not set(form.left) & set(ROUNDINGS)
    mode = form.choice(*ROUNDINGS, default=None if opcode == "fma" else "rn")
    if kind.element.width == 16 and mode != "rn":
        form.fail(f"rounding .{mode} for {kind.name}")
    ftz = kind.element.name in ("f16", "f32") and form.flag("ftz")
    sat = kind.element.name in ("f16", "f32") and kind.name != "f32x2" and form.flag("sat")
    relu = opcode == "fma" and kind.element.width == 16 and form.flag("relu")
    core = function(opcode, kind.element, mode, ftz, sat, relu)
    return form.pure(_packed(core, kind), [kind], [kind] * count, contractible=contractible)


def _build_mixed(form: Form, opcode: str, narrow: Type) -> PureOp:
    wide = form.type("f32")
    if narrow.name not in ("f16", "bf16") or form.instruction.opcode in ("mul", "mad"):
        form.fail(f"mixed with .{narrow.name}")
    contractible = opcode != "fma" and not set(form.left) & set(ROUNDINGS)
    mode = form.choice(*ROUNDINGS, default=None if opcode == "fma" else "rn")
    core = function(opcode, wide, mode, sat=form.flag("sat"))

    def widen(value: Array) -> Any:
        return widen_bf16(np.asarray(value)) if narrow.name == "bf16" else np.asarray(value).astype(np.float32)

    if opcode == "fma":
        return form.pure(lambda a, b, c: core(widen(a), widen(b), c), [wide], [narrow, narrow, wide])
    return form.pure(lambda a, c: core(widen(a), c), [wide], [narrow, wide], contractible=contractible)


def build_division(form: Form) -> PureOp:
    """div.rnd, rcp.rnd and sqrt.rnd of floats. (Their approximate forms are in `approximate`.)"""
    opcode = form.instruction.opcode
    kind = form.type("f32", "f64")
    mode = form.choice(*ROUNDINGS)
    ftz = kind.name == "f32" and form.flag("ftz")
    return form.pure(function(opcode, kind, mode, ftz), [kind], [kind] * (2 if opcode == "div" else 1))


def _extreme(kind: Type, largest: bool, nan: bool, xorsign: bool) -> Function:
    pick = np.maximum if largest else np.minimum
    unsigned = np.dtype(f"u{kind.width // 8}").type
    sign = unsigned(1 << (kind.width - 1))
    quiet = unsigned({16: 0x7FFF, 32: 0x7FFFFFFF, 64: 0x7FF8000000000000}[kind.width])

    def run(a: Array, b: Array) -> Any:
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

    return run


def build_extreme(form: Form) -> PureOp:
    """min and max of floats: one NaN operand is passed over, with ``.NaN`` it decides; -0 is less than +0."""
    kind = form.type("f16", "bf16", "f32", "f64", "f16x2", "bf16x2")
    nan = kind.name != "f64" and form.flag("NaN")
    xorsign = kind.name != "f64" and form.flag("xorsign")
    if xorsign and not form.flag("abs"):
        form.fail(".xorsign without .abs")
    ftz = kind.element.name in ("f16", "f32") and form.flag("ftz")
    core = _extreme(kind.element, form.instruction.opcode == "max", nan, xorsign)
    core = decorate(core, kind.element, ftz, False, False)
    return form.pure(_packed(core, kind), [kind], [kind] * 2)


def build_sign(form: Form) -> PureOp:
    """abs, neg and copysign of floats: they change the sign bit only. ``copysign a, b``: b's magnitude, a's sign."""
    opcode = form.instruction.opcode
    kind = form.type("f32", "f64", *(() if opcode == "copysign" else ("f16", "bf16", "f16x2", "bf16x2")))
    ftz = opcode != "copysign" and kind.element.name in ("f16", "f32") and form.flag("ftz")
    unsigned = np.dtype(f"u{kind.width // 8}").type
    element = kind.element.width
    sign = unsigned(sum(1 << (element * i + element - 1) for i in range(kind.lanes)))

    def run(*operands: Array) -> Any:
        bits = [np.asarray(x).view(unsigned) for x in operands]
        if opcode == "abs":
            positive = (bits[0] & ~sign).view(kind.dtype)
            return np.where(np.isnan(operands[0]), operands[0], positive) if kind.name == "f64" else positive
        if opcode == "neg":
            return (bits[0] ^ sign).view(kind.dtype)
        return ((bits[0] & sign) | (bits[1] & ~sign)).view(kind.dtype)

    core: Function = run
    if ftz and kind.lanes == 1:
        core = decorate(run, kind, True, False, False)
    elif ftz:
        form.fail(f".ftz with .{kind.name}")
    return form.pure(core, [kind], [kind] * (2 if opcode == "copysign" else 1))


def build_testp(form: Form) -> PureOp:
    """testp: finite, infinite, number, notanumber, normal, subnormal (zeros count as normal there)."""
    kind = form.type("f32", "f64")
    test = form.choice("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    tiny = np.finfo(kind.dtype).tiny
    tests: dict[str, Function] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & ((np.abs(a) >= tiny) | (a == 0)),
        "subnormal": lambda a: (np.abs(a) < tiny) & (a != 0),
    }
    return form.pure(tests[test], [TYPES["pred"]], [kind])
