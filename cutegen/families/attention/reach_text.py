"""The walked tiles of a block as text: all of them, or those that bounds leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cutegen.codegen.formatting import call
from cutegen.expressions.tree import Expr, Len, Name
from cutegen.ops.reach import Bound

INDENT = 4  # of these statements in a kernel


def reach_lines(
    bounds: Sequence[Bound],
    rows: str,
    walked: str,
    block_rows: str,
    block_keys: str,
    sizes: Mapping[str, str],
    followed: bool = False,
    alike: str = "",
) -> Iterator[str]:
    """The statements that find `first_tile` and `tiles` of the row tile `row_tile`. Those of `cut_lines`, if they are
    `followed` by these, read the first and the last row too. So many rows next to each other are `alike` in their place
    along `rows`, one if nothing is said.

    Places are counted in 64 bits: scalars may be as large as they like.
    """
    size = sizes[walked]
    if not bounds:
        yield f"first_tile, tiles = cutlass.Int32(0), cute.ceil_div({size}, {block_keys})"
        return
    yield f"# The range of {walked} that counts for some row of the tile: the rest is neither loaded nor multiplied"
    places = [(bound, _place(bound, sizes)) for bound in bounds]
    asked = {name for name in ("first_row", "last_row") if followed or any(name in place for _, place in places)}
    if asked:
        yield f"first_row = cutlass.Int64(row_tile) * {block_rows}"
    if "last_row" in asked and alike:
        yield f"last_row = cutlass.min((first_row + {block_rows} - 1) // {alike}, cutlass.Int64({sizes[rows]}) - 1)"
    elif "last_row" in asked:
        yield f"last_row = cutlass.min(first_row + {block_rows}, cutlass.Int64({sizes[rows]})) - 1"
    if "first_row" in asked and alike:
        yield f"first_row = first_row // {alike}"
    yield f"first_place, end_place = cutlass.Int64(0), cutlass.Int64({size})"
    for bound, place in places:
        if bound.last:
            yield call("end_place = cutlass.min(", ["end_place", f"{place} + 1"], ")", INDENT)
        else:
            yield call("first_place = cutlass.max(", ["first_place", place], ")", INDENT)
    yield f"first_tile = cutlass.Int32(first_place // {block_keys})"
    yield f"end_tile = cutlass.Int32(cute.ceil_div(cutlass.max(end_place, 0), {block_keys}))"
    yield "tiles = cutlass.max(end_tile - first_tile, 0)"


def is_cut(bounds: Sequence[Bound], walked: str, block_keys: str, sizes: Mapping[str, str], whole: bool) -> str | None:
    """Whether some place of the tile that begins at `start` does not count for some row; None where all always do."""
    last, first = any(bound.last for bound in bounds), any(not bound.last for bound in bounds)
    terms = ["start < whole_first"] * first
    terms += [f"start + {block_keys} > {'whole_end' if last else sizes[walked]}"] * (last or not whole)
    return " or ".join(terms) or None


def parts_of(bounds: Sequence[Bound]) -> tuple[bool, ...]:
    """The parts of a walk from the last tile on, behind that tile: whether tiles of each may be cut. These are tiles
    that last places cut, whole ones, and tiles that first places cut.
    """
    last, first = any(bound.last for bound in bounds), any(not bound.last for bound in bounds)
    return (*[True] * last, False, *[True] * first)


def cut_lines(bounds: Sequence[Bound], walked: str, block_keys: str, sizes: Mapping[str, str]) -> Iterator[str]:
    """The statements that find the places from `whole_first` to before `whole_end`, which count for every row of the
    row tile `row_tile`, and `walk`: where each part of `parts_of` begins, and the number of tiles. Without bounds there
    are none.
    """
    if not bounds:
        return
    yield f"# The places of {walked} that count for every row of it: a tile with others is cut"
    if any(bound.last for bound in bounds):
        yield f"whole_end = cutlass.Int64({sizes[walked]})"
    if any(not bound.last for bound in bounds):
        yield "whole_first = cutlass.Int64(0)"
    for bound in bounds:
        place = _place(bound, sizes, near=True)
        if bound.last:
            yield call("whole_end = cutlass.min(", ["whole_end", f"{place} + 1"], ")", INDENT)
        else:
            yield call("whole_first = cutlass.max(", ["whole_first", place], ")", INDENT)
    ends = ["1"]
    yield f"# From the last tile on: {_described(parts_of(bounds))}; the first of all is not among them"
    if any(bound.last for bound in bounds):
        yield f"cut_tiles = last_tile + 1 - cutlass.Int32(cutlass.max(whole_end, 0) // {block_keys})"
        yield "cut_tiles = cutlass.max(1, cutlass.min(cut_tiles, tiles))"
        ends.append("cut_tiles")
    if any(not bound.last for bound in bounds):
        yield f"whole_first = cutlass.max(0, cutlass.min(whole_first, cutlass.Int64({sizes[walked]})))"
        yield f"whole_tiles = last_tile + 1 - cutlass.Int32(cute.ceil_div(whole_first, {block_keys}))"
        yield f"whole_tiles = cutlass.max({ends[-1]}, cutlass.min(whole_tiles, tiles))"
        ends.append("whole_tiles")
    yield f"walk = ({', '.join([*ends, 'tiles'])})"


def _described(parts: Sequence[bool]) -> str:
    return ", then ".join("tiles that are cut" if cut else "whole ones" for cut in parts)


def _place(bound: Bound, sizes: Mapping[str, str], near: bool = False) -> str:
    """A bound of the row for which it lies furthest out, or if it is to be `near`, furthest in."""
    parts: list[tuple[int, str]] = []
    if bound.row:
        # the last place is that of the row with the largest one, the first that of the row with the least
        far = ((bound.row > 0) == bound.last) != near
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
