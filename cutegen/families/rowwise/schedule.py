"""The words of a row kernel's schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from cutegen.atoms.copies import (
    COPY_ATOM_SAYS,
    COPY_ATOMS,
    FALLBACK_SAYS,
    WIDTHS,
    CopyAtomName,
    EvictPriority,
    Fallback,
)
from cutegen.language.kinds import ByName, Choice, Integer, Record, Text, key
from cutegen.language.model import KernelSpec, Schedule

Keep = Literal["registers", "smem", "reload"]
Predicate = Literal["none", "mask"]
Shorter = Literal["fewer_threads", "mask"]
Longer = Literal["reload", "refuse"]
Online = Literal["walked", "never"]
Math = Literal["precise", "fast"]
Kind = Literal["grid", "persistent"]


@dataclass(frozen=True)
class RowCopy:
    """How every tensor that lies along the rows moves."""

    atom: CopyAtomName | None = key(Choice(COPY_ATOMS), COPY_ATOM_SAYS)
    bits: int | None = key(
        Choice(WIDTHS),
        "Width of one access to the widest element type, in bits. Left out, as wide as sizes and alignment allow.",
    )
    fallback: Fallback | None = key(Choice(get_args(Fallback)), FALLBACK_SAYS)
    evict_priority: EvictPriority | None = key(
        Choice(get_args(EvictPriority)),
        "L1 cache hint for tensors that have all modes: `no_allocate` for data that are accessed once. Tensors "
        "that broadcast are read again, and stay `evict_normal`.",
    )


@dataclass(frozen=True)
class RowWalk:
    """Which thread blocks there are, and the order in which they walk the rows."""

    kind: Kind | None = key(
        Choice(get_args(Kind)),
        "`grid`: one block per tile of rows; `persistent`: `blocks` of them, which walk all tiles. Reductions over "
        "the rows are summed by each block, then over the blocks, in an order that depends on `blocks`.",
    )
    blocks: int | None = key(Integer(), "Thread blocks of a persistent kernel.")
    raster: str | None = key(Text(), "The mode along which consecutive thread blocks take neighbouring rows.")


@dataclass(frozen=True)
class RowPipeline:
    """How far ahead a block that walks many rows loads."""

    stages: int | None = key(
        Integer(),
        "Tiles of rows that a block of a persistent kernel has in registers or in shared memory: 2, to load the "
        "next rows while it computes, or 1.",
    )


@dataclass(frozen=True)
class RowwiseSchedule(Schedule):
    """Schedule of a row kernel."""

    tiler: Mapping[str, int] | None = key(
        ByName(Integer(), "Elements along this mode.", least=1),
        "The tile of a thread block: along the row's mode, the elements that its threads hold in registers; along "
        "the last other mode, the rows, each with its own threads; 1 along all others. Several modes of a row are "
        "named together: `C*HW`.",
    )
    threads_per_row: int | None = key(
        Integer(),
        "Threads that share a row, at most 1024: a power of two, or a multiple of 32 if one block has the row.",
    )
    cluster: Mapping[str, int] | None = key(
        ByName(Integer(), "Thread blocks along this mode, the row's: a power of two.", least=1),
        "Number of thread blocks that share a row, on targets with clusters. Each has the tiler's part of it, and "
        "they exchange results in distributed shared memory. Left out: one block per row, unless it is too long.",
    )
    keep: Keep | None = key(
        Choice(get_args(Keep)),
        "Where a row is kept between its reductions: `registers`: it is loaded once, whole; `smem`: bulk copies "
        "load it to shared memory once, where threads walk it in pieces of the tiler; `reload`: threads walk it in "
        "such pieces, and read it again for each reduction that needs an earlier one.",
    )
    shorter: Shorter | None = key(
        Choice(get_args(Shorter)),
        "Rows held in `registers` that are shorter than the tiler's: `fewer_threads`: each launch gives a row the "
        "fewest threads that hold it, and a block more rows; `mask`: all threads, with accesses masked off.",
    )
    longer: Longer | None = key(
        Choice(get_args(Longer)),
        "Rows longer than the tiler's: `reload`: a second kernel walks them in pieces of the tiler; `refuse`: the "
        "host rejects them.",
    )
    online: Online | None = key(
        Choice(get_args(Online)),
        "Whether a row's maximum and the sum of exponentials above it, `sum(exp(x - max(x, N)), N)`, are found in "
        "one walk, rescaled at each larger value, and likewise a row's mean and the sum of squares around it, "
        "merged part by part: `walked`: if rows are walked in pieces, which saves a walk; `never`: always in a "
        "separate walk.",
    )
    math: Math | None = key(
        Choice(get_args(Math)),
        "How `exp` of f32 is computed: `precise`: as CUDA's expf, to 2 ulp; `fast`: as 2 to a power that is "
        "rounded first, with a third of the instructions; the error grows by one ulp per unit of the argument's "
        "magnitude. Division by a sum of exponentials above the row's maximum then becomes multiplication by its "
        "reciprocal. Left out: `fast` if 16-bit results hide the error.",
    )
    copy: RowCopy = key(Record(RowCopy), "How every tensor along the rows moves.", factory=RowCopy)
    predication: Mapping[str, Predicate] = key(
        ByName(
            Choice(get_args(Predicate)),
            "How this mode is guarded: `none`: not, and the host rejects sizes that are not multiples; `mask`: "
            "accesses past the end are masked off, and a reduction takes its neutral element there.",
        ),
        "Guards by mode.",
        factory=dict,
    )
    pipeline: RowPipeline = key(Record(RowPipeline), "Rows that are loaded ahead.", factory=RowPipeline)
    scheduler: RowWalk = key(Record(RowWalk), "The order in which rows are walked.", factory=RowWalk)

    @property
    def fewer_threads(self) -> bool:
        """Whether the rows' size decides at each launch how many threads share one."""
        return self.shorter == "fewer_threads"

    @property
    def fast_math(self) -> bool:
        return self.math == "fast"

    @property
    def narrows(self) -> bool:
        return self.copy.fallback == "narrow"


Spec = KernelSpec[RowwiseSchedule]
