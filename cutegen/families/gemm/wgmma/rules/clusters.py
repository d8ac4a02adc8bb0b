"""Rules about clusters: how many blocks they have, what these share, and how many clusters walk the tiles."""

from __future__ import annotations

from cutegen.atoms.targets import TARGETS
from cutegen.families.gemm.wgmma.product import TARGET, cluster_of, lacked, product_of, size_of, split_of
from cutegen.families.gemm.wgmma.schedule import MOST_CLUSTER, Spec
from cutegen.lint.rule import Say
from cutegen.lint.trial import changed, first_that_works, written


def sized(spec: Spec, say: Say) -> None:
    """A cluster has at most 8 blocks; those along k share a tile of the result."""
    product, (m, n), k = product_of(spec), cluster_of(spec), split_of(spec)
    if m * n * k > MOST_CLUSTER:
        mode = product.n if n > 1 else product.m if m > 1 else product.k
        tried = ((written(f"write `{mode}: {size}`"), changed(spec, {f"cluster.{mode}": size})) for size in (4, 2, 1))
        say(
            f"a cluster of {' * '.join(map(str, (m, n, k)))} = {m * n * k} blocks, and it has {MOST_CLUSTER} at most",
            *("schedule", "cluster", mode),
            help=lambda: first_that_works(say.code, tried),
        )
        return
    if k > 1 and spec.schedule.warps.roles == "pingpong":
        message = f"{k} blocks split the sum of a tile, and pingpong needs warpgroups with whole tiles"
        help = f"write `roles: cooperative`, or `{product.k}: 1` in the cluster"
        say(message, "schedule", "cluster", product.k, help=help)
        return
    _shared(spec, say)
    _whole(spec, say)


def _shared(spec: Spec, say: Say) -> None:
    """An operand with `multicast: cluster` must be multiplied by several blocks of the cluster."""
    for tensor, _ in product_of(spec).sides:
        copy, mode = spec.schedule.copies.get(tensor.name), lacked(spec, tensor)
        if copy is not None and copy.multicast == "cluster" and spec.schedule.cluster.get(mode, 1) == 1:
            say(
                f"no other block of the cluster multiplies the same part of `{tensor.name}`: "
                f"the cluster has one block along {mode}",
                *("schedule", "copies", tensor.name, "multicast"),
                help=f"write `multicast: none`, or `cluster: {{{mode}: 2}}`",
            )
            return


def _whole(spec: Spec, say: Say) -> None:
    """Blocks of a persistent kernel are whole clusters."""
    size, walk, where = size_of(spec), spec.schedule.scheduler, ("schedule", "scheduler", "blocks")
    most = TARGETS[TARGET].grid_y  # along z it takes as many
    if walk.blocks is not None and walk.kind == "grid":
        message = "a grid has one block per tile; `blocks` counts the blocks of a persistent kernel"
        say(message, *where, help="write `kind: persistent`, or leave `blocks` out")
    elif walk.blocks is not None and walk.blocks % size:
        near = max(1, walk.blocks // size) * size
        say(f"{walk.blocks} blocks are not a multiple of the cluster's {size}", *where, help=f"write `blocks: {near}`")
    elif walk.blocks is not None and walk.blocks // size * split_of(spec) > most:
        message = f"{walk.blocks} blocks exceed the limit along z, {most} for each block of a cluster"
        say(message, *where, help="write `kind: grid`, without `blocks`")
