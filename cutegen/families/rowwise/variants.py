"""The ways in which a row kernel runs, as plans of their own."""

from __future__ import annotations

from dataclasses import replace

from cutegen.atoms.targets import WARP
from cutegen.families.common.narrowing import NARROW, WORDS, of_spec, promising, with_copy
from cutegen.families.rowwise.flat import as_written
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.planning import plan as planned
from cutegen.families.rowwise.planning import with_threads, with_values
from cutegen.families.rowwise.rows import fewest_threads, widest_tensor

SHORT = (8, 64)  # threads of a row that stand for all the counts that a launch may choose
LONG = "longer rows"


def variants(plan: RowwisePlan) -> tuple[RowwisePlan, ...]:
    """The plan alone; of one whose launches choose, one for each choice that is not like another.

    That is how many threads a row has, and how many values each of these, whether its kernel holds a row or walks it,
    and whether accesses keep the promises that wide ones need, are of words, or are of one element. Those of one
    element come last.
    """
    lengths, short = _lengths(plan), _of_fewer_values(plan)
    if not plan.flat.schedule.narrows:
        return (*lengths, *short)
    # Of whole warps the plan itself is enough: a launch with fewer of them runs the same kernel
    some = [one for one in lengths if one.way in (plan.way, LONG) or one.threads_per_row < WARP]
    narrow = [_of_fewer(one, plan) for one in lengths]
    words = [_words(_of_fewer(one, plan)) for one in some] if plan.word else []
    return (*map(_wide, (*lengths, *short)), *words, *map(_narrow, narrow))


def _of_fewer(one: RowwisePlan, plan: RowwisePlan) -> RowwisePlan:
    """One of the plans of other lengths, with as many values for a thread as narrow accesses of the `plan` have."""
    if plan.narrow_values == plan.values:
        return one
    found = planned(with_values(one.flat, plan.narrow_values))
    return replace(found, way=one.way, kept=one.kept, slots=one.slots, smem_bytes=one.smem_bytes)


def _of_fewer_values(plan: RowwisePlan) -> tuple[RowwisePlan, ...]:
    """The plans of rows whose threads have fewer values each."""
    least = fewest_threads(plan.flat, plan.flat.sizes_of(plan.row)[0]) if plan.fewer_values else 0
    counts = [threads for threads in SHORT if least <= threads <= plan.threads_per_row] if plan.fewer_values else []
    return tuple(
        replace(
            planned(with_threads(plan.flat, threads, plan.fewer_values)),
            way=f"{threads} threads a row, fewer values",
        )
        for threads in counts
    )


def _lengths(plan: RowwisePlan) -> tuple[RowwisePlan, ...]:
    """The plan, then those that it becomes for shorter rows, and that of its kernel for longer ones."""
    chosen = SHORT if plan.fewer_threads and not plan.walked and plan.row not in plan.flat.static else ()
    least = fewest_threads(plan.flat, plan.flat.sizes_of(plan.row)[0]) if chosen else 0
    short = [
        replace(planned(with_threads(plan.flat, threads)), way=f"{threads} threads a row")
        for threads in chosen
        if least <= threads < plan.threads_per_row
    ]
    return (plan, *short, *([] if plan.longer is None else [replace(plan.longer, way=LONG)]))


def _wide(plan: RowwisePlan) -> RowwisePlan:
    wide = promising(plan.flat, plan.operands, plan.row, plan.vector)
    return replace(plan, spec=as_written(wide), operands=of_spec(plan.operands, wide))


def _words(plan: RowwisePlan) -> RowwisePlan:
    found = _of_width(plan, plan.word, WORDS)
    promised = promising(found.flat, found.operands, plan.row, found.vector)
    return replace(found, spec=as_written(promised), operands=of_spec(found.operands, promised))


def _narrow(plan: RowwisePlan) -> RowwisePlan:
    return _of_width(plan, 1, NARROW)


def _of_width(plan: RowwisePlan, vector: int, name: str) -> RowwisePlan:
    """The plan with accesses of `vector` elements to whole tensors."""
    one = with_copy(plan.flat, bits=vector * widest_tensor(plan.flat).dtype.bits, fallback=None)
    way = f"{plan.way}, {name}" if plan.way else name
    return replace(planned(one), way=way, kept=plan.kept, slots=plan.slots, smem_bytes=plan.smem_bytes)
