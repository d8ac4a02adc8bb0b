"""The words of the schedule of a contraction whose warpgroups multiply on tensor cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from cutegen.atoms.mma import ATOMS, MmaAtomName
from cutegen.language.kinds import ByName, Choice, Integer, Record, key
from cutegen.language.model import KernelSpec, Schedule

OWN_ATOMS: tuple[MmaAtomName, ...] = ("wgmma",)  # that the templates of this family print
Math = Literal["precise", "fast"]


@dataclass(frozen=True)
class Mma:
    """The multiply-accumulate of a warpgroup."""

    atom: MmaAtomName | None = key(Choice(OWN_ATOMS), f"`wgmma`: {ATOMS['wgmma'].says}.")


@dataclass(frozen=True)
class Pipeline:
    """The software pipeline from global to shared memory."""

    stages: int | None = key(
        Integer(2, 8), "Tiles of the walked mode that shared memory holds, of each tensor that is multiplied."
    )


@dataclass(frozen=True)
class WarpgroupAttentionSchedule(Schedule):
    """Schedule of a contraction on the tensor cores of warpgroups: one warp loads, warpgroups of 64 rows multiply."""

    tiler: Mapping[str, int] | None = key(
        ByName(Integer(), "Elements along this mode.", least=1),
        "Rows of a block's tile along the mode of the queries, 64 of each warpgroup that multiplies, and the elements "
        "along the walked mode that are multiplied at a time.",
    )
    mma: Mma = key(Record(Mma), "The multiply-accumulate of a warpgroup.", factory=Mma)
    pipeline: Pipeline = key(Record(Pipeline), "Software pipeline from global to shared memory.", factory=Pipeline)
    math: Math | None = key(
        Choice(get_args(Math)),
        "How `exp` of f32 is computed: `precise`: as CUDA's expf, to 2 ulp; `fast`: as 2 to a power that is "
        "rounded first, with a third of the instructions; the error grows by one ulp per unit of the argument's "
        "magnitude. Left out: `fast`, as factors of 16 bits hide the error.",
    )

    @property
    def fast_math(self) -> bool:
        return self.math == "fast"


Spec = KernelSpec[WarpgroupAttentionSchedule]
