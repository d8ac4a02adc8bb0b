"""Reading one instruction: its modifiers, the types it names, its operands. What is left over is never ignored."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cutegen.emulator.types import (
    STORAGE,
    Bits,
    Guard,
    Immediate,
    Instruction,
    Operand,
    PureOp,
    Register,
    Source,
    Special,
    Symbol,
    UnsupportedInstruction,
)

Array: TypeAlias = NDArray[Any]
Function: TypeAlias = Callable[..., Any]
"""Typed arrays in (views of the bits, as the types say), one typed array or a tuple of them out."""

ROUNDINGS = ("rn", "rz", "rm", "rp")


@dataclass(frozen=True, slots=True)
class Type:
    """A PTX type. ``dtype`` is how its values are seen in numpy; bf16 and packed types are seen as raw bits."""

    name: str
    kind: str  # "s", "u", "b", "f", "bf", "tf", "pred"
    width: int
    lanes: int
    dtype: np.dtype[Any]

    @property
    def element(self) -> Type:
        """The type of one half of a packed type; any other type itself."""
        return TYPES[self.name.split("x")[0]] if self.lanes > 1 else self


def _type(name: str, kind: str, width: int, dtype: Any, lanes: int = 1) -> Type:
    return Type(name, kind, width, lanes, np.dtype(dtype))


TYPES = {
    t.name: t
    for t in (
        _type("pred", "pred", 1, np.bool_),
        *(_type(f"{k}{w}", k, w, f"{'i' if k == 's' else 'u'}{w // 8}") for k in "sub" for w in (8, 16, 32, 64)),
        *(_type(f"f{w}", "f", w, f"f{w // 8}") for w in (16, 32, 64)),
        _type("bf16", "bf", 16, np.uint16),
        _type("tf32", "tf", 32, np.uint32),
        _type("f16x2", "f", 32, np.uint32, 2),
        _type("bf16x2", "bf", 32, np.uint32, 2),
        _type("s16x2", "s", 32, np.uint32, 2),
        _type("u16x2", "u", 32, np.uint32, 2),
        _type("f32x2", "f", 64, np.uint64, 2),
    )
}


class Form:
    """An instruction while it is being read. Take the modifiers by name, then call ``pure``."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.left = list(instruction.modifiers)

    def fail(self, why: str) -> NoReturn:
        """Raises UnsupportedInstruction."""
        raise UnsupportedInstruction(self.instruction.name, self.instruction.line, self.instruction.text, why)

    def flag(self, name: str) -> bool:
        """Whether the modifier is there; takes it."""
        if name in self.left:
            self.left.remove(name)
            return True
        return False

    def leads(self, name: str) -> bool:
        """Whether the modifier is the first that is left; takes it."""
        return self.left[:1] == [name] and self.flag(name)

    def choice(self, *names: str, default: str | None = None) -> str:
        """The first modifier that is one of ``names``; takes it. Without ``default`` one has to be there."""
        for name in self.left:
            if name in names:
                self.left.remove(name)
                return name
        if default is None:
            self.fail(f"one of .{', .'.join(names)} was expected")
        return default

    def type(self, *allowed: str) -> Type:
        """The last modifier as a type; takes it. ``allowed`` names types; none means any."""
        name = self.left.pop() if self.left else ""
        if name not in TYPES or (allowed and name not in allowed):
            self.fail(f"type .{name}" if name in TYPES else "no type known here")
        return TYPES[name]

    def done(self, *counts: int) -> tuple[Operand, ...]:
        """The operands. All modifiers must have been taken, and the number of operands must be one of ``counts``."""
        if self.left:
            self.fail(f"modifier .{self.left[0]}")
        operands = self.instruction.operands
        if len(operands) not in counts:
            self.fail(f"{len(operands)} operands, {' or '.join(map(str, counts))} were expected")
        return operands

    def last(self) -> Operand:
        """The last operand, which may decide what the instruction does."""
        if not self.instruction.operands:
            self.fail("no operands")
        return self.instruction.operands[-1]

    def pure(
        self,
        function: Function,
        results: Sequence[Type],
        arguments: Sequence[Type],
        *,
        approximate: bool = False,
        contractible: bool = False,
        undefined: Callable[[Sequence[Bits]], Bits] | None = None,
    ) -> PureOp:
        """The operation, on operands that must fit the types. The keywords are as for ``PureOp``.

        A register may be wider than its type only for types of 8 bits and in conversions: the low bits are read;
        a result is sign- or zero-extended, as its type is signed or not.
        """
        operands = self.done(len(results) + len(arguments))
        targets = [self.target(o, t) for o, t in zip(operands, results, strict=False)]
        negate = [i for i, o in enumerate(operands[len(results) :]) if isinstance(o, Guard) and o.negated]
        sources = [self.source(o, t) for o, t in zip(operands[len(results) :], arguments, strict=True)]
        widths = [s.width if isinstance(s, Register) else t.width for s, t in zip(sources, arguments, strict=True)]
        run = _wrap(
            function,
            [_view(w, t) for w, t in zip(widths, arguments, strict=True)],
            negate,
            [_store(r.width or t.width, t) for r, t in zip(targets, results, strict=True)],
        )
        lanes = {t.lanes for t in (*results, *arguments)}
        return PureOp(
            tuple(targets),
            tuple(sources),
            tuple(widths),
            run,
            parts=lanes.pop() if len(lanes) == 1 else 1,
            approximate=approximate,
            contractible=results[0].element.name if contractible else "",
            undefined=undefined,
        )

    def target(self, operand: Operand, wanted: Type) -> Register:
        """An operand that takes a value of that type."""
        if not isinstance(operand, Register) or (operand.width == 0 and wanted.kind != "pred"):
            self.fail("no register to write to")
        if operand.width not in (0, wanted.width) and not self._may_widen(operand.width, wanted):
            self.fail(f"{operand.name} has {operand.width} bits, the type {wanted.width}")
        return operand

    def source(self, operand: Operand, wanted: Type) -> Source:
        """An operand that is read as a value of that type; a constant as its bits, a predicate without its ``!``."""
        if isinstance(operand, Immediate):
            value = fitted(operand, wanted)
            if value is None:
                sort = "a whole number" if operand.width is None else f"a float of {operand.width} bits"
                self.fail(f"{sort} where .{wanted.name} is meant")
            return value
        moves = self.instruction.opcode in ("mov", "cvt") and wanted.kind in "sub"
        if isinstance(operand, Special) and moves and wanted.width in (16, 32):
            return operand
        if isinstance(operand, Symbol) and self.instruction.opcode == "mov" and wanted.kind in "sub":
            return operand
        if isinstance(operand, Guard) and wanted.kind == "pred":
            return operand.register
        if not isinstance(operand, Register) or operand.width == 0:
            self.fail(f"a source is {type(operand).__name__.lower()}")
        if operand.width != wanted.width and not self._may_widen(operand.width, wanted):
            self.fail(f"{operand.name} has {operand.width} bits, the type {wanted.width}")
        return operand

    def _may_widen(self, width: int, wanted: Type) -> bool:
        return width > wanted.width and wanted.kind != "pred" and self.instruction.opcode in ("cvt", "st")


def fitted(value: Immediate, wanted: Type) -> Immediate | None:
    """A constant as a value of that type, or None if it is of another sort.

    A whole number is cut to the width of an integer type or a type of bits, and is true unless zero for a predicate. A
    float, of which PTX text has 32 and 64 bits, is converted to f32 and f64, and is bits of exactly its own width. The
    other types, of which there are halves and packed ones, have no constants. (Section 4.5 of the PTX ISA manual 9.1
    says what is converted; what is refused is what ptxas 13.0 refuses.)
    """
    if value.width is None:
        if wanted.kind == "pred":
            return Immediate(int(value.bits != 0), 1)
        whole = wanted.kind in "sub" and wanted.lanes == 1
        return Immediate(value.bits & ((1 << wanted.width) - 1), wanted.width) if whole else None
    if wanted.kind == "b":
        return value if value.width == wanted.width else None
    if wanted.name not in ("f32", "f64"):
        return None
    if value.width == wanted.width:
        return value
    number = struct.unpack("<f" if value.width == 32 else "<d", value.bits.to_bytes(value.width // 8, "little"))[0]
    with np.errstate(all="ignore"):
        return Immediate(int(np.asarray(number, dtype=wanted.dtype).view(STORAGE[wanted.width])), wanted.width)


def _view(width: int, wanted: Type) -> Callable[[Bits], Array] | None:
    if wanted.kind == "pred":
        return None
    storage, dtype = STORAGE[wanted.width], wanted.dtype
    if width > wanted.width:
        return lambda bits: bits.astype(storage).view(dtype)
    return None if storage == dtype else lambda bits: bits.view(dtype)


def _store(width: int, given: Type) -> Callable[[Array], Bits] | None:
    if given.kind == "pred":
        return None
    storage = STORAGE[width]
    if width > given.width:
        # A cast of signed integers extends by the sign.
        narrow = given.dtype if given.kind in "su" else STORAGE[given.width]
        return lambda value: value.view(narrow).astype(storage)
    return None if storage == given.dtype else lambda value: value.view(storage)


def _wrap(
    function: Function,
    views: Sequence[Callable[[Bits], Array] | None],
    negate: Sequence[int],
    stores: Sequence[Callable[[Array], Bits] | None],
) -> Callable[[Sequence[Bits]], list[Bits]]:
    if len(stores) == 1 and not negate:
        store = stores[0]

        def single(sources: Sequence[Bits]) -> list[Bits]:
            result = function(
                *[bits if view is None else view(bits) for bits, view in zip(sources, views, strict=True)]
            )
            return [result if store is None else store(result)]

        return single

    def general(sources: Sequence[Bits]) -> list[Bits]:
        arguments = [bits if view is None else view(bits) for bits, view in zip(sources, views, strict=True)]
        for i in negate:
            arguments[i] = np.logical_not(arguments[i])
        result = function(*arguments)
        results = result if isinstance(result, tuple) else (result,)
        return [r if store is None else store(r) for r, store in zip(results, stores, strict=True)]

    return general


def halves(bits: Array, dtype: Any) -> Array:
    """Packed values unpacked along a new last axis, the low one first. ``bits`` is uint32 or uint64."""
    return np.ascontiguousarray(bits)[..., None].view(dtype)


def packed(values: Array) -> Array:
    """The inverse of ``halves``: raw bits twice as wide, without the last axis."""
    values = np.ascontiguousarray(values)
    return values.view(np.dtype(f"u{values.dtype.itemsize * 2}"))[..., 0]


def elementwise(function: Function, dtype: Any) -> Function:
    """A function of single values made one of packed values."""

    def run(*arguments: Array) -> Array:
        return packed(function(*[halves(np.asarray(a), dtype) for a in arguments]))

    return run
