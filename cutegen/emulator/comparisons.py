"""setp, set, selp and slct."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutegen.emulator.form import TYPES, Array, Form, Function, Type
from cutegen.emulator.rounding import flush, widen_bf16
from cutegen.emulator.types import PureOp

_PRED = TYPES["pred"]
_INTEGERS = ("b16", "b32", "b64", "s16", "u16", "s32", "u32", "s64", "u64")
_FLOATS = ("f16", "bf16", "f32", "f64")
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
"""Types of the results of set, by the type that is compared."""
_BOOLEAN: dict[str, Function] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _either_nan(a: Array, b: Array) -> Array:
    result: Array = np.isnan(a) | np.isnan(b)
    return result


def _float_comparison(name: str) -> Function:
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


def _comparison(form: Form, kind: Type) -> Function:
    """Takes the comparison and ``.ftz``."""
    name = form.choice(*_NAMES)
    if kind.kind in ("f", "bf"):
        if name in _UNSIGNED:
            form.fail(f".{name} of floats")
        compare = _float_comparison(name)
        if kind.name in ("f16", "f32") and form.flag("ftz"):
            return lambda a, b: compare(flush(np.asarray(a)), flush(np.asarray(b)))
        if kind.name == "bf16":
            return lambda a, b: compare(widen_bf16(np.asarray(a)), widen_bf16(np.asarray(b)))
        return compare
    if name in _UNSIGNED and kind.kind == "u":
        name = _UNSIGNED[name]
    if name not in _ORDER or (kind.kind == "b" and name not in ("eq", "ne")):
        form.fail(f".{name} of .{kind.name}")
    return _ORDER[name]


def build_setp(form: Form) -> PureOp:
    """setp, with one result or two (``p|q``: q is the opposite), and a predicate joined by and, or, xor."""
    kind = form.type(*_INTEGERS, *_FLOATS)
    compare = _comparison(form, kind)
    join = form.choice(*_BOOLEAN, default="-")
    count = 2 if join == "-" else 3
    targets = len(form.done(count + 1, count + 2)) - count
    if join == "-":
        if targets == 1:
            return form.pure(compare, [_PRED], [kind, kind])

        def both(a: Array, b: Array) -> tuple[Array, Array]:
            found = compare(a, b)
            return found, np.logical_not(found)

        return form.pure(both, [_PRED, _PRED], [kind, kind])
    combine = _BOOLEAN[join]

    def joined(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
        found = compare(a, b)
        return combine(found, c), combine(np.logical_not(found), c)

    if targets == 1:
        return form.pure(lambda a, b, c: combine(compare(a, b), c), [_PRED], [kind, kind, _PRED])
    return form.pure(joined, [_PRED, _PRED], [kind, kind, _PRED])


def build_set(form: Form) -> PureOp:
    """set: all ones (1.0 for floats) where the comparison holds, else zero."""
    kind = form.type(*_INTEGERS, *_FLOATS)
    result = form.type(*_SET.get(kind.name, _SET["others"]))
    if "ftz" in form.left and "bf16" in (kind.name, result.name):
        form.fail(".ftz of bf16")
    compare = _comparison(form, kind)
    join = form.choice(*_BOOLEAN, default="-")
    one: Any = {"f32": np.float32(1), "f16": np.float16(1), "bf16": np.uint16(0x3F80)}.get(result.name)
    yes: Any = result.dtype.type(-1 if result.kind == "s" else np.iinfo(result.dtype).max) if one is None else one
    no = result.dtype.type(0)
    if join == "-":
        return form.pure(lambda a, b: np.where(compare(a, b), yes, no), [result], [kind, kind])
    combine = _BOOLEAN[join]
    return form.pure(lambda a, b, c: np.where(combine(compare(a, b), c), yes, no), [result], [kind, kind, _PRED])


def build_selp(form: Form) -> PureOp:
    """selp: a where the predicate holds, else b."""
    kind = form.type(*_INTEGERS, "f32", "f64")
    return form.pure(lambda a, b, p: np.where(p, a, b), [kind], [kind, kind, _PRED])


def build_slct(form: Form) -> PureOp:
    """slct: a where c is at least zero (-0 is, NaN is not), else b."""
    test = form.type("s32", "f32")
    kind = form.type(*_INTEGERS, "f32", "f64")
    ftz = test.kind == "f" and form.flag("ftz")  # turns subnormals into zeros: then c of either sign is at least zero

    def run(a: Array, b: Array, c: Array) -> Array:
        return np.where((flush(np.asarray(c)) if ftz else c) >= test.dtype.type(0), a, b)

    return form.pure(run, [kind], [kind, kind, test])
