"""Test cases for row kernels beyond those of any family: long rows, and rows of values that reductions special-case."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from cutegen.atoms.targets import WARP
from cutegen.dtypes import Dtype
from cutegen.families.rowwise.flat import flat_sizes, parted, parts_of
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.rows import counts_of_threads, fewest_threads, longest, rows_with
from cutegen.families.rowwise.walks import Element, Named
from cutegen.verification.case_request import CaseRequest, Data
from cutegen.verification.case_requests import BANDS, ROUNDS, between, derived
from cutegen.verification.data import KINDS_OF_ROWS, MAGNITUDES
from cutegen.verification.telling_scalars import telling_scalars

ROWS = 3 * KINDS_OF_ROWS + 1
MANY_ELEMENTS, MOST_ELEMENTS, MOST_LONG_ELEMENTS = 1 << 18, 5 << 20, 8 << 20
"""Of a tensor whose rows are of all kinds, and of one with rows for blocks that stay: of long rows there are fewer. The
last is for long rows that are summed, which blocks walk in three turns then."""
LONG_ROWS_ELEMENTS, FEWEST_ROWS = 1 << 19, 3
"""The most elements of a tensor with rows of two pieces, which has fewer kinds of rows then; and the fewest rows."""
_OF_FORM = frozenset(("tile", "primes", "padded residue", "special values", "rows of all magnitudes"))
"""Cases that tell of the code that clusters of any number of blocks share, and nothing of how many share a row."""
PEAKS, PEAKS_ELEMENTS = 4, 1 << 18
"""Rows for each warp of a row, each with a peak elsewhere, and about how many elements these have at most."""
_APART = (0, 1, 2**32 + 1)
"""Numbers that kernels treat apart; the last is 1 in 32 bits, which some of the integers beside such rows are."""


_REPEATED = (
    *("tile integers", "small primes", "primes integers", "several tiles"),
    *("padded", "padded primes", "offset", "offset primes"),
)
"""Cases whose faults other cases show as well: they have the same sizes with other data, fewer tiles, or less that is
unusual at once."""


def requests(plan: RowwisePlan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
    """The cases of any family, without those that show nothing more of rows.

    Rows do not depend on each other, so modes need not change one at a time: the cases in which every mode is one
    shorter or longer have such rows, too.
    """
    modes, own = plan.spec.modes, parts_of(plan.flat)
    left_out = {*_REPEATED, *(f"{mode} {what}" for mode in modes for what in ("one less", "one more"))}
    left_out |= {f"{mode} = 1" for mode in modes if mode not in own or plan.spec.sizes_of(mode)[0] > 1}
    left_out |= {f"{count} tiles of {mode}" for mode in modes for count in BANDS}
    of_form = _OF_FORM if plan.cluster > 1 else frozenset[str]()
    for request in derived(plan, tiles):
        if request.name not in left_out:
            yield replace(request, form=request.form or request.name in of_form)


def more_requests(plan: RowwisePlan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
    """Cases besides those that follow for any family. `tiles` is what a block has at a time."""
    for request in _requests(plan, flat_sizes(plan.flat, tiles)):
        yield replace(request, wanted=parted(plan.flat, request.wanted))
    yield from _rows_of_parts(plan, tiles)


def _rows_of_parts(plan: RowwisePlan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
    """Cases in which each mode that a row is made of has several elements, about as many as a block has of the row."""
    free = [part for part in parts_of(plan.flat) if part not in plan.flat.static]
    if len(parts_of(plan.flat)) == 1 or not free:
        return
    held = flat_sizes(plan.flat, tiles)[plan.row]
    fixed = prod(plan.flat.static.get(part, 1) for part in parts_of(plan.flat))
    for name, few in (("few", 3), ("many", 13)):
        sizes = dict.fromkeys(free, few) | {free[-1]: max(2, held // (fixed * few ** (len(free) - 1)) - 1)}
        yield CaseRequest(f"{name} of a row's modes", "a row goes along several", sizes, every_way=True)
        yield CaseRequest(f"{name} of a row's modes, rows", "a row goes along several", sizes, data="rows")


def _requests(plan: RowwisePlan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
    """The cases, with a row of one mode."""
    row, held = plan.row, tiles[plan.row]
    part = held // 3 + 1 if plan.walked else held
    kinds = FEWEST_ROWS if plan.program.columns else KINDS_OF_ROWS  # all rows that are summed are of one kind

    def many(wanted: int, least: int = kinds) -> dict[str, int]:
        size = plan.flat.static.get(row, between(plan.flat, row, wanted))
        beside = {} if plan.beside is None else {plan.beside: min(ROWS, max(least, MANY_ELEMENTS // max(1, size)))}
        return {**beside, row: size}

    why = "rows that are all equal, all -inf, of one element, with one NaN, of the largest numbers, that cancel"
    several = plan.walked and many(held + part)[row] > held * plan.cluster  # pieces, of which a row has more than one
    if not plan.walked or many(part)[row] <= held * plan.cluster:
        yield CaseRequest("rows", why, many(part), data="rows", every_way=True)
    if row in plan.masked and not plan.walked and part > 1:
        how = "rows that end within what threads hold"
        yield CaseRequest("rows, one less", how, many(part - 1), data="rows", every_way=True, form=plan.fewer_threads)
    if plan.fewer_threads and not plan.walked and not plan.way:
        for threads in (n for n in counts_of_threads(plan.threads_per_row) if n <= WARP and n & (n - 1) == 0):
            how, sizes = f"as long as {threads} threads hold", many(threads * plan.values)
            if plan.beside is not None:
                sizes[plan.beside] = max(sizes[plan.beside], _at_once(plan, sizes[row])[0] + 1)
            kind: Data = "random" if plan.program.columns else "rows"
            yield CaseRequest(f"rows of {threads} threads", how, sizes, data=kind)
    if plan.cluster > 1 and row not in plan.flat.static:
        how = "of which each block of a cluster has a part" + ", and then a second one" * plan.walked
        most = plan.row_tile * (2 if plan.walked else 1)
        yield CaseRequest("rows of all blocks", how, many(most, 3), data="rows", every_way=True, form=True)
    yield from _peaks(plan)
    yield from _row_alone(plan, many(held))
    if plan.beside is not None:
        yield from _with_scalars(plan, many(part))
    if plan.beside is not None:
        how = "each row of other magnitudes, of all that its type has"
        rows = max(1, min(MAGNITUDES, MANY_ELEMENTS // max(1, many(part)[row])))
        yield CaseRequest("rows of all magnitudes", how, {**many(part), plan.beside: rows}, data="magnitudes")
    if several or plan.walked and row not in plan.flat.static:
        few = LONG_ROWS_ELEMENTS // max(1, many(held + part)[row])  # the case "rows" has all kinds
        sizes = many(held + part, max(FEWEST_ROWS, min(KINDS_OF_ROWS, few)))
        yield CaseRequest("rows of two pieces", why, sizes, "padded", data="rows", every_way=True, form=True)
    if plan.blocks is not None and plan.beside is not None:
        fewer = counts_of_threads(plan.threads_per_row)[:-1] if plan.fewer_threads else []
        size = min(part, (fewer[-1] * plan.values * plan.cluster if fewer else 0) + plan.vector + 1)
        yield from _rows_of_blocks(plan, plan.flat.static.get(row, between(plan.flat, row, size)))
    if plan.kept and row not in plan.flat.static:
        why, whole = "as long as what shared memory has room for", held * plan.cluster
        yield CaseRequest("the longest rows", why, {row: longest(plan.flat) or held}, data="integers", every_way=True)
        why = "whole pieces of all blocks, and one element"
        if between(plan.flat, row, whole + 1) > whole:  # else it is as long as the longest rows
            yield CaseRequest("a piece and one more", why, {row: whole + 1}, every_way=True)


def _peaks(plan: RowwisePlan) -> Iterator[CaseRequest]:
    """A case whose rows have their largest and their least element in the part of each block of a cluster, and of each
    warp where so many rows are not too large: a maximum that misses a part of a row is too small for one of them.
    Other rows seldom show that, as exponentials above too small a maximum are right until they overflow.
    """
    parts = plan.warps_per_row * plan.cluster
    if plan.beside is None or parts == 1 or all(one.function not in ("max", "min") for one in plan.program.reductions):
        return
    size = plan.flat.static.get(plan.row, between(plan.flat, plan.row, plan.row_tile))
    rows = max(plan.cluster, min(PEAKS * parts, PEAKS_ELEMENTS // max(1, size)))
    why = "the largest and the least element of a row, in the parts of all warps and blocks"
    alone = parts > WARP  # several results for a lane, which no kernel of the form has with a smaller cluster
    sizes = {plan.beside: rows, plan.row: size}
    yield CaseRequest("rows with peaks", why, sizes, data="peaks", every_way=True, form=not alone)


def _row_alone(plan: RowwisePlan, sizes: Mapping[str, int]) -> Iterator[CaseRequest]:
    """Cases of one row with infinities, in blocks that have several rows, of a kernel that reduces over the rows.

    In a row that does not exist, all that has one value a row is 0. Where such a row takes part in a sum, products with
    that 0 add nothing, unless the other factor is infinite. Where the sum needs a reduction along the row, each tensor
    has a case of its own: an infinity in one makes that reduction NaN, which hides those in others.
    """
    behind = plan.program.behind_columns
    if plan.beside not in plan.masked or plan.rows == 1:
        return
    along = (o.tensor for o in plan.operands if o.tensor.name in behind)
    names = tuple(t.name for t in along if t.dtype.is_float and t.dtype is not Dtype.f8e4m3)
    after = (step.name for one in plan.program.walks for step in one.after if isinstance(step, Named | Element))
    apart = not behind.isdisjoint([*(one.name for one in plan.program.reductions), *after])
    why = "infinities in the only row of a block that has several"
    sizes = {**sizes, **{mode: 1 for mode in plan.flat.lead.shape if mode != plan.row}}
    for each in [(name,) for name in names] if apart else [names] if names else []:
        name = f"a row alone, {each[0]}" if apart else "a row alone"
        yield CaseRequest(name, why, sizes, every_way=True, infinite=each)


def _at_once(plan: RowwisePlan, size: int) -> tuple[int, int]:
    """The rows of a block, and of all blocks that a launch has at most, where rows are `size` long."""
    of_block, threads = plan.rows, plan.threads
    if plan.fewer_threads:
        threads = fewest_threads(plan.flat, size)
        of_block = rows_with(plan.flat, threads)
        threads *= of_block
    return of_block, 0 if plan.blocks is None else of_block * (plan.blocks_with(threads) // plan.cluster)


def _rows_of_blocks(plan: RowwisePlan, size: int) -> Iterator[CaseRequest]:
    """Cases in which blocks that stay walk several rows, each of another kind and `size` long: with one cluster, as
    many as take each stage and each phase of its barriers three times and once more; and with as many as there are.
    """
    assert plan.beside is not None
    if plan.program.columns:
        yield from _summed_rows_of_blocks(plan, size)
        return
    of_block, at_once = _at_once(plan, size)
    tiles = ROUNDS * 2 * plan.row_stages + 1
    rows = max((tiles - 1) * of_block + 1, KINDS_OF_ROWS)
    why = f"one cluster walks {-(-rows // of_block)} tiles of rows"
    sizes = {plan.beside: rows, plan.row: size}
    yield CaseRequest("several rows a block", why, sizes, data="rows", every_way=True, blocks=plan.cluster)
    few = [at_once + KINDS_OF_ROWS, at_once + 1]
    rows = next((count for count in few if count * size <= MOST_ELEMENTS), few[-1])
    why = "some blocks walk two tiles of rows"
    sizes, form = {plan.beside: rows, plan.row: size}, plan.fewer_threads
    yield CaseRequest("rows of two turns", why, sizes, data="rows", every_way=True, form=form)


def _summed_rows_of_blocks(plan: RowwisePlan, size: int) -> Iterator[CaseRequest]:
    """Cases in which blocks walk several rows, `size` long, and sum over them. One row that is not finite would hide
    all others, so all are ordinary.

    Each block or cluster has a place in memory for its sums. One case has a tile of rows more than there are places, of
    the shortest rows, which have the most blocks.
    """
    assert plan.beside is not None
    of_block, at_once = _at_once(plan, size)
    tiles = ROUNDS * 2 * plan.row_stages + 1
    turns = [tiles * at_once - of_block + 1, 4 * at_once + 1] if not plan.fewer_threads else [3 * at_once + 1]
    turns.append(2 * at_once + 1)
    walked = [rows for rows in turns if rows * size <= MOST_ELEMENTS]
    walked += [rows for rows in turns[-1:] if MOST_ELEMENTS < rows * size <= MOST_LONG_ELEMENTS]
    form = plan.fewer_threads
    for rows in walked[:1]:
        why = f"blocks walk {-(-rows // at_once)} tiles of rows"
        yield CaseRequest("several rows a block", why, {plan.beside: rows, plan.row: size}, form=form)
    if plan.way or not walked:
        sizes = {plan.beside: at_once + of_block + 1, plan.row: size}
        yield CaseRequest("rows of two turns", "some blocks walk two tiles of rows", sizes, every_way=True, form=form)
    if plan.fewer_threads and plan.cluster > 1 and plan.row not in plan.flat.static and not plan.way:
        size = between(plan.flat, plan.row, 1)
        sizes = {plan.beside: _at_once(plan, size)[0] * plan.column_rows + 1, plan.row: size}
        yield CaseRequest("more rows than places", "a tile of rows more than clusters have places for sums", sizes)


def _with_scalars(plan: RowwisePlan, sizes: Mapping[str, int]) -> Iterator[CaseRequest]:
    """Cases of scalars at 0, 1 and where they are not finite, with rows of all kinds: 0 times infinity is NaN."""
    if prod(sizes.values()) > 2 * MANY_ELEMENTS:
        return
    for name, values in telling_scalars(plan.flat):
        if all(value in _APART or not math.isfinite(value) for value in values.values()):
            why = "a value that kernels treat apart"
            yield CaseRequest(f"rows, {name}", why, sizes, data="rows", scalars=values, once=True)
