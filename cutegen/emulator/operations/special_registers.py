"""Special registers: which there are, and what they hold in the lanes of a batch (PTX ISA 9.1, section 10)."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.lanes import WARP

SPECIALS = frozenset(
    (
        *(f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
        "%laneid",
        "%warpid",
        "%nwarpid",
        *(f"%lanemask_{which}" for which in ("eq", "le", "lt", "ge", "gt")),
        "%dynamic_smem_size",
        "%total_smem_size",
        *(
            f"%{name}.{axis}"
            for name in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
            for axis in "xyz"
        ),
        "%cluster_ctarank",
        "%cluster_nctarank",
    )
)
"""The names of the special registers that are emulated."""


def special_values(
    numbers: Array,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    cluster: tuple[int, int, int],
    static: int,
    dynamic: int,
) -> Mapping[str, Array]:
    """The value of each register of `SPECIALS`: uint32 arrays that broadcast to the lanes of a batch.

    `numbers` are the numbers in the grid of the batch's blocks, x fastest. `grid`, `block` and `cluster` are the
    launch's sizes; `static` and `dynamic` are the bytes of a block's shared memory of fixed size and of that which the
    launch adds.
    """

    def fixed(value: int) -> Array:
        return np.asarray(value, np.uint32)

    threads = prod(block)
    thread = np.arange(threads, dtype=np.uint32)[:, None]
    number = numbers[None, :].astype(np.uint32)
    specials: dict[str, Array] = {}
    for axis, name in enumerate("xyz"):
        inner_t, inner_g = prod(block[:axis]), prod(grid[:axis])
        specials[f"%tid.{name}"] = thread // np.uint32(inner_t) % np.uint32(block[axis])
        specials[f"%ctaid.{name}"] = number // np.uint32(inner_g) % np.uint32(grid[axis])
        specials[f"%ntid.{name}"], specials[f"%nctaid.{name}"] = fixed(block[axis]), fixed(grid[axis])
        own = np.uint32(cluster[axis])
        specials[f"%clusterid.{name}"] = specials[f"%ctaid.{name}"] // own
        specials[f"%nclusterid.{name}"] = fixed(grid[axis] // cluster[axis])
        specials[f"%cluster_ctaid.{name}"] = specials[f"%ctaid.{name}"] % own
        specials[f"%cluster_nctaid.{name}"] = fixed(cluster[axis])
        for which, size in ((f"%tid.{name}", block[axis]), (f"%ctaid.{name}", grid[axis])):
            if size == 1:
                specials[which] = fixed(0)
        if cluster[axis] == 1:
            specials[f"%clusterid.{name}"] = specials[f"%ctaid.{name}"]
            specials[f"%cluster_ctaid.{name}"] = fixed(0)
    x, y, z = (specials[f"%cluster_ctaid.{name}"] for name in "xyz")
    specials["%cluster_ctarank"] = x + np.uint32(cluster[0]) * (y + np.uint32(cluster[1]) * z)
    specials["%cluster_nctarank"] = fixed(prod(cluster))
    lane = thread % np.uint32(WARP)
    one = np.uint32(1)
    equal = one << lane
    return specials | {
        "%laneid": lane,
        "%warpid": thread // np.uint32(WARP),
        "%nwarpid": fixed(-(-threads // WARP)),
        "%lanemask_eq": equal,
        "%lanemask_lt": equal - one,
        "%lanemask_le": equal - one | equal,
        "%lanemask_ge": ~(equal - one),
        "%lanemask_gt": ~(equal - one | equal),
        "%dynamic_smem_size": fixed(dynamic),
        "%total_smem_size": fixed(static + dynamic),
    }
