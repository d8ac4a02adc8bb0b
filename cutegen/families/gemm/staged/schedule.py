"""The words of a multistage gemm's schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Literal, get_args

from tensor_layouts import Layout

from cutegen.atoms.copies import COPY_ATOM_SAYS, COPY_ATOMS, WIDTHS, CopyAtomName
from cutegen.atoms.mma import ATOMS, MmaAtomName
from cutegen.dtypes import Dtype
from cutegen.families.gemm.words import GemmWords, atom_key, tiler_key
from cutegen.language.kinds import ByName, Choice, DtypeName, Integer, LayoutText, Record, Text, key
from cutegen.language.model import KernelSpec

OWN_ATOMS: tuple[MmaAtomName, ...] = ("fma",)  # that the templates of this family print
Predicate = Literal["none", "mask", "residue_first"]


@dataclass(frozen=True)
class Mma:
    """The multiply-accumulate of a block."""

    atom: MmaAtomName | None = atom_key(OWN_ATOMS)
    thread_layout: Layout | None = key(LayoutText(), "Coordinate (M, N, K) to thread.")
    permutation: Mapping[str, Layout] = key(
        ByName(LayoutText(), "Permutation of this mode."),
        "The elements of the tile that a thread takes, by mode.",
        factory=dict,
        block=True,
    )
    accumulator: Dtype | None = key(DtypeName(ATOMS["fma"].accumulators), "Type that products are summed in.")


@dataclass(frozen=True)
class Copy:
    """How one tensor moves: the copy atom, the width of one access, and (through shared memory) who copies what."""

    atom: CopyAtomName | None = key(Choice(COPY_ATOMS), COPY_ATOM_SAYS)
    bits: int | None = key(Choice(WIDTHS), "Width of one access in bits.")
    thread_layout: Layout | None = key(LayoutText(), "Coordinate in the tile to thread.")
    value_layout: Layout | None = key(LayoutText(), "Coordinate in one access to value.")


@dataclass(frozen=True)
class Workspace:
    """Global memory that an operand is first written to, by a kernel of its own, with `major` contiguous.

    Rows are padded to whole vectors of 16 bytes. Each thread of that kernel moves a vector along both modes.
    """

    major: str = key(
        Text(), "The mode that is contiguous in the workspace: M of A, N of B.", default=MISSING, required=True
    )
    thread_layout: Layout | None = key(
        LayoutText(example="(16,16):(1,16)"),
        "Threads of a block over the operand's two modes; each moves one vector along each of them.",
    )


@dataclass(frozen=True)
class SharedMemory:
    """A stage of an operand's tile in shared memory: columns along m or n, one for each k."""

    layout: Layout | None = key(
        LayoutText(example="(8,4,4):(4,1,32)"),
        "Coordinate of the tile along m or n to place in a column of shared memory; left out, they are the same.",
    )
    pad: int | None = key(Integer(0, 1024), "Elements added to the leading stride, against bank conflicts.")


@dataclass(frozen=True)
class Pipeline:
    """The software pipeline from global to shared memory."""

    stages: int | None = key(Integer(1, 64, told=(2, 32, 3)), "Tiles in flight, from 2 to 32.")
    store: int | None = key(
        Integer(0, 65535),
        "The step of a tile along k, counted from 0, before which operands that go through registers are written "
        "to shared memory.",
    )


@dataclass(frozen=True)
class Scheduler:
    """The order in which thread blocks, numbered as the hardware starts them, walk the output's tiles.

    Consecutive blocks take neighbouring tiles along `raster`. With a `swizzle` of G the tiles of the other mode are
    taken in bands of G: inside a band, blocks take its G tiles of the other mode, then the next tile along `raster`;
    after its last one, the next band. The last band has the tiles that are left. G = 1 is a plain raster.
    """

    raster: str | None = key(Text(), "The mode, M or N, along which consecutive thread blocks take neighbouring tiles.")
    swizzle: int | None = key(
        Integer(1, 64),
        "Tiles of the other mode that are walked together, in a band: concurrent blocks share operands in L2. 1 is "
        "a plain raster.",
    )


def guards_key() -> Any:
    """The key of how modes are guarded."""
    each = ByName(
        Choice(get_args(Predicate)),
        "How this mode is guarded: `none`: not, and the host rejects sizes that are not multiples; `mask`: "
        "accesses past the end are masked off; `residue_first`: the incomplete tile comes first, the others run "
        "unguarded.",
    )
    return key(each, "Guards by mode.", factory=dict)


@dataclass(frozen=True)
class GemmSchedule(GemmWords):
    """Schedule of a matrix product."""

    tiler: Mapping[str, int] | None = tiler_key()
    mma: Mma = key(Record(Mma), "The multiply-accumulate of a block.", factory=Mma, block=True)
    copies: Mapping[str, Copy] = key(
        ByName(Record(Copy), "One tensor's copy."), "How tensors move, by tensor.", factory=dict, block=True
    )
    workspace: Mapping[str, Workspace] = key(
        ByName(Record(Workspace), "One operand's workspace."),
        "Operands that a separate kernel first writes to global memory in another majorness, by tensor. Each call "
        "allocates as much memory as the operand.",
        factory=dict,
        block=True,
    )
    smem: Mapping[str, SharedMemory] = key(
        ByName(Record(SharedMemory), "One tensor's shared memory."), "Shared memory, by tensor.", factory=dict
    )
    pipeline: Pipeline = key(Record(Pipeline), "Software pipeline from global to shared memory.", factory=Pipeline)
    predication: Mapping[str, Predicate] = guards_key()
    scheduler: Scheduler = key(Record(Scheduler), "The order in which thread blocks walk the tiles.", factory=Scheduler)


Spec = KernelSpec[GemmSchedule]
