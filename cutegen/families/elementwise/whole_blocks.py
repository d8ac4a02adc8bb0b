"""The sizes that an elementwise kernel's inner partition covers in whole thread blocks, where it has to."""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm, prod

from cutegen.families.common.places import enough_places, several_places
from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.families.elementwise.schedule import Spec
from cutegen.families.elementwise.tiles import tile_order


def covered(plan: ElementwisePlan) -> dict[str, int]:
    """Elements along each mode that a thread block covers.

    The tile of an inner partition's plan is a thread's; a block's is a run of them along the mode that threads walk
    first.
    """
    spec = plan.spec
    sizes = {mode: max(1, plan.tile.get(mode, 1)) for mode in spec.modes}
    sizes |= several_places(spec)
    if spec.schedule.partition == "inner":
        sizes[_walk(spec)[0]] *= plan.threads
    return sizes


def refused(spec: Spec, sizes: Mapping[str, int]) -> str | None:
    """Why the host refuses the sizes: an inner partition's tiles are no whole number of blocks, and must be."""
    threads, tiles = _threads_to_fill(spec), _tiles(spec, sizes)
    return f"{tiles} tiles, not a multiple of {threads} threads" if threads is not None and tiles % threads else None


def accepted(spec: Spec, sizes: dict[str, int]) -> dict[str, int] | None:
    """`sizes`, one of them enlarged as little as whole blocks ask for, and then so many places as elements are taken at
    different ones; None if static sizes leave no way.
    """
    whole = _in_whole_blocks(spec, sizes)
    return None if whole is None else enough_places(spec, whole)


def _in_whole_blocks(spec: Spec, sizes: dict[str, int]) -> dict[str, int] | None:
    """`sizes`, one of them enlarged as little as whole blocks ask for; None if static sizes leave no way."""
    threads = _threads_to_fill(spec)
    if threads is None or _tiles(spec, sizes) % threads == 0:
        return sizes
    for mode in reversed(_walk(spec)):
        step = lcm(spec.divisible.get(mode, 1), (spec.schedule.tiler or {}).get(mode, 1))
        first = -(-sizes[mode] // step)
        for count in range(first, first + threads):
            enlarged = {**sizes, mode: count * step}
            if mode not in spec.static and _tiles(spec, enlarged) % threads == 0:
                return enlarged
    return None


def _threads_to_fill(spec: Spec) -> int | None:
    """The number that the host wants the number of tiles to be a multiple of, if it wants any.

    That is an inner partition's threads, where no predicate stops the threads that are too many in the last block.
    """
    schedule = spec.schedule
    if schedule.partition != "inner" or schedule.predication.get(_walk(spec)[-1]) == "mask":
        return None
    return schedule.threads


def _tiles(spec: Spec, sizes: Mapping[str, int]) -> int:
    """How many tiles of the tiler cover the output."""
    tiler = spec.schedule.tiler or {}
    return prod(-(-sizes[mode] // tiler.get(mode, 1)) for mode in spec.lead.shape)


def _walk(spec: Spec) -> tuple[str, ...]:
    """The output's modes in the order in which consecutive threads of an inner partition walk them."""
    return tuple(spec.lead.shape[i] for i in tile_order(spec))
