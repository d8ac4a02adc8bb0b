"""Text about the blocks of a warp-specialised gemm: their index, and how many there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from cutegen.codegen.parts import Constant
from cutegen.families.common.raster import counted_sizes
from cutegen.families.gemm.wgmma.blocks import MULTIPROCESSORS, clusters_at_once
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.parts.acting import value_of


def own_columns(plan: WarpspecializedPlan) -> str:
    """The constant that counts the columns of the tile that a block stores."""
    return f"OWN_{plan.n.upper()}" if plan.split > 1 or plan.any_split else f"BLK_{plan.n.upper()}"


def places(plan: WarpspecializedPlan) -> str:
    """The names of a block's index: along a grid of all tiles, clusters are counted, and x takes the most."""
    clustered, split = prod(plan.cluster) > 1, plan.split > 1
    clustered = clustered or (plan.any_peers and plan.persistent)
    if not plan.persistent:
        return f"{'x, y' if clustered else 'first, _'}, {'share' if split else '_'}"
    return f"{'x, y' if clustered else '_, _'}, {'z' if split else 'first'}"


def grid(plan: WarpspecializedPlan) -> str:
    """The blocks of a launch along x, y and z: where all tiles have blocks, their number is along x."""
    clustered, split = prod(plan.cluster) > 1, plan.split > 1
    clustered = clustered or (plan.any_peers and plan.persistent)
    if not plan.persistent:
        along = "CLUSTER_M * clusters, CLUSTER_N" if clustered else "clusters, 1"
        return f"{along}, {'CLUSTER_K' if split else '1'}"
    return f"{'CLUSTER_M, CLUSTER_N' if clustered else '1, 1'}, {'CLUSTER_K * ' * split}clusters"


def most_tiles(plan: WarpspecializedPlan) -> str:
    """Tiles of clusters that 32 bits count, with a step of all clusters beyond them, or that a grid has blocks for."""
    beside = not plan.persistent and plan.cluster[0] > 1
    if not plan.persistent and plan.batch is not None:  # of small matrices there may be so many
        return "2**29 // CLUSTER_M" if beside else "2**29"
    return "(2**31 - 2**16) // CLUSTER_M" if beside else "2**31 - 2**16"


def counted(plan: WarpspecializedPlan) -> bool:
    """Whether there may be more tiles than 32 bits count: the sizes are not all fixed."""
    return not all(mode in plan.spec.static for mode in plan.spec.output.shape)


def largest(plan: WarpspecializedPlan, beside: Mapping[str, int]) -> dict[str, int]:
    """The largest size of each mode of the output whose tiles can be counted beside the sizes of the others. Each
    segment of rows may end in a tile.
    """
    if not counted(plan):
        return {}
    tile = dict(zip((plan.m, plan.n), plan.cluster_tile, strict=True))
    most = int(value_of(most_tiles(plan), {"CLUSTER_M": plan.cluster[0]}))
    if plan.segments is None:
        return counted_sizes(most, tile if plan.batch is None else {**tile, plan.batch: 1}, beside)
    more = beside.get(plan.segments.of, 1)
    rows, columns = (max(1, -(-beside.get(mode, 1) // extent)) for mode, extent in tile.items())
    return {plan.m: (most // columns - more) * tile[plan.m], plan.n: most // (rows + more) * tile[plan.n]}


def walkers(plan: WarpspecializedPlan) -> Iterator[Constant]:
    """The constant that says how many blocks of a persistent kernel there are, if one does: the number that the spec
    has, or how many clusters of several blocks some multiprocessors run at once.
    """
    if plan.persistent and plan.blocks is not None:
        yield Constant("BLOCKS", str(plan.blocks), "at most", "schedule.scheduler.blocks")
    elif (plan.persistent and plan.cluster_size > 1) or plan.any_peers:
        said = f"resident on {MULTIPROCESSORS} multiprocessors"
        yield Constant("CLUSTERS", str(clusters_at_once(plan.cluster_size)), said, "schedule.cluster")


def most_clusters(plan: WarpspecializedPlan) -> str:
    """The clusters of a persistent kernel at most: an expression of constants, and of the GPU's multiprocessors."""
    split, clustered = plan.split > 1, prod(plan.cluster) > 1
    cluster = " * ".join([*["CLUSTER_M", "CLUSTER_N"] * clustered, *["CLUSTER_K"] * split])
    cluster = f"({cluster})" if " " in cluster else cluster
    if plan.blocks is not None:
        return f"BLOCKS // {cluster}" if cluster else "BLOCKS"
    if plan.cluster_size == 1 and not plan.any_peers:
        return "multiprocessors"
    return f"cutlass.max(1, multiprocessors * CLUSTERS // {MULTIPROCESSORS})"
