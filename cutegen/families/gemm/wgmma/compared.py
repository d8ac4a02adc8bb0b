"""The schedules that are compared by their cost where a spec says of its only such case nothing but what multiplies.

They were chosen from 60 schedules that were timed at 844 shapes of 1 to 16384 rows (H200, bf16; 410 and 290 shapes with
most other sizes those of models, and 144 of few tiles and a long K; all schedules of a shape in turn, where their
estimates were up to about 1.15 times the least), as those with which the estimate chooses best. The 60 come from 96,
the 25 that were compared before among them, which came from 116 that were timed at 539 other shapes.

At 316 shapes of random sizes that had no part in this these are 1.007 times as fast as cuBLAS in the geometric mean,
0.77 times at worst; the 25 that were compared before are 1.003 and 0.67 times as fast. At the 144 shapes the 25 are
0.895 times as fast, these 0.933 times, and the fastest of all 60 would be 0.970 times as fast.

Kernels that divide the last round of tiles evenly among all blocks (stream-K, of one block or of two that share loads),
and clusters of two that have whole tiles in turn and split the last one, were timed beside them at the 410 shapes. By
one half of these 27 schedules were chosen for the other: with stream-K among them they are as fast as without, and with
such clusters 0.5 % faster, too little for another kind of kernel. At some shapes of 170 to 450 rows and a long K either
is 10 % faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from cutegen.analysis.cost import LINE
from cutegen.families.gemm.wgmma.product import COLUMNS, GRANULE, ROWS, product_of
from cutegen.families.gemm.wgmma.scales import is_scaled, step_of
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
    beside: int = 1  # blocks with neighbouring columns, which share what they load of A


EXCHANGED = (
    *(Tile(rows, 64, 1, 2) for rows in (64, 80, 112)),
    *(Tile(rows, 128, 2) for rows in (96, 112, 128, 144, 160, 176, 208)),
    *(Tile(96, 192, 3), Tile(224, 128, 2, sharing=2)),
    *(Tile(rows, 64, 1, 2, parts=2) for rows in (64, 96, 128)),
    *(Tile(96, 64, 1, 2, parts=3), Tile(64, 64, 1, 2, parts=4)),
    *(Tile(128, 128, 2, parts=2), Tile(160, 128, 2, parts=2)),
    *(Tile(144, 128, 2, parts=3), Tile(128, 128, 2, parts=4)),
)
"""The columns of the output are the rows of a product, so that a tile may have any multiple of 16 rows."""
STRAIGHT = (
    *(Tile(128, 160, 2, exchanged=False), Tile(192, 160, 3, exchanged=False)),
    *(Tile(128, 96, 2, parts=2, exchanged=False), Tile(192, 96, 3, parts=2, exchanged=False)),
)
"""The rows of the output are those of a product, which all warpgroups share."""
IN_TURN = tuple(Tile(128, columns, 2, roles="pingpong", sharing=2, exchanged=False) for columns in (96, 112, 128, 176))
"""Of two warpgroups that have tiles in turn: one stores its tile while the other multiplies."""
ONE = (*EXCHANGED, *STRAIGHT, *IN_TURN)
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


SCALED = (
    *(Tile(rows, 128, rows // 64, sharing=2, exchanged=False) for rows in (128, 192)),
    *(Tile(256, 128, 2, exchanged=False, beside=2), Tile(64, 128, 1, exchanged=False)),
    *(Tile(64, 64, 1, exchanged=False), Tile(64, 64, 1, exchanged=False, parts=2)),
    Tile(128, 128, 2, parts=2, exchanged=False),
)
"""Those whose products of each block are scaled. They were not timed: they are those that share most of what they load,
and some for few rows.
"""


def compared(spec: Spec) -> Iterator[WarpspecializedSchedule]:
    """The schedules, of a spec that leaves out all but its atom. Of several products each has a part of the columns.

    Where a size is fixed, no tile reaches beyond it, since coordinates there do not exist: columns of a product are cut
    to it, and tiles with more rows are left out.
    """
    whole, product, fixed = spec.schedule, product_of(spec), spec.static
    if product.segments is not None:
        return  # the estimate knows how many rows there are, and not how they are cut
    found: list[WarpspecializedSchedule] = []
    m, n = spec.output.shape[-2:]
    products, line = len(product.stacked), LINE // product.dtype.bytes
    for tile in SCALED if is_scaled(spec) else ONE if products == 1 else SEVERAL:
        # The modes of the product's rows and of its columns
        along, across = (n, m) if tile.exchanged else (m, n)
        tiler = {m: tile.rows, n: tile.columns, product.k: step_of(spec, tile.lines * line)}
        tiler[across] = max(COLUMNS, tiler[across] // products // COLUMNS * COLUMNS)
        if across in fixed:
            unit = COLUMNS if fixed[across] <= COLUMNS else GRANULE  # more columns go through shared memory
            tiler[across] = min(tiler[across], max(1, -(-fixed[across] // unit)) * unit)
        rows = fixed.get(along, tiler[along])
        if tiler[along] > -(-rows // ROWS) * ROWS:
            continue
        warps = Warps(roles=tile.roles, consumers=tile.consumers)
        sharing = min(tile.sharing, -(-fixed[along] // tiler[along])) if along in fixed else tile.sharing
        cluster = {along: sharing, across: tile.beside, product.k: tile.parts}
        one = replace(whole, mma=replace(whole.mma, rows=along), tiler=tiler, warps=warps, cluster=cluster)
        if one not in found:
            found.append(one)
            yield one
