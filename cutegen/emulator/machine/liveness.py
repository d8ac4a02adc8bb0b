"""Which registers some instruction may still read, at the start of each basic block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cutegen.emulator.machine.program import Block, Program
from cutegen.emulator.machine.regions import successors
from cutegen.emulator.ptx.model import Address, Guard, Instruction, Operand, Register, TensorAddress, Vector


def live_registers(program: Program) -> list[frozenset[int]]:
    """The slots of the registers that are live where each basic block starts; others may be read if in doubt."""
    gets: list[set[int]] = []  # what each block reads that it has not written before
    sets: list[set[int]] = []  # what it writes in every lane
    for block in program.blocks:
        read: set[int] = set()
        written: set[int] = set()
        for instruction, reads, writes in zip(block.instructions, block.reads, block.writes, strict=True):
            if instruction.guard is None:
                read.update(slot for slot in reads if slot not in written)
                written.update(writes or ())
            else:  # what it does not write it keeps, and does not read by that
                read.update(slot for slot in reads[: len(reads) - len(writes or ())] if slot not in written)
        read |= set(end_registers(block, program.slots)) - written
        gets.append(read)
        sets.append(written)
    live: list[set[int]] = [set() for _ in range(len(program.blocks) + 1)]
    following = [successors(program.blocks, number) for number in range(len(program.blocks))]
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(program.blocks))):
            after = set().union(*(live[n] for n in following[number]))
            before = gets[number] | (after - sets[number])
            changed |= before != live[number]
            live[number] = before
    return [frozenset(slots) for slots in live[:-1]]


def end_registers(block: Block, slots: Mapping[str, int]) -> Iterator[int]:
    """The slots of the registers that the end of a basic block may read, or looks at."""
    yield from block.end.watched
    if block.end.instruction is not None:
        yield from read_registers(block.end.instruction, None, slots)


def read_registers(instruction: Instruction, writes: Sequence[int] | None, slots: Mapping[str, int]) -> Iterator[int]:
    """The slots of the registers that an instruction reads, or may read where it is not known what it `writes`."""
    if instruction.guard is not None:
        yield slots[instruction.guard.register.name]
    left = len(writes or ())
    for operand in instruction.operands:
        for register in _registers(operand):
            if left and not isinstance(operand, Address):  # results come first
                left -= 1
            elif register.name in slots:
                yield slots[register.name]


def _registers(operand: Operand) -> Iterator[Register]:
    """The registers of an operand that have a width."""
    if isinstance(operand, Vector):
        for item in operand.items:
            yield from _registers(item)
    elif isinstance(operand, Address):
        yield from _registers(operand.base)
    elif isinstance(operand, TensorAddress):
        yield from _registers(operand.map)
        for coordinate in operand.coordinates:
            yield from _registers(coordinate)
    elif isinstance(operand, Guard):
        yield operand.register
    elif isinstance(operand, Register) and operand.width:
        yield operand
