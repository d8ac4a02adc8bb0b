"""A kernel made ready to run: basic blocks, each a list of operations on the lanes, and what ends them.

An operation is a function of the lanes' state and a mask. Everything that can be refused about an instruction is
refused here, before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cutegen.emulator.lanes import Mask
from cutegen.emulator.moves import copy_operation, load_operation, store_operation
from cutegen.emulator.pure import pure_operation
from cutegen.emulator.state import Lanes
from cutegen.emulator.types import Immediate, Instruction, Kernel, Label, Module, UnsupportedInstruction
from cutegen.emulator.warps import warp_operation

Operation: TypeAlias = Callable[[Lanes, Mask], None]


@dataclass(frozen=True)
class End:
    """How a block of instructions ends. `branch`: to `target` where the guard holds, else on. `exit`, `trap` likewise.
    `barrier`: on once every thread is there. `fall`: on."""

    kind: Literal["branch", "exit", "barrier", "trap", "fall"]
    instruction: Instruction | None = None
    guard: int | None = None
    negated: bool = False
    target: int = 0
    barrier: int = 0
    threads: int | None = None


@dataclass(frozen=True)
class Block:
    operations: tuple[Operation, ...]
    instructions: tuple[Instruction, ...]
    end: End


@dataclass(frozen=True)
class Program:
    """`slots` numbers the registers. `unit` and `shared_unit` are the smallest global and shared accesses in bytes."""

    kernel: Kernel
    blocks: tuple[Block, ...]
    slots: dict[str, int]
    widths: tuple[int, ...]
    unit: int
    shared_unit: int
    approximate: tuple[Instruction, ...]
    static_shared: int
    dynamic_start: int
    symbols: dict[str, int]


def build(module: Module, kernel: Kernel) -> Program:
    """Raises UnsupportedInstruction for what is not emulated."""
    return _Builder(module, kernel).build()


class _Builder:
    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.module, self.kernel = module, kernel
        self.slots = {name: i for i, name in enumerate(kernel.registers)}
        self.symbols, self.static, self.dynamic = _shared_symbols(module, kernel)
        self.sizes: dict[str, list[int]] = {"global": [16], "shared": [8]}
        self.approximate: list[Instruction] = []

    def build(self) -> Program:
        instructions = self.kernel.instructions
        ends = {i: end for i, instruction in enumerate(instructions) if (end := self._end(instruction)) is not None}
        starts = {0, *self.kernel.labels.values(), *(i + 1 for i in ends)}
        order = sorted(i for i in starts if i <= len(instructions))
        if order[-1] != len(instructions):
            order.append(len(instructions))
        number = {start: i for i, start in enumerate(order)}
        blocks = []
        for start, stop in zip(order, [*order[1:], len(instructions)], strict=True):
            end = ends.get(stop - 1) if stop > start else None
            body = instructions[start : stop - 1] if end is not None else instructions[start:stop]
            if start == len(instructions):
                end = End("exit")  # running off the end returns
            elif end is None:
                end = End("fall")
            elif end.kind == "branch":
                assert end.instruction is not None
                label = end.instruction.operands[-1]
                assert isinstance(label, Label)
                if label.name not in self.kernel.labels:
                    raise self._no(end.instruction, f"no label {label.name}")
                end = End("branch", end.instruction, end.guard, end.negated, number[self.kernel.labels[label.name]])
            blocks.append(Block(tuple(self._operation(i) for i in body), tuple(body), end))
        return Program(
            self.kernel,
            tuple(blocks),
            self.slots,
            tuple(self.kernel.registers.values()),
            min(self.sizes["global"]),
            min(self.sizes["shared"]),
            tuple(self.approximate),
            self.static,
            self.dynamic,
            self.symbols,
        )

    def _end(self, instruction: Instruction) -> End | None:
        guard = None if instruction.guard is None else self.slots[instruction.guard.register.name]
        negated = instruction.guard is not None and instruction.guard.negated
        name = instruction.name
        if instruction.opcode == "bra":
            if instruction.modifiers not in ((), ("uni",)):
                raise self._no(instruction)
            return End("branch", instruction, guard, negated)
        if name in ("ret", "exit", "ret.uni"):
            return End("exit", instruction, guard, negated)
        if name == "trap":
            return End("trap", instruction, guard, negated)
        if name in _BARRIERS:
            if guard is not None:
                raise self._no(instruction, "a barrier under a guard")
            numbers = instruction.operands or (Immediate(0, None),)
            if not all(isinstance(n, Immediate) for n in numbers) or len(numbers) > 2:
                raise self._no(instruction, "a barrier whose number or count is no constant")
            first, *rest = (n.bits for n in numbers if isinstance(n, Immediate))
            return End("barrier", instruction, barrier=first, threads=rest[0] if rest else None)
        return None

    def _operation(self, instruction: Instruction) -> Operation:
        opcode = instruction.opcode
        operation: Operation | None = None
        if opcode == "ld":
            operation = load_operation(instruction, self.slots, self._note, self.kernel)
        elif opcode == "st":
            operation = store_operation(instruction, self.slots, self._note)
        elif opcode == "cp":
            operation = copy_operation(instruction, self.slots, self._note)
        if operation is None:
            operation = warp_operation(instruction, self.slots, self._note)
        if operation is None:
            operation = pure_operation(instruction, self.slots, self.symbols, self.approximate.append)
        if operation is None:
            raise self._no(instruction)
        return operation if instruction.guard is None else self._guarded(operation, instruction)

    def _guarded(self, operation: Operation, instruction: Instruction) -> Operation:
        assert instruction.guard is not None
        slot, negated = self.slots[instruction.guard.register.name], instruction.guard.negated

        def guarded(lanes: Lanes, mask: Mask) -> None:
            inner = lanes.guard(slot, negated, mask, instruction)
            if inner is not False:
                operation(lanes, inner)

        return guarded

    def _note(self, space: str, size: int) -> None:
        self.sizes[space].append(size)

    @staticmethod
    def _no(instruction: Instruction, why: str = "") -> UnsupportedInstruction:
        return UnsupportedInstruction(instruction.name, instruction.line, instruction.text, why)


_BARRIERS = {
    "bar.sync",
    "bar.cta.sync",
    "barrier.sync",
    "barrier.cta.sync",
    "barrier.sync.aligned",
    "barrier.cta.sync.aligned",
}


def _shared_symbols(module: Module, kernel: Kernel) -> tuple[dict[str, int], int, int]:
    """Offsets of shared variables in a block's shared memory: those of fixed size first, then what is dynamic."""
    symbols: dict[str, int] = {}
    end, widest = 0, 1
    variables = [v for v in (*module.variables, *kernel.variables) if v.space == "shared"]
    used = {v.name: v for v in variables}
    for variable in used.values():
        if not variable.dynamic:
            end = -(-end // variable.align) * variable.align
            symbols[variable.name] = end
            end += variable.size
        else:
            widest = max(widest, variable.align)
    start = -(-end // widest) * widest
    for variable in used.values():
        if variable.dynamic:
            symbols[variable.name] = start
    return symbols, end, start if len(symbols) > 0 and any(v.dynamic for v in used.values()) else end
