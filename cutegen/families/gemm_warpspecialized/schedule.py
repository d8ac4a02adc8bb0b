"""The words of the schedule of a gemm whose warps have roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from cutegen.atoms.copies import WIDTHS
from cutegen.atoms.mma import ATOMS, MmaAtomName
from cutegen.language.kinds import ByName, Choice, Integer, Record, Text, key
from cutegen.language.model import KernelSpec, Schedule

OWN_ATOMS: tuple[MmaAtomName, ...] = ("wgmma",)  # that the templates of this family print
SWIZZLES = (128, 64, 32)  # bytes, over which runs of 16 bytes exchange their places
Predicate = Literal["none", "mask"]
Role = Literal["producer", "consumer"]


@dataclass(frozen=True)
class Mma:
    """The multiply-accumulate of a warpgroup."""

    atom: MmaAtomName | None = key(
        Choice(OWN_ATOMS), f"{'; '.join(f'`{name}`: {ATOMS[name].says}' for name in OWN_ATOMS)}."
    )


@dataclass(frozen=True)
class Warps:
    """What the warps of a block do: those of its first warpgroup load, those of the others multiply."""

    consumers: int | None = key(
        Integer(1, 3), "Warpgroups that multiply: each has 64 rows of the tile, and all of its columns."
    )
    registers: Mapping[str, int] = key(
        ByName(Integer(24, 240), "Registers of each of its threads: a multiple of 8."),
        "Registers of a thread by role, `producer` and `consumer`: what the former do without, the latter get.",
        factory=dict,
    )


@dataclass(frozen=True)
class Copy:
    """How one tensor moves to or from registers."""

    bits: int | None = key(Choice(WIDTHS), "Width of one access in bits.")


@dataclass(frozen=True)
class SharedMemory:
    """A stage of an operand's tile in shared memory."""

    swizzle: int | None = key(
        Choice(SWIZZLES),
        "Bytes along the operand's contiguous mode over which runs of 16 bytes exchange their places, so that neither "
        "loads nor products meet in one bank.",
    )


@dataclass(frozen=True)
class Pipeline:
    """The software pipeline from global to shared memory."""

    stages: int | None = key(Integer(1, 16), "Tiles in shared memory: one is multiplied while others are on their way.")


@dataclass(frozen=True)
class Scheduler:
    """The order in which thread blocks walk the output's tiles."""

    raster: str | None = key(Text(), "The mode, M or N, along which consecutive thread blocks take neighbouring tiles.")


@dataclass(frozen=True)
class WarpspecializedSchedule(Schedule):
    """Schedule of a matrix product on Hopper's tensor cores."""

    tiler: Mapping[str, int] | None = key(
        ByName(Integer(), "Elements along this mode.", least=1), "Size of a block's tile along M, N and K."
    )
    mma: Mma = key(Record(Mma), "The multiply-accumulate of a warpgroup.", factory=Mma, block=True)
    warps: Warps = key(Record(Warps), "The roles of a block's warps.", factory=Warps)
    copies: Mapping[str, Copy] = key(
        ByName(Record(Copy), "One tensor's copy."),
        "How tensors of the epilogue move, by tensor. A and B are brought to shared memory by tensor maps (TMA).",
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
            "`mask`: accesses past the end are left out. Loads by tensor maps bring zeros from there by themselves.",
        ),
        "Guards by mode.",
        factory=dict,
    )
    scheduler: Scheduler = key(Record(Scheduler), "The order in which thread blocks walk the tiles.", factory=Scheduler)


Spec = KernelSpec[WarpspecializedSchedule]
