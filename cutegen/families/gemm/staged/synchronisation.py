"""The operations of a gemm's warps on barriers and shared memory, for given sizes, traced from the statement trees that
print them.
"""

from __future__ import annotations

from typing import Any

from cutegen.atoms.targets import WARP
from cutegen.families.common.ordering import rounds
from cutegen.families.gemm.staged.mainloop import Mainloop
from cutegen.families.gemm.staged.plan import MultistagePlan
from cutegen.parts.acting import Geometry
from cutegen.parts.acts import Run
from cutegen.parts.statements import Body
from cutegen.parts.tracing import traced

WARPS = 2  # that stand for all: each copies a part of every tile, and reads all of it


def counts(plan: MultistagePlan) -> tuple[int, ...]:
    """Numbers of tiles along k: fewer than there are stages, about as many, and so many that all go round three times.

    The proof covers these; every other number of tiles runs the same text.
    """
    stages = plan.stages
    return tuple(sorted({0, 1, stages - 1, stages, stages + 1, rounds(stages)}))


def run_of(loop: Mainloop[Any], k_tiles: int, tree: Body | None = None) -> Run:
    """Traces two warps of a block for `k_tiles` tiles along k. A `tree`, if given, replaces that of `loop`.

    Raises `Unproved` as `traced` does.
    """
    plan: MultistagePlan = loop.plan
    # Which elements are within bounds is no question of order
    within = {f"t{x.name}p{x.name}{what}": True for x in loop.loads for what in ("", "_first")} | {"in_bounds": True}
    variables = {"STAGES": plan.stages, loop.steps: plan.steps, "k_tiles": k_tiles}
    agents = {("threads", 0, part): tuple(range(WARP * part, WARP * (part + 1))) for part in range(WARPS)}
    body = loop.body() if tree is None else tree
    return traced(body, agents, Geometry(), [variables | within])
