"""Verification cases of a warp-specialised gemm besides those of every kernel: more tiles than there are clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from cutegen.analysis.tiles import Tiles
from cutegen.families.common.row_copies import long_rows
from cutegen.families.gemm.wgmma.blocks import most_blocks
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.schedule import Pipeline
from cutegen.families.gemm.wgmma.segment_cases import segment_requests
from cutegen.verification.case_request import CaseRequest
from cutegen.verification.case_requests import ROUNDS, derived, longest

REPEATED = (
    *("tile", "primes integers", "small primes", "several tiles", "several and a residue"),
    *("padded", "padded primes", "padded residue", "offset"),
)
"""Cases that others tell as well: of more tiles, of the same sizes with other data or other strides."""

OF_FORM = ("tile integers", "all one less", "all 1", "offset primes", "special values")
"""Cases that tell of what the functions of a form do, and no more of their constants than those of tiles in turn and of
sizes that nothing divides: of other data and strides, and of less than a tile."""

_VALUE = 1.2e-6  # seconds of the emulator for an element of a tile on its way from accumulators to memory


def requests(plan: WarpspecializedPlan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
    """The cases of any family that tell something of this one.

    Tensor maps bring zeros from beyond every end alike, and leave out what is stored there: sizes one by one around the
    tile's tell of predicates, which only a kernel with accesses from registers has. How many tiles of the sum there are
    tells of barriers, once for fewer than stages, once for three rounds of them.
    """
    left_out = set(REPEATED)
    if not plan.pointwise.masked:
        modes = (plan.m, plan.n, plan.k)
        left_out |= {f"{mode} {what}" for mode in modes for what in ("one less", "one more", "= 1")}
        left_out.add("offset residue")
    if plan.persistent:  # tiles in turn use every stage again
        left_out.add("blocks and stages")
    long = f"{plan.k} {longest(plan)} tiles and 1"
    told = {f"{plan.k} 1 tiles", long}
    of_form = {*OF_FORM, *(f"{plan.k} {what}" for what in ("= 0", "below a tile", "1 tiles"))}
    if plan.persistent or plan.split > 1:  # whose stages are used again by tiles in turn, or by parts of sums
        of_form |= {long, "blocks and stages"}
    of_segments = plan.segments.of if plan.segments is not None else ""
    for request in derived(plan, tiles):
        if of_segments and f" tiles of {of_segments}" in request.name:  # along which there are no tiles
            continue
        counts_tiles = request.name.startswith(f"{plan.k} ") and " tiles" in request.name
        if request.name not in left_out and (request.name in told or not counts_tiles):
            yield replace(request, form=request.form or request.name in of_form)


def more_requests(plan: WarpspecializedPlan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
    """Tiles that one cluster walks one after the other, each of which ends in another stage than the one before; of a
    batch also matrices of several tiles along each mode.

    Where clusters have one tile each, stages are used again within it. What runs by way of workspaces also has rows
    that are copied in several tiles.
    """
    if plan.way and plan.row_copies is not None:
        yield from long_rows(plan.row_copies, plan.padded)
    if plan.segments is not None:
        yield from segment_requests(plan)
        return
    along, across = (plan.spec.output.shape[i] for i in plan.tile_order)
    extent = dict(zip((plan.m, plan.n), plan.cluster_tile, strict=True))
    if plan.batch is not None:
        sizes = {plan.batch: 2, along: extent[along] + 1, across: 2 * extent[across] + 1, plan.k: 1}
        why = "several along each mode, and not as many along one as along another"
        yield CaseRequest("tiles of matrices", why, sizes, data="integers")
    if not plan.persistent:
        if plan.split > 1:
            why = "each block of a cluster has more tiles of the sum than stages, and not all as many"
            depth = (plan.split * (ROUNDS * (plan.stages or 1) + 1) + 1) * plan.tile[plan.k] - 1
            yield CaseRequest("stages of parts", why, {plan.k: depth}, "padded", "integers")
        return
    yield from _in_turn(plan, {along: extent[along], across: tiles[across] // 2 + 1})


def _in_turn(plan: WarpspecializedPlan, extent: Mapping[str, int]) -> Iterator[CaseRequest]:
    """Tiles that one cluster walks: of fewer tiles along the sum than stages, and of more; and few, in several orders.

    `extent` is how far tiles lie apart along the one mode, and how much there is of the other.
    """
    (along, apart), (across, little) = extent.items()
    taking = 2 if plan.pingpong else 1  # warpgroups that have tiles in turn
    stages, pieces, buffers = plan.stages or 1, max(1, plan.pieces), max(plan.buffers, plan.source_buffers)
    again = max(ROUNDS + 1, -(-(ROUNDS * buffers + 1) // pieces))  # tiles of a warpgroup
    least = ROUNDS * stages + 1  # tiles along the sum, of all tiles of a cluster

    def walked(name: str, why: str, several: int, steps: int) -> CaseRequest:
        """So many tiles of a cluster, each of so many along the sum, which end in different stages."""
        steps += steps % stages == 0 and stages > 1
        sizes = {across: little, plan.k: steps * plan.split * plan.tile[plan.k] - 1}
        if plan.batch is None:
            sizes[along] = (several - 1) * apart + 1
        else:  # in two matrices
            sizes |= {plan.batch: 2, along: (-(-several // 2) - 1) * apart + 1}
        return CaseRequest(name, why, sizes, "padded", "integers", blocks=plan.cluster_size)

    several = again * taking - (taking - 1)
    why = "one cluster walks all tiles: stages, buffers, barriers and accumulators are used from tile to tile"
    yield walked("tiles in turn", why, several, max(2, -(-least // several)))
    several = 2 * taking
    why = "one cluster walks all tiles, each of which uses every stage again"
    # A warpgroup that skips a tile goes round the stages twice at once: the phase is another one than after one round
    steps = 2 * stages if plan.pingpong else max(stages + 1, 2 * stages - 1)
    yield replace(walked("long tiles in turn", why, several, max(steps, -(-least // several))), form=True)
    several = taking * max(2, -(-(buffers + 1) // pieces))
    why = "one cluster walks as few tiles as use some stage, some buffer and the accumulators again"
    yield replace(walked("few tiles in turn", why, several, max(2, -(-(stages + 1) // several))), form=True)


def verified_form(plan: WarpspecializedPlan) -> object:
    """The schedule but for how large tiles, boxes and pieces are and how many stages, buffers, registers and warpgroups
    there are, where several kernels are distinguished: kernels of a form share functions, and those numbers are their
    constants.
    """
    schedule, spec = plan.spec.schedule, plan.spec
    copies = {name: replace(one, box=None, columns=None, stages=None) for name, one in schedule.copies.items()}
    warps = replace(schedule.warps, consumers=None, registers={})
    alike = replace(schedule, tiler=None, cluster={}, copies=copies, warps=warps, pipeline=Pipeline())
    counts = *plan.cluster, plan.split, plan.consumers, plan.row_blocks, plan.peers, plan.stages or 1
    boxes = [side.box is not None and side.box < side.block for side in plan.sides], plan.beyond
    of_blocks = plan.in_turn, plan.meets_late, plan.shares_buffers, plan.in_flight, plan.rows_masked, plan.empty_sum
    promised = spec.targets, spec.tensors, dict(spec.static), dict(spec.divisible), dict(spec.within)
    return alike, [count > 1 for count in counts], boxes, of_blocks, bool(plan.passing), bool(plan.padded), promised


def tiles(plan: WarpspecializedPlan, sizes: Mapping[str, int]) -> Tiles:
    """The tiles of clusters, each of which takes one after the other; where rows are cut into segments, of these the
    least: those of one segment.
    """
    clusters = prod(-(-sizes[mode] // extent) for mode, extent in zip((plan.m, plan.n), plan.cluster_tile, strict=True))
    return Tiles(clusters * plan.batches(sizes), plan.cluster_size, most_blocks(plan))


def blocks(plan: WarpspecializedPlan, sizes: Mapping[str, int]) -> int:
    """Thread blocks of a launch: whole clusters, and at most as many as tiles."""
    count, most = tiles(plan, sizes).count * plan.cluster_size, most_blocks(plan)
    return count if most is None else min(count, most)


def value_seconds(plan: WarpspecializedPlan, sizes: Mapping[str, int]) -> float:
    """The emulator's time for the epilogues, in seconds: every tile of every cluster counts as a whole one."""
    results = prod(
        -(-sizes[mode] // extent) * extent for mode, extent in zip((plan.m, plan.n), plan.cluster_tile, strict=True)
    )
    return _VALUE * results * plan.batches(sizes)
