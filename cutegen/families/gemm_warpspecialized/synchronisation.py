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
from cutegen.parts.tracing import traced

_WARP = 32
_ROUNDS = 3  # of every ring: what is wrong from the second or third round on shows


@dataclass(frozen=True)
class Counts:
    """Tiles of the output that a cluster takes, and tiles along k of the sum of each."""

    tiles: int
    k_tiles: int


def counts(plan: WarpspecializedPlan) -> Iterator[Counts]:
    """Sizes over which every ring of stages, buffers and turns goes round three times, and a little more; with tiles of
    no, one and few steps, and none.
    """
    assert plan.stages is not None
    first = 0 if plan.empty_sum else plan.split
    most = _ROUNDS * plan.stages + 1
    steps = sorted({first, plan.split, plan.stages - 1, plan.stages, plan.stages + 1, most} - set(range(first)))
    tiles = (0, 1, 2, 2 * _ROUNDS + 1) if plan.blocks is not None else (1,)
    for number in tiles:
        for depth in steps:
            if number * depth <= most or depth <= plan.stages + 1 and number <= 2 or number > 2 and depth <= 2:
                yield Counts(number, depth)


def run_of(plan: WarpspecializedPlan, sizes: Counts) -> Run:
    """What all agents of a cluster do: the warp that loads, those that load what epilogues read, and of each warpgroup
    that multiplies the warp that stores, and the other three together.
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
    return traced((*early, *roles(plan, [])), _agents(plan), geometry, variables, arrivals)


def _agents(plan: WarpspecializedPlan) -> dict[tuple[str, int, int], tuple[int, ...]]:
    found = {("producer", 0, 0): tuple(range(_WARP))}
    for group in range(plan.consumers):
        if plan.sources:
            found["loader", group, 0] = tuple(range(_WARP * (group + 1), _WARP * (group + 2)))
        first = WARPGROUP * (group + 1)
        found["consumer", group, 0] = tuple(range(first, first + _WARP))
        found["consumer", group, 1] = tuple(range(first + _WARP, first + WARPGROUP))
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
