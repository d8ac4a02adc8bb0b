"""Names and steps that the trees of all warps of a contraction by warpgroups share."""

from __future__ import annotations

from cutegen.families.attention.walking_text import block_of, start_of, walked_tile
from cutegen.families.attention.wgmma.plan import WARPGROUP, WarpgroupAttentionPlan
from cutegen.parts.statements import Body, If, Let

FOLDER = "attention_wgmma"
PIPELINE, MMA = "schedule.pipeline", "schedule.mma"
TURN, OWN = 1, 5  # named barriers, from these numbers on one of each warpgroup; 0 is `sync_threads`
ALL = 4  # the named barrier of all warpgroups that multiply
BOTH = 2 * WARPGROUP  # threads
TILE = "(key_tile,)"
ROWS_OF_GROUP = "(row_tile, group)"
VECTOR = "2 * group + tile % 2"  # the number of a warpgroup's vector of a tile


def place_of_tile(plan: WarpgroupAttentionPlan) -> Body:
    """Which of the tiles along the walked mode the next one is: the last one first, or the first one."""
    if plan.by_turns:
        return (Let("key_tile", "last_tile - tile"),)
    return (Let("key_tile", walked_tile(plan)),)


def start_of_tile(plan: WarpgroupAttentionPlan) -> str:
    """Where the tile of a round starts along the walked mode."""
    return f"key_tile * {block_of(plan.walked.walked)}" if plan.by_turns else start_of(plan)


def advance() -> Body:
    """To the next stage, and after the last one to the next phase."""
    return (
        Let("stage", "1", "+"),
        If("stage == STAGES", (Let("stage, phase", "cutlass.Int32(0), 1 - phase"),)),
    )
