"""The statements of the warps of a contraction by warpgroups as a tree, from which the kernel is printed and which
proofs examine.

One warp loads rows of the left tensor once, and tiles of the two others in turn. Each of the other warpgroups has 64
rows: it starts the scores of a tile, then the products of what it computed of the tile before, and computes with the
scores while those run. Warpgroups start their products in turn, so that one multiplies while another computes.
"""

from __future__ import annotations

from cutegen.families.attention.walking_text import block_of
from cutegen.families.attention.wgmma import allocation
from cutegen.families.attention.wgmma.plan import WARPGROUP, Operand, WarpgroupAttentionPlan
from cutegen.families.attention.wgmma.products import Compute, MakeFactors, MultiplyFactors, MultiplyScores, UseSums
from cutegen.parts.barriers import Arrive, Expect, Meet, Wait
from cutegen.parts.moving import CommitStores, Drain, Fence, Fragment, Load, Partition, Store, Stored, Write
from cutegen.parts.opening import Allocate, AllocateBarriers, FenceInitialised, Initialise, Overlay, SyncThreads
from cutegen.parts.statements import Blank, Body, Code, Elected, For, If, Included, Let, Note, Region, Statement

FOLDER = "attention_wgmma"
PIPELINE, MMA = "schedule.pipeline", "schedule.mma"
TURN, OWN = 1, 5  # named barriers, from these numbers on one of each warpgroup; 0 is `sync_threads`
ALL = 4  # the named barrier of all warpgroups that multiply
BOTH = 2 * WARPGROUP  # threads
TILE = "(key_tile,)"


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
            memory += [Note(f"{one.title} reuses the memory of {plan.q.tensor.name} at the end"), Overlay(one)]
        else:
            memory.append(Allocate(one))
    single, stages = barriers[:1], barriers[1:]
    note = f"Barriers: {plan.q.tensor.name} is loaded; for each stage, it is loaded, and all consumers have read it"
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
    q, k, v = plan.q, plan.k, plan.v
    name, low = q.tensor.name, plan.registers[0]
    rows = For("group", "cutlass.range_constexpr(CONSUMERS)", (
        Load(name, f"t{name}g{name}[None, row_tile * CONSUMERS + group]", f"t{name}s{name}", "group", f"full_{name}",
             "0", "(row_tile, group)"),
    ))  # fmt: skip
    tile = (
        Let("key_tile", "last_tile - tile"),
        *loaded(k),
        *loaded(v),
        *advance(),
    )
    loads = (
        *map(partition, (q, k, v)),
        If("tiles > 0", (Elected((Expect(f"full_{name}", "0", f"CONSUMERS * {name}_BYTES"),)), rows)),
        Note("The stage, and the phase of its barriers, which flips when the stages wrap around"),
        Let("stage, phase", "cutlass.Int32(0), cutlass.Int32(0)"),
        For("tile", "cutlass.range(tiles, unroll=1)", tile),
    )
    note = f"One warp loads {name}, then tiles of {k.tensor.name} and {v.tensor.name}, the last ones first"
    return (
        Note(note),
        Code(f"cute.arch.setmaxregister_decrease({low})"),
        If("warp_idx == 0", (Region(PIPELINE, "loads", loads),)),
    )


def partition(x: Operand) -> Statement:
    name = x.tensor.name
    return Partition(name, f"t{name}s{name}", f"t{name}g{name}", f"g{name}")


def loaded(x: Operand) -> Body:
    """The load of a tile to its stage, once that is free."""
    name = x.tensor.name
    return (
        Wait(f"empty_{name}", "stage", "1 - phase"),
        Elected((Expect(f"full_{name}", "stage", f"{name}_BYTES"),)),
        Load(name, f"t{name}g{name}[None, key_tile]", f"t{name}s{name}", "stage", f"full_{name}", "stage", TILE),
    )


def advance() -> Body:
    """To the next stage, and after the last one to the next phase."""
    return (
        Let("stage", "1", "+"),
        If("stage == STAGES", (Let("stage, phase", "cutlass.Int32(0), 1 - phase"),)),
    )


# ----------------------------------------------------------------------------------------------------- consumers


def consumers(plan: WarpgroupAttentionPlan) -> Body:
    """The warpgroups that multiply."""
    q, k, v = (x.tensor.name for x in (plan.q, plan.k, plan.v))
    first_turn = If("group == CONSUMERS - 1", (Meet(str(TURN), BOTH, waits=False),))
    last_turn = If("group == 0", (Meet(str(TURN), BOTH),))
    operands = (
        Let("group", "warp_idx // 4 - 1"),
        Let("thr", f"tidx % {WARPGROUP}", note="of its warpgroup"),
        Code("thr_S, thr_O = mma_S.get_slice(thr), mma_O.get_slice(thr)"),
        Fragment(f"tSr{q}", "A", f"s{q}", "mma_S", "thr_S"),
        Fragment(f"tSr{k}", "B", f"s{k}", "mma_S", "thr_S"),
        Fragment(f"tOr{v}", "B", f"s{v}", "mma_O", "thr_O"),
        Included(f"{FOLDER}/registers.j2", 0),
    )
    return (
        Note("The others multiply: each warpgroup has 64 rows of the tile"),
        Code(f"cute.arch.setmaxregister_increase({plan.registers[1]})"),
        Region(MMA, "operands of the products", operands),
        *[first_turn] * plan.takes_turns,
        Region(PIPELINE, "mainloop", mainloop(plan)),
        *[last_turn] * plan.takes_turns,
        Blank(),
        *epilogue(plan),
    )


def mainloop(plan: WarpgroupAttentionPlan) -> Body:
    """The tiles from the last one on: the first of them alone, then each with the products of the one before.

    An assembler moves the wait for these products up, into the computation with scores, and what follows it as well.
    That is as it should be: other warpgroups multiply meanwhile, and the way to the next products is shorter.
    """
    q, k, v = (x.tensor.name for x in (plan.q, plan.k, plan.v))
    compute_first, compute = (
        Included(f"{FOLDER}/{name}.j2", None, (Compute(TILE),)) for name in ("first_tile", "tile")
    )
    factors = Included(f"{FOLDER}/factors.j2", None, (MakeFactors(),))
    first = (
        Let("key_tile", "last_tile"),
        Wait(f"full_{q}", "0", "0"),
        *negated(plan),
        Wait(f"full_{k}", "0", "0"),
        *my_turn(plan),
        scores(plan, "0"),
        *next_turn(plan),
        Drain(0),
        release(k, "0"),
        compute_first,
        factors,
        *without_the_rest(plan),
    )
    following = (
        Let("key_tile", "last_tile - tile"),
        Wait(f"full_{k}", "stage", "phase"),
        *my_turn(plan),
        scores(plan, "stage"),
        Wait(f"full_{v}", "before", "phase_before"),
        products(plan, "(key_tile + 1,)", fenced=False),
        *next_turn(plan),
        Note("The scores are complete; the second product of the previous tile still runs"),
        Drain(1),
        release(k, "stage"),
        compute,
        Drain(0),
        release(v, "before"),
        factors,
        Let("before, phase_before", "stage, phase"),
        *advance(),
    )
    last = (
        Wait(f"full_{v}", "before", "phase_before"),
        products(plan, "(first_tile,)"),
        Drain(0),
    )
    parts = len(plan.parts)
    walk = For("tile", "cutlass.range(1, tiles, unroll=1)", following)
    if parts > 1:
        some = For("tile", "cutlass.range(walk[part], walk[part + 1], unroll=1)", following)
        walk = For("part", f"cutlass.range_constexpr({parts})", (some,))
    return (
        If("tiles > 0", first),
        Note("The stages of a tile and of the previous one; phases flip when they wrap around"),
        Let("before, phase_before", "cutlass.Int32(0), cutlass.Int32(0)"),
        Let("stage, phase", "cutlass.Int32(1), cutlass.Int32(0)"),
        walk,
        If("tiles > 0", last),
    )


def negated(plan: WarpgroupAttentionPlan) -> Body:
    """The warpgroup's rows of the left tensor with the other sign, where scores are multiplied by a negative factor: so
    the largest score is that of the largest product.
    """
    if not plan.folds:
        return ()
    place, held = "(group, 0)", "(row_tile, group)"  # the part of a cell that loads bring
    rows, note = plan.q.tensor.name, "The factor is negative: negate all scores, so that the largest is found"
    body = (
        Note(note),
        Included(f"{FOLDER}/negated.j2", None, (Write((rows,), place, held, updates=True),)),
        Fence(),
        Meet(f"{OWN} + group", WARPGROUP),
    )
    return (Region("compute", "sign of scores", (If("factor < 0.0", body),)),)


def without_the_rest(plan: WarpgroupAttentionPlan) -> Body:
    """Zeros in the values of the last tile that do not exist: a factor of 0 times a NaN would be one. Tensor maps know
    the size of the walked mode, and not where it ends for a place.
    """
    if plan.lengths is None:
        return ()
    v, row, block = plan.v.tensor.name, plan.walked.walked, block_of(plan.walked.walked)
    note = f"{v} beyond the length may be anything, which 0 times is no 0: zeros take its place"
    zeros = Included(f"{FOLDER}/zeros.j2", None, (Write((v,), "(0,)", TILE, updates=True),))
    body = (
        Note(note),
        Wait(f"full_{v}", "0", "0"),
        If("group == 0", (zeros, Fence())),
        Meet(str(ALL), plan.consumers * WARPGROUP),
    )
    return (Region("modes", "values that do not exist", (If(f"key_tile * {block} > size_{row} - {block}", body),)),)


def scores(plan: WarpgroupAttentionPlan, stage: str) -> Statement:
    """The products that give the scores of a tile."""
    q, k = plan.q.tensor.name, plan.k.tensor.name
    return Region(MMA, "scores", (
        MultiplyScores(f"tSr{q}", f"tSr{k}", stage, TILE, "acc_S", fresh=True, mma="mma_S", place_of_a="group",
                       left_content="(row_tile, group)"),
    ))  # fmt: skip


def products(plan: WarpgroupAttentionPlan, content: str, fenced: bool = True) -> Statement:
    """The products of what was computed of a tile with the values of that tile."""
    v = plan.v.tensor.name
    return Region(MMA, "products", (
        MultiplyFactors("tOrP", f"tOr{v}", "before", content, "acc_O", mma="mma_O", place_of_a="registers",
                        fenced=fenced, adds=True),
    ))  # fmt: skip


def release(name: str, stage: str) -> Statement:
    """The arrival that lets a stage be loaded again, once all warpgroups have read it."""
    return If("thr == 0", (Arrive(f"empty_{name}", stage),))


def my_turn(plan: WarpgroupAttentionPlan) -> Body:
    turn = (Note("Wait for this warpgroup's turn to start products"), Meet(f"{TURN} + group", BOTH))
    return turn if plan.takes_turns else ()


def next_turn(plan: WarpgroupAttentionPlan) -> Body:
    following = f"{TURN} + (group + 1) % CONSUMERS"
    return (Meet(following, BOTH, waits=False),) if plan.takes_turns else ()


def epilogue(plan: WarpgroupAttentionPlan) -> Body:
    """The end: what follows from the sums goes to shared memory, and from there to the output."""
    name, held = plan.o.tensor.name, "(row_tile, group)"
    note = "Make the writes visible to the async proxy, which stores them"
    store = Store(name, f"to_g{name}[None, row_tile * CONSUMERS + group]", "group", held)
    return (
        Included("attention/end.j2", None, (UseSums("first_tile", "tiles"),)),
        Region("tensors", "store", (
            Included(f"{FOLDER}/staged.j2", 0, (Write((name,), "(group,)", held),)),
            Note(note),
            Fence(),
            Meet(f"{OWN} + group", WARPGROUP),
            If("thr < 32", (store, CommitStores(), Stored("0"))),
        )),
    )  # fmt: skip
