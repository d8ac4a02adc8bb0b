"""What the warps of a gemm do to barriers and shared memory, for given sizes, by the trees that print them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cutegen.atoms.targets import WARP
from cutegen.families.gemm_warpspecialized.block_text import readers
from cutegen.families.gemm_warpspecialized.consumer_role import users
from cutegen.families.gemm_warpspecialized.epilogue_text import source_name
from cutegen.families.gemm_warpspecialized.plan import WarpspecializedPlan
from cutegen.families.gemm_warpspecialized.product import WARPGROUP
from cutegen.families.gemm_warpspecialized.roles import roles
from cutegen.parts.acting import Geometry
from cutegen.parts.acts import Run
from cutegen.parts.barriers import ClusterArrive
from cutegen.parts.statements import Body
from cutegen.parts.tracing import traced

_ROUNDS = 3  # of every ring: what is wrong from the second or third round on shows


@dataclass(frozen=True)
class Counts:
    """Tiles of the output that a cluster takes, and tiles along k of the sum of each; the cluster's number, and that
    of all clusters.
    """

    tiles: int
    k_tiles: int
    first: int = 0
    clusters: int = 1

    @property
    def all_tiles(self) -> int:
        """Of all clusters, so that this one has as many as it has."""
        return self.first + 1 + (self.tiles - 1) * self.clusters if self.tiles else self.first


def counts(plan: WarpspecializedPlan) -> Iterator[Counts]:
    """Sizes over which every ring of stages and buffers goes round three times, and a little more: one tile of many
    steps, several tiles of more steps than there are stages, many of few, and what has no step. Where blocks share a
    sum, some have a step more than others, or one where others have none; where they walk tiles, other clusters do so
    beside them.
    """
    assert plan.stages is not None
    split, stages = plan.split, plan.stages
    yield Counts(1, split)
    if split > 1:
        yield Counts(1, split * stages + 1)
    if plan.empty_sum:
        yield Counts(1, 0)
        if split > 1:
            yield Counts(1, 1)
    if plan.blocks is not None:  # else each cluster has one tile
        pieces = -(-(_ROUNDS * max(plan.buffers, plan.source_buffers) + 1) // max(1, plan.pieces))
        takers = 2 if plan.pingpong else 1
        yield Counts(2, split * (stages + 1))
        yield Counts(3, split * max(1, stages - 1), first=1, clusters=3)
        yield Counts(4, split, first=2, clusters=3)
        yield Counts(takers * max(pieces, _ROUNDS) + 1, split)
        if plan.empty_sum:
            yield Counts(3, 0)
    yield Counts(1, split * (_ROUNDS * stages + 1))


def run_of(plan: WarpspecializedPlan, sizes: Counts, tree: Body | None = None, *, whole: bool = False) -> Run:
    """What all agents of a cluster do: the warp that loads, those that load what epilogues read, and of each warpgroup
    that multiplies the warp that stores, and the other three together, or all four where warpgroups are `whole`. `tree`
    is another one than the plan's.

    Raises `Unproved` as `traced` does.
    """
    geometry = Geometry(*plan.cluster, plan.split)
    variables = [
        {
            **_constants(plan),
            **{"first": sizes.first, "clusters": sizes.clusters, "tiles": sizes.all_tiles},
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
    return traced(
        body, _agents(plan, whole), geometry, variables, arrivals, lengths=_lengths(plan), apart=plan.meets_late
    )


def _lengths(plan: WarpspecializedPlan) -> dict[str, int]:
    """Of arrays of barriers and of buffers, as they are allocated."""
    assert plan.stages is not None
    sources = plan.consumers * plan.source_buffers
    return {
        **dict.fromkeys(("full", "empty"), plan.stages),
        **dict.fromkeys(("brought", "used"), sources),
        **dict.fromkeys(("sent", "read"), 1),
        **{tensor.name: plan.stages for side in plan.sides for tensor in side.tensors},
        **{x.tensor.name: plan.storing * plan.buffers for x in plan.passing},
        **{source_name(x): sources for x in plan.sources},
    }


def _agents(plan: WarpspecializedPlan, whole: bool) -> dict[tuple[str, int, int], tuple[int, ...]]:
    found = {("producer", 0, 0): tuple(range(WARP))}
    for group in range(plan.consumers):
        if plan.sources:
            found["loader", group, 0] = tuple(range(WARP * (group + 1), WARP * (group + 2)))
        first = WARPGROUP * (group + 1)
        storing = WARPGROUP if whole else WARP
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
