"""The words of the schedule of a contraction whose warps multiply on tensor cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from cutegen.atoms.mma import ATOMS, MmaAtomName
from cutegen.families.attention.words import MATH_SAYS, STAGES_SAYS, Math
from cutegen.language.kinds import ByName, Choice, Integer, Record, key
from cutegen.language.model import KernelSpec, Schedule

MOST_PARTS = 1024
OWN_ATOMS: tuple[MmaAtomName, ...] = ("mma_sync",)  # that the templates of this family print


@dataclass(frozen=True)
class Mma:
    """The multiply-accumulate of a warp."""

    atom: MmaAtomName | None = key(Choice(OWN_ATOMS), f"`mma_sync`: {ATOMS['mma_sync'].says}.")
    warps: int | None = key(Integer(1, 16), "Warps of a block, which share the rows of its tile.")


@dataclass(frozen=True)
class Pipeline:
    """The software pipeline from global to shared memory."""

    stages: int | None = key(Integer(1, 8), STAGES_SAYS)


@dataclass(frozen=True)
class AttentionSchedule(Schedule):
    """Schedule of a contraction on the tensor cores of single warps."""

    tiler: Mapping[str, int] | None = key(
        ByName(Integer(), "Elements along this mode.", least=1),
        "Rows of a block's tile along the mode of the queries, and the elements along the walked mode that are "
        "multiplied at a time.",
    )
    mma: Mma = key(Record(Mma), "The multiply-accumulate of a warp.", factory=Mma)
    pipeline: Pipeline = key(Record(Pipeline), "Software pipeline from global to shared memory.", factory=Pipeline)
    math: Math | None = key(
        Choice(get_args(Math)),
        MATH_SAYS,
    )
    split: Mapping[str, int] = key(
        ByName(Integer(2, MOST_PARTS), "Parts of the walk along this mode.", least=1),
        "Parts of the walk, each of which a block of its own takes, and whose results a second kernel merges in their "
        "order. Left out: a block walks all tiles.",
        factory=dict,
    )

    @property
    def parts(self) -> int:
        """Blocks that share the walk of a tile of rows."""
        return next(iter(self.split.values()), 1)

    @property
    def fast_math(self) -> bool:
        return self.math == "fast"


Spec = KernelSpec[AttentionSchedule]
