"""The loops of the warpgroups that multiply over the tiles of the walked mode, as trees.

Where the tiles of two tensors come by turns, a warpgroup starts the scores of a tile, then the products of what it
computed of the tile before, and computes with the scores while those run. Warpgroups start their products in turn.
Where there are more products, it has no registers for two tiles: all products of a tile end before it goes on, and
other warpgroups multiply while it computes.
"""

from __future__ import annotations

from cutegen.families.attention.plan import Outer
from cutegen.families.attention.walking_text import block_of, walked_tiles
from cutegen.families.attention.wgmma.plan import WARPGROUP, MappedOperand, WarpgroupAttentionPlan
from cutegen.families.attention.wgmma.products import (
    Compute,
    ComputeFactors,
    MakeFactors,
    MultiplyFactors,
    MultiplyScores,
)
from cutegen.families.attention.wgmma.words import (
    ALL,
    BOTH,
    FOLDER,
    MMA,
    OWN,
    ROWS_OF_GROUP,
    TILE,
    TURN,
    VECTOR,
    advance,
    place_of_tile,
    start_of_tile,
)
from cutegen.parts.barriers import Arrive, Meet, Wait
from cutegen.parts.moving import Drain, Fence, Look, Write
from cutegen.parts.statements import Body, For, If, Included, Let, Note, Region, Statement


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
        *without_the_rest(plan, "0", "0"),
    )
    following = (
        Let("key_tile", "last_tile - tile"),
        Wait(f"full_{k}", "stage", "phase"),
        *my_turn(plan),
        scores(plan, "stage"),
        Wait(f"full_{v}", "before", "phase_before"),
        products(plan, "before", "(key_tile + 1,)", fenced=False),
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
        products(plan, "before", "(first_tile,)"),
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


def mainloop_together(plan: WarpgroupAttentionPlan) -> Body:
    """The tiles from the first one on: all products of two tensors, what is computed of them, all products of that."""
    read_last = [x for x in plan.rights if x in plan.rights_of_outers]
    names = {x: x.tensor.name for x in plan.rights}
    factors = tuple(factor_of(one) for one in plan.outers)
    computed = ComputeFactors(TILE, tuple(f"acc_S{pair.suffix}" for pair in plan.pairs), factors)
    vectors = tuple(x.name for x in plan.vectors)
    of_columns = (Look(vectors, f"({VECTOR},)", TILE),) if vectors else ()
    tile = (
        *place_of_tile(plan),
        Included("attention/tile_start.j2"),
        *(Wait(f"full_{names[x]}", "stage", "phase") for x in plan.rights_of_pairs),
        *without_the_rest(plan, "stage", "phase"),
        *my_turn(plan),
        scores(plan, "stage"),
        *next_turn(plan),
        *kept_vectors(vectors),
        Drain(0),
        *(release(names[x], "stage") for x in plan.rights if x not in read_last),
        Included("attention/computed.j2", None, (*of_columns, computed)),
        *(Wait(f"full_{names[x]}", "stage", "phase") for x in read_last if x not in plan.rights_of_pairs),
        products(plan, "stage", TILE),
        Drain(0),
        *(release(names[x], "stage") for x in read_last),
        *advance(),
    )
    lefts = tuple(Wait(f"full_{x.tensor.name}", "0", "0") for x in plan.lefts)
    return (
        If("tiles > 0", lefts),
        Let("stage, phase", "cutlass.Int32(0), cutlass.Int32(0)"),
        For("tile", f"cutlass.range({walked_tiles(plan)}, unroll=1)", tile),
    )


def kept_vectors(names: tuple[str, ...]) -> Body:
    """The vectors of a tile on their way from the threads that loaded them to all of the warpgroup. There are two
    places for each: no warp writes one before all have passed the barrier behind the other, with what they read here.
    """
    if not names:
        return ()
    written = (Included(f"{FOLDER}/kept_vectors.j2", None, (Write(names, f"({VECTOR},)", TILE),)),)
    return (Region("tensors", "vectors", (*written, Meet(f"{OWN} + group", WARPGROUP))),)


def scores(plan: WarpgroupAttentionPlan, stage: str) -> Statement:
    """The products of two tensors that give the scores of a tile."""
    return Region(MMA, "scores", tuple(
        MultiplyScores(f"tSr{pair.left.tensor.name}", f"tSr{pair.right.tensor.name}", stage, TILE,
                       f"acc_S{pair.suffix}", fresh=True, mma="mma_S", place_of_a="group",
                       left_content=ROWS_OF_GROUP, fenced=number == 0)
        for number, pair in enumerate(plan.pairs)
    ))  # fmt: skip


def products(plan: WarpgroupAttentionPlan, stage: str, content: str, fenced: bool = True) -> Statement:
    """The products of what was computed of a tile with the columns of tensors of that tile."""
    return Region(MMA, "products", tuple(
        MultiplyFactors(factor_of(one), f"tOr{one.values.tensor.name}", stage, content, f"acc_O{one.suffix}",
                        mma=plan.sum_products[one.values.depth], place_of_a="registers",
                        fenced=fenced and number == 0, adds=True)
        for number, one in enumerate(plan.outers)
    ))  # fmt: skip


def factor_of(one: Outer[MappedOperand]) -> str:
    """The registers with what was computed of scores, on the left of a product along the walked mode."""
    return f"tOrP{one.suffix}"


def negated(plan: WarpgroupAttentionPlan) -> Body:
    """The warpgroup's rows of the left tensor with the other sign, where scores are multiplied by a negative factor: so
    the largest score is that of the largest product.
    """
    if not plan.folds:
        return ()
    place = "(group, 0)"  # the part of a cell that loads bring
    rows, note = plan.q.tensor.name, "The factor is negative: negate all scores, so that the largest is found"
    body = (
        Note(note),
        Included(f"{FOLDER}/negated.j2", None, (Write((rows,), place, ROWS_OF_GROUP, updates=True),)),
        Fence(),
        Meet(f"{OWN} + group", WARPGROUP),
    )
    return (Region("compute", "sign of scores", (If("factor < 0.0", body),)),)


def without_the_rest(plan: WarpgroupAttentionPlan, stage: str, phase: str) -> Body:
    """Zeros in those rows of tensors in the last tile that do not exist: a factor of 0 times a NaN would be one. Tensor
    maps know the size of the walked mode, and not where it ends for a place.
    """
    if plan.lengths is None:
        return ()
    names, row, block = [x.tensor.name for x in plan.zeroed], plan.walked.walked, block_of(plan.walked.walked)
    take = "zeros take its place" if len(names) == 1 else "zeros take their place"
    note = f"{' and '.join(names)} beyond the length may be anything, which 0 times is no 0: {take}"
    zeros = Included(f"{FOLDER}/zeros.j2", None, (Write(tuple(names), f"({stage},)", TILE, updates=True),))
    body = (
        Note(note),
        *(Wait(f"full_{name}", stage, phase) for name in names),
        If("group == 0", (zeros, Fence())),
        Meet(str(ALL), plan.consumers * WARPGROUP),
    )
    return (Region("modes", "values that do not exist", (If(f"{start_of_tile(plan)} > size_{row} - {block}", body),)),)


def release(name: str, stage: str) -> Statement:
    """The arrival that lets a stage be loaded again, once all warpgroups have read it."""
    return If("thr == 0", (Arrive(f"empty_{name}", stage),))


def my_turn(plan: WarpgroupAttentionPlan) -> Body:
    turn = (Note("Wait for this warpgroup's turn to start products"), Meet(f"{TURN} + group", BOTH))
    return turn if plan.takes_turns else ()


def next_turn(plan: WarpgroupAttentionPlan) -> Body:
    following = f"{TURN} + (group + 1) % CONSUMERS"
    return (Meet(following, BOTH, waits=False),) if plan.takes_turns else ()
