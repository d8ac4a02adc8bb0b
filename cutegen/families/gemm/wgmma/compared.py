"""The schedules that are compared by their cost where a spec says of its only such case nothing but what multiplies.

They were chosen from 206 schedules by their times at 271 shapes of models (H100, bf16). At these shapes the one with
the least estimate is 1.005 times as fast as the better of cuBLAS and quack, in the geometric mean; two more schedules
add 0.003.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from cutegen.analysis.cost import LINE
from cutegen.families.gemm.wgmma.product import COLUMNS, product_of
from cutegen.families.gemm.wgmma.schedule import Roles, Spec, Warps, WarpspecializedSchedule


class Tile(NamedTuple):
    """Rows and columns of the output that a block takes at a time, and the warpgroups that multiply them."""

    rows: int
    columns: int
    consumers: int
    lines: int = 1  # of 128 bytes along the sum
    roles: Roles = "cooperative"


EXCHANGED = (
    *(Tile(32, 64, 1, 2), Tile(64, 64, 1, 2), Tile(96, 64, 1, 2), Tile(128, 64, 1, 2)),
    *(Tile(128, 128, 2), Tile(160, 128, 2), Tile(144, 192, 3), Tile(176, 192, 3)),
)
"""For few hundred rows and less: columns of the output are rows of a product."""
SHARING = (
    *(Tile(128, 160, 2), Tile(128, 224, 2), Tile(128, 256, 2), Tile(192, 160, 3)),
    Tile(128, 192, 2, roles="pingpong"),
)
"""Of clusters of two blocks along the rows, which share what they load of B."""


def compared(spec: Spec) -> Iterator[WarpspecializedSchedule]:
    """The schedules, of a spec that leaves out all but its atom. Of several products each has a part of the columns."""
    whole, product = spec.schedule, product_of(spec)
    m, n = spec.output.shape[-2:]
    parts, line = len(product.stacked), LINE // product.dtype.bytes
    for tile in (*EXCHANGED, *SHARING):
        along, across = (n, m) if tile in EXCHANGED else (m, n)  # of the product's rows, and of its columns
        tiler = {m: tile.rows, n: tile.columns, product.k: tile.lines * line}
        tiler[across] = max(COLUMNS, tiler[across] // parts // COLUMNS * COLUMNS)
        warps = Warps(roles=tile.roles, consumers=tile.consumers)
        yield replace(whole, mma=replace(whole.mma, rows=along), tiler=tiler, warps=warps)
