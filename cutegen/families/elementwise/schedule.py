"""The words of an elementwise kernel's schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from tensor_layouts import Layout

from cutegen.atoms.copies import (
    COPY_ATOM_SAYS,
    COPY_ATOMS,
    FALLBACK_SAYS,
    WIDTHS,
    CopyAtomName,
    EvictPriority,
    Fallback,
)
from cutegen.language.kinds import ByName, Choice, Integer, LayoutText, Record, Text, key
from cutegen.language.model import KernelSpec, Schedule

Partition = Literal["inner", "inner_outer", "thread_value"]
Predicate = Literal["none", "mask"]


@dataclass(frozen=True)
class ElementwiseCopy:
    """How every tensor of an elementwise kernel moves."""

    atom: CopyAtomName | None = key(Choice(COPY_ATOMS), COPY_ATOM_SAYS)
    bits: int | None = key(
        Choice(WIDTHS),
        "Width of one access to the widest element type, in bits. Left out, as wide as a thread has neighbours; single "
        "elements for `inner_outer`.",
    )
    fallback: Fallback | None = key(Choice(get_args(Fallback)), FALLBACK_SAYS)
    evict_priority: EvictPriority | None = key(
        Choice(get_args(EvictPriority)),
        "L1 cache hint for tensors that have all modes of the output: `no_allocate` for data that are accessed "
        "once. Tensors that broadcast are read again, and stay `evict_normal`.",
    )


@dataclass(frozen=True)
class Walk:
    """The order in which thread blocks, or the threads of the partition inner, walk the output's tiles."""

    raster: str | None = key(
        Text(),
        "The mode along which consecutive thread blocks take neighbouring tiles; with the partition inner, consecutive "
        "threads.",
    )


@dataclass(frozen=True)
class ElementwiseSchedule(Schedule):
    """Schedule of an elementwise kernel."""

    partition: Partition | None = key(
        Choice(get_args(Partition)),
        "`inner`: a thread takes a tile; `inner_outer`: a block takes a tile and distributes it by a thread "
        "layout, in accesses of `copy.bits` or in single elements; `thread_value`: by a thread and a value layout.",
    )
    tiler: Mapping[str, int] | None = key(
        ByName(Integer(), "Elements along this mode.", least=1),
        "Size of the tile along each mode: a thread's (inner) or a block's (inner_outer).",
    )
    threads: int | None = key(Integer(), "Threads of a block (inner).")
    thread_layout: Layout | None = key(LayoutText(), "Coordinate in the tile to thread (inner_outer, thread_value).")
    value_layout: Layout | None = key(LayoutText(), "Coordinate in a thread's part to value (thread_value).")
    copy: ElementwiseCopy = key(Record(ElementwiseCopy), "How every tensor moves.", factory=ElementwiseCopy)
    predication: Mapping[str, Predicate] = key(
        ByName(
            Choice(get_args(Predicate)),
            "How this mode is guarded: `none`: not, and the host rejects sizes that are not multiples; `mask`: "
            "accesses past the end are masked off.",
        ),
        "Guards by mode.",
        factory=dict,
    )
    scheduler: Walk = key(Record(Walk), "The order in which tiles are walked.", factory=Walk)

    @property
    def narrows(self) -> bool:
        return self.copy.fallback == "narrow"


Spec = KernelSpec[ElementwiseSchedule]
