"""Poison: which bits of a register mean nothing because they were never written, and how operations spread them.

Poison is kept for each bit: an array like the register's own, whose ones mark bits that mean nothing. So a half that is
packed with a known one, and thrown away later, taints nothing but itself. Operations that only move bits move their
poison along, sums and products carry it upwards; in all others one poisoned bit of a source poisons the whole result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.ptx.model import Guard, Immediate, Instruction
from cutegen.emulator.ptx.types import STORAGE

Poison = Array | None
"""The bits of a register that mean nothing, as ones in an array like the register's; None if there is no such bit."""

Rule = Callable[[Sequence[Poison], Sequence[Array]], list[Poison]]
"""A function from the poison of each source and the values of the sources to the poison of each destination."""
_WHOLE = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "b8", "b16", "b32", "b64")
_FLOATS = ("f16", "bf16", "f32", "f64")
_INTEGERS = tuple(word for word in _WHOLE if word[0] != "b")
_MOVES: dict[str, tuple[int, ...]] = {
    "shl": (0,),
    "shr": (0,),
    "brev": (0,),
    "bfe": (0,),
    "bfi": (0, 1),
    "shf": (0, 1),
    "prmt": (0, 1),
}
"""Opcodes that only move bits -> the numbers of the sources that are moved; the other sources say where to."""


def all_ones(width: int) -> Array:
    """Poison of every bit of a register that is `width` bits wide; True for a predicate."""
    return np.asarray(True) if width == 1 else np.asarray((1 << width) - 1, STORAGE[width])


def poison_whole(lanes: Array, width: int) -> Array:
    """Poison of every bit of a register that is `width` bits wide, in the lanes of a mask."""
    return lanes if width == 1 else np.where(lanes, all_ones(width), STORAGE[width].type(0))


def poisoned_lanes(poison: Array) -> Array:
    """The mask of the lanes that have a poisoned bit."""
    return poison if poison.dtype == np.bool_ else np.asarray(poison != 0)


def rule_for(instruction: Instruction, op: PureOp) -> Rule:
    """How poison spreads through an instruction, whose semantics are `op`: as exactly as its opcode allows."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    widths = [d.width or 32 for d in op.destinations]
    plain = not any(isinstance(o, Guard) for o in instruction.operands)
    if opcode == "selp":
        return _without_empty(_selected(widths[0]))
    if opcode in ("and", "or") and plain:
        return _without_empty(_masked(opcode == "and"))
    if (opcode in ("add", "sub") or opcode in ("mul", "mad") and "lo" in modifiers) and modifiers[-1] in _INTEGERS:
        return _without_empty(_any_bit(widths) if "sat" in modifiers else _with_carry(widths[1:]))
    if opcode in ("xor", "not") and plain:
        return _without_empty(_either)
    if opcode == "lop3":
        return _without_empty(lambda poison, values: _either(poison[:3], values))
    if opcode == "mov" or (opcode == "cvt" and len(modifiers) == 2 and set(modifiers) <= set(_WHOLE)):
        return _without_empty(_moved(op, range(len(op.sources))))
    if opcode in _MOVES:
        return _without_empty(_moved(op, _MOVES[opcode]))
    if opcode in ("dp2a", "dp4a"):
        return _without_empty(_dotted(widths, opcode == "dp4a", upper="hi" in modifiers))
    if opcode == "cvt" and len(op.sources) == 2:
        return _without_empty(_joined(widths[0]))
    if opcode == "setp" and modifiers[-1].endswith("x2"):
        return _without_empty(_compared_halves)
    if op.parts > 1:
        return _without_empty(_partwise(widths[0], op.parts))
    return _without_empty(_any_bit(widths))


def keeps_whole(instruction: Instruction, op: PureOp) -> bool:
    """Whether an instruction makes whole poison of whole poison, as its rule has it: every bit of its results in those
    lanes where a source has it, and no bit in others.
    """
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in ("selp", "and", "or", "dp2a", "dp4a", *_MOVES) or op.parts > 1 or op.undefined is not None:
        return False
    if opcode == "setp":
        return not modifiers[-1].endswith("x2")
    if len(op.destinations) != 1:
        return False
    if opcode == "mov" or (opcode == "cvt" and set(modifiers) <= set(_WHOLE)):
        return len(op.sources) == 1 and op.destinations[0].width == op.widths[0]
    return not joins_halves(instruction, op)


def makes_whole(instruction: Instruction, op: PureOp) -> bool:
    """Whether an instruction that `keeps_whole` poison makes it of any bit of a source, as those on floats do."""
    return instruction.opcode == "setp" or instruction.opcode != "mov" and instruction.modifiers[-1] in _FLOATS


def keeps_some(instruction: Instruction, op: PureOp) -> bool:
    """Whether an instruction leaves some bit of its first source poison where all are: a shift by a constant."""
    if instruction.opcode not in ("shl", "shr"):
        return False
    by = op.sources[-1]
    return isinstance(by, Immediate) and by.bits < op.widths[0]


def joins_halves(instruction: Instruction, op: PureOp) -> bool:
    """Whether an instruction converts two numbers into the halves of one register, the first into the upper one."""
    return instruction.opcode == "cvt" and len(op.sources) == 2 and op.parts == 1


def _without_empty(rule: Rule) -> Rule:
    """A rule like the given one, with None for a destination that has no poison left."""

    def spread(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
        return [None if p is None or not np.count_nonzero(p) else p for p in rule(poison, values)]

    return spread


def _union(poison: Sequence[Poison]) -> Array:
    """The mask of the lanes in which any source has a poisoned bit."""
    lanes: Array = np.asarray(False)
    for one in poison:
        if one is not None:
            lanes = lanes | poisoned_lanes(one)
    return lanes


def _any_bit(widths: Sequence[int]) -> Rule:
    """The rule that one poisoned bit of any source poisons all destinations, which have these widths in bits."""

    def spread(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
        lanes = _union(poison)
        return [poison_whole(lanes, width) for width in widths]

    return spread


def _dotted(widths: Sequence[int], bytes_of_both: bool, upper: bool) -> Rule:
    """The rule of dp4a and dp2a: a known zero makes a product known, independent of the other factor.

    So a byte of 1 between zeros picks a byte of a register, and what was never written beside it does not count. dp4a
    multiplies bytes (`bytes_of_both`); dp2a halves of the first source by bytes of the upper half of the second, or of
    its lower one.
    """
    whole = _any_bit(widths)
    sizes = ("u1" if bytes_of_both else "u2", "u1")

    def parts(array: Array, size: str) -> Array:
        split: Array = np.ascontiguousarray(array)[..., None].view(size) != 0
        if split.shape[-1] == 4 and not bytes_of_both:
            split = split[..., 2:] if upper else split[..., :2]
        return split

    def spread(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
        lost = [parts(_as_array(p, v), size) for p, v, size in zip(poison, values, sizes, strict=False)]
        counts = [one | parts(v, size) for one, v, size in zip(lost, values, sizes, strict=False)]
        products = np.any((lost[0] & counts[1]) | (lost[1] & counts[0]), axis=-1)
        return whole((products, None, poison[2]), values)

    return spread


def _as_array(poison: Poison, value: Array) -> Array:
    """Poison as an array of the type of the value that it belongs to: zero where there is none."""
    return np.zeros((), np.asarray(value).dtype) if poison is None else poison


def _selected(width: int) -> Rule:
    """The rule of selp: the poison of the source that is taken, or of every bit where the predicate is poisoned."""

    def spread(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
        yes, no = _as_array(poison[0], values[0]), _as_array(poison[1], values[1])
        taken = np.where(values[2], yes, no)
        return [taken if poison[2] is None else np.where(poison[2], all_ones(width), taken)]

    return spread


def _masked(conjunction: bool) -> Rule:
    """The rule of `and` (of `or` without `conjunction`): a known 0 (a known 1) decides a bit alone."""

    def spread(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
        first, second = _as_array(poison[0], values[0]), _as_array(poison[1], values[1])
        a, b = (values[0], values[1]) if conjunction else (~np.asarray(values[0]), ~np.asarray(values[1]))
        return [np.asarray((first | second) & (first | a) & (second | b))]

    return spread


def _either(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
    """The rule that a bit of the destination is poisoned where that bit of any source is."""
    total: Poison = None
    for one in poison:
        if one is not None:
            total = one if total is None else total | one
    return [total]


def _carried(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
    """The rule of sums and lower halves of products: carries go up, so what lies below all poison of them is known."""
    (lost,) = _either(poison, values)
    return [None if lost is None else lost | (~lost + lost.dtype.type(1))]


def _with_carry(widths: Sequence[int]) -> Rule:
    """The rule of such sums and products with a carry, of that width, if `widths` has one: any poisoned bit of a source
    may decide it.
    """
    carry = _any_bit(widths)
    return lambda poison, values: [*_carried(poison, values), *carry(poison, values)]


def _moved(op: PureOp, data: Sequence[int]) -> Rule:
    """The rule of operations that move bits: the operation itself, done with the poison of the sources in `data`.

    Where one of the other sources, which say where to, is poisoned, every bit is.
    """

    def spread(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
        steering = [p for i, p in enumerate(poison) if i not in data]
        moved = op([_as_array(poison[i], v) if i in data else v for i, v in enumerate(values)])
        if all(p is None for p in steering):
            return list(moved)
        lost = _union(steering)
        return [np.where(lost, all_ones(d.width or 32), m) for d, m in zip(op.destinations, moved, strict=True)]

    return spread


def _joined(width: int) -> Rule:
    """The rule of cvt of two numbers into the halves of one register; the first source is the upper half."""
    low = all_ones(width // 2).astype(STORAGE[width])
    high = low << STORAGE[width].type(width // 2)

    def spread(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
        upper, lower = (np.asarray(False) if p is None else poisoned_lanes(p) for p in poison)
        return [poison_whole(upper, width) & high | poison_whole(lower, width) & low]

    return spread


def _compared_halves(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
    """The rule of setp of packed values: p is poisoned with a lower half, q with an upper one, both with what is joined
    to them.
    """
    lower = upper = np.asarray(False)
    for one in poison:
        if one is not None and one.dtype == np.bool_:
            lower, upper = lower | one, upper | one
        elif one is not None:
            lower, upper = lower | ((one & one.dtype.type(0xFFFF)) != 0), upper | ((one >> one.dtype.type(16)) != 0)
    return [lower, upper]


def _partwise(width: int, parts: int) -> Rule:
    """The rule of operations on each of the `parts` of a register by itself: each part is poisoned as a whole.

    `width` is that of the result; sources may have parts of another width.
    """

    def spread(poison: Sequence[Poison], values: Sequence[Array]) -> list[Poison]:
        split: Array = np.asarray(False)
        for one in poison:
            if one is not None:
                own = STORAGE[8 * one.dtype.itemsize // parts]
                split = split | (np.ascontiguousarray(one)[..., None].view(own) != 0)
        if not split.ndim:
            return [None]
        return [np.ascontiguousarray(poison_whole(split, width // parts)).view(STORAGE[width])[..., 0]]

    return spread
