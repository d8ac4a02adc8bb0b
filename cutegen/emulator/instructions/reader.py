"""Reads one instruction: its modifiers, the types that it names, and its operands.

Modifiers and operands that nobody has asked for are never ignored: the instruction is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, Function
from cutegen.emulator.instructions.pure_op import PureOp, Source
from cutegen.emulator.ptx.errors import UnsupportedInstruction
from cutegen.emulator.ptx.model import Guard, Immediate, Instruction, Operand, Register, Special, Symbol
from cutegen.emulator.ptx.types import STORAGE, TYPES, Bits, Type


class InstructionReader:
    """An instruction while it is being read.

    Take its modifiers by name, then call `operands` or `operation`. `left` are the modifiers that are not taken yet, in
    order. What does not fit raises UnsupportedInstruction.
    """

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.left = list(instruction.modifiers)

    def fail(self, why: str) -> NoReturn:
        """Raises UnsupportedInstruction for this instruction; `why` says what about it is not emulated."""
        raise UnsupportedInstruction(self.instruction.name, self.instruction.line, self.instruction.text, why)

    def flag(self, name: str) -> bool:
        """Whether the modifier of that name is left. Takes it if it is."""
        if name in self.left:
            self.left.remove(name)
            return True
        return False

    def leads(self, name: str) -> bool:
        """Whether the modifier of that name is the first that is left. Takes it if it is."""
        return self.left[:1] == [name] and self.flag(name)

    def choice(self, *names: str, default: str | None = None) -> str:
        """Takes the first modifier that is one of `names` and returns it, or `default` if none is left.

        Without a default there must be one.
        """
        for name in self.left:
            if name in names:
                self.left.remove(name)
                return name
        if default is None:
            self.fail(f"one of .{', .'.join(names)} was expected")
        return default

    def type(self, *allowed: str) -> Type:
        """Takes the last modifier that is left and returns it as a type: one of `allowed`, or any if none is given."""
        name = self.left.pop() if self.left else ""
        if name not in TYPES or (allowed and name not in allowed):
            self.fail(f"type .{name}" if name in TYPES else "no type known here")
        return TYPES[name]

    def operands(self, *counts: int) -> tuple[Operand, ...]:
        """The operands. All modifiers must have been taken, and the number of operands must be one of `counts`."""
        if self.left:
            self.fail(f"modifier .{self.left[0]}")
        operands = self.instruction.operands
        if len(operands) not in counts:
            self.fail(f"{len(operands)} operands, {' or '.join(map(str, counts))} were expected")
        return operands

    def last_operand(self) -> Operand:
        """The last operand, to look at before the operands are taken. There must be one."""
        if not self.instruction.operands:
            self.fail("no operands")
        return self.instruction.operands[-1]

    def operation(
        self,
        function: Function,
        results: Sequence[Type],
        arguments: Sequence[Type],
        *,
        approximate: bool = False,
        contractible: bool = False,
        undefined: Callable[[Sequence[Bits]], Bits] | None = None,
    ) -> PureOp:
        """The semantics of the instruction: `function`, from values of the types `arguments` to those of `results`.

        The operands must fit the types, results first. A register may be wider than its type only in conversions and
        stores: its low bits are read, and a result is extended by its sign or by zeros, as its type is signed or not.
        The other arguments are as for `PureOp`.
        """
        operands = self.operands(len(results) + len(arguments))
        targets = [self.target(o, t) for o, t in zip(operands, results, strict=False)]
        negate = [i for i, o in enumerate(operands[len(results) :]) if isinstance(o, Guard) and o.negated]
        sources = [self.source(o, t) for o, t in zip(operands[len(results) :], arguments, strict=True)]
        widths = [s.width if isinstance(s, Register) else t.width for s, t in zip(sources, arguments, strict=True)]
        on_bits = _on_bits(
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
            on_bits,
            parts=lanes.pop() if len(lanes) == 1 else 1,
            approximate=approximate,
            contractible=results[0].element.name if contractible else "",
            undefined=undefined,
        )

    def target(self, operand: Operand, wanted: Type) -> Register:
        """An operand as the register that takes a value of the type `wanted`."""
        if not isinstance(operand, Register) or (operand.width == 0 and wanted.kind != "pred"):
            self.fail("no register to write to")
        if operand.width not in (0, wanted.width) and not self._may_widen(operand.width, wanted):
            self.fail(f"{operand.name} has {operand.width} bits, the type {wanted.width}")
        return operand

    def result(self, operand: Operand, wanted: Type, slots: Mapping[str, int]) -> int:
        """An operand as the slot of the register that takes a value of the type `wanted`; -1 for `_`."""
        if isinstance(operand, Register) and not operand.width:
            return -1
        return slots[self.target(operand, wanted).name]

    def source(self, operand: Operand, wanted: Type) -> Source:
        """An operand as what is read as a value of the type `wanted`.

        A constant is given the type's width, and a predicate is given without its `!`.
        """
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
        """Whether a register of `width` bits may hold a value of a type that is narrower."""
        return width > wanted.width and wanted.kind != "pred" and self.instruction.opcode in ("cvt", "st")


def fitted(value: Immediate, wanted: Type) -> Immediate | None:
    """A constant as a value of the type `wanted`, or None if there is no such constant of that type.

    For integer types and types of bits, a whole number is cut to the type's width; for a predicate it is true unless it
    is zero. A float constant, which PTX text writes with 32 or 64 bits, is converted to f32 or f64; for a type of bits
    it must have exactly the type's width. Half and packed types have no constants. The PTX ISA 9.1, section 4.5, says
    what is converted; what is refused is what ptxas 13.0 refuses.
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
    """How raw bits of a register of `width` bits become values of a type; None if they are the same."""
    if wanted.kind == "pred":
        return None
    storage, dtype = STORAGE[wanted.width], wanted.dtype
    if width > wanted.width:
        return lambda bits: bits.astype(storage).view(dtype)
    return None if storage == dtype else lambda bits: bits.view(dtype)


def _store(width: int, given: Type) -> Callable[[Array], Bits] | None:
    """How values of a type become raw bits of a register of `width` bits; None if they are the same."""
    if given.kind == "pred":
        return None
    storage = STORAGE[width]
    if width > given.width:
        # A cast of signed integers extends by the sign.
        narrow = given.dtype if given.kind in "su" else STORAGE[given.width]
        return lambda value: value.view(narrow).astype(storage)
    return None if storage == given.dtype else lambda value: value.view(storage)


def _as_it_is(value: Array) -> Array:
    """The value itself."""
    return value


def _on_bits(
    function: Function,
    views: Sequence[Callable[[Bits], Array] | None],
    negate: Sequence[int],
    stores: Sequence[Callable[[Array], Bits] | None],
) -> Callable[[Sequence[Bits]], list[Bits]]:
    """A function of raw bits from one of typed arrays.

    `views` and `stores` are what `_view` and `_store` say of each source and result. The sources with the numbers in
    `negate` are predicates that are inverted first.
    """
    if len(stores) == 1 and not negate:
        store, typed = stores[0] or _as_it_is, tuple(view or _as_it_is for view in views)
        if len(typed) == 1:
            (only,) = typed
            return lambda sources: [store(function(only(sources[0])))]
        if len(typed) == 2:
            one, other = typed
            return lambda sources: [store(function(one(sources[0]), other(sources[1])))]
        return lambda sources: [store(function(*[view(bits) for view, bits in zip(typed, sources, strict=True)]))]

    def general(sources: Sequence[Bits]) -> list[Bits]:
        arguments = [bits if view is None else view(bits) for bits, view in zip(sources, views, strict=True)]
        for i in negate:
            arguments[i] = np.logical_not(arguments[i])
        result = function(*arguments)
        results = result if isinstance(result, tuple) else (result,)
        return [r if store is None else store(r) for r, store in zip(results, stores, strict=True)]

    return general
