"""The schedules that are compared by their cost where a spec says of its only such case nothing but what multiplies.

Of 134 schedules, these eleven together are the best for 248 shapes of models if the one with the least estimate runs:
their geometric mean against the better of cuBLAS and quack is 1.00 (H100, bf16), and with two more it is no better by
a hundredth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from cutegen.families.gemm.wgmma.product import COLUMNS, product_of
from cutegen.families.gemm.wgmma.schedule import Roles, Spec, Warps, WarpspecializedSchedule


class Tile(NamedTuple):
    """Rows and columns of the output that a block takes at a time, and the warpgroups that multiply them."""

    rows: int
    columns: int
    consumers: int
    roles: Roles = "cooperative"


EXCHANGED = Tile(32, 64, 1), Tile(64, 64, 1), Tile(96, 64, 1), Tile(64, 128, 2)
"""For few rows: columns of the output are rows of a product."""
SHARING = (
    *(Tile(64, 192, 1), Tile(128, 160, 2), Tile(128, 224, 2), Tile(128, 256, 2), Tile(192, 160, 3)),
    *(Tile(128, 128, 2, "pingpong"), Tile(128, 192, 2, "pingpong")),
)
"""Of clusters of two blocks along the rows, which share what they load of B."""


def compared(spec: Spec) -> Iterator[WarpspecializedSchedule]:
    """The schedules, of a spec that leaves out all but its atom. Of several products each has a part of the columns."""
    whole, product = spec.schedule, product_of(spec)
    m, n = spec.output.shape[-2:]
    parts = len(product.stacked)
    for tile in EXCHANGED:
        tiler = {m: tile.rows // parts // COLUMNS * COLUMNS or COLUMNS, n: tile.columns}
        warps = Warps(roles=tile.roles, consumers=tile.consumers)
        yield replace(whole, mma=replace(whole.mma, rows=n), tiler=tiler, warps=warps)
    for tile in SHARING:
        tiler = {m: tile.rows, n: tile.columns // parts // COLUMNS * COLUMNS}
        warps = Warps(roles=tile.roles, consumers=tile.consumers)
        yield replace(whole, mma=replace(whole.mma, rows=m), tiler=tiler, warps=warps)
