"""Choices tried for a contraction by warpgroups without `tune:`: the tile, and stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cutegen.families.attention.wgmma.schedule import Spec
from cutegen.ops.contract import walked_of
from cutegen.tuning.choice import Choice

TILES = ((128, 64), (128, 80), (128, 112), (128, 128), (128, 176), (192, 80), (192, 112), (192, 128))


def axes(specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
    """The axes that are combined."""
    found = walked_of(specs[0])
    rows, walked = (("tiler", mode) for mode in (found.rows[0], found.walked))
    yield "tile", [{rows: m, walked: n} for m, n in TILES]
    yield "stages", [{("pipeline", "stages"): stages} for stages in (2, 3)]
