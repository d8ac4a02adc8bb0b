"""What the warps of a gemm do to barriers and shared memory, for given sizes, by the trees that print them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cutegen.families.gemm_warpspecialized.block_text import readers
from cutegen.families.gemm_warpspecialized.consumer_role import users
from cutegen.families.gemm_warpspecialized.plan import WarpspecializedPlan
from cutegen.families.gemm_warpspecialized.product import WARPGROUP
from cutegen.families.gemm_warpspecialized.roles import roles
from cutegen.parts.acting import Geometry
from cutegen.parts.acts import Run
from cutegen.parts.barriers import ClusterArrive
from cutegen.parts.statements import Body
from cutegen.parts.tracing import traced

_WARP = 32
_ROUNDS = 3  # of every ring: what is wrong from the second or third round on shows


@dataclass(frozen=True)
class Counts:
    """Tiles of the output that a cluster takes, and tiles along k of the sum of each."""

    tiles: int
    k_tiles: int


def counts(plan: WarpspecializedPlan) -> Iterator[Counts]:
    """Sizes over which every ring of stages, buffers and turns goes round three times, and a little more: one tile of
    many steps, several tiles of more steps than there are stages, many of few, and what has no step.
    """
    assert plan.stages is not None
    few, many = plan.split, plan.split * (_ROUNDS * plan.stages + 1)
    if plan.empty_sum:
        yield Counts(1, 0)
    yield Counts(1, many)
    yield Counts(1, few)
    if plan.blocks is not None:  # else each cluster has one tile
        yield Counts(2, plan.split * (plan.stages + 1))
        yield Counts(2 * _ROUNDS + 1, few)
        yield Counts(3, plan.split * (plan.stages - 1))


def run_of(plan: WarpspecializedPlan, sizes: Counts, tree: Body | None = None, *, whole: bool = False) -> Run:
    """What all agents of a cluster do: the warp that loads, those that load what epilogues read, and of each warpgroup
    that multiplies the warp that stores, and the other three together, or all four where warpgroups are `whole`. `tree`
    is another one than the plan's.

    Raises `Unproved` for a store that nobody can wait for.
    """
    geometry = Geometry(*plan.cluster, plan.split)
    variables = [
        {
            **_constants(plan),
            **{"first": 0, "clusters": 1, "tiles": sizes.tiles},
            "k_first": sizes.k_tiles * share // plan.split,
            "k_tiles": sizes.k_tiles * (share + 1) // plan.split - sizes.k_tiles * share // plan.split,
        }
        for share in range(plan.split)
        for _ in range(plan.cluster[0] * plan.cluster[1])
    ]
    arrivals = {"full": 1, "brought": 1, "used": 1, "sent": 1}
    given = {"CONSUMERS": plan.consumers, "CLUSTER_K": plan.split}
    for name, text in (("empty", users(plan)), ("read", readers(plan))):
        arrivals[name] = int(eval(text, {"__builtins__": {}}, given))  # as it is printed
    early = (ClusterArrive(),) if plan.meets_late else ()  # where barriers are initialised
    body = (*early, *(roles(plan, []) if tree is None else tree))
    return traced(body, _agents(plan, whole), geometry, variables, arrivals, apart=plan.meets_late)


def _agents(plan: WarpspecializedPlan, whole: bool) -> dict[tuple[str, int, int], tuple[int, ...]]:
    found = {("producer", 0, 0): tuple(range(_WARP))}
    for group in range(plan.consumers):
        if plan.sources:
            found["loader", group, 0] = tuple(range(_WARP * (group + 1), _WARP * (group + 2)))
        first = WARPGROUP * (group + 1)
        storing = WARPGROUP if whole else _WARP
        found["consumer", group, 0] = tuple(range(first, first + storing))
        if not whole:
            found["consumer", group, 1] = tuple(range(first + storing, first + WARPGROUP))
    return found


def _constants(plan: WarpspecializedPlan) -> dict[str, int]:
    assert plan.stages is not None
    return {
        "STAGES": plan.stages,
        "CONSUMERS": plan.consumers,
        "CLUSTER_M": plan.cluster[0],
        "CLUSTER_N": plan.cluster[1],
        "CLUSTER_K": plan.split,
        "STAGE_BYTES": plan.stage_bytes,
        "SENT_BYTES": plan.sent_bytes,
        "SOURCE_BYTES": plan.source_bytes,
        "SOURCES": plan.source_buffers,
        "BUFFERS": plan.buffers,
        "PARTS": plan.parts,
        "PIECES": plan.pieces,
        "VALUES": plan.pointwise.values,
        "SLICE": plan.pointwise.slice or 1,
    }
