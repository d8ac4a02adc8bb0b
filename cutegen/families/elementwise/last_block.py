"""The last block where each thread has a tile of its own: it may have more threads than there are tiles left."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from math import prod

from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.planning.promises import known_divisor


def small_sizes(plan: ElementwisePlan) -> list[dict[str, int]]:
    """Sizes of one tile of each mode, and of a piece more than two; fixed sizes as they are."""
    every = []
    for mode, extent in zip(plan.spec.lead.shape, plan.tiler, strict=True):
        divisor = known_divisor(plan.spec, mode)
        fixed = mode in plan.spec.static
        every.append([divisor] if fixed else [-(-size // divisor) * divisor for size in (extent, 2 * extent + 1)])
    return [dict(zip(plan.spec.lead.shape, sizes, strict=True)) for sizes in itertools.product(*every)]


def astray(plan: ElementwisePlan, sizes: Mapping[str, int]) -> Iterator[str]:
    """Yields a message for each thread of the last block with a missing or a surplus access, for these sizes.

    A thread that has a tile must access it, and one that has none must access nothing. Walks the tiles as the kernel
    does: a thread's number, divided by the tile counts of the other modes, is its coordinate along the last mode of
    `tile_order`. A coordinate is that of a tile's first element: where it is not below the size, the whole tile is out
    of bounds.
    """
    shape = [sizes[mode] for mode in plan.spec.lead.shape]
    tiles = [-(-size // extent) for size, extent in zip(shape, plan.tiler, strict=True)]
    total = prod(tiles)
    start = (total - 1) // plan.threads * plan.threads
    for number in range(start, start + plan.threads):
        if _accesses(plan, number, shape, tiles) != (number < total):
            what = "makes no access to its tile" if number < total else "has no tile, and makes an access"
            yield f"{', '.join(f'{m}={n}' for m, n in sizes.items())}: thread {number - start} of the last block {what}"


def _accesses(plan: ElementwisePlan, number: int, shape: list[int], tiles: list[int]) -> bool:
    """Whether the first access of a thread is made: what its predicate compares is below the bounds."""
    *inner, last = plan.tile_order
    where, rest = [0] * len(shape), number
    for i in inner:
        where[i], rest = rest % tiles[i], rest // tiles[i]
    where[last] = rest
    if not plan.pointwise.masked:
        return True
    if plan.guard_tiles and rest >= 1:
        return False
    for mode, size, extent, tile in zip(plan.spec.lead.shape, shape, plan.tiler, where, strict=True):
        # A mode with one tile by its fixed size has stride 0 among coordinates: they stay those of its first tile.
        first = 0 if plan.spec.static.get(mode, extent + 1) <= extent else tile * extent
        if mode in plan.pointwise.masked and first >= size:
            return False
    return True
