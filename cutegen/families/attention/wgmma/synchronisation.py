"""The operations of a contraction's warps on barriers and shared memory, traced from the tree that is printed."""

from __future__ import annotations

from cutegen.atoms.targets import WARP
from cutegen.families.attention.wgmma.plan import WARPGROUP, WarpgroupAttentionPlan
from cutegen.families.attention.wgmma.roles import body
from cutegen.families.attention.wgmma.text import constants_of
from cutegen.families.common.ordering import rounds
from cutegen.parts.acting import Geometry, value_of
from cutegen.parts.acts import Run
from cutegen.parts.statements import Body
from cutegen.parts.tracing import traced

FIRST, ROW = 3, 2  # tiles that a proof is of: not the first ones
AROUND = 2  # places along the modes around the walked one


def counts(plan: WarpgroupAttentionPlan) -> tuple[int, ...]:
    """Numbers of walked tiles: fewer than stages, about as many, and so many that all stages go round three times."""
    stages = plan.stages
    return tuple(sorted({0, 1, stages - 1, stages, stages + 1, rounds(stages)}))


def run_of(plan: WarpgroupAttentionPlan, tiles: int, tree: Body | None = None) -> Run:
    """Traces all warps of a block for so many walked tiles: the warp that loads, those without a role, and of each
    warpgroup that multiplies the warp that stores and the other three. A `tree`, if given, replaces the plan's own.

    Raises `Unproved` as `traced` does.
    """
    constants: dict[str, int] = {}
    for constant in constants_of(plan):
        constants[constant.name] = value_of(constant.value, constants)
    parts = len(plan.parts)
    walk = (1, *(max(1, tiles * part // parts) for part in range(1, parts)), tiles)
    given: dict[str, object] = {"tiles": tiles, "first_tile": FIRST, "last_tile": FIRST + tiles - 1, "row_tile": ROW}
    if plan.walked.around:  # the tiles of two places, one behind the other
        given |= {"tiles": tiles, "every_tile": tiles, "rounds": AROUND * tiles}
    given |= {"factor": (-1.0) ** tiles, "walk": walk}
    given[f"size_{plan.walked.walked}"] = (FIRST + tiles) * plan.key_block - 1  # the last tile is cut
    agents = {("producer", 0, 0): tuple(range(WARP)), ("idle", 0, 0): tuple(range(WARP, WARPGROUP))}
    for group in range(plan.consumers):
        first = WARPGROUP * (group + 1)
        agents["consumer", group, 0] = tuple(range(first, first + WARP))
        agents["consumer", group, 1] = tuple(range(first + WARP, first + WARPGROUP))
    return traced(body(plan) if tree is None else tree, agents, Geometry(), [constants | given])
