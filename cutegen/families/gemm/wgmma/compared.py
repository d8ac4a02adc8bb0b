"""The schedules that are compared by their cost where a spec says of its only such case nothing but what multiplies.

They were chosen by their times at 367 shapes (H200, bf16, three quarters of them sizes of models), from 105 schedules
at half of these and from 33 at all, as kernels of three kinds with which the estimate chose best. At these shapes the
one that is chosen is 1.051 times as fast as cuBLAS, in the geometric mean, the fastest of the set 1.058 times, and that
of all 33 schedules 1.066 times.
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
    *(Tile(32, 64, 1, 2), Tile(64, 64, 1, 2), Tile(96, 64, 1, 2), Tile(64, 128, 2), Tile(96, 128, 2)),
    *(Tile(96, 192, 3), Tile(160, 128, 2), Tile(224, 128, 2)),
    *(Tile(48, 64, 1, 2, parts=3), Tile(64, 64, 1, 2, parts=4), Tile(96, 64, 1, 2, parts=2)),
    *(Tile(96, 64, 1, 2, parts=3), Tile(128, 64, 1, 2, parts=4), Tile(96, 128, 2, parts=3)),
    *(Tile(128, 128, 2, parts=2), Tile(160, 128, 2, parts=2), Tile(128, 192, 3, parts=2)),
)
"""The columns of the output are the rows of a product, so that a tile may have as few as 32 rows."""
IN_TURN = tuple(Tile(128, columns, 2, roles="pingpong") for columns in (128, 176, 192))
"""Of two warpgroups that have tiles in turn: one stores its tile while the other multiplies."""


def compared(spec: Spec) -> Iterator[WarpspecializedSchedule]:
    """The schedules, of a spec that leaves out all but its atom. Of several products each has a part of the columns.

    Where a size is fixed, no tile reaches beyond it, since coordinates there do not exist: columns of a product are cut
    to it, and tiles with more rows are left out.
    """
    whole, product, fixed = spec.schedule, product_of(spec), spec.static
    found: list[WarpspecializedSchedule] = []
    m, n = spec.output.shape[-2:]
    products, line = len(product.stacked), LINE // product.dtype.bytes
    for tile in (*EXCHANGED, *IN_TURN):
        along, across = (n, m) if tile in EXCHANGED else (m, n)  # of the product's rows, and of its columns
        tiler = {m: tile.rows, n: tile.columns, product.k: tile.lines * line}
        tiler[across] = max(COLUMNS, tiler[across] // products // COLUMNS * COLUMNS)
        if across in fixed:
            unit = COLUMNS if fixed[across] <= COLUMNS else GRANULE  # more columns go through shared memory
            tiler[across] = min(tiler[across], max(1, -(-fixed[across] // unit)) * unit)
        rows = fixed.get(along, tiler[along])
        if tiler[along] > -(-rows // ROWS) * ROWS:
            continue
        warps = Warps(roles=tile.roles, consumers=tile.consumers)
        cluster = {m: 1, n: 1, product.k: tile.parts}
        one = replace(whole, mma=replace(whole.mma, rows=along), tiler=tiler, warps=warps, cluster=cluster)
        if one not in found:
            found.append(one)
            yield one
