"""The words of the schedule of a multistage gemm whose warps multiply on tensor cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from tensor_layouts import Layout

from cutegen.atoms.copies import COPY_ATOM_SAYS, COPY_ATOMS, WIDTHS, CopyAtomName
from cutegen.atoms.mma import MmaAtomName
from cutegen.families.gemm.staged.schedule import Predicate, Scheduler, guards_key
from cutegen.families.gemm.words import SWIZZLES, GemmWords, atom_key, tiler_key
from cutegen.language.kinds import ByName, Choice, Integer, LayoutText, Record, key
from cutegen.language.model import KernelSpec

OWN_ATOMS: tuple[MmaAtomName, ...] = ("mma_sync",)  # that the templates of this family print
OperandType = Literal["tf32"]


@dataclass(frozen=True)
class Mma:
    """The multiply-accumulate of a warp."""

    atom: MmaAtomName | None = atom_key(OWN_ATOMS)
    operands: OperandType | None = key(
        Choice(get_args(OperandType)),
        "The type in which f32 operands are multiplied: `tf32` has the exponent of f32, and 10 bits after the point.",
    )
    atom_layout: Layout | None = key(
        LayoutText(example="(2,4,1)"),
        "Coordinate (M, N, K) to warp: the number of warps that share the tile along each mode.",
    )


@dataclass(frozen=True)
class Copy:
    """How one tensor moves: the copy atom and the width of one access."""

    atom: CopyAtomName | None = key(Choice(COPY_ATOMS), COPY_ATOM_SAYS)
    bits: int | None = key(Choice(WIDTHS), "Width of one access to global memory in bits.")


@dataclass(frozen=True)
class SharedMemory:
    """A stage of an operand's tile in shared memory: rows along the mode in which the operand is contiguous."""

    swizzle: int | None = key(
        Choice(SWIZZLES),
        "Bytes of a row in shared memory, within which runs of 16 bytes are permuted, so that neither copies nor "
        "fragments have bank conflicts.",
    )


@dataclass(frozen=True)
class Pipeline:
    """The software pipeline from global to shared memory."""

    stages: int | None = key(Integer(1, 64, told=(2, 32, 3)), "Tiles in flight, from 2 to 32.")


@dataclass(frozen=True)
class MmaSyncSchedule(GemmWords):
    """Schedule of a matrix product on the tensor cores of single warps."""

    tiler: Mapping[str, int] | None = tiler_key()
    mma: Mma = key(Record(Mma), "The multiply-accumulate of a warp.", factory=Mma, block=True)
    copies: Mapping[str, Copy] = key(
        ByName(Record(Copy), "One tensor's copy."), "How tensors move, by tensor.", factory=dict, block=True
    )
    smem: Mapping[str, SharedMemory] = key(
        ByName(Record(SharedMemory), "One operand's shared memory."), "Shared memory, by operand.", factory=dict
    )
    pipeline: Pipeline = key(Record(Pipeline), "Software pipeline from global to shared memory.", factory=Pipeline)
    predication: Mapping[str, Predicate] = guards_key()
    scheduler: Scheduler = key(Record(Scheduler), "The order in which thread blocks walk the tiles.", factory=Scheduler)


Spec = KernelSpec[MmaSyncSchedule]
