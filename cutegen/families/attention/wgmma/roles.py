"""The statements of the warps of a contraction by warpgroups as a tree, from which the kernel is printed and which
proofs examine.

One warp loads rows of the left tensors once, and tiles of the others stage by stage. Each of the other warpgroups has
64 rows, and goes through the tiles as `mainloop` says. Warpgroups start their products in turn, so that one multiplies
while another computes.
"""

from __future__ import annotations

from cutegen.families.attention.walking_text import walked_tiles
from cutegen.families.attention.wgmma import allocation
from cutegen.families.attention.wgmma.mainloop import mainloop, mainloop_together
from cutegen.families.attention.wgmma.plan import WARPGROUP, MappedOperand, WarpgroupAttentionPlan
from cutegen.families.attention.wgmma.products import UseSums
from cutegen.families.attention.wgmma.words import (
    BOTH,
    FOLDER,
    MMA,
    OWN,
    PIPELINE,
    ROWS_OF_GROUP,
    TILE,
    TURN,
    advance,
    place_of_tile,
)
from cutegen.parts.barriers import Expect, Meet, Wait
from cutegen.parts.moving import CommitStores, Fence, Fragment, Load, Partition, Store, Stored, Write
from cutegen.parts.opening import Allocate, AllocateBarriers, FenceInitialised, Initialise, Overlay, SyncThreads
from cutegen.parts.statements import Blank, Body, Code, Elected, For, If, Included, Let, Note, Region, Statement


def body(plan: WarpgroupAttentionPlan) -> Body:
    """The statements of every warp, from the allocation of shared memory on."""
    roles = If("warp_idx < 4", producer(plan), consumers(plan))
    return (*opening(plan), Blank(), Region(MMA, "what each warp does", (roles,)))


# ------------------------------------------------------------------------------------------------------- opening


def opening(plan: WarpgroupAttentionPlan) -> Body:
    """Shared memory, and barriers before anyone uses them."""
    declared, barriers = allocation.buffers(plan.spec), allocation.barriers(plan.spec)
    memory: list[Statement] = [Code("smem = cutlass.memory.SmemAllocator()")]
    for one in declared:
        if one.within:
            memory += [Note(f"{one.title} reuses the memory of {plan.overlaid[one.title]} at the end"), Overlay(one)]
        else:
            memory.append(Allocate(one))
    count = len(plan.lefts)
    single, stages = barriers[:count], barriers[count:]
    lefts = " and ".join(x.tensor.name for x in plan.lefts)
    are = "is" if count == 1 else "are"
    note = f"Barriers: {lefts} {are} loaded; for each stage, it is loaded, and all consumers have read it"
    if plan.read_both_ways:
        memory.append(Included(f"{FOLDER}/views.j2", 0))
    each = For("stage", "cutlass.range_constexpr(STAGES)", tuple(Initialise(one, "stage") for one in stages))
    start = If("tidx == 0", (*(Initialise(one, "0") for one in single), each, FenceInitialised()))
    return (
        Region("schedule.pipeline.stages", "shared memory", tuple(memory)),
        Region("schedule.pipeline.stages", "barriers", (
            Note(note), *map(AllocateBarriers, barriers), start, SyncThreads(),
        )),
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------ producer


def producer(plan: WarpgroupAttentionPlan) -> Body:
    """The warp that loads."""
    names = [x.tensor.name for x in plan.lefts]
    rows = For("group", "cutlass.range_constexpr(CONSUMERS)", tuple(
        Load(name, f"t{name}g{name}[None, row_tile * CONSUMERS + group]", f"t{name}s{name}", "group", f"full_{name}",
             "0", ROWS_OF_GROUP)
        for name in names
    ))  # fmt: skip
    expected = tuple(Expect(f"full_{name}", "0", f"CONSUMERS * {name}_BYTES") for name in names)
    tile = (*place_of_tile(plan), *(line for x in plan.rights for line in loaded(plan, x)), *advance())
    loads = (
        *map(partition, plan.loaded),
        If("tiles > 0", (Elected(expected), rows)),
        Note("The stage, and the phase of its barriers, which flips when the stages wrap around"),
        Let("stage, phase", "cutlass.Int32(0), cutlass.Int32(0)"),
        For("tile", f"cutlass.range({walked_tiles(plan)}, unroll=1)", tile),
    )
    order = ", the last ones first" * plan.by_turns
    walked = " and ".join(x.tensor.name for x in plan.rights)
    note = f"One warp loads {' and '.join(names)}, then tiles of {walked}{order}"
    return (
        Note(note),
        Code(f"cute.arch.setmaxregister_decrease({plan.registers[0]})"),
        If("warp_idx == 0", (Region(PIPELINE, "loads", loads),)),
    )


def partition(x: MappedOperand) -> Statement:
    name = x.tensor.name
    return Partition(name, f"t{name}s{name}", f"t{name}g{name}", f"g{name}")


def loaded(plan: WarpgroupAttentionPlan, x: MappedOperand) -> Body:
    """The load of a tile to its stage, once that is free."""
    name = x.tensor.name
    return (
        Wait(f"empty_{name}", "stage", "1 - phase"),
        Elected((Expect(f"full_{name}", "stage", f"{name}_BYTES"),)),
        Load(name, f"t{name}g{name}[None, key_tile]", f"t{name}s{name}", "stage", f"full_{name}", "stage", TILE),
    )


# ----------------------------------------------------------------------------------------------------- consumers


def consumers(plan: WarpgroupAttentionPlan) -> Body:
    """The warpgroups that multiply."""
    first_turn = If("group == CONSUMERS - 1", (Meet(str(TURN), BOTH, waits=False),))
    last_turn = If("group == 0", (Meet(str(TURN), BOTH),))
    products = ["mma_S", *plan.sum_products.values()]
    threads = ", ".join(thread_of(name) for name in products)
    slices = ", ".join(f"{name}.get_slice(thr)" for name in products)
    operands = (
        Let("group", "warp_idx // 4 - 1"),
        Let("thr", f"tidx % {WARPGROUP}", note="of its warpgroup"),
        Code(f"{threads} = {slices}"),
        *(Fragment(f"tSr{x.tensor.name}", "A", f"s{x.tensor.name}", "mma_S", "thr_S") for x in plan.lefts),
        *(Fragment(f"tSr{x.tensor.name}", "B", f"s{x.tensor.name}", "mma_S", "thr_S") for x in plan.rights_of_pairs),
        *(columns_fragment(plan, x) for x in plan.rights_of_outers),
        Included(f"{FOLDER}/registers.j2", 0),
    )
    return (
        Note("The others multiply: each warpgroup has 64 rows of the tile"),
        Code(f"cute.arch.setmaxregister_increase({plan.registers[1]})"),
        Region(MMA, "operands of the products", operands),
        *[first_turn] * plan.takes_turns,
        Region(PIPELINE, "mainloop", mainloop(plan) if plan.by_turns else mainloop_together(plan)),
        *[last_turn] * plan.takes_turns,
        Blank(),
        *epilogue(plan),
    )


def thread_of(product: str) -> str:
    """The variable of a thread's part of a product."""
    return product.replace("mma", "thr")


def columns_fragment(plan: WarpgroupAttentionPlan, x: MappedOperand) -> Statement:
    """The columns of a tensor as the products with what is computed of scores read them."""
    name, product = x.tensor.name, plan.sum_products[x.depth]
    view = f"s{name}_columns" * (x in plan.read_both_ways)
    return Fragment(f"tOr{name}", "B", f"s{name}", product, thread_of(product), view)


def epilogue(plan: WarpgroupAttentionPlan) -> Body:
    """The end: what follows from the sums goes to shared memory, and from there to the outputs."""
    names = [x.tensor.name for x in plan.outputs]
    sums = tuple(UseSums("first_tile", walked_tiles(plan), f"acc_O{one.suffix}") for one in plan.outers)
    stores = [Store(name, f"to_g{name}[None, row_tile * CONSUMERS + group]", "group", ROWS_OF_GROUP) for name in names]
    written = tuple(Write((name,), "(group,)", ROWS_OF_GROUP) for name in names)
    return (
        Included("attention/end.j2", None, sums),
        Region("tensors", "store", (
            Included(f"{FOLDER}/staged.j2", 0, written),
            Note("Make the writes visible to the async proxy, which stores them"),
            Fence(),
            Meet(f"{OWN} + group", WARPGROUP),
            If("thr < 32", (*stores, CommitStores(), Stored("0"))),
        )),
    )  # fmt: skip
