"""Which block of the grid computes which tile of the output, and in which order blocks are started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from cutegen.drawing.colours import MOST_STEPS, ramp
from cutegen.drawing.grids import MOST_COLUMNS, MOST_ROWS, number_axis, scale
from cutegen.drawing.model import Axis, Cell, Figure, Grid, Subject
from cutegen.families.common.pointwise import PointwisePlan as Plan

TILES = 6  # along a mode whose size is not fixed: a drawing needs some size
MOST_TILES = 16  # of them, where bands have many
NAMES = ("grid", "launch of the kernel", "thread and block", "walk", "tiles", "tile")  # of regions
SUBJECTS = tuple(Subject(name=name) for name in NAMES)


@dataclass(frozen=True)
class Walk:
    """Tiles of an output of those `sizes`, and the order in which blocks walk them.

    `order` has the modes as they are walked, fastest first; `share` consecutive tiles are a block's: 1, or the number
    of threads where each thread has a tile of its own. With a `swizzle` above 1 the second mode is walked in
    bands of as many tiles, all of a band's before the next tile along the first; a `serpentine` turns round after each
    band, where the next one begins with what is still in L2. `tile` and `sizes` are in elements.
    """

    tile: tuple[int, ...]
    order: tuple[int, ...]
    share: int = 1
    swizzle: int = 1
    paired: bool = False  # the block index is a pair, one number a mode
    serpentine: bool = False
    taker: str = "block"  # what has a tile: a block, or a cluster of them
    most: int | None = None  # of these there are no more, and each then takes every so many-th tile
    note: str | None = None  # on what the drawing leaves out
    sizes: tuple[int, ...] = ()

    @property
    def numbered(self) -> str:
        """The unit that the order counts: `tile` where clusters, or at most `most` blocks, take tiles; else `block`."""
        return "block" if self.taker == "block" and self.most is None else "tile"

    def over(self, sizes: Iterable[int]) -> Walk:
        """The same walk over an output of other sizes."""
        return replace(self, sizes=tuple(sizes))

    @property
    def tiles(self) -> tuple[int, ...]:
        return tuple(-(-size // extent) for size, extent in zip(self.sizes, self.tile, strict=True))

    @property
    def blocks(self) -> int:
        return -(-prod(self.tiles) // self.share)

    @property
    def unit(self) -> tuple[int, ...]:
        """The extents, in elements, of parts that no block cuts: its tiles may end in the middle of a row."""
        fastest = self.order[0]
        run = gcd(self.share, self.tiles[fastest])
        return tuple(extent * run if i == fastest else extent for i, extent in enumerate(self.tile))

    def block(self, start: Sequence[int]) -> tuple[int, str]:
        """The place in the start order, and the index, of the block that has an element."""
        index, step = 0, 1
        for i in self.order:
            index, step = index + start[i] // self.tile[i] * step, step * self.tiles[i]
        if self.swizzle > 1:
            along, across, *rest = (start[i] // self.tile[i] for i in self.order)
            before = across // self.swizzle * self.swizzle  # tiles of the other mode in the bands before
            if self.serpentine and across // self.swizzle % 2:
                along = self.tiles[self.order[0]] - 1 - along
            width = min(self.swizzle, self.tiles[self.order[1]] - before)
            beyond, step = 0, self.tiles[self.order[0]] * self.tiles[self.order[1]]
            for i, place in zip(self.order[2:], rest, strict=True):
                beyond, step = beyond + place * step, step * self.tiles[i]
            index = beyond + before * self.tiles[self.order[0]] + along * width + across - before
        number = index // self.share
        pair = ",".join(str(start[i] // self.tile[i]) for i in self.order)
        return number, pair if self.paired else str(number)


def example_sizes(plan: Plan, walk: Walk) -> dict[str, int]:
    """Sizes to draw an output with: its fixed sizes, and for the others some blocks; a band and half a band where
    there are bands, to show how they follow each other.

    The last block is half one where its edge is masked.
    """
    modes, found = plan.spec.lead.shape, {}
    for i, mode in enumerate(modes):
        unit = walk.tile[i] * (walk.share if i == walk.order[0] else 1)
        banded = walk.swizzle > 1 and i == walk.order[1]
        tiles = max(TILES, min(MOST_TILES, walk.swizzle + -(-walk.swizzle // 2))) if banded else TILES
        size = tiles * unit - (unit // 2 if mode in plan.pointwise.masked else 0)
        divisor = plan.spec.divisible.get(mode, 1)
        found[mode] = plan.spec.static.get(mode) or max(divisor, size // divisor * divisor)
    return found


def draw_walk(plan: Plan, walk: Walk) -> Figure:
    """The picture of the output in tiles, with the block that has each; free sizes are an example.

    Of the modes that need several tiles the two that are walked first are drawn, and of the others tile 0.
    """
    modes, sizes = plan.spec.lead.shape, example_sizes(plan, walk)
    walk = walk.over(sizes.values())
    unit = walk.unit
    several = [i for i in walk.order if walk.sizes[i] > unit[i]]
    row, column = sorted(several[:2]) if len(several) > 1 else (None, several[0] if several else 0)
    down = Axis("", 1, ("",)) if row is None else number_axis(modes[row], walk.sizes[row], unit[row], MOST_ROWS)
    across = number_axis(modes[column], walk.sizes[column], unit[column], MOST_COLUMNS)

    def cell(i: int, j: int) -> Cell:
        start = [0] * len(modes)
        start[column] = j * unit[column]
        if row is not None:
            start[row] = i * unit[row]
        order, name = walk.block(start)
        ends = [min(at + extent, size) for at, extent, size in zip(start, unit, walk.sizes, strict=True)]
        cut = [m for m, at, end, extent in zip(modes, start, ends, unit, strict=True) if end - at < extent]
        about = ", ".join(f"{m} {at}-{end - 1}" for m, at, end in zip(modes, start, ends, strict=True))
        about = f"{walk.numbered} {name}: {about}{', cut by the end of ' * bool(cut)}{' and '.join(cut)}"
        facts = {"block": name, "order": order, "start": dict(zip(modes, start, strict=True)), "cut": cut}
        return Cell((name, "cut") if cut else (name,), None, about, facts)

    plain = [[cell(i, j) for j in range(len(across.labels))] for i in range(len(down.labels))]
    names = {c.facts["order"]: c.facts["block"] for row in plain for c in row}
    drawn = sorted(names)
    steps = min(len(drawn), MOST_STEPS)
    colour = {order: i * steps // len(drawn) for i, order in enumerate(drawn)}
    cells = tuple(tuple(replace(c, colour=colour[c.facts["order"]]) for c in row) for row in plain)
    edge = any(len(cell.lines) > 1 for cells_of_row in cells for cell in cells_of_row)
    grid = Grid("tiles", down, across, cells, ("block", "edge") if edge else ("block",))
    hidden = [f"of {modes[i]}" for i in sorted(several[2:])]
    sliced = (f"A slice: only the first tile {' and '.join(hidden)} is drawn.",) if hidden else ()
    what, order = "Which block computes which tile", "blocks start"
    if walk.numbered == "tile":
        what, order = "In which order blocks compute the tiles", "tiles are taken"
    return Figure(
        "tile-walk",
        f"{what} of {' and '.join(output.name for output in plan.spec.outputs)}",
        (grid,),
        ramp(steps),
        scale(order, f"{walk.numbered} {names[drawn[0]]}", f"{walk.numbered} {names[drawn[-1]]}", steps)
        if len(drawn) < walk.blocks
        else scale(order, "first", "last", steps),
        caption=_caption(plan, walk),
        notes=(
            *_example_note(plan, sizes),
            *_drawn_note(drawn, names, walk),
            *sliced,
            *([walk.note] if walk.note is not None else ()),
        ),
        subjects=SUBJECTS,
    )


def _caption(plan: Plan, walk: Walk) -> str:
    modes = plan.spec.lead.shape
    tile = " x ".join(f"{extent} of {mode}" for mode, extent in zip(modes, walk.tile, strict=True))
    whose = "thread" if walk.share > 1 else "block"
    first = modes[walk.order[0]]
    bands = f" in bands of {walk.swizzle} tiles of {modes[walk.order[1]]}" if walk.swizzle > 1 else " first"
    bands += ", there and back" * (walk.serpentine and walk.swizzle > 1)
    if walk.numbered == "block":
        text = f"A {whose} has a tile of {tile}; {walk.blocks} blocks of {plan.threads} threads, along {first}{bands}."
    else:
        turns = f"; of {walk.most} at most, each takes every {walk.most}th of these" * (walk.most is not None)
        text = f"A {walk.taker} has a tile of {tile}; {walk.blocks} tiles, along {first}{bands}{turns}."
    masked = [mode for mode in modes if mode in plan.pointwise.masked]
    if masked:
        return f"{text} Beyond the end of {' and '.join(masked)} accesses are masked."
    return text


def _drawn_note(drawn: Sequence[int], names: Mapping[int, str], walk: Walk) -> tuple[str, ...]:
    """The remark on which blocks or tiles there are cells of, if not of all.

    `drawn` are their places in the start order, `names` their names.
    """
    if len(drawn) == walk.blocks:
        return ()
    first, last = names[drawn[0]], names[drawn[-1]]
    if drawn[-1] - drawn[0] + 1 == len(drawn):
        return (f"Drawn of {walk.blocks} {walk.numbered}s: {first} to {last}.",)
    return (f"Drawn of {walk.blocks} {walk.numbered}s: {len(drawn)}, from {first} to {last}.",)


def _example_note(plan: Plan, sizes: Mapping[str, int]) -> tuple[str, ...]:
    free = [f"{mode} = {size}" for mode, size in sizes.items() if mode not in plan.spec.static]
    return (f"Drawn for {', '.join(free)}, as an example: any other size works alike.",) if free else ()
