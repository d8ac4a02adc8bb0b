"""The statements that the threads of a contraction execute, from the first copies to the stored output, as a tree. The
kernel is printed from this tree, and proofs examine it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from cutegen.families.attention.mma_sync.plan import AttentionPlan, Operand
from cutegen.families.attention.walking_text import block_of
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
    """Lines that the family prints, after which the scores of a tile are factors of the next products, and are used up.

    Each of `steps` of the tile has been multiplied once, and the factors are those of its `outer_steps`.
    """

    tile: str
    steps: str
    outer_steps: str

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("compute with scores")
        content, found = (int(at.value(self.tile)),), at.held.sums.pop("acc_S", Counter())
        if found != Counter({(content, k): 1 for k in range(int(at.value(self.steps)))}):
            refuse("sum", f"{at.agent.role} takes {dict(found)} for the scores of tile {content[0]}", at.agent)
        for k in range(int(at.value(self.outer_steps))):
            at.held.fragments["tOrP", k] = (content, k)
        return iter(())


def body(plan: AttentionPlan) -> Body:
    """From the first copies to the end of the kernel."""
    return (
        Array((plan.q.tensor.name,), "1"),
        Array((plan.k.tensor.name, plan.v.tensor.name), "STAGES"),
        Array(tuple(f"g{x.tensor.name}" for x in (plan.q, plan.k, plan.v)), "most_tiles"),
        Array((f"tSr{plan.q.tensor.name}", f"tSr{plan.k.tensor.name}"), "K_BLOCKS"),
        Array(("tOrP", f"tOr{plan.v.tensor.name}"), "N_BLOCKS"),
        Array((plan.o.tensor.name if plan.parts == 1 else "of_warps",), "1"),
        Region(PIPELINE, "prologue", prologue(plan)),
        Blank(),
        *left_fragments(plan),
        Region(PIPELINE, "mainloop", mainloop(plan)),
        Blank(),
        *epilogue(plan),
    )


def copy(x: Operand, tile: str, stage: str, size: str) -> Body:
    """A copy of a tile under predicates on its rows."""
    name = x.tensor.name
    start = f"{tile} * {block_of(x.row)}" if tile.isidentifier() else f"({tile}) * {block_of(x.row)}"
    rows = (f"t{name}c{name}", start, size)
    return Code(f"pred_{name} = rows_within(", rows, ")"), CopyTile(name, tile, stage, f"pred_{name}")


def left_copy(plan: AttentionPlan) -> Body:
    """The copy of the rows of a tile."""
    if not plan.packed:
        return copy(plan.q, "row_tile", "0", size(plan.q))
    return (Included(f"{FOLDER}/packed_rows.j2", None, (CopyTile(plan.q.tensor.name, "row_tile", "0"),)),)


def size(x: Operand) -> str:
    return f"size_{x.row}"


def walked_copy(x: Operand, tile: str, stage: str) -> Body:
    """A copy of the tile of that number among those that are walked, if there is one, as a group of its own."""
    made = copy(x, f"first_tile + {tile}", stage, size(x))
    return If(f"{tile} < tiles", made), CpAsyncCommitGroup()


def prologue(plan: AttentionPlan) -> Body:
    left, right, values = plan.q, plan.k, plan.v
    return (
        Note(f"Prologue: {left.tensor.name} with the first tile of {right.tensor.name}, then tiles of"),
        Note(f"{values.tensor.name} and {right.tensor.name} by turns, each a group of copies to wait for"),
        *left_copy(plan),
        For("stage", "cutlass.range_constexpr(STAGES)", (
            *walked_copy(right, "stage", "stage"),
            If("cutlass.const_expr(stage < STAGES - 1)", walked_copy(values, "stage", "stage")),
        )),
    )  # fmt: skip


def left_fragments(plan: AttentionPlan) -> Body:
    """The fragments of the left tensor, where they stay in registers."""
    if not plan.keeps_left:
        return ()
    fragments = (
        Note(f"The fragments of {plan.q.tensor.name} stay in registers"),
        CpAsyncWaitGroup(WAIT),
        SyncThreads(),
        For("k_block", "cutlass.range_constexpr(K_BLOCKS)", (read(plan.q, "S", "k_block", "0"),)),
    )
    return Region(MMA, "fragments", fragments), Blank()


def read(x: Operand, product: str, k: str, stage: str) -> ReadFragment:
    name = x.tensor.name
    fragment = f"t{product}r{name}"
    return ReadFragment(name, f"t{product}s{name}", f"{fragment}_view", fragment, k, stage, f"read_{name}")


def mainloop(plan: AttentionPlan) -> Body:
    left, right, values = plan.q, plan.k, plan.v
    wait: Body = (CpAsyncWaitGroup(WAIT), SyncThreads())
    scores = (
        *([] if plan.keeps_left else [read(left, "S", "k_block", "0")]),
        read(right, "S", "k_block", "stage"),
        MultiplyScores(f"tSr{left.tensor.name}", f"tSr{right.tensor.name}", "k_block", "acc_S"),
    )
    outer = (
        read(values, "O", "n_block", "stage"),
        MultiplyAdd("tOrP", f"tOr{values.tensor.name}", "n_block", "acc_O"),
    )
    tile = (
        Let("stage", "tile % STAGES"),
        Note(
            f"Wait for the tile of {right.tensor.name}, and until no thread reads the last one of {values.tensor.name}"
        ),
        *wait,
        Let("ahead", "tile + (STAGES - 1)"),
        *walked_copy(values, "ahead", "ahead % STAGES"),
        Code("acc_S.fill(0.0)"),
        Region(MMA, "scores", (For("k_block", "cutlass.range_constexpr(K_BLOCKS)", scores),)),
        Included(f"{FOLDER}/tile.j2", None, (Computed("first_tile + tile", "K_BLOCKS", "N_BLOCKS"),)),
        Note(f"Wait for the tile of {values.tensor.name}, and until no thread reads this stage of {right.tensor.name}"),
        *wait,
        Let("ahead", "tile + STAGES"),
        *walked_copy(right, "ahead", "stage"),
        Region(MMA, "products", (For("n_block", "cutlass.range_constexpr(N_BLOCKS)", outer),)),
    )
    return (For("tile", "cutlass.range(tiles, unroll=1)", tile),)


def split_epilogue(plan: AttentionPlan) -> Body:
    """The end of a part of a walk, whose results go to the workspace."""
    summed = Summed("tiles", "N_BLOCKS", "acc_O")
    if plan.key_warps == 1:
        return Included(f"{FOLDER}/parts.j2", None, (summed,)), CpAsyncWaitGroup("0")
    over = tuple(x.tensor.name for x in (plan.q, plan.k, plan.v))
    return (
        CpAsyncWaitGroup("0"),
        SyncThreads(),
        Included(f"{FOLDER}/spread.j2", None, (summed, StoreSums("of_warps", over))),
        SyncThreads(),
        Included(f"{FOLDER}/gather.j2", None, (ReadSums("of_warps"),)),
    )


def epilogue(plan: AttentionPlan) -> Body:
    name = plan.o.tensor.name
    if plan.parts > 1:
        return split_epilogue(plan)
    staged = (
        Note(f"{name} goes to shared memory, where the stages were, and comes back in rows"),
        CpAsyncWaitGroup("0"),
        SyncThreads(),
        StoreSums(name, tuple(x.tensor.name for x in (plan.q, plan.k, plan.v)), "tOrO"),
        SyncThreads(),
    )
    return (
        Included("attention/end.j2", None, (Summed("tiles", "N_BLOCKS", "acc_O"),)),
        Region("tensors", "store", staged),
        Included(f"{FOLDER}/store.j2", 0, (ReadSums(name),)),
    )
