"""The words of a fill's schedule."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.language.kinds import Integer, key
from cutegen.language.model import KernelSpec, Schedule


@dataclass(frozen=True)
class FillSchedule(Schedule):
    """Schedule of a fill."""

    threads: int | None = key(Integer(1, 1024), "Threads of a block, side by side along the last mode.")
    rows: int | None = key(Integer(1, 1024), "Elements of a thread, one below the other.")


Spec = KernelSpec[FillSchedule]
