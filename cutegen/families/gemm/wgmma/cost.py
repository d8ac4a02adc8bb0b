"""Estimates the time of a warp-specialised gemm from the constants of its kind and the sizes of its tile.

The constants were fitted, by their logarithms, to times of bf16 with data that is not in the caches, at 539 shapes
with 1 to 8192 rows on two H200, of 75 schedules whose warps multiply columns of the output or have tiles in turn;
those of other kernels rest on 174 shapes, and the pace of 32 x 64, exchanged, on 160. The paces of the tiles in
`compared.ONE` were fitted again, to the differences between kernels at one shape, at 844 shapes of 1 to 16384 rows on
an H200; all other constants are as they were.
Memory of an H100 brings about 4.0e6 bytes a microsecond.
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


COOPERATIVE, PINGPONG = Kind(0.285, 0.5921), Kind(0.2486, 0.4407)
EXCHANGED = Kind(0.2734, 0.6552)
UNIT = 128 * 256  # elements
START = 2.074
END_OF_PARTS = 1.329  # for 128 x 256 elements, whose parts blocks send each other
AGAIN = 0.5897  # at each tile of blocks that have parts of a sum, which start anew for it
STEP = 0.02392  # of 128 bytes along the sum, for any tile
LOADED = 63.31e6  # bytes a microsecond: loads on top of all else, whose own time is in the others
MEMORY = 5.928e6  # bytes a microsecond
CROSSING = 1.196  # times as long, of loads whose rows go across the ends of lines
PACE: dict[Kind, dict[tuple[int, int], float]] = {
    COOPERATIVE: {
        (64, 96): 1.055,
        (64, 128): 0.978,
        (64, 192): 0.981,
        (64, 256): 0.989,
        (128, 96): 0.954,
        (128, 160): 0.973,
        (128, 224): 1.049,
        (128, 256): 1.037,
        (192, 80): 1.006,
        (192, 96): 1.022,
        (192, 128): 0.979,
        (192, 160): 1.033,
        (256, 96): 0.982,
        (256, 128): 1.029,
    },
    PINGPONG: {
        (64, 96): 1.177,
        (64, 128): 1.202,
        (64, 160): 1.188,
        (64, 192): 1.115,
        (64, 256): 1.129,
        (128, 64): 1.125,
        (128, 80): 1.086,
        (128, 96): 1.057,
        (128, 112): 1.058,
        (128, 128): 1.076,
        (128, 144): 1.077,
        (128, 160): 1.083,
        (128, 176): 1.155,
        (128, 192): 1.122,
        (128, 208): 1.118,
    },
    EXCHANGED: {
        (16, 64): 1.276,
        (32, 64): 1.243,
        (48, 64): 0.963,
        (48, 128): 1.26,
        (48, 192): 1.212,
        (64, 64): 1.027,
        (64, 128): 1.161,
        (64, 192): 1.192,
        (64, 256): 1.146,
        (72, 128): 1.151,
        (80, 64): 0.977,
        (80, 128): 1.072,
        (80, 192): 1.043,
        (96, 64): 0.98,
        (96, 128): 0.903,
        (96, 192): 0.973,
        (96, 256): 1.02,
        (112, 64): 0.948,
        (112, 128): 1.009,
        (112, 192): 0.99,
        (128, 64): 0.956,
        (128, 128): 0.952,
        (128, 192): 1.015,
        (128, 256): 1.056,
        (144, 64): 1.009,
        (144, 128): 0.988,
        (144, 192): 1.038,
        (160, 64): 1.099,
        (160, 128): 0.991,
        (160, 192): 1.07,
        (176, 128): 1.036,
        (176, 192): 1.078,
        (192, 64): 1.104,
        (192, 128): 1.001,
        (192, 192): 1.11,
        (208, 128): 1.038,
        (224, 128): 1.04,
        (240, 128): 1.066,
        (256, 128): 1.035,
    },
}
"""Measured time of a step over what its kind predicts, by rows and columns of the tile; 1 for all others."""
PACE_OF_SHARED: dict[tuple[int, int], float] = {(224, 128): 1.125}
"""The same of exchanged tiles, where two blocks of a cluster load the rows of the output for each other."""
PACE_OF_TWO: dict[Kind, dict[tuple[int, int], float]] = {
    PINGPONG: {
        (128, 32): 1.098,
        (128, 48): 1.051,
        (128, 56): 1.08,
        (128, 64): 1.083,
        (128, 72): 1.153,
        (128, 80): 1.105,
        (128, 88): 1.164,
        (128, 96): 1.126,
    },
    EXCHANGED: {
        (16, 64): 1.436,
        (32, 64): 1.226,
        (32, 128): 1.576,
        (32, 192): 2.095,
        (48, 64): 1.143,
        (48, 128): 1.409,
        (48, 192): 1.834,
        (64, 64): 1.085,
        (64, 128): 1.276,
        (64, 192): 1.658,
        (72, 128): 1.223,
        (80, 64): 0.967,
        (80, 128): 1.03,
        (80, 192): 1.395,
        (88, 128): 1.103,
        (88, 192): 1.41,
        (96, 64): 0.922,
        (96, 128): 1.061,
        (104, 128): 1.105,
        (112, 128): 1.067,
    },
}
"""The same of two products and more, by the rows and columns of one: at 230 shapes of 1 to 8192 rows, on an H200."""


def cost_of(plan: WarpspecializedPlan) -> Cost:
    """The estimate of a kernel."""
    rows, columns, depth = (plan.tile[mode] for mode in (plan.m, plan.n, plan.k))
    extent = dict(zip((plan.m, plan.n), plan.cluster_tile, strict=True))
    m, n = plan.spec.output.shape[-2:]
    lines = depth * plan.a.tensor.dtype.bytes / LINE
    kind = PINGPONG if plan.pingpong else EXCHANGED if plan.exchanged else COOPERATIVE
    tile = rows * columns * plan.products / UNIT
    paces = (PACE if plan.products == 1 else PACE_OF_TWO).get(kind, {})
    if plan.products == 1 and plan.exchanged and plan.peers > 1:
        paces = {**paces, **PACE_OF_SHARED}
    pace = paces.get((plan.tile[m], plan.tile[n]), 1.0)
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
    """The memory traffic of a kernel, independent of its schedule: `inout` tensors count twice, and values of
    blocks are too few to count.
    """
    spec = plan.spec
    tensors = tuple((t.shape, t.dtype.bytes * (1 + (t.role == "inout"))) for t in spec.tensors if not t.blocks)
    return Moved(tensors, MEMORY, plan.k, LINE // plan.a.tensor.dtype.bytes, CROSSING)
