"""The schedules that are compared by their cost where a spec says of its only such case nothing but what multiplies.

They were chosen from 116 schedules, which were timed at 150 or 400 of 539 shapes (two H200, bf16, M from 1 to 8192,
most other sizes of models) where their estimates were at most about 1.25 times the least: as kernels of three kinds
with which the estimate chooses best. Sets of 24 that were chosen by one half of the shapes are 1.050 and 1.055 times as
fast as cuBLAS at the other half, in the geometric mean.

The two of `LONG` come from 73 schedules that were all timed at 160 other shapes of 1 to 768 rows on an H200. By these
times the estimate chooses kernels that are 1.092 times as fast as cuBLAS, 0.82 times at worst; without the two they are
1.083 and 0.57 times as fast.

By the times of all of `ONE` at 406 shapes of 8 to 4096 rows (H200) the kernels that the estimate chooses are 1.042
times as fast as cuBLAS in the geometric mean, 0.82 times at worst; the fastest at each shape would be 1.051 times as
fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from cutegen.analysis.cost import LINE
from cutegen.families.gemm.wgmma.product import COLUMNS, GRANULE, ROWS, product_of
from cutegen.families.gemm.wgmma.schedule import Roles, Spec, Warps, WarpspecializedSchedule


class Tile(NamedTuple):
    """Rows and columns of the output that a block takes at a time, the warpgroups that multiply them, in how many
    blocks' parts the sum is, and how many blocks with neighbouring rows share what they load of B.
    """

    rows: int
    columns: int
    consumers: int
    lines: int = 1  # of 128 bytes along the sum
    roles: Roles = "cooperative"
    parts: int = 1
    sharing: int = 1
    exchanged: bool = True  # whether rows of the product are columns of the output


EXCHANGED = (
    *(Tile(rows, 64, 1, 2) for rows in (32, 64, 96, 112, 128)),
    *(Tile(rows, 128, 2) for rows in (96, 128, 144, 160, 176, 208)),
    *(Tile(rows, 192, 3) for rows in (96, 160)),
    *(Tile(64, 64, 1, 2, parts=2), Tile(96, 64, 1, 2, parts=2), Tile(96, 64, 1, 2, parts=3)),
    *(Tile(64, 64, 1, 2, parts=4), Tile(160, 128, 2, parts=2)),
)
"""The columns of the output are the rows of a product, so that a tile may have as few as 32 rows."""
LONG = (Tile(128, 96, 2, parts=2, exchanged=False), Tile(192, 96, 3, parts=2, exchanged=False))
"""Two blocks split the sum of a tile along K, whose rows are rows of the output: for 100 to 400 rows and a long K."""
IN_TURN = tuple(
    Tile(128, columns, 2, roles="pingpong", sharing=2, exchanged=False) for columns in (96, 112, 128, 144, 160)
)
"""Of two warpgroups that have tiles in turn: one stores its tile while the other multiplies."""
ONE = (*EXCHANGED, *LONG, *IN_TURN)
SEVERAL = (
    *(Tile(rows, 64, 1, 2) for rows in (32, 64, 96, 128)),
    *(Tile(rows, 64, 1) for rows in (160, 192)),
    *(Tile(rows, 128, 2) for rows in (160, 192, 208)),
    *(Tile(128, columns, 2, roles="pingpong", sharing=2, exchanged=False) for columns in (128, 160, 192)),
)
"""Those for several products, each of which has a part of the columns of a product. They were chosen for two products
from 39 schedules at 230 shapes: by their times 1.12 times as fast as cuBLAS' two products, in the geometric mean, and
0.89 times at worst.
"""


def compared(spec: Spec) -> Iterator[WarpspecializedSchedule]:
    """The schedules, of a spec that leaves out all but its atom. Of several products each has a part of the columns.

    Where a size is fixed, no tile reaches beyond it, since coordinates there do not exist: columns of a product are cut
    to it, and tiles with more rows are left out.
    """
    whole, product, fixed = spec.schedule, product_of(spec), spec.static
    found: list[WarpspecializedSchedule] = []
    m, n = spec.output.shape[-2:]
    products, line = len(product.stacked), LINE // product.dtype.bytes
    for tile in ONE if products == 1 else SEVERAL:
        # The modes of the product's rows and of its columns
        along, across = (n, m) if tile.exchanged else (m, n)
        tiler = {m: tile.rows, n: tile.columns, product.k: tile.lines * line}
        tiler[across] = max(COLUMNS, tiler[across] // products // COLUMNS * COLUMNS)
        if across in fixed:
            unit = COLUMNS if fixed[across] <= COLUMNS else GRANULE  # more columns go through shared memory
            tiler[across] = min(tiler[across], max(1, -(-fixed[across] // unit)) * unit)
        rows = fixed.get(along, tiler[along])
        if tiler[along] > -(-rows // ROWS) * ROWS:
            continue
        warps = Warps(roles=tile.roles, consumers=tile.consumers)
        sharing = min(tile.sharing, -(-fixed[m] // tile.rows)) if m in fixed else tile.sharing
        cluster = {m: sharing, n: 1, product.k: tile.parts}
        one = replace(whole, mma=replace(whole.mma, rows=along), tiler=tiler, warps=warps, cluster=cluster)
        if one not in found:
            found.append(one)
            yield one
