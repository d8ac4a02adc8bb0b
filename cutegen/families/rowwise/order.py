"""The order of a row kernel's work: what each walk loads, from which end, and what its threads exchange after it."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.walks import Reduction, Walk, counts_of


@dataclass(frozen=True)
class Exchange:
    """One exchange among the threads of a row: they combine some reductions of walk number `walk` together."""

    walk: int
    reductions: tuple[Reduction, ...]


def exchanges_of(plan: RowwisePlan) -> tuple[Exchange, ...]:
    """All exchanges of a row, in their order; none where a thread has a row for itself."""
    walks = plan.program.walks if plan.threads_per_row > 1 else ()
    return tuple(Exchange(number, met) for number, one in enumerate(walks) for met in meetings_of(plan, one))


def meetings_of(plan: RowwisePlan, walk: Walk) -> list[tuple[Reduction, ...]]:
    """The reductions of a walk in groups, whose results the threads of a row exchange together: all of them where that
    goes through shared memory, so that warps wait once; in one warp only those that depend on each other.
    """
    if walk.reductions and plan.warps_per_row * plan.cluster > 1:
        return [walk.reductions]
    first = counts_of(walk.reductions)  # of each group, by the names of those that are found with it
    first |= {one.name: one.above for one in walk.reductions if one.above is not None}
    first |= {one.name: one.around[0] for one in walk.reductions if one.around is not None}
    alone = [one for one in walk.reductions if one.name not in first]
    return [(one, *(other for other in walk.reductions if first.get(other.name) == one.name)) for one in alone]


def is_backwards(plan: RowwisePlan, number: int) -> bool:
    """Whether a walk in pieces begins at the row's end, which the previous walk left in a cache.

    A block of a cluster has other pieces then. It keeps its own where a tensor is read and written: another block's
    reads of a piece would not be ordered before its writes. A scan begins at the row's start.
    """
    others = plan.cluster > 1 and any(o.read and o.write for o in plan.operands)
    scans = plan.program.walks[number].scans
    return plan.walked and number % 2 == 1 and not plan.kept and not others and not scans


def loads_of(plan: RowwisePlan, number: int) -> tuple[str, ...]:
    """The tensors along the rows that a walk is the first to have, or in pieces reads.

    Kept in registers, rows themselves are all under way before the first walk. What broadcasts is near, in a cache:
    threads of large blocks, who have few registers, load it in the first walk that needs it.
    """
    walks = plan.program.walks
    if plan.walked:
        return tuple(name for name in walks[number].reads if name not in plan.partial)
    whole = [o.tensor.name for o in plan.operands if not o.broadcast or plan.broadcasts_early]
    first = {name: min(i for i, one in enumerate(walks) if name in one.reads) for one in walks for name in one.reads}
    names = (o.tensor.name for o in plan.operands)
    return tuple(name for name in names if name in first and (0 if name in whole else first[name]) == number)


def partial_of(plan: RowwisePlan, number: int) -> tuple[str, ...]:
    """The tensors with some of a row's modes that a walk is the first to have, or in pieces reads."""
    walks = plan.program.walks
    before = set() if plan.walked else {name for one in walks[:number] for name in one.reads}
    return tuple(name for name in walks[number].reads if name in plan.partial and name not in before)


def loaded_ahead(plan: RowwisePlan) -> tuple[str, ...]:
    """The tensors along the rows whose next rows are loaded while a block computes on its own."""
    return tuple(o.tensor.name for o in plan.operands if o.read and not o.broadcast and plan.ahead)


def loaded_once(plan: RowwisePlan) -> tuple[str, ...]:
    """The tensors that are the same for all rows, and are loaded before a block walks them."""
    others = len(plan.flat.lead.shape) - 1
    fixed = (o.tensor.name for o in plan.operands if o.read and len(o.broadcast) == others)
    return tuple(fixed) if plan.ahead and others else ()


def pieces_of(plan: RowwisePlan, walk: int, block: int, pieces: int) -> tuple[int, ...]:
    """The pieces that a block has in a walk over a row of so many, in their order: those of a cluster take turns."""
    own = range(block, pieces, plan.cluster)
    return tuple(pieces - 1 - i for i in own) if is_backwards(plan, walk) else tuple(own)
