"""What a gemm whose warps have roles is estimated to take: the constants of its kind, for the sizes of its tile.

The constants were fitted, by their logarithms, to times of bf16 with data that is not in the caches: of 32 schedules
at 98 shapes of models, from 2 to 32768 rows, on an H200. Estimates are off by 6.4 % (root mean square). Of the thirteen
kernels that are compared, the one with the least estimate takes 0.6 % longer than the fastest, in the geometric mean,
and 0.5 % where the constants are fitted to other shapes. Memory of an H100 brings about 4.0e6 bytes a microsecond.
"""

from __future__ import annotations

from typing import NamedTuple

from cutegen.analysis.cost import LINE, Cost, Moved
from cutegen.families.gemm.wgmma.blocks import MULTIPROCESSORS, clusters_at_once
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan


class Kind(NamedTuple):
    """Microseconds of 128 x 256 elements of a tile: of their products with 128 bytes of the sum, and of the end."""

    product: float
    end: float


COOPERATIVE, PINGPONG, EXCHANGED = Kind(0.2812, 0.4099), Kind(0.258, 0.0041), Kind(0.2363, 0.5123)
UNIT = 128 * 256  # elements
START = 1.9
END_OF_PARTS = 1.0136  # for 128 x 256 elements, whose parts blocks send each other
AGAIN = 0.6617  # at each tile of blocks that have parts of a sum, which start anew for it
STEP = 0.023  # of 128 bytes along the sum, whatever the tile
LOADED = 36.25e6  # bytes a microsecond, from the second-level cache
MEMORY = 6.06e6  # bytes a microsecond
CROSSING = 1.7451  # times as long, of loads whose rows go across the ends of lines
PACE: dict[Kind, dict[tuple[int, int], float]] = {
    COOPERATIVE: {(64, 192): 0.876, (128, 160): 0.942, (128, 192): 0.986, (128, 224): 1.03, (128, 256): 1.033},
    PINGPONG: {(128, 128): 0.937, (128, 192): 1.062},
    EXCHANGED: {
        (48, 64): 0.95,
        (64, 64): 0.798,
        (96, 64): 0.83,
        (96, 128): 1.024,
        (128, 128): 0.958,
        (144, 128): 1.023,
        (160, 128): 0.963,
        (176, 192): 1.135,
        (224, 128): 1.086,
    },
}
"""Measured time of a step over what its kind predicts, by rows and columns of the tile; 1 for all others."""


def cost_of(plan: WarpspecializedPlan) -> Cost:
    """The estimate of a kernel."""
    rows, columns, depth = (plan.tile[mode] for mode in (plan.m, plan.n, plan.k))
    extent = dict(zip((plan.m, plan.n), plan.cluster_tile, strict=True))
    m, n = plan.spec.output.shape[-2:]
    lines = depth * plan.a.tensor.dtype.bytes / LINE
    kind = PINGPONG if plan.pingpong else EXCHANGED if plan.exchanged else COOPERATIVE
    tile = rows * columns * plan.products / UNIT
    pace = PACE[kind].get((plan.tile[m], plan.tile[n]), 1.0)
    end = kind.end * tile / plan.split + (END_OF_PARTS * tile + AGAIN) * (plan.split > 1)
    line = lines * LINE * plan.cluster_size / LOADED  # to load a row of a step for all blocks of a cluster
    return Cost(
        m=m,
        n=n,
        k=plan.k,
        batch=plan.batch,
        rows=extent[m],
        columns=extent[n],
        depth=depth * plan.split,
        clusters=plan.blocks // plan.cluster_size if plan.blocks else clusters_at_once(plan.cluster_size),
        multiprocessors=MULTIPROCESSORS,
        fixed=plan.blocks is not None,
        start=START,
        tile=round(end, 3),
        step=round((kind.product * tile + STEP) * lines * pace, 4),
        load_rows=_rounded(line * sum(side.extent / side.shared_by for side in plan.sides if side.mode == m)),
        load_columns=_rounded(line * sum(side.extent / side.shared_by for side in plan.sides if side.mode == n)),
    )


def _rounded(number: float) -> float:
    """The number with three digits."""
    return float(f"{number:.3g}")


def moved_by(plan: WarpspecializedPlan) -> Moved:
    """What a kernel moves, whatever its schedule."""
    spec = plan.spec
    tensors = tuple((t.shape, t.dtype.bytes * (1 + (t.role == "inout"))) for t in spec.tensors)
    return Moved(tensors, MEMORY, plan.k, LINE // plan.a.tensor.dtype.bytes, CROSSING)
