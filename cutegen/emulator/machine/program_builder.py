"""Makes a kernel ready to run: cuts it into basic blocks and compiles each instruction to an operation on the lanes.

Everything that can be refused about an instruction is refused here, before anything runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cutegen.emulator.instructions.opcodes import compile_pure
from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import WARP, Mask
from cutegen.emulator.machine.liveness import read_registers
from cutegen.emulator.machine.program import Block, End, Program
from cutegen.emulator.memory.placement import place_variables
from cutegen.emulator.operations.addresses import address_conversion, prefetch
from cutegen.emulator.operations.async_copies import async_copy_operation
from cutegen.emulator.operations.async_stores import async_store_operation
from cutegen.emulator.operations.barrier_numbers import NumberedWait, numbered_arrival
from cutegen.emulator.operations.bulk_copies import bulk_copy_operation, copies_arrival
from cutegen.emulator.operations.cluster_launches import cluster_launch_operation
from cutegen.emulator.operations.cluster_operations import (
    block_arrival,
    cluster_arrival,
    dependency_control,
    fence_operation,
)
from cutegen.emulator.operations.loads_stores import load_operation, store_operation
from cutegen.emulator.operations.mbarrier_operations import mbarrier_operation
from cutegen.emulator.operations.multiply_adds import gather_multiply_adds
from cutegen.emulator.operations.operands import Operation
from cutegen.emulator.operations.peers import peer_address_operation
from cutegen.emulator.operations.phase_waits import read_phase_wait
from cutegen.emulator.operations.registers import register_operation
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.operations.tensor_copies import tensor_copy_operation
from cutegen.emulator.operations.tensor_prefetches import box_prefetch, map_prefetch
from cutegen.emulator.operations.waits import ClusterWait
from cutegen.emulator.operations.wide_registers import in_halves, wide_move
from cutegen.emulator.ptx.errors import UnsupportedInstruction
from cutegen.emulator.ptx.model import Immediate, Instruction, Kernel, Label, Module, Register, Vector
from cutegen.emulator.ptx.types import TYPES
from cutegen.emulator.warps.exchange_operations import EXCHANGES, exchange_operation, warp_barrier
from cutegen.emulator.warps.matrix_operations import matrix_copy_operation, multiply_operation
from cutegen.emulator.warps.product_waits import read_product_wait
from cutegen.emulator.warps.register_budgets import register_budget
from cutegen.emulator.warps.tensor_core_operations import tensor_core_operation, tensor_core_wait
from cutegen.emulator.warps.tensor_cores import compile_mma
from cutegen.emulator.warps.warpgroup_products import warpgroup_operation


def build_program(module: Module, kernel: Kernel) -> Program:
    """The program of a kernel of the module. Raises UnsupportedInstruction for what is not emulated."""
    return _Builder(module, kernel).build()


def _in_register(reader: InstructionReader) -> bool:
    """Whether the first operand of a barrier, its number, is in a register."""
    return isinstance(reader.instruction.operands[0], Register) if reader.instruction.operands else False


class _Builder:
    """Builds the program of one kernel, and collects what holds of all its instructions on the way."""

    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.kernel = kernel = replace(kernel, registers=in_halves(kernel.registers))
        self.target = module.target
        self.slots = {name: i for i, name in enumerate(kernel.registers)}
        self.placement = place_variables(module, kernel)
        self.sizes: dict[str, list[int]] = {"global": [16], "shared": [8]}
        self.approximate: list[Instruction] = []
        self.contractible: list[tuple[Instruction, str]] = []
        self.ordered = False  # whether more than whole blocks meet
        self.factors: list[int] = []  # slots of the registers that are A of products of warpgroups
        self.pure: dict[int, PureOp] = {}  # id of an instruction on registers -> its semantics
        self.results: dict[int, tuple[int, ...]] = {}  # id of an instruction on registers -> slots that it writes

    def build(self) -> Program:
        """The whole program."""
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
            operations = gather_multiply_adds([self._operation(i) for i in body])
            writes = tuple(self._writes(i) for i in body)
            pure = tuple(self.pure.get(id(i)) for i in body)
            blocks.append(Block(operations, tuple(body), self._reads(body, writes), writes, end, pure))
        return Program(
            self.kernel,
            tuple(blocks),
            self.slots,
            tuple(self.kernel.registers.values()),
            min(self.sizes["global"]),
            min(self.sizes["shared"]),
            tuple(self.approximate),
            self._contractible_pairs(),
            self.placement,
            self.ordered,
            any(i.name.startswith("clusterlaunchcontrol.try_cancel") for i in instructions),
        )

    def _contractible_pairs(self) -> tuple[Instruction, ...]:
        """The contractible instructions of the types for which the kernel has both a product and a sum.

        Whether the sum adds that very product is not looked at.
        """
        kinds = [{kind for i, kind in self.contractible if (i.opcode == "mul") == product} for product in (True, False)]
        return tuple(i for i, kind in self.contractible if kind in kinds[0] & kinds[1])

    def _end(self, instruction: Instruction) -> End | None:
        """The end that an instruction makes of a basic block, or None if it is not one of control flow."""
        guard = None if instruction.guard is None else self.slots[instruction.guard.register.name]
        negated = instruction.guard is not None and instruction.guard.negated
        reader, opcode = InstructionReader(instruction), instruction.opcode
        if opcode == "bra":
            reader.flag("uni")
            (label,) = reader.operands(1)
            if not isinstance(label, Label):
                reader.fail("no label")
            return End("branch", instruction, guard, negated, label.name)
        if opcode in ("ret", "exit", "trap"):
            if opcode == "ret":
                reader.flag("uni")
            reader.operands(0)
            return End("trap" if opcode == "trap" else "exit", instruction, guard, negated)
        if opcode in ("bar", "barrier"):
            return self._barrier(reader, guard, negated)
        if opcode == "wgmma" and instruction.modifiers[:1] == ("wait_group",):
            self.ordered = True
            return End("wait", instruction, guard, negated, wait=read_product_wait(reader), watched=self.factors)
        if opcode == "tcgen05":
            meeting = tensor_core_wait(instruction, self.slots, self.placement.places, self._note_size)
            if meeting is None:
                return None
            self.ordered = True
            return End("wait", instruction, guard, negated, aligned=True, wait=meeting)
        if opcode == "mbarrier" and instruction.modifiers[:1] in (("test_wait",), ("try_wait",)):
            self.ordered = True
            wait = read_phase_wait(reader, self.slots, self.placement.places)
            return End("wait", instruction, guard, negated, wait=wait)
        return None

    def _barrier(self, reader: InstructionReader, guard: int | None, negated: bool) -> End | None:
        """The end that a barrier at which lanes wait makes, or None for an arrival at one."""
        modifiers = reader.instruction.modifiers
        if modifiers[:2] == ("cluster", "wait"):
            del reader.left[:2]
            reader.flag("acquire")
            together = reader.flag("aligned")
            reader.operands(0)
            self.ordered = True
            wait = ClusterWait(reader.instruction)
            return End("wait", reader.instruction, guard, negated, aligned=together, wait=wait)
        if modifiers[:2] == ("cluster", "arrive") or modifiers[:2] == ("warp", "sync") or "arrive" in modifiers[:2]:
            return None
        reader.leads("cta")
        reader.choice("sync")
        aligned = reader.instruction.opcode == "bar" or reader.flag("aligned")
        if reader.instruction.guard is not None:
            reader.fail("a barrier under a guard")
        if _in_register(reader):
            slot, count = self._register_barrier(reader)
            self.ordered = True
            return End("wait", reader.instruction, aligned=aligned, wait=NumberedWait(slot, count, reader.instruction))
        first, threads = self._which_barrier(reader, 1, 2)
        return End("barrier", reader.instruction, barrier=first, threads=threads, aligned=aligned)

    def _which_barrier(self, reader: InstructionReader, *counts: int) -> tuple[int, int | None]:
        """The number of a barrier of a block and how many threads it counts, if it says so."""
        numbers = [n.bits for n in reader.operands(*counts) if isinstance(n, Immediate) and n.width is None]
        if len(numbers) != len(reader.instruction.operands):
            reader.fail("a number or count that is no constant")
        if numbers[0] > 15:
            reader.fail(f"barrier {numbers[0]} of 0 to 15")
        if len(numbers) > 1 and (numbers[1] % WARP or not numbers[1]):
            reader.fail(f"{numbers[1]} threads, not a multiple of {WARP}")
        return numbers[0], numbers[1] if len(numbers) > 1 else None

    def _register_barrier(self, reader: InstructionReader) -> tuple[int, int]:
        """The slot of the register that holds the number of a barrier, and how many threads it counts."""
        number, count = reader.operands(2)
        number = reader.source(number, TYPES["u32"])
        if not isinstance(number, Register) or not isinstance(count, Immediate) or count.width is not None:
            reader.fail("a count that is no constant")
        if count.bits % WARP or not count.bits:
            reader.fail(f"{count.bits} threads, not a multiple of {WARP}")
        return self.slots[number.name], count.bits

    def _arrival(self, instruction: Instruction) -> Operation:
        """The operation of a barrier at which lanes do not wait for those of other warps."""
        reader = InstructionReader(instruction)
        self.ordered = True
        if reader.instruction.opcode == "barrier" and reader.leads("cluster"):
            reader.choice("arrive")
            return cluster_arrival(reader)
        if reader.instruction.opcode == "bar" and reader.leads("warp"):
            return warp_barrier(reader, self.slots)
        reader.leads("cta")
        reader.choice("arrive")
        if instruction.opcode == "barrier":
            reader.flag("aligned")
        if _in_register(reader):
            return numbered_arrival(instruction, *self._register_barrier(reader))
        number, count = self._which_barrier(reader, 2)
        assert count is not None
        return block_arrival(instruction, number, count)

    def _operation(self, instruction: Instruction) -> Operation:
        """The operation of an instruction under its guard. Raises UnsupportedInstruction if it is not emulated."""
        opcode = instruction.opcode
        operation: Operation | None = None
        slots, places = self.slots, self.placement.places
        if opcode == "ld":
            operation = load_operation(instruction, slots, places, self._note_size, self.kernel)
        elif opcode == "st" and instruction.modifiers[:1] == ("async",):
            operation = async_store_operation(instruction, slots, places, self._note_size)
            self.ordered = True
        elif opcode == "mbarrier":
            operation = mbarrier_operation(instruction, slots, places)
            self.ordered = True
        elif opcode == "st":
            operation = store_operation(instruction, slots, places, self._note_size)
        elif opcode == "cp" and instruction.modifiers[:4] == ("async", "bulk", "prefetch", "tensor"):
            operation = box_prefetch(instruction, slots, places)
        elif opcode == "cp" and instruction.modifiers[:3] == ("async", "bulk", "tensor"):
            operation = tensor_copy_operation(instruction, slots, places, self._note_size)
            self.ordered = True
        elif opcode == "cp" and instruction.modifiers[:2] == ("async", "bulk"):
            operation = bulk_copy_operation(instruction, slots, places, self._note_size)
            self.ordered = True
        elif opcode == "cp" and instruction.modifiers[:3] == ("async", "mbarrier", "arrive"):
            operation = copies_arrival(instruction, slots, places)
            self.ordered = True
        elif opcode == "cp":
            operation = async_copy_operation(instruction, slots, places, self._note_size)
        elif opcode == "prefetch" and "tensormap" in instruction.modifiers:
            operation = map_prefetch(instruction, slots, places)
        elif opcode in ("prefetch", "prefetchu"):
            operation = prefetch(instruction)
        elif opcode == "cvta":
            operation = address_conversion(instruction, slots, places)
        elif opcode == "mapa":
            operation = peer_address_operation(instruction, slots, places)
            self.ordered = True
        elif opcode in ("bar", "barrier"):
            operation = self._arrival(instruction)
        elif opcode == "fence":
            operation = fence_operation(instruction)
            self.ordered = True
        elif opcode in EXCHANGES:
            operation = exchange_operation(instruction, slots)
        elif opcode == "mma":
            mma = compile_mma(instruction, self.target)
            if mma.approximate:
                self.approximate.append(instruction)
            operation = multiply_operation(mma, instruction, slots)
        elif opcode == "wgmma":
            operation = warpgroup_operation(instruction, slots, self._note_size, self.factors)
            if instruction.modifiers[:1] == ("mma_async",):
                self.approximate.append(instruction)
            self.ordered = True
        elif opcode == "tcgen05":
            operation = tensor_core_operation(instruction, slots, places, self._note_size)
            if instruction.modifiers[:1] == ("mma",):
                self.approximate.append(instruction)
            self.ordered = True
        elif opcode == "clusterlaunchcontrol":
            operation = cluster_launch_operation(instruction, slots, places, self._note_size)
            self.ordered = True
        elif instruction.name == "mov.b128":
            operation = wide_move(instruction, slots)
        elif opcode == "griddepcontrol":
            operation = dependency_control(instruction)
        elif opcode == "setmaxnreg":
            operation = register_budget(instruction)
            self.ordered = True
        elif opcode in ("ldmatrix", "stmatrix"):
            operation = matrix_copy_operation(instruction, slots, places, self._note_size)
        else:
            op = compile_pure(instruction)
            if op is not None:
                self._note_arithmetic(instruction, op)
                operation = register_operation(instruction, op, slots, places)
        if operation is None:
            raise UnsupportedInstruction(instruction.name, instruction.line, instruction.text)
        return operation if instruction.guard is None else self._guarded(operation, instruction)

    def _writes(self, instruction: Instruction) -> tuple[int, ...] | None:
        """The slots of the registers that an instruction writes, or None if it does more than that and read memory."""
        if instruction.opcode in ("prefetch", "prefetchu"):
            return ()
        if instruction.opcode in ("cvta", "ld") or instruction.name.startswith("tcgen05.ld."):
            target = instruction.operands[0]
            items = target.items if isinstance(target, Vector) else (target,)
            return tuple(self.slots[i.name] for i in items if isinstance(i, Register) and i.width)
        return self.results.get(id(instruction))

    def _reads(
        self, body: Sequence[Instruction], writes: Sequence[tuple[int, ...] | None]
    ) -> tuple[tuple[int, ...], ...]:
        """The slots of the registers that instructions read; what one under a guard does not write, it keeps."""
        return tuple(
            (*read_registers(instruction, written, self.slots), *(written or ()) * (instruction.guard is not None))
            for instruction, written in zip(body, writes, strict=True)
        )

    def _note_arithmetic(self, instruction: Instruction, op: PureOp) -> None:
        """Notes what an instruction on registers does, which of them it writes, and whether its results are exact."""
        self.pure[id(instruction)] = op
        self.results[id(instruction)] = tuple(self.slots[d.name] for d in op.destinations if d.width)
        if op.approximate:
            self.approximate.append(instruction)
        if op.contractible:
            self.contractible.append((instruction, op.contractible))

    def _guarded(self, operation: Operation, instruction: Instruction) -> Operation:
        """The operation, for those lanes only in which the guard of the instruction holds."""
        assert instruction.guard is not None
        slot, negated = self.slots[instruction.guard.register.name], instruction.guard.negated
        written = self._writes(instruction)

        def guarded(lanes: Lanes, mask: Mask) -> None:
            if slot in lanes.poison and written is not None:  # done, or not, without a difference but in registers
                undecided = lanes.undecided(slot, mask)
                if undecided is not None:
                    operation(lanes, undecided)
                    lanes.spoil(written, undecided, slot)
                    mask = lanes.without(mask, undecided)
                    if mask is False:
                        return
            inner = lanes.guard(slot, negated, mask, instruction)
            if inner is not False:
                operation(lanes, inner)

        return guarded

    def _note_size(self, space: str, size: int) -> None:
        """Notes an access of `size` bytes to global or shared memory."""
        self.sizes[space].append(size)
