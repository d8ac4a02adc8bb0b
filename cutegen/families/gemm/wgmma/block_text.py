"""What is printed of the blocks of a gemm whose warps have roles: their index, and how many there are."""

from __future__ import annotations

from math import prod

from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan


def own_columns(plan: WarpspecializedPlan) -> str:
    """The constant that counts the columns of the tile that a block stores."""
    return f"OWN_{plan.n.upper()}" if plan.split > 1 else f"BLK_{plan.n.upper()}"


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
