"""What to run a row kernel on besides what breaks any: rows of values that reductions treat apart, and long rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.rows import longest
from cutegen.verification.wishes import Wish

ROWS = 37  # more than there are kinds of rows


def more_wishes(plan: RowwisePlan, tiles: Mapping[str, int]) -> Iterator[Wish]:
    """Cases besides those that follow for any family. `tiles` is what a block has at a time."""
    row, held = plan.row, tiles[plan.row]
    many = {plan.beside: ROWS} if plan.beside is not None else {}
    why = "rows that are all equal, all -inf, of one element, with one NaN, of the largest numbers, that cancel"
    part = held // 3 + 1 if plan.walked else held
    yield Wish("rows", why, {**many, row: part}, data="rows", every_way=True)
    if plan.walked:
        yield Wish("rows of two pieces", why, {**many, row: held + part}, "padded", data="rows", every_way=True)
    if plan.row_stages > 1 and plan.beside is not None and plan.blocks is not None:
        rows, why = 2 * plan.row_stages * (plan.blocks // plan.cluster) + 1, "each stage again, and once more"
        yield Wish("rows in every stage", why, {plan.beside: rows, row: 1}, data="integers", every_way=True)
    if plan.kept and row not in plan.spec.static:
        why, whole = "as long as what shared memory has room for", held * plan.cluster
        yield Wish("the longest rows", why, {row: longest(plan.spec) or held}, data="integers", every_way=True)
        why = "whole pieces of all blocks, and one element"
        yield Wish("a piece and one more", why, {row: whole + 1}, every_way=True)
