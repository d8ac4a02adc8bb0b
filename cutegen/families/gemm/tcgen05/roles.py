"""The roles of a block's warps as a tree of statements, from which the kernel is printed and proofs are made."""

from __future__ import annotations

from cutegen.families.gemm.tcgen05 import allocation
from cutegen.families.gemm.tcgen05.allocation import EMPTY, FULL, HELD, READY
from cutegen.families.gemm.tcgen05.plan import Side, Tcgen05Plan
from cutegen.parts.barriers import Expect, Wait
from cutegen.parts.moving import Fragment, Load, Partition, Use
from cutegen.parts.opening import Allocate, AllocateBarriers, FenceInitialised, Initialise, SyncThreads
from cutegen.parts.statements import Blank, Body, Code, Elected, For, If, Included, Let, Note, Region, Statement
from cutegen.parts.tensor_products import (
    AllocateColumns,
    Commit,
    FreeColumns,
    LoadColumns,
    StartProducts,
    TakeColumns,
    TensorFence,
    WaitLoads,
)

FOLDER = "gemm_tcgen05"
STEP = "(k_tile,)"  # what a stage holds
STEPS = "[(k_tile,) for k_tile in range(k_tiles)]"  # those of the sum
ADVANCE = (
    Let("stage", "1", "+"),
    If("stage == STAGES", (Let("stage, phase", "cutlass.Int32(0), 1 - phase"),)),
)


def kernel_body(plan: Tcgen05Plan) -> Body:
    """From where shared memory is allocated to the end of the kernel."""
    roles = (
        If("warp_idx == LOADER", loader(plan)),
        If("warp_idx == MULTIPLIER", multiplier(plan)),
        If("warp_idx < MULTIPLIER", storing(plan)),
    )
    end = (
        Note("All warps have read tensor memory"),
        SyncThreads(),
        If("warp_idx == MULTIPLIER", (TensorFence(after=True), FreeColumns("tmem", "COLUMNS", sums_of(plan)))),
    )
    return (
        *opening(plan),
        Blank(),
        Region("schedule.mma", "what each warp does", roles),
        Blank(),
        Region("schedule.tiler", "end of tensor memory", end),
    )


def sums_of(plan: Tcgen05Plan) -> tuple[str, ...]:
    """The variables of the columns of each product."""
    return tuple(plan.suffixed("sums", side) for side in plan.b)


def opening(plan: Tcgen05Plan) -> Body:
    """The statements that all threads execute before they take roles."""
    stages = (Initialise(FULL, "stage"), Initialise(EMPTY, "stage"))
    memory = (
        Code("smem = cutlass.memory.SmemAllocator()"),
        *map(Allocate, allocation.operands(plan.spec)),
    )
    barriers = (
        Note("Two barriers per stage: its loads have completed; it has been multiplied"),
        *map(AllocateBarriers, (FULL, EMPTY)),
        Note("One barrier: the sums of the tile are complete"),
        AllocateBarriers(READY),
        If("tidx == 0", (
            For("stage", "cutlass.range_constexpr(STAGES)", stages),
            Initialise(READY, "0"),
            FenceInitialised(),
        )),
    )  # fmt: skip
    columns = (
        Note("Columns of tensor memory, whose address one warp writes to shared memory"),
        Allocate(HELD),
        If("warp_idx == MULTIPLIER", (
            AllocateColumns("COLUMNS", "held", sums_of(plan)),
            Code("cute.arch.relinquish_tmem_alloc_permit()"),
        )),
        SyncThreads(),
        TakeColumns("tmem", "held"),
    )  # fmt: skip
    shape = f"(BLK_{plan.m.upper()}, BLK_{plan.n.upper()})"
    return (
        Region("schedule.smem", "shared memory", memory),
        Region("schedule.pipeline.stages", "barriers", barriers),
        Region("schedule.tiler", "tensor memory", columns),
        Code("thr_mma = tiled_mma.get_slice(0)"),
        Let("k_tiles", f"cute.ceil_div(m{plan.a.tensor.name}.shape[1], BLK_{plan.k.upper()})"),
        Note("Lane r of tensor memory has row r of the tile, in as many columns"),
        Code("fragment = tiled_mma.make_fragment_C(", (("tiled_mma.partition_shape_C(", (shape,), ")"),), ")"),
        *(
            Code(
                f"{name} = cute.make_tensor(",
                (f"tmem + {at} * BLK_{plan.n.upper()}" if at else "tmem", "fragment.layout"),
                ")",
            )
            for at, name in enumerate(sums_of(plan))
        ),
    )


def loader(plan: Tcgen05Plan) -> Body:
    """A warp that loads the tiles of A and B to each stage as it becomes free."""
    step = (
        Wait("empty", "stage", "1 - phase"),
        Elected((Expect("full", "stage", "STAGE_BYTES"),)),
        *map(load, plan.sides),
        *ADVANCE,
    )
    return (
        Note("One warp starts the loads of tile after tile along k, as stages become free"),
        *(partition(plan, side) for side in plan.sides),
        Let("stage, phase", "cutlass.Int32(0), cutlass.Int32(0)"),
        Region("schedule.pipeline", "loads", (For("k_tile", "cutlass.range(k_tiles, unroll=1)", step),)),
    )


def partition(plan: Tcgen05Plan, side: Side) -> Statement:
    """The parts of an operand, and of its stages, that loads move."""
    name, tile = side.tensor.name, "m_tile" if side.letter == "A" else "n_tile"
    shape = f"(BLK_{side.mode.upper()}, BLK_{plan.k.upper()})"
    whole = ("cute.local_tile(", (f"m{name}", shape, f"({tile}, None)"), ")")
    body = (
        Code(f"g{name} = thr_mma.partition_{side.letter}(", (whole,), ")"),
        Partition(name, f"t{name}s{name}", f"t{name}g{name}", f"g{name}", modes="3"),
    )
    return Region("schedule.tiler", f"tiles of {name}", body)


def load(side: Side) -> Statement:
    """The load of an operand's tile to the stage."""
    name = side.tensor.name
    one = Load(name, f"t{name}g{name}[None, k_tile]", f"t{name}s{name}", "stage", "full", "stage", STEP)
    return Region(f"schedule.copies.{name}", f"load of {name}", (one,))


def multiplier(plan: Tcgen05Plan) -> Body:
    """A warp, one thread of which starts the products of each stage, and tells by barriers when they are done."""
    fragments = [plan.suffixed("tCrB", side) for side in plan.b]
    products = (
        StartProducts("tCrA", b, sums, sums, "stage", STEP, "k_tile > 0")
        for b, sums in zip(fragments, sums_of(plan), strict=True)
    )
    step = (
        Wait("full", "stage", "phase"),
        TensorFence(after=True),
        *products,
        Elected((Commit("empty", "stage"),)),
        *ADVANCE,
    )
    return (
        Note("One thread starts the products; a stage is free once those that read it are done"),
        Fragment("tCrA", "A", f"s{plan.a.tensor.name}", thread=""),
        *(Fragment(b, "B", f"s{x.tensor.name}", thread="") for b, x in zip(fragments, plan.b, strict=True)),
        Let("stage, phase", "cutlass.Int32(0), cutlass.Int32(0)"),
        Region("schedule.mma", "products", (For("k_tile", "cutlass.range(k_tiles, unroll=1)", step),)),
        Elected((Commit("ready", "0"),)),
    )


def storing(plan: Tcgen05Plan) -> Body:
    """Four warps, each of which loads its lanes of tensor memory, computes the epilogue, and stores."""
    output = plan.spec.output.name
    accumulators = tuple(plan.suffixed("acc", side) for side in plan.b)
    loads = (
        LoadColumns("thr_load", f"{plan.suffixed('from_columns', side)}[None, None, None, 0, part]", acc, sums, STEPS)
        for side, acc, sums in zip(plan.b, accumulators, sums_of(plan), strict=True)
    )
    loaded: Body = (*loads, WaitLoads())
    if plan.empty_sum:
        loaded = (If("k_tiles > 0", loaded, tuple(Code(f"{acc}.fill(0.0)") for acc in accumulators)),)
    part = (*loaded, Included("common/pointwise.j2", 8, (Use(accumulators),)))
    body = (
        Note(f"Epilogue: each thread has a row of the tile, SLICE neighbours along {plan.n.upper()} at a time"),
        Included(f"{FOLDER}/epilogue_setup.j2", 4),
        Wait("ready", "0", "0"),
        TensorFence(after=True),
        For("part", "cutlass.range_constexpr(VALUES // SLICE)", part),
        TensorFence(after=False),
    )
    return (Region(f"schedule.copies.{output}", "epilogue", body),)
