"""Proofs about a row kernel's plan: it covers each element of a row exactly once, and has no access out of bounds."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from cutegen import layouts
from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import are_runs, compact, covered_once, mode_in_bounds
from cutegen.analysis.words import count
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.planning import with_threads
from cutegen.families.rowwise.rows import counts_of_threads, longest, thread_values


def claims(plan: RowwisePlan) -> Iterator[Claim]:
    """The claims on a plan: coverage of the tile, of the row, then the bounds of every mode."""
    modes = ", ".join(plan.flat.lead.shape)
    what = f"the threads of a block have each element of its tile ({modes}) exactly once"
    path = ("schedule", "threads_per_row")
    yield covered_once(what, plan.tv_layout, plan.tiler, path, plan.threads, _miscounted(plan))
    if plan.fewer_threads and plan.threads_per_row > 1 and not plan.walked and not plan.way:
        yield _other_counts(plan)
    yield _own_row(plan)
    yield _whole_row(plan)
    yield from _bounds(plan)


def _miscounted(plan: RowwisePlan) -> Iterator[str]:
    """How the kernel's own count of a thread's values differs from that of the layout, in words."""
    values = layouts.mode_sizes(plan.tv_layout)[1]
    if values != plan.values:
        yield f"the kernel holds {count(plan.values, 'value')}"
    if values % plan.vector:
        yield f"{count(values, 'value')}: no whole number of accesses of {plan.vector}"
    columns = {column.tensor for column in plan.program.columns}
    for output in plan.flat.outputs:
        along = plan.row in output.shape and output.name not in columns
        if along and not any(o.write and o.tensor.name == output.name for o in plan.operands):
            yield f"the kernel does not store {output.name}"


def _other_counts(plan: RowwisePlan) -> Claim:
    """The claim that what holds with as many threads a row as there can be holds with every number of them."""
    counts, wrong = counts_of_threads(plan.threads_per_row)[:-1], []
    for threads in counts:
        one = with_threads(plan.flat, threads)
        tiler = tuple((one.schedule.tiler or {})[mode] for mode in plan.flat.lead.shape)
        missing, twice = layouts.coverage(thread_values(one, compact(tiler)), prod(tiler))
        if missing or twice:
            wrong.append(
                f"with {count(threads, 'thread')} a row {count(len(missing) + len(twice), 'element')} not once"
            )
    because = f"counted for each of {count(len(counts), 'number')} of threads, {counts[0]} to {counts[-1]}"
    text = f"so do blocks whose rows have fewer threads, as many as hold {plan.values} elements each"
    return Claim("coverage", text, (because, *wrong[:3]), not wrong, ("schedule", "shorter"))


def _own_row(plan: RowwisePlan) -> Claim:
    """The claim that all elements of a thread lie in the row that it reduces with the threads beside it."""
    threads, values = (layouts.offsets(mode) for mode in layouts.modes_of(plan.tv_layout))
    axis = plan.flat.lead.shape.index(plan.row)
    wrong = []
    for thread, start in enumerate(threads):
        for value in values:
            at = layouts.coordinates(start + value, plan.tiler)
            row = sum(x for i, x in enumerate(at) if i != axis)
            if row != thread // plan.threads_per_row:
                wrong.append(f"thread {thread} has an element of row {row}")
                break
    because = f"thread t has row t // {plan.threads_per_row} of {count(plan.rows, 'row')}"
    text = f"every thread's elements lie in one row, which {count(plan.threads_per_row, 'thread')} share"
    return Claim("coverage", text, (because, *wrong[:3]), not wrong, ("schedule", "threads_per_row"))


def _whole_row(plan: RowwisePlan) -> Claim:
    """The claim that every element of a row is reduced."""
    held, row, blocks = plan.tile[plan.row], plan.row, plan.cluster
    if plan.walked:
        whose = f", of which block r of a cluster has r, r + {blocks} and so on" if blocks > 1 else ""
        because = f"ceil({row} / {held}) pieces, one after the other{whose}"
        reasons, fits = [because], True
        if plan.kept:
            total, waits = longest(plan.flat) or 0, " and ".join(plan.kept)
            room = f"at most ceil({total} / {held} / {blocks}) = {plan.slots} of a block wait in shared memory"
            twice = "; those of the next row have places of their own" if plan.row_stages > 1 else ""
            reasons, fits = [because, f"{room}, of {waits}{twice}"], plan.slots * held * blocks >= total
        text = f"pieces of {held} cover every row, once each"
        return Claim("coverage", text, tuple(reasons), fits, ("schedule", "keep"))
    size, whole = plan.flat.static.get(row), plan.row_tile
    reasons = [f"{row} = {size}" if size is not None else _no_longer(plan)]
    if blocks > 1:
        reasons.insert(0, f"block r of a cluster of {blocks} has elements r * {held} to (r + 1) * {held} - 1")
    text = f"one tile of {held} covers every row" if blocks == 1 else f"{blocks} tiles of {held} cover every row"
    return Claim("coverage", text, tuple(reasons), size is None or size <= whole, ("schedule", "tiler", row))


def _no_longer(plan: RowwisePlan) -> str:
    """Why no row of a launch is longer than the threads hold that it has."""
    if plan.longer is not None:
        return f"with {plan.row} above {plan.row_tile} a launch has more threads per row, or the other kernel"
    return f"the host takes {plan.row} up to {plan.row_tile} only"


def _bounds(plan: RowwisePlan) -> Iterator[Claim]:
    axis = plan.flat.lead.shape.index(plan.row)
    runs = are_runs(plan.tv_layout, plan.tiler, axis, plan.vector)
    runs &= all(plan.vector % o.vector == 0 for o in plan.operands)
    for mode, extent in zip(plan.flat.lead.shape, plan.tiler, strict=True):
        width = plan.vector if mode == plan.row else 1
        tile = plan.row_tile if mode == plan.row and not plan.walked else extent
        yield mode_in_bounds(plan.flat, "", mode, tile, mode in plan.masked, width, runs)
