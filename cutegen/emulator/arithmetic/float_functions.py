"""Floating-point functions on typed arrays, in every format and rounding, with the modifiers that PTX has for them.

float32 and float64 to nearest are numpy's own, which follow IEEE 754 as the device does. Directed roundings and the
16-bit formats go through exact values (`exact_values`), directed roundings of float64 through `whole_numbers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cutegen.emulator.arithmetic import whole_numbers
from cutegen.emulator.arithmetic.arrays import Array, Function
from cutegen.emulator.arithmetic.exact_values import EXACT_FUNCTIONS
from cutegen.emulator.arithmetic.fma import fma_f32, fma_f64
from cutegen.emulator.arithmetic.formats import CODECS, NAN16, canonical_f32, canonical_f64, flush, saturate
from cutegen.emulator.ptx.types import Type

ROUNDINGS = ("rn", "rz", "rm", "rp")
"""The roundings of PTX: to the nearest value (to the even one of two), towards zero, down and up."""

NUMPY_FUNCTIONS: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": lambda a: np.divide(a.dtype.type(1), a),
    "sqrt": np.sqrt,
}
"""Opcodes -> numpy's functions, which round to nearest, and whose NaNs may have other bits than the device's."""


def _directed_f64(opcode: str, mode: str) -> Function:
    """The function of an opcode on float64 with a directed rounding, computed lane by lane: it is too rare for more."""

    def finite(values: Sequence[float]) -> float:
        if opcode == "add":
            return whole_numbers.fma(values[0], 1.0, values[1], mode)
        if opcode == "sub":
            return whole_numbers.fma(values[0], 1.0, -values[1], mode)
        if opcode == "mul":
            return whole_numbers.fma(values[0], values[1], -0.0 if mode != "rm" else 0.0, mode)
        if opcode == "div":
            return whole_numbers.divide(values[0], values[1], mode)
        if opcode == "rcp":
            return whole_numbers.divide(1.0, values[0], mode)
        return whole_numbers.square_root(values[0], mode)

    def rounded(*operands: Array) -> Any:
        lanes = [np.array(x) for x in np.broadcast_arrays(*operands)]
        plain = np.asarray(NUMPY_FUNCTIONS[opcode](*lanes))
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

    return rounded


def float_function(
    opcode: str, kind: Type, mode: str, ftz: bool = False, sat: bool = False, relu: bool = False
) -> Function:
    """The function of add, sub, mul, fma, div, rcp or sqrt on values of the type `kind`, which is not packed.

    It rounds once, as `mode` says; the flags add `.ftz`, `.sat` and `.relu`.
    """
    core: Function
    if kind.name == "f64":
        if opcode == "fma":
            core = lambda a, b, c: fma_f64(a, b, c, mode)  # noqa: E731
        elif mode == "rn":
            native = NUMPY_FUNCTIONS[opcode]
            core = lambda *x: canonical_f64(native(*x), *x)  # noqa: E731
        else:
            core = _directed_f64(opcode, mode)
    elif kind.name == "f32" and mode == "rn":
        if opcode == "fma":
            core = fma_f32
        else:
            native = NUMPY_FUNCTIONS[opcode]
            core = lambda *x: canonical_f32(native(*x))  # noqa: E731
    else:
        codec, exactly = CODECS[kind.name], EXACT_FUNCTIONS[opcode]
        core = lambda *x: codec.narrow(exactly(*[codec.widen(v) for v in x], mode), mode)  # noqa: E731
    return with_modifiers(core, kind, ftz, sat, relu)


def with_modifiers(core: Function, kind: Type, ftz: bool, sat: bool, relu: bool) -> Function:
    """Adds modifiers to a function on values of the type `kind`.

    `ftz` flushes subnormal operands and results to zero, `sat` limits the result to [0, 1], and `relu` replaces
    negative results by zero.
    """
    if not (ftz or sat or relu):
        return core
    codec = CODECS.get(kind.name)

    def modified(*operands: Array) -> Any:
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

    return modified
