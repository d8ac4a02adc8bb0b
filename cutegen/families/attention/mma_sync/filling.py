"""The number of parts of a walk that a call takes where the schedule leaves it to the sizes and the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from cutegen.contract import ASSUMED
from cutegen.families.attention.mma_sync.plan import AttentionPlan

ENOUGH = 0.85  # of the best filling
FEWEST = 4  # tiles of a part
RESIDENT = 2  # blocks of a multiprocessor at a time, which have as many loads under way as its memory takes


def filling(blocks: int, tiles: int, most: int, multiprocessors: int) -> int:
    """The fewest parts with which so many `blocks`, times the parts, fill the GPU nearly as well as with any number of
    parts up to `most`, each of several of the `tiles`.
    """
    at_once, blocks = RESIDENT * multiprocessors, max(1, blocks)
    parts = range(1, max(1, min(most, tiles // FEWEST)) + 1)
    filled = [blocks * n / (-(-blocks * n // at_once) * at_once) for n in parts]
    return next(n for n, one in zip(parts, filled, strict=True) if one >= ENOUGH * max(filled))


def parts_at(plan: AttentionPlan, sizes: Mapping[str, int], multiprocessors: int = ASSUMED) -> int:
    """The parts of the walk of a tile of rows, in a call of these sizes."""
    if not plan.fills:
        return plan.parts
    rows = -(-prod(sizes[mode] for mode in plan.row_modes) // plan.row_block)
    blocks = rows * prod(sizes[mode] for mode in plan.outer)
    return filling(blocks, -(-sizes[plan.walked.walked] // plan.key_block), plan.parts, multiprocessors)
