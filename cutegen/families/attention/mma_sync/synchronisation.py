"""The operations of a contraction's warps on barriers and shared memory, traced from the tree that is printed."""

from __future__ import annotations

from cutegen.atoms.targets import WARP
from cutegen.families.attention.mma_sync.mainloop import body
from cutegen.families.attention.mma_sync.plan import AttentionPlan
from cutegen.families.common.ordering import rounds
from cutegen.parts.acting import Geometry
from cutegen.parts.acts import Run
from cutegen.parts.statements import Body
from cutegen.parts.tracing import traced

WARPS = 2  # that stand for all: each copies a part of every tile, and reads all of it


def counts(plan: AttentionPlan) -> tuple[int, ...]:
    """Numbers of walked tiles: fewer than stages, about as many, and so many that all stages go round three times."""
    stages = plan.stages
    return tuple(sorted({0, 1, stages - 1, stages, stages + 1, rounds(stages)}))


def run_of(plan: AttentionPlan, tiles: int, tree: Body | None = None) -> Run:
    """Traces two warps of a block for so many walked tiles. A `tree`, if given, replaces the plan's own.

    Raises `Unproved` as `traced` does.
    """
    around = 2 if plan.walked.around else 1  # places of the modes that are walked around the tiles' own
    within = {f"pred_{x.tensor.name}": True for x in plan.loaded}
    variables = {
        "STAGES": plan.stages,
        **{f"K_BLOCKS{pair.suffix}": pair.steps for pair in plan.pairs},
        "N_BLOCKS": plan.outer_steps,
        "tiles": tiles,
        "rounds": tiles * around,
        "every_tile": tiles,
        "first_tile": 0,
        "row_tile": 0,
        "most_tiles": max(tiles * around, 1),
    }
    agents = {("threads", 0, part): tuple(range(WARP * part, WARP * (part + 1))) for part in range(WARPS)}
    return traced(body(plan) if tree is None else tree, agents, Geometry(), [variables | within])
