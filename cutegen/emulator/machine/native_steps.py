"""The operations of a program's basic blocks, with those on registers done by the C core where there is one."""

from __future__ import annotations

from cutegen.emulator.machine.liveness import end_registers, live_registers
from cutegen.emulator.machine.program import Program
from cutegen.emulator.machine.regions import successors
from cutegen.emulator.native.gathering import Gathering
from cutegen.emulator.native.library import Core, core
from cutegen.emulator.operations.operands import Operation

Steps = tuple[tuple[int, Operation], ...]


class NativeSteps:
    """What the basic blocks of a program do, block by block, as they are first run."""

    def __init__(self, program: Program, found: Core) -> None:
        self._program = program
        self.gathering = Gathering(found, program.slots, program.widths, program.placement.places)
        self._live = [*live_registers(program), frozenset[int]()]
        self._steps: dict[int, Steps] = {}

    def of(self, number: int) -> Steps:
        """What the basic block with that number does, each with the place of its first instruction in the block."""
        if number not in self._steps:
            block = self._program.blocks[number]
            after = [self._live[n] for n in successors(self._program.blocks, number)]
            live = frozenset(end_registers(block, self._program.slots)).union(*after)
            self._steps[number] = self.gathering.steps(
                block.single_steps, block.instructions, block.pure, block.reads, block.writes, live
            )
        return self._steps[number]


def native_steps(program: Program) -> NativeSteps | None:
    """What a program's basic blocks do by the C core, made once for each program; None where there is no core."""
    found = core()
    if found is None:
        return None
    kept = program.kept
    if "native" not in kept:
        kept["native"] = NativeSteps(program, found)
    made = kept["native"]
    assert isinstance(made, NativeSteps)
    return made
