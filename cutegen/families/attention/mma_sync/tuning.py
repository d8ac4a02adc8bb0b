"""Choices tried for a contraction without `tune:`: the tile, and stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cutegen.families.attention.mma_sync.schedule import Spec
from cutegen.families.attention.operands import rows_key
from cutegen.ops.contract import walked_of
from cutegen.tuning.choice import Choice

TILES = ((64, 64), (64, 128), (128, 64), (128, 128))
OF_PARTS = ((16, 64), (16, 128))  # where blocks share a walk


def axes(specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
    """The axes that are combined."""
    found, schedule = walked_of(specs[0]), specs[0].schedule
    key = rows_key(schedule.tiler or {}, found)
    rows, walked = (("tiler", mode) for mode in (key, found.walked))
    yield "tile", [{rows: m, walked: n} for m, n in (OF_PARTS if schedule.split else TILES)]
    yield "stages", [{("pipeline", "stages"): stages} for stages in (1, 2, 3)]
