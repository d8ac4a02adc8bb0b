"""What a gemm whose warps have roles is estimated to take: the constants of its kind, for the sizes of its tile.

The constants were fitted, by their logarithms, to times of bf16 with data that is not in the caches: of 26 schedules
at 112 shapes of models on an H200, and of 31 at 271 shapes, from 1 to 16384 rows, on an H100. Estimates are off by 9
and 8 % (root mean square), and of fourteen kernels the one with the least estimate takes 1.3 % longer than the fastest
on the H200. The two GPUs differ in what their memories bring: 6.5e6 and 4.0e6 bytes a microsecond fit them best.
"""

from __future__ import annotations

from typing import NamedTuple

from cutegen.analysis.cost import LINE, Cost, Moved
from cutegen.families.gemm.wgmma.blocks import GPCS
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan


class Kind(NamedTuple):
    """Microseconds of 128 x 256 elements of a tile: of their products with 128 bytes of the sum, and of the end."""

    product: float
    end: float


COOPERATIVE, PINGPONG, EXCHANGED = Kind(0.2966, 0.4808), Kind(0.2849, 0.2825), Kind(0.2621, 0.7086)
UNIT = 128 * 256  # elements
START = 3.073
START_OF_TURNS = 0.286  # more, of warpgroups that take turns
START_OF_PARTS = 0.618  # more, of blocks that have parts of a sum
END_OF_PARTS = 2.446  # for 128 x 256 elements, whose parts blocks send each other
STEP = 0.0158  # of 128 bytes along the sum, whatever the tile
ALONE = 1.035  # times as long, of one warpgroup that nobody multiplies beside
LOADED = 46.65e6  # bytes a microsecond, from the second-level cache
MEMORY = 5.08e6  # bytes a microsecond, between what was found of an H100 and of an H200
CROSSING = 1.741  # times as long, of loads whose rows go across the ends of lines


def cost_of(plan: WarpspecializedPlan) -> Cost:
    """The estimate of a kernel."""
    rows, columns, depth = (plan.tile[mode] for mode in (plan.m, plan.n, plan.k))
    extent = dict(zip((plan.m, plan.n), plan.cluster_tile, strict=True))
    m, n = plan.spec.output.shape[-2:]
    lines = depth * plan.a.tensor.dtype.bytes / LINE
    kind = PINGPONG if plan.pingpong else EXCHANGED if plan.exchanged else COOPERATIVE
    tile = rows * columns * plan.products / UNIT
    product = kind.product * tile * (ALONE if plan.consumers == 1 else 1.0)
    end = kind.end * tile / plan.split + END_OF_PARTS * tile * (plan.split > 1)
    loaded = sum(side.extent / side.shared_by for side in plan.sides) * lines * LINE
    return Cost(
        m=m,
        n=n,
        k=plan.k,
        batch=plan.batch,
        rows=extent[m],
        columns=extent[n],
        depth=depth * plan.split,
        clusters=(plan.blocks or sum(GPCS)) // plan.cluster_size,
        start=round(START + START_OF_TURNS * plan.pingpong + START_OF_PARTS * (plan.split > 1), 2),
        tile=round(end, 3),
        step=round(product * lines + STEP * lines, 4),
        load=float(f"{loaded * plan.cluster_size / LOADED:.3g}"),
    )


def moved_by(plan: WarpspecializedPlan) -> Moved:
    """What a kernel moves, whatever its schedule."""
    spec = plan.spec
    tensors = tuple((t.shape, t.dtype.bytes * (1 + (t.role == "inout"))) for t in spec.tensors)
    return Moved(tensors, MEMORY, plan.k, LINE // plan.a.tensor.dtype.bytes, CROSSING)
