"""The words of its schedule."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.language.kinds import Integer, key
from cutegen.language.model import KernelSpec, Schedule


@dataclass(frozen=True)
class BestSchedule(Schedule):
    """Schedule of the largest scores."""

    columns: int | None = key(Integer(8, 256), "Rows of B that one product takes, a multiple of 8.")
    stages: int | None = key(Integer(1, 5), "Tiles of A and B in shared memory; 5 of 256 columns fit.")


Spec = KernelSpec[BestSchedule]
