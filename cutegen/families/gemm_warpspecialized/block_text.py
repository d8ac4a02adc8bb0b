"""What is printed of the blocks of a gemm whose warps have roles: their index, and what those of a cluster exchange."""

from __future__ import annotations

from math import prod
from typing import Any

from cutegen.codegen.formatting import WIDTH
from cutegen.families.gemm_warpspecialized.plan import WarpspecializedPlan


def own_columns(plan: WarpspecializedPlan) -> str:
    """The constant that counts the columns of the tile that a block stores."""
    return f"OWN_{plan.n.upper()}" if plan.split > 1 else f"BLK_{plan.n.upper()}"


def shares(plan: WarpspecializedPlan) -> dict[str, Any]:
    """What is printed of the exchange of sums between the blocks that have a tile together."""
    several, stacked_m = plan.products > 1, plan.exchanged and plan.products > 1
    places = (
        "(other, product, 0)" if stacked_m else "(product * CLUSTER_K + other, 0, 0)" if several else "(other, 0, 0)"
    )
    tiler = f"({own_columns(plan)} // 2, {plan.row_blocks}, 1)"
    vectors = "PRODUCTS * VALUES // 4" if several else "VALUES // 4"
    ranks = "x + CLUSTER_M * (y + CLUSTER_N * {})" if prod(plan.cluster) > 1 else "{}"
    return {
        "theirs": ("cute.local_tile(", ["acc", tiler, places], ")"),
        "several": several,
        "own": "(PRODUCTS * VALUES,)" if several else "(VALUES,)",
        "vectors": vectors,
        "group": ", group" if plan.consumers > 1 else "",
        "vector": "product * (VALUES // 4) + i" if several else "i",
        "to": ranks.format("other"),
        "from": ranks.format("(thr % 32)" if prod(plan.cluster) > 1 else "thr % 32"),
        "mine": "product * VALUES + i" if several else "i",
        "reused": plan.blocks is not None,
        "width": WIDTH - (20 if several else 16),
    }


def places(plan: WarpspecializedPlan) -> str:
    """The names of a block's index: along a grid of all tiles clusters are counted, of which x takes the most."""
    clustered, split = prod(plan.cluster) > 1, plan.split > 1
    if plan.blocks is None:
        return f"{'x, y' if clustered else 'first, _'}, {'share' if split else '_'}"
    return f"{'x, y' if clustered else '_, _'}, {'z' if split else 'first'}"


def grid(plan: WarpspecializedPlan) -> str:
    """The blocks of a launch along x, y and z: where all tiles have blocks, their number is along x."""
    clustered, split = prod(plan.cluster) > 1, plan.split > 1
    if plan.blocks is None:
        along = "CLUSTER_M * clusters, CLUSTER_N" if clustered else "clusters, 1"
        return f"{along}, {'CLUSTER_K' if split else '1'}"
    return f"{'CLUSTER_M, CLUSTER_N' if clustered else '1, 1'}, {'CLUSTER_K * ' * split}clusters"


def most_tiles(plan: WarpspecializedPlan) -> str:
    """Tiles of clusters that 32 bits count, with a step of all clusters beyond them, or that a grid has blocks for."""
    beside = plan.blocks is None and plan.cluster[0] > 1
    if plan.blocks is None and plan.batch is not None:  # of small matrices there may be so many
        return "2**29 // CLUSTER_M" if beside else "2**29"
    return "(2**31 - 2**16) // CLUSTER_M" if beside else "2**31 - 2**16"
