"""The words of the schedule of a contraction whose warpgroups multiply on tensor cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from cutegen.atoms.mma import ATOMS, MmaAtomName
from cutegen.families.attention.words import MATH_SAYS, STAGES_SAYS, Math
from cutegen.language.kinds import ByName, Choice, Integer, Record, key
from cutegen.language.model import KernelSpec, Schedule

OWN_ATOMS: tuple[MmaAtomName, ...] = ("wgmma",)  # that the templates of this family print


@dataclass(frozen=True)
class Mma:
    """The multiply-accumulate of a warpgroup."""

    atom: MmaAtomName | None = key(Choice(OWN_ATOMS), f"`wgmma`: {ATOMS['wgmma'].says}.")


@dataclass(frozen=True)
class Pipeline:
    """The software pipeline from global to shared memory."""

    stages: int | None = key(Integer(2, 8), STAGES_SAYS)


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
        MATH_SAYS,
    )

    @property
    def fast_math(self) -> bool:
        return self.math == "fast"

    @property
    def fast_elements(self) -> bool:
        return self.fast_math


Spec = KernelSpec[WarpgroupAttentionSchedule]
