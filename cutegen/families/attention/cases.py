"""The cases that a contraction is verified on: sizes around its tiles, loops, stages, and what lies behind bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from cutegen.dtypes import Dtype
from cutegen.expressions.tree import Binary, Local, Name, walk
from cutegen.families.attention.plan import WalkingPlan
from cutegen.families.attention.walking_text import TOGETHER
from cutegen.verification.case_request import CaseRequest
from cutegen.verification.case_requests import ROUNDS


def requests(plan: WalkingPlan[Any], tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
    """The cases, in their order. Scalars that scale the scores are such that many of a row count: where numbers are
    whole, so that exponentials are powers of two, which 16 bits hold. Those that bound the walk are of all sizes.
    """
    usual, exact = 1 / math.sqrt(plan.depth), math.log(2)
    reach = (plan.key_block + 3, 5, 2 * plan.key_block, 0, 2**31 - 1, plan.key_block // 2, -1)
    ends = dict.fromkeys(term.id for bound in plan.bounds for term, _ in bound.terms if isinstance(term, Name))
    for number, request in enumerate(_requests(plan)):
        if not request.exactly:
            scales = {} if request.data == "special" else {x: usual * (1 + i / 4) for i, x in enumerate(_scales(plan))}
            scales = dict.fromkeys(scales, exact) if request.data == "integers" else scales
            request = replace(request, scalars=scales | dict.fromkeys(ends, reach[number % len(reach)]))
        yield request
    if scaled := _scales(plan):
        scales = dict.fromkeys(scaled, usual) | {scaled[0]: -usual}
        wanted = {plan.rows_mode: plan.row_block + 1, plan.walked.walked: plan.stages * plan.key_block + 1}
        yield CaseRequest(
            "negative factor", "scores in the other order", wanted, scalars=scales | dict.fromkeys(ends, reach[0])
        )


def _scales(plan: WalkingPlan[Any]) -> list[str]:
    """The scalars that scores are multiplied by."""
    scalars, found = {s.name for s in plan.spec.scalars if s.dtype is Dtype.f32}, dict[str, None]()
    for typed in plan.walked.elements:
        for node in walk(plan.walked.meant(typed.value)):
            if isinstance(node, Binary) and node.op == "*":
                for side, other in (node.children, node.children[::-1]):
                    scores = any(isinstance(x, Local) and x.id == plan.walked.scores.name for x in walk(other))
                    if scores and isinstance(side, Name) and side.id in scalars:
                        found[side.id] = None
    return list(found)


def _requests(plan: WalkingPlan[Any]) -> Iterator[CaseRequest]:
    spec = plan.spec
    m, n = plan.rows_mode, plan.walked.walked
    rows, keys = plan.row_block, plan.key_block
    beside = (*plan.outer, *plan.packed, *plan.walked.around)
    one = dict.fromkeys(beside, 1)
    few = {mode: min(2, 1 + place) for place, mode in enumerate(reversed(beside))}
    several = dict(zip(reversed(beside), (3, 2, 1, 2, 1), strict=False))

    def sizes(of_rows: int, of_keys: int, outer: Mapping[str, int] = one) -> dict[str, int]:
        return {**outer, m: of_rows, n: of_keys}

    yield CaseRequest("tile", "exactly one tile", sizes(rows, keys))
    yield CaseRequest("tile integers", "exactly one tile, whole numbers", sizes(rows, keys), data="integers")
    for number, shape in enumerate(spec.verify.shapes):
        yield CaseRequest(f"spec shape {number + 1}", "a shape of the spec", shape, exactly=True)
    for by, what in ((-1, "one less"), (1, "one more")):
        yield CaseRequest(f"{m} {what}", f"{m} by one beside the tile", sizes(rows + by, keys))
        yield CaseRequest(f"{n} {what}", f"{n} by one beside the tile", sizes(rows, keys + by))
        yield CaseRequest(
            f"all {what}", "both by one beside the tile", sizes(rows + by, keys + by, few), data="integers"
        )
    yield CaseRequest("all 1", "a single score", sizes(1, 1))
    yield CaseRequest(f"{m} = 1", "one row", sizes(1, 2 * keys + 3, few))
    yield CaseRequest(f"{n} = 1", "one element that is walked", sizes(rows + 5, 1))
    yield CaseRequest("few", "less than a warp's rows and a product's elements", sizes(7, 5, several))
    for count in sorted({plan.stages, plan.stages + 1, ROUNDS * plan.stages + 1}):
        why = f"{count} tiles along {n}, {plan.stages} stages"
        yield CaseRequest(f"{n} {count} tiles", why, sizes(rows // 2 + 1, count * keys))
        yield CaseRequest(f"{n} {count} tiles and 1", why + ", and a residue", sizes(rows // 2 + 1, count * keys + 1))
    many = ROUNDS * plan.stages + 2
    yield CaseRequest("long rows", "several tiles of both", sizes(2 * rows + 9, many * keys + 7), data="integers")
    yield CaseRequest("more rows", f"more of {m} than of {n}", sizes(3 * rows + 1, keys + 3, few))
    yield from _packed(plan)
    every, keys_of_all = dict.fromkeys(beside, 2), plan.stages * keys + 1
    why = "two places along every mode, and all stages again"
    yield CaseRequest("blocks", why, sizes(rows + 1, keys_of_all, every), data="integers")
    if plan.shares_out:
        places, why = {**one, plan.outer[-1]: TOGETHER + 3}, "more places than take tiles of rows by turns"
        yield CaseRequest("shared out", why, sizes(rows + 1, 5, places))
    yield from _of_lengths(plan, sizes)
    for layout, why in (("padded", "rows further apart than they are long"), ("offset", "at the least alignment")):
        kind = "padded" if layout == "padded" else "offset"
        yield CaseRequest(layout, why, sizes(rows + 3, keys + 5, several), kind)  # type: ignore[arg-type]
    yield CaseRequest(
        "special values", "NaN, infinities and others among the inputs", sizes(37, 41, few), data="special"
    )
    if all(one.function != "max" for one in plan.walked.carried):
        yield CaseRequest(f"{n} = 0", "empty sums", sizes(rows + 1, 0))
    yield CaseRequest(f"{m} = 0", "an empty output: nothing is launched, nothing is written", sizes(0, keys))


def _packed(plan: WalkingPlan[Any]) -> Iterator[CaseRequest]:
    """Cases of tiles whose rows are places of several modes: a tile, one row more, and tiles that begin within one of
    the places of the first mode.
    """
    if not plan.packed:
        return
    m, n, last = plan.rows_mode, plan.walked.walked, plan.packed[-1]
    rows, keys = plan.row_block, plan.key_block
    one = dict.fromkeys((*plan.outer, *plan.packed), 1)
    for of_first, of_last, why in (
        (1, rows, "exactly one tile"),
        (1, rows + 1, "one row more than a tile"),
        (3, rows - 1, "tiles that begin within a place"),
        (rows // 2 + 1, 3, "places that two tiles share"),
    ):
        sizes = {**one, m: of_first, last: of_last, n: 2 * keys + 5}
        yield CaseRequest(f"rows of {last}, {of_first} times {of_last}", why, sizes, data="integers")


def _of_lengths(plan: WalkingPlan[Any], sizes: Callable[..., dict[str, int]]) -> Iterator[CaseRequest]:
    """Lengths beside tiles of the walked mode, where it has some: none, all and more than all, and a number below 0."""
    if plan.lengths is None:
        return
    keys, of = plan.key_block, plan.lengths.of
    ends = (keys, 0, keys + 1, 1, keys - 1, 2 * keys + 3, 2**31 - 1, -1, 2 * keys, -(2**31))
    for data, why in (("integers", "whole numbers"), ("random", "random numbers")):
        wanted = sizes(plan.row_block + 1, 2 * keys + 3) | {of: len(ends)}
        yield CaseRequest(f"lengths {data}", f"lengths beside tiles, {why}", wanted, data=data, ends=ends)  # type: ignore[arg-type]
