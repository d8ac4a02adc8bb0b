"""The statements that the threads of a contraction execute, from the first copies to the stored output, as a tree. The
kernel is printed from this tree, and proofs examine it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cutegen.families.attention.mma_sync.plan import AttentionPlan, CopiedOperand
from cutegen.families.attention.plan import Outer, Pair, suffix_of
from cutegen.families.attention.walking_text import block_of, walked_tile, walked_tiles
from cutegen.parts.acting import Acting
from cutegen.parts.acts import Act
from cutegen.parts.copying import (
    Array,
    CopyTile,
    CpAsyncCommitGroup,
    CpAsyncWaitGroup,
    MultiplyAdd,
    ReadFragment,
    ReadSums,
    StoreSums,
    Summed,
)
from cutegen.parts.faults import refuse
from cutegen.parts.opening import SyncThreads
from cutegen.parts.statements import Blank, Body, Code, For, If, Included, Let, Note, Region, Statement

FOLDER = "attention_mma_sync"
PIPELINE, MMA = "schedule.pipeline", "schedule.mma"
WAIT = "2 * STAGES - 2"  # groups behind the one that is waited for: one of each tensor for each stage but its own


@dataclass(frozen=True)
class MultiplyScores(MultiplyAdd):
    """The products of one k of the left tensor, which is the same for all tiles, with a tile of the right one."""

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("multiply")
        k = int(at.value(self.k))
        one, other = (at.held.fragments.get((name, k)) for name in (self.a, self.b))
        if one is None or other is None or one[1] != other[1]:
            refuse(
                "fragment", f"{at.agent.role} multiplies {self.a} and {self.b} of k_block {k}: {one}, {other}", at.agent
            )
        at.held.sums.setdefault(self.sums, Counter())[other] += 1
        return iter(())


@dataclass(frozen=True)
class Computed(Statement):
    """Lines that the family prints, after which the products of two tensors are factors of the next products, and are
    used up.

    Each of the `sums` of the tile has been multiplied as many times as its steps say, once in each, and the `factors`
    are those of its `outer_steps`.
    """

    tile: str
    sums: tuple[tuple[str, str], ...]
    factors: tuple[str, ...]
    outer_steps: str

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("compute with scores")
        content = (int(at.value(self.tile)),)
        for name, steps in self.sums:
            found = at.held.sums.pop(name, Counter())
            if found != Counter({(content, k): 1 for k in range(int(at.value(steps)))}):
                text = f"{at.agent.role} takes {dict(found)} for the scores of tile {content[0]} in {name}"
                refuse("sum", text, at.agent)
        for factor in self.factors:
            for k in range(int(at.value(self.outer_steps))):
                at.held.fragments[factor, k] = (content, k)
        return iter(())


def body(plan: AttentionPlan) -> Body:
    """From the first copies to the end of the kernel."""
    return (
        Array(tuple(x.tensor.name for x in plan.lefts), "1"),
        Array(tuple(x.tensor.name for x in plan.rights), "STAGES"),
        Array(tuple(f"g{x.tensor.name}" for x in plan.loaded), "most_tiles"),
        *(Array(fragments_of(pair), steps_of(pair)) for pair in plan.pairs),
        *(Array((factor_of(one), f"tOr{one.values.tensor.name}"), "N_BLOCKS") for one in plan.outers),
        Array(tuple(x.tensor.name for x in plan.outputs) if plan.parts == 1 else ("of_warps",), "1"),
        Region(PIPELINE, "prologue", prologue(plan) if plan.by_turns else prologue_together(plan)),
        Blank(),
        *left_fragments(plan),
        Region(PIPELINE, "mainloop", mainloop(plan) if plan.by_turns else mainloop_together(plan)),
        Blank(),
        *epilogue(plan),
    )


def fragments_of(pair: Pair[CopiedOperand]) -> tuple[str, str]:
    """The names of the fragments of both tensors."""
    return f"tSr{pair.left.tensor.name}", f"tSr{pair.right.tensor.name}"


def steps_of(pair: Pair[CopiedOperand]) -> str:
    """The number of products of a tile along the summed mode."""
    return f"K_BLOCKS{pair.suffix}"


def factor_of(one: Outer[CopiedOperand]) -> str:
    """The fragments of what was computed, on the left of a product along the walked mode."""
    return f"tOrP{one.suffix}"


def copy(x: CopiedOperand, tile: str, stage: str, size: str, place: str = "") -> Body:
    """A copy of a tile under predicates on its rows; its `place` among all tiles, where that is not its number."""
    name = x.tensor.name
    start = f"{tile} * {block_of(x.row)}" if tile.isidentifier() else f"({tile}) * {block_of(x.row)}"
    rows = (f"t{name}c{name}", start, size)
    return Code(f"pred_{name} = rows_within(", rows, ")"), CopyTile(name, place or tile, stage, f"pred_{name}")


def left_copy(plan: AttentionPlan) -> Body:
    """The copy of the rows of a tile."""
    if not plan.packed:
        return copy(plan.q, "row_tile", "0", size(plan.q))
    return (Included(f"{FOLDER}/packed_rows.j2", None, (CopyTile(plan.q.tensor.name, "row_tile", "0"),)),)


def size(x: CopiedOperand) -> str:
    return f"size_{x.row}"


def walked_copy(plan: AttentionPlan, operands: Sequence[CopiedOperand], tile: str, stage: str) -> Body:
    """A copy of the tiles of that number among those that are walked, if there are any, as a group of their own."""
    if not plan.walked.around:
        made = [line for x in operands for line in copy(x, f"first_tile + {tile}", stage, size(x))]
        return If(f"{tile} < tiles", (*made,)), CpAsyncCommitGroup()
    along = Let("along", f"first_tile + {tile} % tiles")
    made = [
        line for x in operands for line in copy(x, "along", stage, size(x), f"{tile} // tiles * every_tile + along")
    ]
    return If(f"{tile} < rounds", (along, *made)), CpAsyncCommitGroup()


def prologue(plan: AttentionPlan) -> Body:
    (left,), (right, values) = plan.lefts, plan.rights
    return (
        Note(f"Prologue: {left.tensor.name} with the first tile of {right.tensor.name}, then tiles of"),
        Note(f"{values.tensor.name} and {right.tensor.name} in turn, each a group of copies to wait for"),
        *left_copy(plan),
        For("stage", "cutlass.range_constexpr(STAGES)", (
            *walked_copy(plan, (right,), "stage", "stage"),
            If("cutlass.const_expr(stage < STAGES - 1)", walked_copy(plan, (values,), "stage", "stage")),
        )),
    )  # fmt: skip


def prologue_together(plan: AttentionPlan) -> Body:
    names = " and ".join(x.tensor.name for x in plan.lefts)
    return (
        Note(f"Prologue: {names} with the first tiles, then the tiles of each stage, a group of copies each"),
        *(line for x in plan.lefts for line in copy(x, "row_tile", "0", size(x))),
        For("stage", "cutlass.range_constexpr(STAGES)", walked_copy(plan, plan.rights, "stage", "stage")),
    )


def left_fragments(plan: AttentionPlan) -> Body:
    """The fragments of the left tensor, where they stay in registers."""
    if not plan.keeps_left:
        return ()
    (left,) = plan.lefts
    fragments = (
        Note(f"The fragments of {left.tensor.name} stay in registers"),
        CpAsyncWaitGroup(WAIT),
        SyncThreads(),
        For("k_block", "cutlass.range_constexpr(K_BLOCKS)", (read(left, "S", "k_block", "0"),)),
    )
    return Region(MMA, "fragments", fragments), Blank()


def read(x: CopiedOperand, product: str, k: str, stage: str, copy: str = "") -> ReadFragment:
    name = x.tensor.name
    fragment = f"t{product}r{name}"
    return ReadFragment(name, f"t{product}s{name}", f"{fragment}_view", fragment, k, stage, copy or f"read_{name}")


def reading_columns(plan: AttentionPlan, one: Outer[CopiedOperand]) -> str:
    """The copy that reads fragments of a tensor's columns, where another one reads those of its rows."""
    both = any(pair.right is one.values for pair in plan.pairs)
    return f"read_{one.values.tensor.name}" + "_columns" * both


def scores(plan: AttentionPlan, pair: Pair[CopiedOperand]) -> Body:
    """The products of a tile of two tensors."""
    step = (
        *([] if plan.keeps_left else [read(pair.left, "S", "k_block", "0")]),
        read(pair.right, "S", "k_block", "stage"),
        MultiplyScores(*fragments_of(pair), "k_block", f"acc_S{pair.suffix}"),
    )
    return (For("k_block", f"cutlass.range_constexpr({steps_of(pair)})", step),)


def products(plan: AttentionPlan, one: Outer[CopiedOperand]) -> Body:
    """The products of a tile along the walked mode."""
    step = (
        read(one.values, "O", "n_block", "stage", reading_columns(plan, one)),
        MultiplyAdd(factor_of(one), f"tOr{one.values.tensor.name}", "n_block", f"acc_O{one.suffix}"),
    )
    return (For("n_block", "cutlass.range_constexpr(N_BLOCKS)", step),)


def computed(plan: AttentionPlan) -> Statement:
    """The statement that computes with the scores of a tile."""
    sums = tuple((f"acc_S{pair.suffix}", steps_of(pair)) for pair in plan.pairs)
    factors = tuple(factor_of(one) for one in plan.outers)
    return Included(f"{FOLDER}/tile.j2", None, (Computed(walked_tile(plan), sums, factors, "N_BLOCKS"),))


def mainloop(plan: AttentionPlan) -> Body:
    (pair,), (outer,), (right, values) = plan.pairs, plan.outers, plan.rights
    wait: Body = (CpAsyncWaitGroup(WAIT), SyncThreads())
    tile = (
        Let("stage", "tile % STAGES"),
        Note(
            f"Wait for the tile of {right.tensor.name}, and until no thread reads the last one of {values.tensor.name}"
        ),
        *wait,
        Let("ahead", "tile + (STAGES - 1)"),
        *walked_copy(plan, (values,), "ahead", "ahead % STAGES"),
        Code("acc_S.fill(0.0)"),
        Region(MMA, "scores", scores(plan, pair)),
        computed(plan),
        Note(f"Wait for the tile of {values.tensor.name}, and until no thread reads this stage of {right.tensor.name}"),
        *wait,
        Let("ahead", "tile + STAGES"),
        *walked_copy(plan, (right,), "ahead", "stage"),
        Region(MMA, "products", products(plan, outer)),
    )
    return (For("tile", "cutlass.range(tiles, unroll=1)", tile),)


def mainloop_together(plan: AttentionPlan) -> Body:
    tile = (
        Let("stage", "tile % STAGES"),
        CpAsyncWaitGroup("STAGES - 1"),
        SyncThreads(),
        *(Code(f"acc_S{pair.suffix}.fill(0.0)") for pair in plan.pairs),
        *(Region(MMA, f"scores{pair.suffix}", scores(plan, pair)) for pair in plan.pairs),
        computed(plan),
        *(Region(MMA, f"products{one.suffix}", products(plan, one)) for one in plan.outers),
        Note("Until no thread reads this stage"),
        SyncThreads(),
        Let("ahead", "tile + STAGES"),
        *walked_copy(plan, plan.rights, "ahead", "stage"),
    )
    return (For("tile", f"cutlass.range({walked_tiles(plan)}, unroll=1)", tile),)


def split_epilogue(plan: AttentionPlan) -> Body:
    """The end of a part of a walk, whose results go to the workspace."""
    summed = Summed("tiles", "N_BLOCKS", "acc_O")
    if plan.key_warps == 1:
        return CpAsyncWaitGroup("0"), Included(f"{FOLDER}/parts.j2", None, (summed,))
    over = tuple(x.tensor.name for x in plan.loaded)
    return (
        CpAsyncWaitGroup("0"),
        SyncThreads(),
        Included(f"{FOLDER}/spread.j2", None, (summed, StoreSums("of_warps", over))),
        SyncThreads(),
        Included(f"{FOLDER}/gather.j2", None, (ReadSums("of_warps"),)),
    )


def epilogue(plan: AttentionPlan) -> Body:
    if plan.parts > 1:
        return split_epilogue(plan)
    names = [x.tensor.name for x in plan.outputs]
    over = tuple(x.tensor.name for x in plan.loaded)
    go = "{} goes through shared memory, where the stages were, to be stored in whole rows"
    if len(names) > 1:
        go = "{} go through shared memory, where the stages were, to be stored in whole rows"
    staged = (
        Note(go.format(" and ".join(names))),
        CpAsyncWaitGroup("0"),
        SyncThreads(),
        *(StoreSums(name, over, f"tOrO{suffix_of(number)}") for number, name in enumerate(names)),
        SyncThreads(),
    )
    sums = tuple(Summed(walked_tiles(plan), "N_BLOCKS", f"acc_O{one.suffix}") for one in plan.outers)
    return (
        Included("attention/end.j2", None, sums),
        Region("tensors", "store", staged),
        Included(f"{FOLDER}/store.j2", 0, tuple(ReadSums(name) for name in names)),
    )
