"""The two roles as a tree of statements, from which the kernel is printed and proofs are made."""

from __future__ import annotations

from cutegen.language.model import Tensor
from cutegen.parts.barriers import Arrive, Expect, Wait
from cutegen.parts.moving import Drain, Fragment, Load, Multiply, Partition, Use
from cutegen.parts.opening import Allocate, AllocateBarriers, FenceInitialised, Initialise, SyncThreads
from cutegen.parts.statements import Blank, Body, Code, Elected, For, If, Included, Let, Note, Region
from toy_roles.memory import EMPTY, FULL, buffers
from toy_roles.plan import BestPlan

TILE = "(n_tile, k_tile)"  # what a stage holds
ADVANCE = (
    Let("stage", "1", "+"),
    If("stage == STAGES", (Let("stage, phase", "cutlass.Int32(0), 1 - phase"),)),
)


def kernel_body(plan: BestPlan) -> Body:
    """From where shared memory is allocated to the end of the kernel."""
    both = tuple(Initialise(one, "stage") for one in (FULL, EMPTY))
    return (
        Code("smem = cutlass.memory.SmemAllocator()"),
        *map(Allocate, buffers(plan.a, plan.b, plan.columns)),
        Note("Of each stage: its tiles have come; it may be loaded again"),
        *map(AllocateBarriers, (FULL, EMPTY)),
        If("tidx == 0", (For("stage", "cutlass.range_constexpr(STAGES)", both), FenceInitialised())),
        SyncThreads(),
        Blank(),
        Let("stage, phase", "cutlass.Int32(0), cutlass.Int32(0)"),
        If("warp_idx < 4", consumer(plan), producer(plan)),
    )


def producer(plan: BestPlan) -> Body:
    """A warp that loads the tiles of A and B to each stage as it becomes free."""
    sides = (plan.a, "ROWS", "bidx"), (plan.b, "COLUMNS", "n_tile")
    stage = (
        Wait("empty", "stage", "1 - phase"),
        Elected((Expect("full", "stage", "STAGE_BYTES"),)),
        *(load(tensor, tile) for tensor, _, tile in sides),
        *ADVANCE,
    )
    return (*(s for tensor, rows, _ in sides for s in partition(tensor, rows)), *tiles(stage))


def partition(tensor: Tensor, rows: str) -> Body:
    """The data that the loads of a tensor move."""
    name = tensor.name
    tiles = Code(f"g{name} = cute.local_tile(", (f"m{name}", f"({rows}, DEPTH)", "(None, None)"), ")")
    return (tiles, Partition(name, f"t{name}s{name}", f"t{name}g{name}", f"g{name}"))


def load(tensor: Tensor, tile: str) -> Load:
    """The load of a tensor's tile to the stage."""
    name = tensor.name
    source = f"t{name}g{name}[None, {tile}, k_tile]"
    return Load(name, source, f"t{name}s{name}", "stage", "full", "stage", TILE)


def consumer(plan: BestPlan) -> Body:
    """A warpgroup that multiplies each stage, and keeps the largest score of its rows from tile to tile along N."""
    step = (
        Wait("full", "stage", "phase"),
        Multiply("tCrA", "tCrB", "stage", TILE),
        Drain(0),
        If("tidx == 0", (Arrive("empty", "stage"),)),
        *ADVANCE,
    )
    before = (Code("tiled_mma.set(warpgroup.Field.ACCUMULATE, False)"),)
    return (
        Code("thr_mma = tiled_mma.get_slice(tidx)"),
        *(Fragment(f"tCr{letter}", letter, f"s{t.name}") for letter, t in (("A", plan.a), ("B", plan.b))),
        Included("best/scores.j2", 0),
        *tiles(step, before, (Included("best/largest.j2", does=(Use(),)),)),
        Included("best/store.j2", 0),
    )


def tiles(step: Body, before: Body = (), after: Body = ()) -> Body:
    """The walk of both roles: of each tile along N all steps along K."""
    steps = Region("schedule.stages", "steps along K", (For("k_tile", "cutlass.range(K_TILES, unroll=1)", step),))
    return (For("n_tile", "cutlass.range(N_TILES, unroll=1)", (*before, steps, *after)),)
