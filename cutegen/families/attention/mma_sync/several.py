"""The tile that is inferred for a contraction with several products, as gradients of attention have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cutegen.atoms.targets import WARP
from cutegen.families.attention.mma_sync.room import copies_fit, registers_of, smem_bytes
from cutegen.families.attention.mma_sync.schedule import Spec
from cutegen.families.attention.operands import is_fixed, least_room, moved_in_tiles, multiplied, stored_with_columns
from cutegen.language.edits import with_value
from cutegen.ops.walked import Walked

MOST_ROWS = 128  # of a tile, of which each of four warps has 32
TILES = (
    (128, 32, 4, 2),
    (64, 64, 4, 2),
    (64, 32, 4, 2),
    (64, 64, 4, 1),
    (64, 32, 4, 1),
    (32, 32, 2, 1),
    (32, 16, 2, 1),
    (16, 16, 1, 1),
)
"""Rows, walked elements, warps and stages. For gradients over all of 4096 queries and keys, with rows of 64 and of 128
elements, the first one of these that fits took the least time of 8 to 13 tiles on an H200. With 1024 of both, causal,
64 x 64 with one stage took 0.8 of its time for queries.
"""
MOST_REGISTERS = 224  # of a thread for scores, factors and sums: addresses take the others


def of_several(spec: Spec, found: Walked) -> tuple[int, int, int, Mapping[str, str]]:
    """Rows, walked elements and stages of a tile, and why: of the first tile that threads copy in whole rows, and that
    registers and shared memory hold. What the schedule says is kept.
    """
    given = spec.schedule.tiler or {}
    wanted = [
        tile
        for tile in TILES
        if given.get(found.rows[0], tile[0]) == tile[0]
        and given.get(found.walked, tile[1]) == tile[1]
        and spec.schedule.mma.warps in (None, tile[2])
        and spec.schedule.pipeline.stages in (None, tile[3])
    ]
    fitting = [tile for tile in wanted if is_fixed(spec, found) and _fits(spec, found, tile)]
    rows, keys, warps, stages = (fitting or wanted or TILES)[0]
    held = "the first of several tiles that registers and shared memory hold"
    copied = "one is multiplied while the next one comes" if stages > 1 else "shared memory holds no second one"
    return rows, keys, stages, {"rows": f"{rows // warps} rows of each warp", "keys": held, "stages": copied}


def _fits(spec: Spec, found: Walked, tile: tuple[int, int, int, int]) -> bool:
    rows, keys, warps, stages = tile
    schedule = replace(spec.schedule, tiler={found.rows[0]: rows, found.walked: keys})
    schedule = with_value(with_value(schedule, ("mma", "warps"), warps), ("pipeline", "stages"), stages)
    trial, depths = replace(spec, schedule=schedule), moved_in_tiles(spec, found)
    lefts, rights = multiplied(found)
    copied = [(rows, spec.static[depths[name]]) for name in lefts]
    copied += [(keys, spec.static[depths[name]]) for name in rights]
    copied += [(rows, spec.static[column]) for _, column in stored_with_columns(spec, found)]
    return (
        all(copies_fit(warps * WARP, *one) for one in copied)
        and sum(registers_of(spec, found, rows // warps, keys)) <= MOST_REGISTERS
        and smem_bytes(trial, found) <= least_room(spec)[1]
    )
