"""What to run a row kernel on besides what breaks any: rows of values that reductions treat apart, and long rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.rows import longest
from cutegen.verification.data import KINDS_OF_ROWS
from cutegen.verification.wishes import Data, Wish, between

ROWS = 3 * KINDS_OF_ROWS + 1
MANY_ELEMENTS, MOST_ELEMENTS = 1 << 21, 5 << 20
"""Of a tensor whose rows are of all kinds, and of one with rows for blocks that stay: of long rows there are fewer."""


def more_wishes(plan: RowwisePlan, tiles: Mapping[str, int]) -> Iterator[Wish]:
    """Cases besides those that follow for any family. `tiles` is what a block has at a time."""
    row, held = plan.row, tiles[plan.row]
    part = held // 3 + 1 if plan.walked else held

    def many(wanted: int) -> dict[str, int]:
        size = plan.spec.static.get(row, between(plan.spec, row, wanted))
        beside = {} if plan.beside is None else {plan.beside: min(ROWS, max(KINDS_OF_ROWS, MANY_ELEMENTS // size))}
        return {**beside, row: size}

    why = "rows that are all equal, all -inf, of one element, with one NaN, of the largest numbers, that cancel"
    yield Wish("rows", why, many(part), data="rows", every_way=True)
    if plan.walked:
        yield Wish("rows of two pieces", why, many(held + part), "padded", data="rows", every_way=True)
    if plan.blocks is not None and plan.beside is not None:
        yield from _rows_of_blocks(plan, plan.spec.static.get(row, min(part, plan.vector + 1)))
    if plan.row_stages > 1 and plan.beside is not None and plan.blocks is not None:
        rows, why = 2 * plan.row_stages * (plan.blocks // plan.cluster) + 1, "each stage again, and once more"
        yield Wish("rows in every stage", why, {plan.beside: rows, row: 1}, data="integers", every_way=True)
    if plan.kept and row not in plan.spec.static:
        why, whole = "as long as what shared memory has room for", held * plan.cluster
        yield Wish("the longest rows", why, {row: longest(plan.spec) or held}, data="integers", every_way=True)
        why = "whole pieces of all blocks, and one element"
        yield Wish("a piece and one more", why, {row: whole + 1}, every_way=True)


def _rows_of_blocks(plan: RowwisePlan, size: int) -> Iterator[Wish]:
    """Cases in which a block that stays walks several rows, each of another kind and `size` long: three where so many
    have no more than `MOST_ELEMENTS`, else two.

    Where sums go over the rows as well, one that is not finite would hide all others, and they are ordinary.
    """
    assert plan.blocks is not None and plan.beside is not None
    at_once = plan.rows * (plan.blocks // plan.cluster)
    counts = [2 * at_once + KINDS_OF_ROWS, 2 * at_once + 1, at_once + KINDS_OF_ROWS, at_once + 1]
    rows = next((count for count in counts if count * size <= MOST_ELEMENTS), counts[-1])
    kind: Data = "random" if plan.program.columns else "rows"
    why = f"each block walks up to {-(-rows // at_once)} tiles of rows"
    yield Wish("several rows a block", why, {plan.beside: rows, plan.row: size}, data=kind)
