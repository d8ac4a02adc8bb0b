"""How many additions follow each other in a row kernel's sums: fewer than there are terms, by a known tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from cutegen.expressions.places import parts_of
from cutegen.expressions.selecting import kept_modes
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.rows import fewest_threads, rows_with
from cutegen.families.rowwise.trees import tree_of


def additions(plan: RowwisePlan, sizes: Mapping[str, int], modes: Sequence[str]) -> int | None:
    """The most additions that a term of a sum over `modes` goes through; None where that is not known.

    That is along a row, along modes of what is kept of one, and over all other modes. Of a row that is scanned it is
    also the most of a scan, which adds what the warps have one after another, and goes on with the next piece. Sums
    that are scaled while they grow, and squares around a mean that is found beside them, are no mere sums.
    """
    parts = parts_of(plan.row)
    sizes = {**sizes, plan.row: prod(sizes[part] for part in parts)}
    if set(modes) == set(parts):
        if any(one.above is not None or one.around is not None for one in plan.program.reductions):
            return None
        tree, pieces = tree_of(plan), -(-sizes[plan.row] // plan.row_tile) if plan.walked else 1
        across = tree.results if tree.reading == "each" else tree.rounds + tree.result_steps
        scans = tree.results * (pieces + 1) + 4 if plan.program.scans else 0
        return plan.values + pieces + tree.steps + across + scans
    kept = kept_modes(plan.flat.compute)
    if set(modes) & set(kept):
        return prod(sizes[mode] for mode in modes)
    if set(parts) & set(modes):
        return None
    rows, threads = plan.rows, plan.threads
    if plan.fewer_threads:
        threads = fewest_threads(plan.flat, sizes[plan.row])
        rows = rows_with(plan.flat, threads)
    blocks = plan.cluster if plan.blocks is None else plan.blocks_with(threads * rows)
    turns = -(-prod(sizes[mode] for mode in modes) // (rows * max(1, blocks // plan.cluster)))
    of_block = rows if plan.fewer_threads else 0  # what its rows add up before the blocks do
    return turns + of_block + -(-plan.column_rows // plan.column_warps) + plan.column_warps
