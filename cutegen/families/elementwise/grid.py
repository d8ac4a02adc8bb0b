"""The grid of an elementwise kernel: a block for each tile, or for as many tiles as it has threads (inner).

`blocks` sets their number, `grid_text` how `launch` computes them, `most_tiles` how many it may count.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.families.elementwise.schedule import Spec


def blocks(plan: ElementwisePlan, sizes: Mapping[str, int]) -> int:
    """The number of thread blocks for the size of every mode."""
    tiles = prod(-(-sizes[mode] // extent) for mode, extent in plan.tile.items())
    return -(-tiles // plan.threads) if plan.partition == "inner" else tiles


def grid_text(plan: ElementwisePlan) -> str:
    """The same as an expression of `launch`, where `tiles` has the number of tiles along each mode."""
    return "cute.ceil_div(cute.size(tiles), THREADS)" if plan.partition == "inner" else "cute.size(tiles)"


def tiles_text(plan: ElementwisePlan, down: bool = False) -> tuple[str, ...]:
    """The number of tiles along each mode, as expressions of its size.

    Counted `down` are whole ones only, along modes that no predicate guards.
    """
    counts = []
    for i, (mode, extent) in enumerate(zip(plan.spec.lead.shape, plan.tiler, strict=True)):
        size = f'sizes["{mode}"]'
        guarded = plan.spec.schedule.predication.get(mode) == "mask"
        whole = f"({size} // TILER[{i}])" if down and not guarded else f"-(-{size} // TILER[{i}])"
        counts.append(whole if extent > 1 else size)
    return tuple(counts)


def most_tiles(spec: Spec, tile: Mapping[str, int], threads: int) -> int | None:
    """The most tiles that 32 bits can number, for inner with the threads of one block beyond the last one.

    None where the sizes are fixed and need no more.
    """
    most = 2**31 - 1 - (threads if spec.schedule.partition == "inner" else 0)
    if all(mode in spec.static for mode in tile):
        return None if prod(-(-spec.static[mode] // extent) for mode, extent in tile.items()) <= most else most
    return most
