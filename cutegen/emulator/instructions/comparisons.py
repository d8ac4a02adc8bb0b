"""Comparison and selection: setp, set, selp and slct (PTX ISA 9.1, sections 9.7.6 and 9.7.7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, Function, halves
from cutegen.emulator.arithmetic.formats import flush, widen_bf16
from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.ptx.types import TYPES, Type

_PRED = TYPES["pred"]
_INTEGERS = ("b16", "b32", "b64", "s16", "u16", "s32", "u32", "s64", "u64")
_FLOATS = ("f16", "bf16", "f32", "f64")
_PACKED = ("f16x2", "bf16x2")
_ORDER: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu")
_NAMES = (*_ORDER, *_UNSIGNED, *_UNORDERED, "num", "nan")
_SET = {
    "f16": ("u16", "s16", "u32", "s32", "f16", "bf16"),
    "bf16": ("u16", "s16", "u32", "s32", "bf16"),
    "others": ("u32", "s32", "f32", "f16", "bf16"),
}
"""The type that set compares -> the types that its results may have."""
_BOOLEAN: dict[str, Function] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _either_nan(a: Array, b: Array) -> Array:
    """The lanes in which one of the two values is NaN."""
    result: Array = np.isnan(a) | np.isnan(b)
    return result


def _float_comparison(name: str) -> Function:
    """The comparison of floats that PTX calls `name`, with what it says of NaN."""
    if name == "num":
        return lambda a, b: ~_either_nan(a, b)
    if name == "nan":
        return _either_nan
    if name == "ne":
        # numpy's is true for NaN; the ordered comparison is not.
        return lambda a, b: np.not_equal(a, b) & ~_either_nan(a, b)
    if name in _UNORDERED:
        if name == "neu":
            return np.not_equal
        opposite = {"equ": None, "ltu": np.greater_equal, "leu": np.greater, "gtu": np.less_equal, "geu": np.less}[name]
        if opposite is None:
            return lambda a, b: np.equal(a, b) | _either_nan(a, b)
        return lambda a, b: np.logical_not(opposite(a, b))
    return _ORDER[name]


def _comparison(reader: InstructionReader, kind: Type) -> Function:
    """The comparison of two values of `kind`. Takes its modifier, and `.ftz`."""
    name = reader.choice(*_NAMES)
    if kind.kind in ("f", "bf"):
        if name in _UNSIGNED:
            reader.fail(f".{name} of floats")
        compare = _float_comparison(name)
        if kind.name in ("f16", "f32") and reader.flag("ftz"):
            return lambda a, b: compare(flush(np.asarray(a)), flush(np.asarray(b)))
        if kind.name == "bf16":
            return lambda a, b: compare(widen_bf16(np.asarray(a)), widen_bf16(np.asarray(b)))
        return compare
    if name in _UNSIGNED and kind.kind == "u":
        name = _UNSIGNED[name]
    if name not in _ORDER or (kind.kind == "b" and name not in ("eq", "ne")):
        reader.fail(f".{name} of .{kind.name}")
    return _ORDER[name]


def build_setp(reader: InstructionReader) -> PureOp:
    """Builds setp, with one result or two: of `p|q`, q is for the opposite of the comparison.

    Of packed values, which have both, p is for the lower halves and q for the upper ones. A third operand, a predicate,
    may be joined to both by and, or or xor.
    """
    kind = reader.type(*_INTEGERS, *_FLOATS, *_PACKED)
    compare = _comparison(reader, kind.element)
    join = reader.choice(*_BOOLEAN, default="-")
    if kind.lanes > 1:
        return _build_packed_setp(reader, kind, compare, join)
    count = 2 if join == "-" else 3
    targets = len(reader.operands(count + 1, count + 2)) - count
    if join == "-":
        if targets == 1:
            return reader.operation(compare, [_PRED], [kind, kind])

        def both(a: Array, b: Array) -> tuple[Array, Array]:
            found = compare(a, b)
            return found, np.logical_not(found)

        return reader.operation(both, [_PRED, _PRED], [kind, kind])
    combine = _BOOLEAN[join]

    def joined(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
        found = compare(a, b)
        return combine(found, c), combine(np.logical_not(found), c)

    if targets == 1:
        return reader.operation(lambda a, b, c: combine(compare(a, b), c), [_PRED], [kind, kind, _PRED])
    return reader.operation(joined, [_PRED, _PRED], [kind, kind, _PRED])


def _build_packed_setp(reader: InstructionReader, kind: Type, compare: Function, join: str) -> PureOp:
    """Builds setp of packed values, each half of which is compared by itself."""

    def both(a: Array, b: Array) -> tuple[Array, Array]:
        found = compare(*(halves(np.asarray(x), kind.element.dtype) for x in (a, b)))
        return found[..., 0], found[..., 1]

    if join == "-":
        return reader.operation(both, [_PRED, _PRED], [kind, kind])
    combine = _BOOLEAN[join]

    def joined(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
        low, high = both(a, b)
        return combine(low, c), combine(high, c)

    return reader.operation(joined, [_PRED, _PRED], [kind, kind, _PRED])


def build_set(reader: InstructionReader) -> PureOp:
    """Builds set: all ones (1.0 for floats) where the comparison holds, else zero."""
    kind = reader.type(*_INTEGERS, *_FLOATS)
    result = reader.type(*_SET.get(kind.name, _SET["others"]))
    if "ftz" in reader.left and "bf16" in (kind.name, result.name):
        reader.fail(".ftz of bf16")
    compare = _comparison(reader, kind)
    join = reader.choice(*_BOOLEAN, default="-")
    one: Any = {"f32": np.float32(1), "f16": np.float16(1), "bf16": np.uint16(0x3F80)}.get(result.name)
    yes: Any = result.dtype.type(-1 if result.kind == "s" else np.iinfo(result.dtype).max) if one is None else one
    no = result.dtype.type(0)
    if join == "-":
        return reader.operation(lambda a, b: np.where(compare(a, b), yes, no), [result], [kind, kind])
    combine = _BOOLEAN[join]
    return reader.operation(lambda a, b, c: np.where(combine(compare(a, b), c), yes, no), [result], [kind, kind, _PRED])


def build_selp(reader: InstructionReader) -> PureOp:
    """Builds selp: a where the predicate holds, else b."""
    kind = reader.type(*_INTEGERS, "f32", "f64")
    return reader.operation(lambda a, b, p: np.where(p, a, b), [kind], [kind, kind, _PRED])


def build_slct(reader: InstructionReader) -> PureOp:
    """Builds slct: a where c is at least zero, which -0 is and NaN is not, else b."""
    test = reader.type("s32", "f32")
    kind = reader.type(*_INTEGERS, "f32", "f64")
    ftz = test.kind == "f" and reader.flag("ftz")  # turns subnormals into zeros: then c of either sign is at least zero

    def select(a: Array, b: Array, c: Array) -> Array:
        return np.where((flush(np.asarray(c)) if ftz else c) >= test.dtype.type(0), a, b)

    return reader.operation(select, [kind], [kind, kind, test])
