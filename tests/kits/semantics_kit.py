"""One instruction at a time: its results, and floating-point formats in whole numbers to judge them by."""

from __future__ import annotations

import struct
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from cutegen.emulator.instructions.opcodes import compile_pure
from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.ptx.model import Immediate, Instruction, Module
from cutegen.emulator.ptx.parser import parse
from cutegen.emulator.ptx.types import STORAGE

HEADER = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k()
{
    .reg .pred %p<10>;
    .reg .b16 %rs<20>;
    .reg .b32 %r<40>;
    .reg .b64 %rd<20>;
"""


def module(body: str) -> Module:
    """A module with one kernel of this body."""
    return parse(HEADER + body + "\n    ret;\n}\n")


def instruction(text: str) -> Instruction:
    """One instruction, with registers %p, %rs, %r, %rd."""
    return module(text + ";").kernel().instructions[0]


@cache
def compiled(text: str) -> PureOp:
    """The operation of an instruction."""
    op = compile_pure(instruction(text))
    assert op is not None
    return op


def compute_all(text: str, *sources: Any) -> list[np.ndarray]:
    """The results of an instruction whose register sources hold these bits; immediates are filled in."""
    op = compiled(text)
    given = iter(sources)
    arrays = []
    for source, width in zip(op.sources, op.widths, strict=True):
        bits = source.bits if isinstance(source, Immediate) else next(given)
        arrays.append(np.asarray(bits, dtype=STORAGE[width]))
    assert next(given, None) is None
    with np.errstate(all="ignore"):
        results = op(arrays)
    for register, result in zip(op.destinations, results, strict=True):
        assert result.dtype == STORAGE[register.width], (register, result.dtype)
    return results


def compute(text: str, *sources: Any) -> np.ndarray:
    """The only result."""
    (result,) = compute_all(text, *sources)
    return result


# Floats as whole numbers: (bits of the fraction, least exponent of a normal number, name of the register class).
FORMATS = {"f16": (10, -14), "bf16": (7, -126), "f32": (23, -126), "f64": (52, -1022)}

WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}

NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}

REGISTER = {16: "%rs", 32: "%r", 64: "%rd", 1: "%p"}


def fields(bits: int, kind: str) -> tuple[int, int, int]:
    """Sign, exponent and fraction fields."""
    fraction, width = FORMATS[kind][0], WIDTHS[kind]
    return bits >> (width - 1), bits >> fraction & ((1 << (width - 1 - fraction)) - 1), bits & ((1 << fraction) - 1)


def special(bits: int, kind: str) -> str:
    """ "nan", "inf", "-inf" or "" for numbers."""
    sign, exponent, fraction = fields(bits, kind)
    if exponent != (1 << (WIDTHS[kind] - 1 - FORMATS[kind][0])) - 1:
        return ""
    return "nan" if fraction else ("-inf" if sign else "inf")


def value(bits: int, kind: str) -> Fraction:
    """The number that the bits stand for."""
    sign, exponent, fraction = fields(bits, kind)
    size, least = FORMATS[kind]
    number = Fraction(fraction if exponent == 0 else fraction + (1 << size)) * Fraction(2) ** (
        max(exponent, 1) - 1 + least - size
    )
    return -number if sign else number


def infinity(kind: str, negative: bool = False) -> int:
    width, fraction = WIDTHS[kind], FORMATS[kind][0]
    return ((1 << (width - 1 - fraction)) - 1) << fraction | (int(negative) << (width - 1))


def rounded(exact: Fraction, kind: str, mode: str = "rn") -> int:
    """The bits of the number, not zero, rounded to the format: by the definition, in whole numbers."""
    size, least = FORMATS[kind]
    sign = int(exact < 0) << (WIDTHS[kind] - 1)
    exact_size = abs(exact)
    exponent = least
    while exact_size >= Fraction(2) ** (exponent + 1):
        exponent += max((exact_size.numerator.bit_length() - exact_size.denominator.bit_length()) - exponent - 1, 1)
    unit = Fraction(2) ** (exponent - size)
    steps = exact_size / unit
    whole = steps.numerator // steps.denominator
    rest = steps - whole
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
        "rna": rest >= Fraction(1, 2),
        "rz": False,
        "rm": rest > 0 and exact < 0,
        "rp": rest > 0 and exact > 0,
    }[mode]
    whole += up
    # Counting representable numbers from zero: the fields of a float are just that count.
    bits = whole + ((exponent - least) << size)
    top = infinity(kind)
    if bits >= top:
        to_infinity = mode in ("rn", "rna") or (mode == "rp" and exact > 0) or (mode == "rm" and exact < 0)
        bits = top if to_infinity else top - 1
    return sign | bits


def f32(number: float) -> int:
    return int.from_bytes(struct.pack("<f", number), "little")


def f64(number: float) -> int:
    return int.from_bytes(struct.pack("<d", number), "little")


def floats(kind: str) -> st.SearchStrategy[int]:
    """Bit patterns, with the edges of the format more often than chance gives them."""
    width, fraction = WIDTHS[kind], FORMATS[kind][0]
    top, one_bits = infinity(kind), (infinity(kind) >> 1) & ~((1 << fraction) - 1)
    edges = [0, 1, 2, (1 << fraction) - 1, 1 << fraction, top - 1, top, top + 1, (1 << (width - 1)) - 1, one_bits]
    edges += [one_bits + 1, one_bits - 1, one_bits | 1 << (fraction - 1)]
    anything = st.integers(0, (1 << width) - 1)
    near_one = st.integers(one_bits - (40 << fraction), one_bits + (40 << fraction)).filter(lambda b: 0 <= b < top)
    tiny = st.integers(0, 4 << fraction)
    unsigned = st.one_of(st.sampled_from(edges), anything, near_one, tiny)
    return st.builds(lambda b, s: b ^ (s << (width - 1)), unsigned, st.integers(0, 1))


def words(width: int) -> st.SearchStrategy[int]:
    """Integers of a width, with edges and small ones of either sign."""
    top = 1 << width
    small = st.integers(-40, 40).map(lambda i: i % top)
    powers = st.builds(lambda p, d: ((1 << p) + d) % top, st.integers(0, width - 1), st.integers(-1, 1))
    return st.one_of(st.integers(0, top - 1), small, powers)


def signed(bits: int, width: int) -> int:
    return bits - (1 << width) if bits >> (width - 1) else bits
