"""The text that finds the walked tiles of rows, run as Python: no tile that counts is skipped, none that is cut is
taken for a whole one.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType, SimpleNamespace
from typing import Any

import pytest

from cutegen.expressions.tree import Len, Name
from cutegen.families.attention.reach_text import cut_lines, parts_of, reach_lines
from cutegen.ops.reach import Bound

ROWS, KEYS = 8, 4
SIZES = {"M": "size_M", "N": "size_N"}
LEFT, ALIGNED = (Name("left"), -1), ((Len("N"), 1), (Len("M"), -1))
BOUNDS = (
    (Bound(True, 1, (), 0),),
    (Bound(False, 1, (LEFT,), 0),),
    (Bound(True, 1, ALIGNED, 0), Bound(False, 1, (*ALIGNED, LEFT), 0)),
    (Bound(True, -2, ((Name("left"), 3),), 1), Bound(False, -1, (LEFT,), 0)),
)
CUTLASS = SimpleNamespace(Int32=int, Int64=int, min=min, max=max)
CUTE = SimpleNamespace(ceil_div=lambda x, y: -(-x // y))


def holds(bound: Bound, row: int, place: int, values: dict[str, int]) -> bool:
    terms = 0
    for term, factor in bound.terms:
        assert isinstance(term, Name | Len)
        terms += factor * values[term.id if isinstance(term, Name) else f"size_{term.mode}"]
    edge = bound.row * row + terms + bound.number
    return place <= edge if bound.last else place >= edge


@pytest.mark.parametrize("bounds", BOUNDS)
def test_parts_of_a_walk_are_what_they_say(bounds: Sequence[Bound]) -> None:
    lines = [*reach_lines(bounds, "M", "N", str(ROWS), str(KEYS), SIZES, True), "last_tile = first_tile + tiles - 1"]
    lines += cut_lines(bounds, "N", str(KEYS), SIZES)
    code = compile("\n".join(lines), "walk", "exec")
    for rows in (1, 7, 8, 9, 19):
        for keys in (1, 4, 5, 15, 16, 17, 30):
            for left in (-1, 0, 1, 2, 3, 4, 5, 9, 14, 40):
                for tile in range(-(-rows // ROWS)):
                    check(code, bounds, {"size_M": rows, "size_N": keys, "left": left}, tile)


def check(code: CodeType, bounds: Sequence[Bound], values: dict[str, int], row_tile: int) -> None:
    found: dict[str, Any] = {**values, "row_tile": row_tile, "cutlass": CUTLASS, "cute": CUTE}
    exec(code, found)
    of_rows = range(row_tile * ROWS, min((row_tile + 1) * ROWS, values["size_M"]))

    def counts(key_tile: int) -> set[bool]:
        places = range(key_tile * KEYS, min((key_tile + 1) * KEYS, values["size_N"]))
        return {all(holds(b, row, place, values) for b in bounds) for row in of_rows for place in places}

    first, tiles = found["first_tile"], found["tiles"]
    for key_tile in range(-(-values["size_N"] // KEYS)):
        assert first <= key_tile < first + tiles or counts(key_tile) == {False}, (values, row_tile, key_tile)
    walk = found["walk"]
    assert walk[0] == 1 and list(walk[:-1]) == sorted(walk[:-1])
    assert walk[-1] == tiles or tiles == 0
    for part, cut in enumerate(parts_of(bounds)):
        for tile in range(walk[part], walk[part + 1]):
            assert cut or counts(found["last_tile"] - tile) == {True}, (values, row_tile, tile)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("alike", [2, 3, 5, 11])
def test_tiles_of_rows_that_are_alike_have_all_that_count(bounds: Sequence[Bound], alike: int) -> None:
    lines = reach_lines(bounds, "M", "N", str(ROWS), str(KEYS), SIZES, alike="size_R")
    code = compile("\n".join(lines), "walk", "exec")
    for rows in (1, 2, 7, 9):
        for keys in (1, 5, 16, 30):
            for left in (-1, 0, 2, 5, 14, 40):
                values = {"size_M": rows, "size_N": keys, "left": left}
                for tile in range(-(-rows * alike // ROWS)):
                    check_alike(code, bounds, values, alike, tile)


def check_alike(code: CodeType, bounds: Sequence[Bound], values: dict[str, int], alike: int, row_tile: int) -> None:
    found: dict[str, Any] = {**values, "size_R": alike, "row_tile": row_tile, "cutlass": CUTLASS, "cute": CUTE}
    exec(code, found)
    places = range(row_tile * ROWS, min((row_tile + 1) * ROWS, values["size_M"] * alike))
    of_rows = sorted({place // alike for place in places})
    counting = {
        place // KEYS
        for row in of_rows
        for place in range(values["size_N"])
        if all(holds(bound, row, place, values) for bound in bounds)
    }
    first, tiles = found["first_tile"], found["tiles"]
    assert counting <= {*range(first, first + tiles)}, (values, alike, row_tile)
    if len(bounds) == 1 and counting:  # one bound leaves no tile in which it holds nowhere
        assert counting == {*range(first, first + tiles)}, (values, alike, row_tile)
