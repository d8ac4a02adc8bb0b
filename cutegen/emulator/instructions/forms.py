"""The forms of instructions on registers: what those have in common that differ in the names of their registers only.

A kernel has thousands of instructions and a few hundred forms, each of which is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cutegen.emulator.instructions.pure_op import PureOp, Source
from cutegen.emulator.ptx.errors import UnsupportedInstruction
from cutegen.emulator.ptx.model import Guard, Instruction, Operand, Register, Vector

_KEPT = 4096  # forms


@dataclass(frozen=True, slots=True)
class _Form:
    """The semantics of a form. `results` and `sources` have the number of the register that each is, or -1."""

    op: PureOp
    results: tuple[int, ...]
    sources: tuple[int, ...]


class Forms:
    """The semantics of instructions, each form of which `build` makes once.

    The instruction that `build` is given stands for all of its form: its registers have other names, and it has neither
    a line nor a text. So a form for which `build` raises is not kept; it is given the instruction itself then.
    """

    def __init__(self, build: Callable[[Instruction], PureOp]) -> None:
        self._build = build
        self._form = lru_cache(maxsize=_KEPT)(self._made)

    def semantics(self, instruction: Instruction) -> PureOp:
        """The semantics of an instruction. Raises what `build` raises for it."""
        numbers: dict[str, int] = {}
        named: list[Register] = []
        shapes = tuple([_shape(operand, numbers, named) for operand in instruction.operands])
        try:
            form = self._form(instruction.opcode, instruction.modifiers, shapes)
        except UnsupportedInstruction:
            return self._build(instruction)
        op = form.op
        return PureOp(
            tuple([named[n] if n >= 0 else d for n, d in zip(form.results, op.destinations, strict=True)]),
            tuple([named[n] if n >= 0 else s for n, s in zip(form.sources, op.sources, strict=True)]),
            op.widths,
            op.function,
            op.parts,
            op.approximate,
            op.contractible,
            op.undefined,
            op.kept,
        )

    def _made(self, opcode: str, modifiers: tuple[str, ...], shapes: tuple[Hashable, ...]) -> _Form:
        """A form, by the shapes of its operands."""
        operands = tuple(_standing(shape) for shape in shapes)
        op = self._build(Instruction(opcode, modifiers, None, operands, 0, None, ""))
        return _Form(op, _numbers(op.destinations), _numbers(op.sources))


def _shape(operand: Operand, numbers: dict[str, int], registers: list[Register]) -> Hashable:
    """An operand without the names of its registers, which are numbered as they come and added to `registers`."""
    if type(operand) is Register:
        if not operand.width:
            return operand
        number = numbers.setdefault(operand.name, len(registers))
        if number == len(registers):
            registers.append(operand)
        return number, operand.width
    if type(operand) is Guard:
        return "!" if operand.negated else "", _shape(operand.register, numbers, registers)
    if type(operand) is Vector:
        return "{", *[_shape(item, numbers, registers) for item in operand.items]
    return operand


def _standing(shape: Any) -> Any:
    """An operand of that shape, whose registers have their numbers as names."""
    if not isinstance(shape, tuple):
        return shape
    first, *others = shape
    if isinstance(first, int):
        return Register(str(first), *others)
    if first == "{":
        return Vector(tuple(_standing(item) for item in others))
    return Guard(_standing(others[0]), first == "!")


def _numbers(parts: Sequence[Source]) -> tuple[int, ...]:
    """The number of the register that each source or result of a form is, or -1 for what is none, or not wanted."""
    return tuple(int(part.name) if isinstance(part, Register) and part.width else -1 for part in parts)
