"""Limits of all devices on the sizes of a launch, and the streams that a launch may go on."""

from __future__ import annotations

from collections.abc import Sequence

GRID, BLOCK, THREADS = (2**31 - 1, 65535, 65535), (1024, 1024, 64), 1024  # CUDA programming guide, all targets

PORTABLE_CLUSTER, LARGEST_CLUSTER = 8, 16  # blocks, of sm_90 and up; the latter if the kernel allows it

CURRENT_STREAM = 0x57EA_0000
"""The handle of the stream that is current while host code runs. It is none of `DEFAULT_STREAMS`, so that a launch that
goes elsewhere shows."""

DEFAULT_STREAMS = {
    0: "the default stream",
    1: "the legacy default stream",  # cudaStreamLegacy
    2: "the default stream of its thread",  # cudaStreamPerThread
}
"""The handles of streams that nobody has to make, and what faults call them."""


def refused_sizes(grid: Sequence[int], block: Sequence[int]) -> str:
    """Which size of a launch no device takes, and what one takes; empty if all of them are fine.

    `grid` counts blocks and `block` threads, each along x, y and z.
    """
    for name, sizes, most in (("grid", grid, GRID), ("block", block, BLOCK)):
        for axis, size, limit in zip("xyz", sizes, most, strict=True):
            if not 1 <= size <= limit:
                return f"{name} {tuple(sizes)}: {size} along {axis}, where a device takes 1 to {limit}"
    threads = block[0] * block[1] * block[2]
    return f"block {tuple(block)}: {threads} threads, at most {THREADS} on any device" if threads > THREADS else ""


def refused_cluster(grid: Sequence[int], cluster: Sequence[int], most: int) -> str:
    """Says what is wrong with clusters of that many blocks along x, y and z in a grid; empty if nothing is.

    `most` is the most blocks that the kernel may have in a cluster.
    """
    for axis, size, blocks in zip("xyz", cluster, grid, strict=True):
        if size < 1 or blocks % size:
            return f"cluster {tuple(cluster)}: the grid {tuple(grid)} is not a multiple of {size} along {axis}"
    size = cluster[0] * cluster[1] * cluster[2]
    if size > most:
        hint = f", or {LARGEST_CLUSTER} where the kernel allows sizes that are not portable" * (most < LARGEST_CLUSTER)
        return f"cluster {tuple(cluster)}: {size} blocks, at most {most} on any device{hint}"
    return ""


def named_stream(handle: int) -> str:
    """The name of the stream with that handle in faults."""
    return DEFAULT_STREAMS.get(handle, f"a stream of its own ({handle:#x})")
