"""What a gemm whose warps have roles is estimated to take: the constants of its kind, for the sizes of its tile.

The constants were fitted, by their logarithms, to times of bf16 with data that is not in the caches: of 33 schedules at
367 shapes, from 1 to 32768 rows, on an H200. They were then adjusted so that the least estimate of the twenty kernels
that are compared is seldom that of a slow one: it takes 0.7 % longer than the fastest of them, in the geometric mean,
and 0.8 % where the constants are fitted to other shapes. Estimates are off by 7.3 % (root mean square); those of other
kernels rest on 174 shapes. Memory of an H100 brings about 4.0e6 bytes a microsecond.
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


COOPERATIVE, PINGPONG = Kind(0.2915, 0.6414), Kind(0.2543, 0.5264)
EXCHANGED = Kind(0.2796, 0.7097)
UNIT = 128 * 256  # elements
START = 1.121
END_OF_PARTS = 1.335  # for 128 x 256 elements, whose parts blocks send each other
AGAIN = 0.5922  # at each tile of blocks that have parts of a sum, which start anew for it
STEP = 0.02446  # of 128 bytes along the sum, whatever the tile
LOADED = 54.55e6  # bytes a microsecond: loads on top of all else, whose own time is in the others
MEMORY = 6.321e6  # bytes a microsecond
CROSSING = 1.7451  # times as long, of loads whose rows go across the ends of lines
PACE: dict[Kind, dict[tuple[int, int], float]] = {
    COOPERATIVE: {
        (64, 96): 1.055,
        (64, 128): 0.978,
        (64, 192): 0.981,
        (64, 256): 0.989,
        (128, 160): 0.989,
        (128, 224): 1.049,
        (128, 256): 1.037,
        (192, 80): 1.006,
        (192, 96): 0.929,
        (192, 128): 0.979,
        (192, 160): 1.014,
        (256, 96): 0.982,
        (256, 128): 1.029,
    },
    PINGPONG: {
        (64, 96): 1.177,
        (64, 128): 1.202,
        (64, 160): 1.188,
        (64, 192): 1.115,
        (64, 256): 1.129,
        (128, 64): 1.106,
        (128, 80): 1.116,
        (128, 96): 0.984,
        (128, 112): 1.018,
        (128, 128): 0.981,
        (128, 144): 1.112,
        (128, 160): 1.077,
        (128, 176): 1.087,
        (128, 192): 1.072,
        (128, 208): 1.115,
    },
    EXCHANGED: {
        (16, 64): 1.303,
        (32, 64): 1.143,
        (48, 64): 1.157,
        (64, 64): 1.002,
        (80, 64): 0.976,
        (96, 64): 0.966,
        (112, 64): 0.989,
        (128, 64): 0.965,
        (160, 64): 1.097,
        (192, 64): 1.038,
        (48, 128): 1.293,
        (64, 128): 1.160,
        (80, 128): 1.090,
        (96, 128): 1.022,
        (112, 128): 0.986,
        (128, 128): 1.004,
        (144, 128): 0.977,
        (160, 128): 0.989,
        (176, 128): 0.992,
        (192, 128): 0.987,
        (208, 128): 1.037,
        (224, 128): 1.044,
        (240, 128): 1.062,
        (256, 128): 1.065,
        (64, 192): 1.144,
        (96, 192): 0.980,
        (128, 192): 1.014,
        (160, 192): 1.047,
        (64, 256): 1.146,
        (96, 256): 1.020,
        (128, 256): 1.056,
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
