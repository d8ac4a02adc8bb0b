"""How bits that were never written spread through operations on registers.

Poison is kept for each bit: an array like the register's own, whose ones mark bits that mean nothing. So a half that is
packed with a known one, and thrown away later, taints nothing but itself. Operations that only move bits move their
poison along; in all others one poisoned bit of a source poisons the whole result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cutegen.emulator.lanes import Array
from cutegen.emulator.types import STORAGE, Guard, Instruction, PureOp

Poison = Array | None
Rule = Callable[[Sequence[Poison], Sequence[Array]], list[Poison]]
"""From the poison of each source and the sources' values to the poison of each destination."""

_WHOLE = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "b8", "b16", "b32", "b64")
_MOVES: dict[str, tuple[int, ...]] = {
    "shl": (0,),
    "shr": (0,),
    "brev": (0,),
    "bfe": (0,),
    "bfi": (0, 1),
    "shf": (0, 1),
    "prmt": (0, 1),
}
"""Opcodes that only move bits -> the sources that are moved; the others say where to."""


def ones(width: int) -> Array:
    """Every bit of a register of that width."""
    return np.asarray(True) if width == 1 else np.asarray((1 << width) - 1, STORAGE[width])


def whole(lanes: Array, width: int) -> Array:
    """Every bit of the register in the lanes of a mask."""
    return lanes if width == 1 else np.where(lanes, ones(width), STORAGE[width].type(0))


def some(poison: Array) -> Array:
    """The lanes that have a poisoned bit."""
    return poison if poison.dtype == np.bool_ else np.asarray(poison != 0)


def rule_for(instruction: Instruction, op: PureOp) -> Rule:
    """The rule for an instruction, as exact as its opcode allows."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    widths = [d.width or 32 for d in op.destinations]
    plain = not any(isinstance(o, Guard) for o in instruction.operands)
    if opcode == "selp":
        return _kept(_selected(widths[0]))
    if opcode in ("and", "or") and plain:
        return _kept(_masked(opcode == "and"))
    if opcode in ("xor", "not") and plain:
        return _kept(_either)
    if opcode == "lop3":
        return _kept(lambda poison, values: _either(poison[:3], values))
    if opcode == "mov" or (opcode == "cvt" and len(modifiers) == 2 and set(modifiers) <= set(_WHOLE)):
        return _kept(_moved(op, range(len(op.sources))))
    if opcode in _MOVES:
        return _kept(_moved(op, _MOVES[opcode]))
    if opcode == "cvt" and len(op.sources) == 2:
        return _kept(_joined(widths[0]))
    if op.parts > 1:
        return _kept(_partwise(widths[0], op.parts))
    return _kept(_all(widths))


def _kept(rule: Rule) -> Rule:
    """Without poison where none is left."""

    def run(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
        return [None if p is None or not np.any(p) else p for p in rule(poison, values)]

    return run


def _union(poison: Sequence[Poison]) -> Array:
    """The lanes where any source has a poisoned bit."""
    lanes: Array = np.asarray(False)
    for one in poison:
        if one is not None:
            lanes = lanes | some(one)
    return lanes


def _all(widths: Sequence[int]) -> Rule:
    def run(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
        lanes = _union(poison)
        return [whole(lanes, width) for width in widths]

    return run


def _none(poison: Poison, value: Array) -> Array:
    return np.zeros((), np.asarray(value).dtype) if poison is None else poison


def _selected(width: int) -> Rule:
    """The source that was taken, and the predicate."""

    def run(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
        yes, no = _none(poison[0], values[0]), _none(poison[1], values[1])
        taken = np.where(values[2], yes, no)
        return [taken if poison[2] is None else np.where(poison[2], ones(width), taken)]

    return run


def _masked(conjunction: bool) -> Rule:
    """and, or: a known 0 (or 1) decides a bit alone."""

    def run(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
        first, second = _none(poison[0], values[0]), _none(poison[1], values[1])
        a, b = (values[0], values[1]) if conjunction else (~np.asarray(values[0]), ~np.asarray(values[1]))
        return [np.asarray((first | second) & (first | a) & (second | b))]

    return run


def _either(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
    total: Poison = None
    for one in poison:
        if one is not None:
            total = one if total is None else total | one
    return [total]


def _moved(op: PureOp, data: Sequence[int]) -> Rule:
    """The operation itself, on the poison of the sources that it moves; what steers it must be known."""

    def run(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
        steering = [p for i, p in enumerate(poison) if i not in data]
        moved = op([_none(poison[i], v) if i in data else v for i, v in enumerate(values)])
        if all(p is None for p in steering):
            return list(moved)
        lost = _union(steering)
        return [np.where(lost, ones(d.width or 32), m) for d, m in zip(op.destinations, moved, strict=True)]

    return run


def _joined(width: int) -> Rule:
    """cvt of two numbers into the halves of one register: the first source is the upper one."""
    low = ones(width // 2).astype(STORAGE[width])
    high = low << STORAGE[width].type(width // 2)

    def run(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
        upper, lower = (np.asarray(False) if p is None else some(p) for p in poison)
        return [whole(upper, width) & high | whole(lower, width) & low]

    return run


def _partwise(width: int, parts: int) -> Rule:
    """Operations on each of the parts of a register by itself."""

    def run(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
        (total,) = _either(poison, values)
        if total is None:
            return [None]
        split = np.ascontiguousarray(total)[..., None].view(STORAGE[width // parts])
        return [np.ascontiguousarray(whole(split != 0, width // parts)).view(STORAGE[width])[..., 0]]

    return run
