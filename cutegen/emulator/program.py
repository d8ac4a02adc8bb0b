"""A kernel made ready to run: basic blocks, each a list of operations on the lanes, and what ends them.

An operation is a function of the lanes' state and a mask. Everything that can be refused about an instruction is
refused here, before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from cutegen.emulator.copies import copy_operation
from cutegen.emulator.form import Form
from cutegen.emulator.lanes import Mask
from cutegen.emulator.moves import load_operation, store_operation
from cutegen.emulator.multiply_adds import gathered
from cutegen.emulator.placement import Placement, place_variables
from cutegen.emulator.pure import pure_operation
from cutegen.emulator.state import Lanes
from cutegen.emulator.tensor_cores import compile_mma
from cutegen.emulator.types import Immediate, Instruction, Kernel, Label, Module, PureOp, UnsupportedInstruction
from cutegen.emulator.warps import warp_operation

Operation: TypeAlias = Callable[[Lanes, Mask], None]


@dataclass(frozen=True)
class End:
    """How a block of instructions ends. `branch`: to `target` where the guard holds, else on. `exit`, `trap` likewise.
    `barrier`: on once `threads` are there, by default all; `aligned` if those of a warp come together.
    `fall`: on."""

    kind: Literal["branch", "exit", "barrier", "trap", "fall"]
    instruction: Instruction | None = None
    guard: int | None = None
    negated: bool = False
    label: str = ""
    target: int = 0
    barrier: int = 0
    threads: int | None = None
    aligned: bool = False


@dataclass(frozen=True)
class Block:
    operations: tuple[Operation, ...]
    instructions: tuple[Instruction, ...]
    end: End


@dataclass(frozen=True)
class Program:
    """`slots` numbers the registers. `unit` and `shared_unit` are the smallest global and shared accesses in bytes.

    `approximate` are the instructions whose results PTX only bounds; `contractible` float products and sums without
    rounding modifier, of a type of which there are both: PTX lets the assembler make a fused multiply-add of a pair.
    """

    kernel: Kernel
    blocks: tuple[Block, ...]
    slots: dict[str, int]
    widths: tuple[int, ...]
    unit: int
    shared_unit: int
    approximate: tuple[Instruction, ...]
    contractible: tuple[Instruction, ...]
    placement: Placement


def build(module: Module, kernel: Kernel) -> Program:
    """Raises UnsupportedInstruction for what is not emulated."""
    return _Builder(module, kernel).build()


class _Builder:
    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.kernel = kernel
        self.slots = {name: i for i, name in enumerate(kernel.registers)}
        self.placement = place_variables(module, kernel)
        self.sizes: dict[str, list[int]] = {"global": [16], "shared": [8]}
        self.approximate: list[Instruction] = []
        self.contractible: list[tuple[Instruction, str]] = []

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
                end = replace(end, target=number[self.kernel.labels[end.label]])
            blocks.append(Block(gathered([self._operation(i) for i in body]), tuple(body), end))
        return Program(
            self.kernel,
            tuple(blocks),
            self.slots,
            tuple(self.kernel.registers.values()),
            min(self.sizes["global"]),
            min(self.sizes["shared"]),
            tuple(self.approximate),
            self._pairs(),
            self.placement,
        )

    def _pairs(self) -> tuple[Instruction, ...]:
        """The contractible instructions of types that have a product and a sum, whether or not they meet."""
        kinds = [{kind for i, kind in self.contractible if (i.opcode == "mul") == product} for product in (True, False)]
        return tuple(i for i, kind in self.contractible if kind in kinds[0] & kinds[1])

    def _end(self, instruction: Instruction) -> End | None:
        guard = None if instruction.guard is None else self.slots[instruction.guard.register.name]
        negated = instruction.guard is not None and instruction.guard.negated
        form, opcode = Form(instruction), instruction.opcode
        if opcode == "bra":
            form.flag("uni")
            (label,) = form.done(1)
            if not isinstance(label, Label):
                form.fail("no label")
            return End("branch", instruction, guard, negated, label.name)
        if opcode in ("ret", "exit", "trap"):
            if opcode == "ret":
                form.flag("uni")
            form.done(0)
            return End("trap" if opcode == "trap" else "exit", instruction, guard, negated)
        if opcode in ("bar", "barrier"):
            return self._barrier(form)
        return None

    def _barrier(self, form: Form) -> End:
        """bar.sync, and barrier.sync, which only with `.aligned` is the same."""
        form.leads("cta")
        form.choice("sync")
        aligned = form.instruction.opcode == "bar" or form.flag("aligned")
        numbers = [n.bits for n in form.done(1, 2) if isinstance(n, Immediate) and n.width is None]
        if len(numbers) != len(form.instruction.operands):
            form.fail("a number or count that is no constant")
        if form.instruction.guard is not None:
            form.fail("a barrier under a guard")
        first, threads = numbers[0], numbers[1] if len(numbers) > 1 else None
        if first > 15:
            form.fail(f"barrier {first} of 0 to 15")
        return End("barrier", form.instruction, barrier=first, threads=threads, aligned=aligned)

    def _operation(self, instruction: Instruction) -> Operation:
        opcode = instruction.opcode
        operation: Operation | None = None
        slots, places = self.slots, self.placement.places
        if opcode == "ld":
            operation = load_operation(instruction, slots, places, self._note, self.kernel)
        elif opcode == "st":
            operation = store_operation(instruction, slots, places, self._note)
        elif opcode == "cp":
            operation = copy_operation(instruction, slots, places, self._note)
        if operation is None:
            operation = warp_operation(instruction, slots, places, self._note)
            if opcode == "mma" and compile_mma(instruction).approximate:
                self.approximate.append(instruction)
        if operation is None:
            operation = pure_operation(instruction, slots, places, lambda op: self._arithmetic(instruction, op))
        if operation is None:
            raise UnsupportedInstruction(instruction.name, instruction.line, instruction.text)
        return operation if instruction.guard is None else self._guarded(operation, instruction)

    def _arithmetic(self, instruction: Instruction, op: PureOp) -> None:
        if op.approximate:
            self.approximate.append(instruction)
        if op.contractible:
            self.contractible.append((instruction, op.contractible))

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
