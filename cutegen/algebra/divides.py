"""The four divides. They differ in the arrangement of the modes only; what is computed is `logical_divide`.

logical_divide(A, T) = A o (T, complement(T, A's shape)): T picks what is in a tile, the complement where tiles start.
"""

from __future__ import annotations

from typing import Any

from tensor_layouts import Layout

from cutegen.algebra.arguments import LAYOUT, PLAIN_LAYOUT, TILER
from cutegen.algebra.composition import check_rank, composed
from cutegen.algebra.inverses import complement
from cutegen.algebra.registry import function
from cutegen.algebra.steps import Steps
from cutegen.algebra.structure import coalesce
from cutegen.algebra.values import NotDefined, Table, join, plain, text_of
from cutegen.layouts import compact, elements, modes_of

MAX_TRIED = 64  # sizes of tiles around a wrong one, to name one that works


@function("divides", target=LAYOUT, tiler=TILER, inside=True)
def logical_divide(a: Layout, tiler: Any, steps: Steps, place: str = "") -> Layout:
    """(tile, rest) for each mode.

    A layout as tiler divides all of A at once, a tuple mode by mode; `_` in it leaves a mode as it is.

    Raises `NotDefined` where the tiles do not divide A.
    """
    if not isinstance(tiler, tuple):
        return _divide(a, tiler, steps, f"{place}: " if place else "")
    own = list(modes_of(a))
    check_rank(tiler, a)
    for i, part in enumerate(tiler):
        if part is not None:
            own[i] = logical_divide(own[i], part, steps, f"{place}.{i}" if place else f"mode {i}")
    return join(own)


def _divide(a: Layout, tile: Layout, steps: Steps, prefix: str) -> Layout:
    quiet = Steps()
    try:
        rest, result = _tile_and_rest(a, tile, quiet)
    except NotDefined as error:
        message = f"{prefix}tiles of {_tile_text(tile)} do not divide {text_of(a)}: {error.message}"
        raise NotDefined(message, _sizes_that_do(a, tile) or error.help, 1) from None
    steps.show("complement", (tile, coalesce(a, None).shape), rest, f"{prefix}where the tiles start")
    steps.show("composition", (a, join([tile, rest])), result, f"{prefix}(tile, rest)")
    steps.notes += quiet.notes
    size, tiles, total = elements(tile.shape), elements(rest.shape), elements(a.shape)
    if size * tiles != total:
        steps.note(
            f"{prefix}{_tile_text(tile)} does not divide the {total} of {text_of(a)}: "
            f"{tiles} times {size} is {size * tiles}, and a kernel must predicate what is beyond the end"
        )
    return result


def _tile_and_rest(a: Layout, tile: Layout, steps: Steps) -> tuple[Layout, Layout]:
    """Where the tiles start, and A divided."""
    rest = complement(tile, coalesce(a, None).shape, steps)
    return rest, composed(a, join([tile, rest]))


def _tile_text(tile: Layout) -> str:
    return text_of(plain((tile,))[0])


def _sizes_that_do(a: Layout, tile: Layout) -> str | None:
    """The sizes next to that of a tile n:1 that do divide A."""
    total, size = elements(a.shape), tile.shape
    if not isinstance(size, int) or tile != compact(size):
        return None

    def does(size: int) -> bool:
        try:
            _tile_and_rest(a, compact(size), Steps())
        except NotDefined:
            return False
        return total % size == 0

    below = range(min(size, total), max(0, size - MAX_TRIED), -1)
    above = range(size, min(size + MAX_TRIED, total) + 1)
    found = [next((str(n) for n in nearby if does(n)), None) for nearby in (below, above)]
    sizes = [n for n in found if n]
    return f"tiles of {' or '.join(sizes)}" if sizes else None


def _split(a: Layout, tiler: Any) -> tuple[Layout, Layout]:
    """The tiles of all modes, and the rests of all modes with the modes that are not divided."""
    if tiler is None:
        raise NotDefined(
            "`_` leaves no tile of this mode", "a size; `logical_divide` takes `_` for a mode left whole", 1
        )
    if not isinstance(tiler, tuple):
        tile, rest = modes_of(logical_divide(a, tiler, Steps()))
        return tile, rest
    own = list(modes_of(a))
    halves = [_split(mode, part) for mode, part in zip(own, tiler, strict=False)]
    return join([tile for tile, _ in halves]), join([*(rest for _, rest in halves), *own[len(tiler) :]])


@function("divides", target=LAYOUT, tiler=TILER, inside=True)
def zipped_divide(a: Layout, tiler: Any, steps: Steps) -> Layout:
    """The tiles of all modes together, then the rests: (tiles, rests)."""
    logical = logical_divide(a, tiler, steps)
    if isinstance(tiler, tuple):
        steps.show("logical_divide", (a, plain(tiler)), logical, "(tile, rest) for each mode")
    return join(list(_split(a, tiler)))


@function("divides", target=LAYOUT, tiler=TILER, inside=True)
def tiled_divide(a: Layout, tiler: Any, steps: Steps) -> Layout:
    """The tiles together, each rest by itself: (tiles, rest, rest, ...)."""
    zipped = zipped_divide(a, tiler, steps)
    steps.show("zipped_divide", (a, plain(tiler)), zipped, "(tiles, rests)")
    return tiled(zipped)


@function("divides", target=LAYOUT, tiler=TILER, inside=True)
def flat_divide(a: Layout, tiler: Any, steps: Steps) -> Layout:
    """Each tile and each rest by itself: (tile, tile, ..., rest, rest, ...)."""
    zipped = zipped_divide(a, tiler, steps)
    steps.show("zipped_divide", (a, plain(tiler)), zipped, "(tiles, rests)")
    return flat(zipped)


def tiled(zipped: Layout) -> Layout:
    """The second mode's modes beside the first mode."""
    first, second = modes_of(zipped)
    return join([first, *modes_of(second)])


def flat(zipped: Layout) -> Layout:
    """The first mode's modes beside the second mode's."""
    first, second = modes_of(zipped)
    return join([*modes_of(first), *modes_of(second)])


@function("divides", target=PLAIN_LAYOUT, tiler=TILER)
def divide(a: Layout, tiler: Any, steps: Steps) -> Table:
    """All four divides side by side."""
    logical = logical_divide(a, tiler, steps)
    zipped = zipped_divide(a, tiler, Steps())
    return Table(
        (
            ("logical_divide", logical, "((TileM,RestM),(TileN,RestN),...)"),
            ("zipped_divide", zipped, "((TileM,TileN,...),(RestM,RestN,...))"),
            ("tiled_divide", tiled(zipped), "((TileM,TileN,...),RestM,RestN,...)"),
            ("flat_divide", flat(zipped), "(TileM,TileN,...,RestM,RestN,...)"),
        )
    )
