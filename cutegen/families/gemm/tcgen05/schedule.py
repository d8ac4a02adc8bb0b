"""The keys of the schedule of a gemm on Blackwell's tensor cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from cutegen.atoms.copies import WIDTHS
from cutegen.atoms.mma import MmaAtomName
from cutegen.families.gemm.words import SWIZZLES, GemmWords, atom_key, tiler_key
from cutegen.language.kinds import ByName, Choice, Integer, Record, Text, key
from cutegen.language.model import KernelSpec

OWN_ATOMS: tuple[MmaAtomName, ...] = ("tcgen05",)  # that the templates of this family print
Predicate = Literal["none", "mask"]
CopyAtom = Literal["tma", "universal"]
Misaligned = Literal["refuse", "workspace"]
MOST_STAGES = 16  # tiles in shared memory


@dataclass(frozen=True)
class Mma:
    """The multiply-accumulate of a block."""

    atom: MmaAtomName | None = atom_key(OWN_ATOMS)


@dataclass(frozen=True)
class Copy:
    """How one tensor moves: A and B to shared memory, the first output from registers."""

    atom: CopyAtom | None = key(
        Choice(get_args(CopyAtom)),
        "Copy atom: `tma` loads whole tiles of A and B to shared memory, as a tensor map says; `universal` stores from "
        "registers.",
    )
    misaligned: Misaligned | None = key(
        Choice(get_args(Misaligned)),
        "A call with an A or B whose address or rows are not aligned to 16 bytes, which tensor maps need: `refuse` "
        "rejects it; `workspace` copies it to a workspace of the call with padded rows.",
    )
    bits: int | None = key(
        Choice(WIDTHS), "Width of one access from registers in bits: a thread has neighbours along a row of the tile."
    )


@dataclass(frozen=True)
class SharedMemory:
    """A stage of an operand's tile in shared memory."""

    swizzle: int | None = key(
        Choice(SWIZZLES),
        "Bytes along the operand's contiguous mode, within which runs of 16 bytes are permuted, so that neither "
        "loads nor products have bank conflicts.",
    )


@dataclass(frozen=True)
class Pipeline:
    """The software pipeline from global to shared memory."""

    stages: int | None = key(
        Integer(1, MOST_STAGES), "Tiles in shared memory: one is multiplied while others are in flight."
    )


@dataclass(frozen=True)
class Scheduler:
    """The order in which thread blocks, one for each tile, take the output's tiles."""

    raster: str | None = key(Text(), "The mode, M or N, along which consecutive thread blocks take neighbouring tiles.")


@dataclass(frozen=True)
class Tcgen05Schedule(GemmWords):
    """Schedule of a matrix product on Blackwell's tensor cores."""

    tiler: Mapping[str, int] | None = tiler_key()
    mma: Mma = key(Record(Mma), "The multiply-accumulate of a block.", factory=Mma, block=True)
    copies: Mapping[str, Copy] = key(
        ByName(Record(Copy), "One tensor's copy."),
        "How tensors move, by tensor: A, B, and the first output, with which all tensors of the epilogue move.",
        factory=dict,
        block=True,
    )
    smem: Mapping[str, SharedMemory] = key(
        ByName(Record(SharedMemory), "One operand's shared memory."), "Shared memory, by operand.", factory=dict
    )
    pipeline: Pipeline = key(Record(Pipeline), "Software pipeline from global to shared memory.", factory=Pipeline)
    predication: Mapping[str, Predicate] = key(
        ByName(
            Choice(get_args(Predicate)),
            "How this mode of the output is guarded: `none`: not, the host refuses a size that does not divide; "
            "`mask`: accesses past the end are masked off. Loads by tensor maps return zeros there.",
        ),
        "Guards by mode.",
        factory=dict,
    )
    scheduler: Scheduler = key(Record(Scheduler), "The order in which thread blocks take the tiles.", factory=Scheduler)


Spec = KernelSpec[Tcgen05Schedule]
