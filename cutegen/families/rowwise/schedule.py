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
        "What the L1 cache does with lines of tensors that have all modes: `no_allocate` for what is touched once. One "
        "that broadcasts is read again, and stays `evict_normal`.",
    )


@dataclass(frozen=True)
class RowWalk:
    """Which thread blocks there are, and the order in which they walk the rows."""

    kind: Kind | None = key(
        Choice(get_args(Kind)),
        "`grid`: as many blocks as there are tiles of rows; `persistent`: `blocks` of them, which walk all tiles. What "
        "is reduced over the rows is summed by each block, then over the blocks, in an order that `blocks` decides.",
    )
    blocks: int | None = key(Integer(), "Thread blocks of a persistent kernel.")
    raster: str | None = key(Text(), "The mode along which consecutive thread blocks take neighbouring rows.")


@dataclass(frozen=True)
class RowPipeline:
    """How far ahead a block that walks many rows loads."""

    stages: int | None = key(
        Integer(),
        "Tiles of rows that a block of a persistent kernel has in registers or in shared memory: 2, where the next "
        "rows are loaded while it computes on its own, or 1.",
    )


@dataclass(frozen=True)
class RowwiseSchedule(Schedule):
    """Schedule of a row kernel."""

    tiler: Mapping[str, int] | None = key(
        ByName(Integer(), "Elements along this mode.", least=1),
        "What a thread block has at a time: along the row's mode the elements that its threads hold in registers, "
        "along the last other mode the rows, each with threads of its own; 1 along all others. The modes of a row that "
        "goes along several are named as one: `C*HW`.",
    )
    threads_per_row: int | None = key(
        Integer(),
        "Threads that share a row, at most 1024: a power of two or, where one block has it, a multiple of 32.",
    )
    cluster: Mapping[str, int] | None = key(
        ByName(Integer(), "Thread blocks along this mode, the row's: a power of two.", least=1),
        "How many thread blocks share a row. Each has what the tiler says of it, and their results meet in distributed "
        "shared memory: for targets that have clusters. Left out, one block has a row, unless it is too long for that.",
    )
    keep: Keep | None = key(
        Choice(get_args(Keep)),
        "Where a row waits between its reductions: `registers`: it is loaded once, whole; `smem`: bulk copies bring it "
        "to shared memory once, where it is walked in pieces of the tiler; `reload`: it is walked in such pieces, and "
        "read again for each reduction that needs an earlier one.",
    )
    shorter: Shorter | None = key(
        Choice(get_args(Shorter)),
        "What a row held in `registers` gets that is shorter than the tiler's: `fewer_threads`: each launch has as few "
        "for a row as hold it, and with them more rows for a block; `mask`: all of them, with accesses left out.",
    )
    longer: Longer | None = key(
        Choice(get_args(Longer)),
        "What becomes of a row that is longer than the tiler's: `reload`: a second kernel walks it in pieces of the "
        "tiler; `refuse`: the host refuses it.",
    )
    online: Online | None = key(
        Choice(get_args(Online)),
        "When a sum of exponentials above a row's largest value, `sum(exp(x - max(x, N)), N)`, is found together with "
        "that value, and scaled whenever a larger one turns up, and one of squares around a row's mean with that mean, "
        "each part of the row around its own: `walked`: where a row is walked in pieces, which spares a walk; `never`: "
        "it always has a walk of its own.",
    )
    math: Math | None = key(
        Choice(get_args(Math)),
        "How `exp` of f32 is computed: `precise`: as CUDA's expf, to 2 ulp; `fast`: as 2 to a power that is rounded "
        "first, which takes a third of the instructions, and errs by an ulp more for each 1 that its argument is away "
        "from 0. Elements that are divided by a sum of exponentials above the row's largest value are then multiplied "
        "by its reciprocal. Left out, fast where results of 16 bits hide that.",
    )
    copy: RowCopy = key(Record(RowCopy), "How every tensor along the rows moves.", factory=RowCopy)
    predication: Mapping[str, Predicate] = key(
        ByName(
            Choice(get_args(Predicate)),
            "How this mode is guarded: `none`: not, the host refuses a size that does not divide; `mask`: accesses "
            "past the end are left out, and a reduction takes its neutral element there.",
        ),
        "Guards by mode.",
        factory=dict,
    )
    pipeline: RowPipeline = key(Record(RowPipeline), "What is loaded ahead.", factory=RowPipeline)
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
