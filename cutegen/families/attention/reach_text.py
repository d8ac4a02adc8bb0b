"""The walked tiles of a block as text: all of them, or those that bounds leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cutegen.expressions.tree import Expr, Len, Name
from cutegen.ops.reach import Bound


def reach_lines(
    bounds: Sequence[Bound], rows: str, walked: str, block_rows: str, block_keys: str, sizes: Mapping[str, str]
) -> Iterator[str]:
    """The statements that find `first_tile` and `tiles` of the row tile `row_tile`.

    Places are counted in 64 bits: scalars may be as large as they like.
    """
    size = sizes[walked]
    if not bounds:
        yield f"first_tile, tiles = cutlass.Int32(0), cute.ceil_div({size}, {block_keys})"
        return
    yield f"# The places of {walked} that count for some row of the tile: the others are neither loaded nor multiplied"
    yield f"first_row = cutlass.Int64(row_tile) * {block_rows}"
    yield f"last_row = cutlass.min(first_row + {block_rows}, cutlass.Int64({sizes[rows]})) - 1"
    yield f"first_place, end_place = cutlass.Int64(0), cutlass.Int64({size})"
    for bound in bounds:
        place = _place(bound, sizes)
        if bound.last:
            yield f"end_place = cutlass.min(end_place, {place} + 1)"
        else:
            yield f"first_place = cutlass.max(first_place, {place})"
    yield f"first_tile = cutlass.Int32(first_place // {block_keys})"
    yield f"end_tile = cutlass.Int32(cute.ceil_div(cutlass.max(end_place, 0), {block_keys}))"
    yield "tiles = cutlass.max(end_tile - first_tile, 0)"


def _place(bound: Bound, sizes: Mapping[str, str]) -> str:
    parts: list[tuple[int, str]] = []
    if bound.row:
        # the last place is that of the row with the largest one, the first that of the row with the least
        far = (bound.row > 0) == bound.last
        parts.append((bound.row, "last_row" if far else "first_row"))
    parts += [(factor, _term(term, sizes)) for term, factor in bound.terms]
    text = ""
    for factor, term in parts:
        one = term if abs(factor) == 1 else f"{abs(factor)} * {term}"
        text += (f" {'-' if factor < 0 else '+'} {one}") if text else f"{'-' if factor < 0 else ''}{one}"
    if bound.number or not text:
        number = bound.number
        text = f"{text} {'-' if number < 0 else '+'} {abs(number)}" if text else f"cutlass.Int64({number})"
    return text


def _term(term: Expr, sizes: Mapping[str, str]) -> str:
    match term:
        case Len(mode=mode):
            return f"cutlass.Int64({sizes[mode]})"
        case Name(id=name):
            return f"cutlass.Int64({name})"
    raise AssertionError(term)
