"""A kernel that is ready to run, as data: basic blocks, the operations of each, and what ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.memory.placement import Placement
from cutegen.emulator.operations.alike import gather_alike
from cutegen.emulator.operations.multiply_adds import MultiplyAdds, nothing
from cutegen.emulator.operations.operands import Operation
from cutegen.emulator.operations.waits import Wait
from cutegen.emulator.ptx.model import Instruction, Kernel


@dataclass(frozen=True)
class End:
    """How a basic block ends, and where its lanes go from there.

    `branch`: lanes in which the guard holds go to the block with the number `target`, the others to the next block.
    `exit` and `trap`: lanes in which the guard holds exit, or stop the launch with a fault; the others go on.
    `barrier`: lanes wait at the barrier with the number `barrier` until `threads` of their block are there (None: all
    of them), then go on.
    `wait`: lanes wait for what `wait` says, then go on. `aligned` says that the threads of a warp must come together.
    `fall`: all lanes go on to the next block.

    `guard` is the slot of the predicate, or None where the instruction has none; `negated` inverts it. `label` is the
    name of a branch's target in the PTX. `watched` are the slots of registers whose contents it looks at besides those
    that its instruction names; of a wait, all that are A of products.
    """

    kind: Literal["branch", "exit", "barrier", "wait", "trap", "fall"]
    instruction: Instruction | None = None
    guard: int | None = None
    negated: bool = False
    label: str = ""
    target: int = 0
    barrier: int = 0
    threads: int | None = None
    aligned: bool = False
    wait: Wait | None = None
    watched: Sequence[int] = ()


@dataclass(frozen=True)
class Block:
    """A basic block: one operation for each of its instructions, without the one that ends it.

    `writes` has, for each of them, the slots of the registers that it writes, or None where it does more
    than that and read memory; `reads` has the slots of those that it reads. `pure` has the semantics of those that only
    read and write registers, else None.
    """

    operations: tuple[Operation, ...]
    instructions: tuple[Instruction, ...]
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...] | None, ...]
    end: End
    pure: tuple[PureOp | None, ...]

    @cached_property
    def steps(self) -> tuple[tuple[int, Operation], ...]:
        """The block's operations, similar ones gathered into one, each with the index of its first instruction."""
        return gather_alike(self._doing(), self.reads, self.writes)

    @cached_property
    def single_steps(self) -> tuple[tuple[int, Operation], ...]:
        """The operations, one for each instruction."""
        found: list[tuple[int, Operation]] = []
        for i, operation in self._doing():
            each: Sequence[Operation] = operation.each if isinstance(operation, MultiplyAdds) else (operation,)
            found += [(i + j, one) for j, one in enumerate(each)]
        return tuple(found)

    def _doing(self) -> list[tuple[int, Operation]]:
        """The operations that do something, each with its place among all of them."""
        return [(i, o) for i, o in enumerate(self.operations) if o is not nothing]


@dataclass(frozen=True)
class Program:
    """A kernel that is ready to run.

    `slots` numbers the registers by name, and `widths` gives the width in bits of each. `unit` and `shared_unit` are
    the smallest accesses to global and to shared memory, in bytes. `approximate` are the instructions for whose results
    PTX gives a bound only. `contractible` are the float products and sums without a rounding modifier, of those types
    that have both: PTX lets the assembler fuse such a pair into one multiply-add. Where more than whole blocks meet it
    is `ordered`; where blocks may cancel clusters that have not started, it `cancels`. `kept` is for what is made of
    the program once, by name.
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
    ordered: bool = False
    cancels: bool = False
    kept: dict[str, object] = field(default_factory=dict, compare=False, repr=False)
