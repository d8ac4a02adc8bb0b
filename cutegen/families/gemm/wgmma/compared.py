"""The schedules that are compared by their cost where a spec says of its only such case nothing but what multiplies.

They were chosen from 32 schedules by their times at 98 shapes of models (H200, bf16): the set with which the estimate
chose best. At these shapes the fastest of the set is 1.022 times as fast as cuBLAS, in the geometric mean; the fastest
of all 32 is 1.030 times as fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from cutegen.analysis.cost import LINE
from cutegen.families.gemm.wgmma.product import COLUMNS, GRANULE, ROWS, product_of
from cutegen.families.gemm.wgmma.schedule import Roles, Spec, Warps, WarpspecializedSchedule


class Tile(NamedTuple):
    """Rows and columns of the output that a block takes at a time, the warpgroups that multiply them, and in how many
    blocks' parts the sum is.
    """

    rows: int
    columns: int
    consumers: int
    lines: int = 1  # of 128 bytes along the sum
    roles: Roles = "cooperative"
    parts: int = 1


EXCHANGED = (
    *(Tile(64, 64, 1, 2), Tile(64, 64, 1, 2, parts=2), Tile(48, 64, 1, 2, parts=3), Tile(64, 64, 1, 2, parts=4)),
    *(Tile(128, 128, 2), Tile(128, 128, 2, parts=2), Tile(128, 128, 2, parts=4)),
    *(Tile(160, 128, 2), Tile(160, 128, 2, parts=2), Tile(224, 128, 2)),
)
"""For few hundred rows and less: columns of the output are rows of a product."""
SHARING = (Tile(64, 192, 1), Tile(128, 128, 2, roles="pingpong"), Tile(128, 192, 2, roles="pingpong"))
"""Of clusters of two blocks along the rows, which share what they load of B."""


def compared(spec: Spec) -> Iterator[WarpspecializedSchedule]:
    """The schedules, of a spec that leaves out all but its atom. Of several products each has a part of the columns.

    Where a size is fixed, no tile reaches beyond it, since coordinates there do not exist: columns of a product are cut
    to it, and tiles with more rows, or shared by a cluster with nothing for its second block, are left out.
    """
    whole, product, fixed = spec.schedule, product_of(spec), spec.static
    found: list[WarpspecializedSchedule] = []
    m, n = spec.output.shape[-2:]
    products, line = len(product.stacked), LINE // product.dtype.bytes
    for tile in (*EXCHANGED, *SHARING):
        along, across = (n, m) if tile in EXCHANGED else (m, n)  # of the product's rows, and of its columns
        tiler = {m: tile.rows, n: tile.columns, product.k: tile.lines * line}
        tiler[across] = max(COLUMNS, tiler[across] // products // COLUMNS * COLUMNS)
        if across in fixed:
            unit = COLUMNS if fixed[across] <= COLUMNS else GRANULE  # more columns go through shared memory
            tiler[across] = min(tiler[across], max(1, -(-fixed[across] // unit)) * unit)
        rows = fixed.get(along, tiler[along])
        if tiler[along] > -(-rows // ROWS) * ROWS or tile in SHARING and m in fixed and fixed[m] <= tiler[m]:
            continue
        warps = Warps(roles=tile.roles, consumers=tile.consumers)
        cluster = {m: 2} if tile in SHARING else {product.k: tile.parts}
        one = replace(whole, mma=replace(whole.mma, rows=along), tiler=tiler, warps=warps, cluster=cluster)
        if one not in found:
            found.append(one)
            yield one
