"""The acts of a gemm's warps on barriers, shared and tensor memory, for given sizes, traced from the statements that
print them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from cutegen.atoms.targets import WARP
from cutegen.families.common.ordering import rounds
from cutegen.families.gemm.tcgen05.plan import Tcgen05Plan
from cutegen.families.gemm.tcgen05.product import LOADER, MULTIPLIER
from cutegen.families.gemm.tcgen05.roles import kernel_body, sums_of
from cutegen.families.gemm.tcgen05.text import constants_of
from cutegen.parts.acting import Geometry, Shaped, value_of
from cutegen.parts.acts import Content, Run, StartProducts
from cutegen.parts.faults import refuse
from cutegen.parts.statements import Body
from cutegen.parts.tracing import traced
from cutegen.parts.wording import content_text

# Of the warps that store the first one also initialises barriers
AGENTS = {
    ("storing", 0, 0): range(WARP),
    ("storing", 0, 1): range(WARP, MULTIPLIER * WARP),
    ("multiplier", 0, 0): range(MULTIPLIER * WARP, LOADER * WARP),
    ("loader", 0, 0): range(LOADER * WARP, (LOADER + 1) * WARP),
}


def counts(plan: Tcgen05Plan) -> Iterator[int]:
    """Tiles along k: none where there may be none, one, as many as stages and one more or less, and as many as take
    every ring of stages round three times and a little more.
    """
    assert plan.stages is not None
    if plan.empty_sum:
        yield 0
    yield from dict.fromkeys((1, max(1, plan.stages - 1), plan.stages, plan.stages + 1, rounds(plan.stages)))


def run_of(plan: Tcgen05Plan, k_tiles: int, tree: Body | None = None) -> Run:
    """Traces all warps of a block. A `tree`, if given, replaces the plan's own.

    Raises `Unproved` as `traced` does, and where a step of a sum is not multiplied exactly once.
    """
    given: dict[str, object] = {}
    for constant in constants_of(plan):
        given[constant.name] = value_of(constant.value, given)
    depth = max(0, k_tiles * plan.tile[plan.k] - 1)  # the last tile along k is not whole
    given[f"m{plan.a.tensor.name}"] = Shaped((plan.tile[plan.m], depth))
    given |= {"m_tile": 0, "n_tile": 0}
    agents = {agent: tuple(threads) for agent, threads in AGENTS.items()}
    run = traced(kernel_body(plan) if tree is None else tree, agents, Geometry(), [given])
    products = [act for acts in run.acts.values() for act in acts if isinstance(act, StartProducts)]
    wanted: dict[tuple[str, Content], int] = {(sums, (k,)): 1 for sums in sums_of(plan) for k in range(k_tiles)}
    made = Counter((act.columns.name, act.content) for act in products)
    for sums, step in sorted({*wanted, *made}, key=str):
        found, once = made[sums, step], wanted.get((sums, step), 0)
        if found != once:
            refuse("content", f"of {sums}, step {content_text(step)} is multiplied {found} times, not {once}")
    return run
