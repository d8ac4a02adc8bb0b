"""The operations of a gemm's warps on barriers and shared memory, for given sizes, traced from the statement trees that
print them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from cutegen.analysis.words import count
from cutegen.atoms.targets import WARP
from cutegen.families.common.ordering import rounds
from cutegen.families.gemm.wgmma.plan import Side, WarpspecializedPlan
from cutegen.families.gemm.wgmma.product import WARPGROUP
from cutegen.families.gemm.wgmma.roles import kernel_body
from cutegen.families.gemm.wgmma.text import constants_of
from cutegen.parts.acting import Geometry, Shaped, value_of
from cutegen.parts.acts import Bring, Content, Multiply, Run
from cutegen.parts.faults import refuse
from cutegen.parts.statements import Body
from cutegen.parts.tracing import traced

TILES = {"A": 1, "B": 2}
"""The tile of each operand that is loaded in a proof: not the first one, and not the same."""


@dataclass(frozen=True)
class Counts:
    """Tiles of the output that a cluster takes, and tiles along k of the sum of each; the cluster's number, and that
    of all clusters; and how many rows of each operand a tile has, where it ends beyond them: None where it does not.
    """

    tiles: int
    k_tiles: int
    first: int = 0
    clusters: int = 1
    rows: int | None = None

    def __str__(self) -> str:
        cut = "" if self.rows is None else f", {count(self.rows, 'row')} each"
        return f"{self.tiles} x {self.k_tiles}{cut}"

    @property
    def all_tiles(self) -> int:
        """Of all clusters, so that this one has as many as it has."""
        return self.first + 1 + (self.tiles - 1) * self.clusters if self.tiles else self.first


def counts(plan: WarpspecializedPlan) -> Iterator[Counts]:
    """Sizes over which every ring of stages and buffers goes round three times, and a little more: one tile of many
    steps, several tiles of more steps than there are stages, many of few, and what has no step. Where blocks share a
    sum, some have a step more than others, or one where others have none; where they walk tiles, other clusters do so
    beside them. A warpgroup that skips another one's tile goes round the stages several times at once: an even number
    of times, and an odd one. Where boxes beyond a tensor's end are not loaded, or segments end in tiles, these have one
    row, or none.
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
    if plan.persistent:  # else each cluster has one tile
        pieces = -(-rounds(max(plan.buffers, plan.source_buffers)) // max(1, plan.pieces))
        takers = 2 if plan.pingpong else 1
        yield Counts(2, split * (stages + 1))
        yield Counts(3, split * max(1, stages - 1), first=1, clusters=3)
        yield Counts(4, split, first=2, clusters=3)
        yield Counts(max(takers * pieces + 1, rounds(takers)), split)
        if plan.pingpong:
            yield Counts(3, 2 * stages + 1)
            yield Counts(3, rounds(stages))
        if plan.empty_sum:
            yield Counts(3, 0)
    yield Counts(1, split * rounds(stages))
    if plan.segments is not None or any(side.box is not None for side in plan.sides):
        tiles = 2 if plan.persistent else 1
        yield Counts(tiles, split * (stages + 1), rows=1)
        yield Counts(tiles, split * (stages + 1), rows=0)


def run_of(plan: WarpspecializedPlan, sizes: Counts, tree: Body | None = None, *, whole: bool = False) -> Run:
    """Traces all agents of a cluster: the warp that loads, the warps that load what epilogues read, and those without a
    role. In each warpgroup that multiplies, the warp that stores is one agent and the other three are another; all four
    are one if warpgroups are `whole`. A `tree`, if given, replaces the plan's own.

    Raises `Unproved` as `traced` does, where a step of a sum is not multiplied exactly once, and where a load leaves
    out a box that has rows of its tensor.
    """
    constants: dict[str, int] = {}
    for constant in constants_of(plan):
        constants[constant.name] = value_of(constant.value, constants)
    # The last tile along k is not whole
    depth = max(0, sizes.k_tiles * plan.tile[plan.k] - 1)
    rows = {side: _extent(side, sizes.rows) for side in plan.sides}
    given = {
        **{"first": sizes.first, "clusters": sizes.clusters, "tiles_m": sizes.all_tiles, "tiles_n": 1, "tiles_l": 1},
        **{"tiles": sizes.all_tiles, "segment_rows": _rows_of_segment(plan, rows)},
        **{"m_tile": TILES["A"], "n_tile": TILES["B"]},  # each has as many rows
        **{f"m{side.tensor.name}": Shaped((rows[side], depth)) for side in plan.sides},
    }
    geometry = Geometry(*plan.cluster, plan.split)
    body = kernel_body(plan, []) if tree is None else tree
    run = traced(body, _agents(plan, whole), geometry, [constants | given] * geometry.size)
    _all_multiplied(plan, sizes, run)
    _all_loaded(plan, sizes, run)
    return run


def _rows_of_segment(plan: WarpspecializedPlan, rows: Mapping[Side, int]) -> int:
    """The rows of the segment that a tile is of, where rows are cut into segments."""
    return next((rows[side] for side in plan.sides if plan.is_cut(side.tensor)), 0)


def _extent(side: Side, rows: int | None) -> int:
    """The size of an operand such that the tile has this many rows inside: it ends before the tile if there are none,
    and after it if all are inside.
    """
    first = TILES[side.letter] * side.block
    return {None: first + 2 * side.block, 0: 1}.get(rows, first + (rows or 0))


def _all_multiplied(plan: WarpspecializedPlan, sizes: Counts, run: Run) -> None:
    """Of each tile each step along k is multiplied once: by the blocks of a cluster along k together, and by all
    warpgroups that share a tile, whose blocks of rows may be multiplied one by one.
    """
    tiles, steps = range(sizes.first, sizes.all_tiles, sizes.clusters), range(sizes.k_tiles)
    each = plan.groups * (plan.row_blocks if plan.scaled else 1)  # with scales, blocks of rows one by one
    wanted: dict[Content, int] = {(tile, step): each for tile in tiles for step in steps}
    of_place: dict[int, Counter[Content]] = {x: Counter() for x in range(prod(plan.cluster))}
    for agent, acts in run.acts.items():
        products = (act for act in acts if isinstance(act, Multiply) and agent.part == 0)
        of_place[agent.block % len(of_place)].update((*product.cells, *product.left_out)[0][1] for product in products)
    for found in of_place.values():
        for step in sorted({*wanted, *found}):
            if found[step] != wanted.get(step, 0):
                text = f"of a sum, (tile, step) {step} is multiplied {found[step]} times, not {wanted.get(step, 0)}"
                refuse("content", text)


def _all_loaded(plan: WarpspecializedPlan, sizes: Counts, run: Run) -> None:
    """Of each operand the boxes that have rows of the tensor are loaded, and no others."""
    acts = [act for own in run.acts.values() for act in own]
    for side in plan.sides:
        if side.box is None:
            continue
        boxes, names = side.block // side.box, {tensor.name for tensor in side.tensors}
        loads = (act for act in acts if isinstance(act, Bring) and act.cell.name in names)
        found = {boxes * act.bytes // (act.bytes + act.left_out) for act in loads}
        missed = (cell.name for act in acts if isinstance(act, Multiply) for cell, _ in act.left_out)
        found |= {0} if names & set(missed) else set()
        wanted = boxes if sizes.rows is None else -(-sizes.rows // side.box)
        for wrong in sorted(found - {wanted}):
            refuse("content", f"of a tile of {side.tensor.name} {wrong} boxes are loaded, and {wanted} have rows of it")


def _agents(plan: WarpspecializedPlan, whole: bool) -> dict[tuple[str, int, int], tuple[int, ...]]:
    found = {("producer", 0, 0): tuple(range(WARP))}
    idle = tuple(range(WARP * (1 + plan.consumers * bool(plan.sources)), WARPGROUP))
    found |= {("idle", 0, 0): idle} if idle else {}
    for group in range(plan.consumers):
        if plan.sources:
            found["loader", group, 0] = tuple(range(WARP * (group + 1), WARP * (group + 2)))
        first = WARPGROUP * (group + 1)
        storing = WARPGROUP if whole else WARP
        found["consumer", group, 0] = tuple(range(first, first + storing))
        if not whole:
            found["consumer", group, 1] = tuple(range(first + storing, first + WARPGROUP))
    return found
