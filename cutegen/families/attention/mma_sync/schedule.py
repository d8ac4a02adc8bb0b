"""The words of the schedule of a contraction whose warps multiply on tensor cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from cutegen.atoms.mma import ATOMS, MmaAtomName
from cutegen.families.attention.words import MATH_SAYS, STAGES_SAYS, Math
from cutegen.language.kinds import PLACEHOLDER, ByName, Choice, Integer, Kind, Record, key
from cutegen.language.model import KernelSpec, Schedule

MOST_PARTS = 1024
MOST_FILLING = 256  # parts that a call takes by itself
AUTO = "auto"
OWN_ATOMS: tuple[MmaAtomName, ...] = ("mma_sync",)  # that the templates of this family print


@dataclass(frozen=True)
class Parts(Kind):
    """A number of parts, or the word for as many as fill a GPU."""

    def schema(self, says: str) -> dict[str, Any]:
        typed = {"type": ["integer", "string"], "minimum": 2, "maximum": MOST_PARTS, "pattern": f"^{AUTO}$"}
        return {"description": says, "anyOf": [typed, dict(PLACEHOLDER)]}


@dataclass(frozen=True)
class Mma:
    """The multiply-accumulate of a warp."""

    atom: MmaAtomName | None = key(Choice(OWN_ATOMS), f"`mma_sync`: {ATOMS['mma_sync'].says}.")
    warps: int | None = key(
        Integer(1, 16),
        "Warps of a block, which share the rows of its tile; in a split walk of few rows its elements along that.",
    )


@dataclass(frozen=True)
class Pipeline:
    """The software pipeline from global to shared memory."""

    stages: int | None = key(Integer(1, 8), STAGES_SAYS)


@dataclass(frozen=True)
class AttentionSchedule(Schedule):
    """Schedule of a contraction on the tensor cores of single warps."""

    tiler: Mapping[str, int] | None = key(
        ByName(Integer(), "Elements along this mode.", least=1),
        "Rows of a block's tile along the mode of the queries, or with heads of a group as `M*R`, and the elements "
        "along the walked mode that are multiplied at a time.",
    )
    mma: Mma = key(Record(Mma), "The multiply-accumulate of a warp.", factory=Mma)
    pipeline: Pipeline = key(Record(Pipeline), "Software pipeline from global to shared memory.", factory=Pipeline)
    math: Math | None = key(
        Choice(get_args(Math)),
        MATH_SAYS,
    )
    split: Mapping[str, int | str] = key(
        ByName(Parts(), "Parts of the walk along this mode.", least=1),
        "Parts of the walk, each of which a block of its own takes, and whose results a second kernel merges in their "
        f"order. `{AUTO}`: the fewest that keep the GPU busy, by the sizes of a call and its multiprocessors. Left "
        "out: a block walks all tiles.",
        factory=dict,
    )

    @property
    def parts(self) -> int:
        """Blocks that share the walk of a tile of rows; if it `fills` the GPU, the most."""
        found = next(iter(self.split.values()), 1)
        return found if isinstance(found, int) else MOST_FILLING

    @property
    def fills(self) -> bool:
        """Whether the number of parts follows from the sizes of a call and the GPU."""
        return AUTO in self.split.values()

    @property
    def fast_math(self) -> bool:
        return self.math == "fast"

    @property
    def fast_elements(self) -> bool:
        return self.fast_math


Spec = KernelSpec[AttentionSchedule]
