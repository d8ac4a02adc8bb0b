"""The statements of a gemm's warps as a tree, from which the kernel is printed and which proofs examine."""

from __future__ import annotations

from cutegen.families.gemm.wgmma.consumer_role import Multiplying
from cutegen.families.gemm.wgmma.loading_roles import Loading
from cutegen.families.gemm.wgmma.opening import Opening
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.parts.barriers import ClusterArrive, ClusterWait
from cutegen.parts.statements import Blank, Body, If, Note, Region


def kernel_body(plan: WarpspecializedPlan, finders: list[str]) -> Body:
    """The statements of every warp, from the allocation of shared memory to the end of the kernel.

    `finders` are the arguments of the function that finds a tile by its number.
    """
    loading = Loading(plan, finders)
    warps = If("warp_idx < 4", (*loading.producer(), *loading.loaders()), Multiplying(plan, finders).consumers())
    late = plan.cluster_size > 1 and not plan.meets_late
    note = "Peers write to this block's shared memory and barriers: it must not exit before they are done"
    end = Region("schedule.cluster", "end of a cluster", (Note(note), ClusterArrive(), ClusterWait()))
    return (*Opening(plan).body(), Blank(), Region("schedule.warps", "what each warp does", (warps,)), *[end] * late)
