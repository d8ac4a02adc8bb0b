"""Infers the clusters of a warp-specialised gemm's blocks, and how these walk the tiles."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from cutegen.families.gemm.inferring import filled, infer_walk
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.product import GRANULE, exchanged, product_of, split_of
from cutegen.families.gemm.wgmma.schedule import Spec
from cutegen.families.gemm.words import MAX_EXTENT, tile_of
from cutegen.planning.report import Report

GPCS = (18, 18, 18, 18, 18, 16, 16, 10)
"""Multiprocessors of an H200 in groups that hold a cluster: 66 clusters of 2 blocks run at once, 30 of 4, 15 of 8."""
FEWER = {3: 39}
"""Clusters of a size that were seen to run at once on an H200, where these are fewer than its groups have room for."""
MULTIPROCESSORS = sum(GPCS)
"""Those of the GPU that is assumed where the one that a call runs on is not known: where pictures are drawn and costs
are shown, and in what is compiled without a GPU."""

LONG = 16  # tiles along k, of which it pays that two blocks have half each
BAND = 8  # tiles of a cluster


def infer_cluster(spec: Spec, report: Report) -> Spec:
    """Two blocks with neighbouring rows share what they load of B, where there is more than one tile of rows.

    Where sizes are fixed and tiles are known to be few, two have a tile together instead.
    """
    product, cluster = product_of(spec), dict(spec.schedule.cluster)
    several = spec.static.get(product.m, MAX_EXTENT) > tile_of(spec.schedule, product.m) and not exchanged(spec)
    several = several and split_of(spec) == 1 and not (product.k not in cluster and _has_few_tiles(spec))
    cut = product.segments is not None
    several = several and not cut
    wide = (
        cut and product.m not in cluster and spec.static.get(product.n, MAX_EXTENT) > tile_of(spec.schedule, product.n)
    )
    rows = 2 if several and product.n not in cluster else 1
    for mode, blocks in ((product.m, rows), (product.n, 2 if wide else 1)):
        if mode not in cluster:
            cluster[mode] = blocks
            names = " and ".join(tensor.name for tensor in (product.a if mode == product.n else product.b))
            why = f"two blocks share loads of {names}" if blocks > 1 else "no more blocks share loads"
            if cut and mode == product.m:
                why = f"the segments of {mode} end anywhere"
            report.infer(why, "schedule", "cluster", mode)
    if product.k not in cluster:
        few = prod(cluster[mode] for mode in (product.m, product.n)) == 1 and _has_few_tiles(spec)
        cluster[product.k] = 2 if few else 1
        why = (
            f"twice as many blocks, which are {MULTIPROCESSORS} at most"
            if few
            else "a block has the whole sum of its tile"
        )
        report.infer(why, "schedule", "cluster", product.k)
    ordered = {mode: cluster[mode] for mode in product.modes}
    return replace(spec, schedule=replace(spec.schedule, cluster=ordered))


def _has_few_tiles(spec: Spec) -> bool:
    """Whether sizes are fixed, tiles are at most half as many as multiprocessors, and each is a long sum."""
    product, fixed = product_of(spec), spec.static
    batch = 1 if product.batch is None else fixed.get(product.batch, MAX_EXTENT)
    if (
        product.segments is not None
        or any(mode not in fixed for mode in product.modes)
        or spec.schedule.warps.roles == "pingpong"
    ):
        return False
    m, n, k = (-(-fixed[mode] // tile_of(spec.schedule, mode)) for mode in product.modes)
    own, copies = tile_of(spec.schedule, product.n) // 2, spec.schedule.copies
    pieces = [copies[t.name].columns or GRANULE for t in spec.assigned if t.name in copies]
    parted = tile_of(spec.schedule, product.n) % (2 * GRANULE) == 0 and all(own % piece == 0 for piece in pieces)
    # What is written of stages and of blocks is of tiles that blocks have alone
    alone = spec.schedule.pipeline.stages is not None or spec.schedule.scheduler.blocks is not None
    return parted and not alone and 2 * batch * m * n <= MULTIPROCESSORS and k >= LONG


def infer_scheduler(spec: Spec, report: Report) -> Spec:
    """The spec with the order in which clusters walk tiles, how many there are of them, and when they start."""
    schedule, product = spec.schedule, product_of(spec)
    if schedule.scheduler.kind is None:
        kind, why = "persistent", "loads of the next tile are in flight while one is stored"
        if split_of(spec) > 1 and schedule.scheduler.blocks is None:
            kind, why = "grid", f"blocks along {product.k} are for few tiles, one for each cluster"
        schedule = filled(schedule, report, ("scheduler", "kind"), kind, why)
    along = product.m if product.segments is None else product.n
    schedule = infer_walk(schedule, report, along, BAND, "concurrent blocks share operands in L2")
    if schedule.scheduler.launch is None:
        why = "barriers and tensor maps are set up before the previous kernel ends"
        schedule = filled(schedule, report, ("scheduler", "launch"), "dependent", why)
    return replace(spec, schedule=schedule)


def clusters_at_once(size: int) -> int:
    """Clusters of so many blocks that run at once on MULTIPROCESSORS.

    Other GPUs are taken to run as many in proportion: how their multiprocessors are grouped differs from one to the
    next. Of one or two blocks that is exact.
    """
    return FEWER.get(size) or sum(group // size for group in GPCS)


def most_blocks(plan: WarpspecializedPlan) -> int | None:
    """The blocks of a launch at most, on MULTIPROCESSORS where the spec has no number; None: as many as tiles have."""
    if not plan.persistent:
        return None
    return plan.blocks or clusters_at_once(plan.cluster_size) * plan.cluster_size
