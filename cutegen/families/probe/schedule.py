"""The words of a probe's schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensor_layouts import Layout

from cutegen.language.kinds import ByName, Integer, LayoutText, key
from cutegen.language.model import KernelSpec, Schedule


@dataclass(frozen=True)
class ProbeSchedule(Schedule):
    """Schedule of a probe."""

    tv_layout: Layout | None = key(
        LayoutText(numbers=False), "(thread, value) to place in the tile, first mode fastest.", required=True
    )
    tiler: Mapping[str, int] | None = key(
        ByName(Integer(), "Elements along this mode.", least=1), "Size of the tile along each mode."
    )


Spec = KernelSpec[ProbeSchedule]
