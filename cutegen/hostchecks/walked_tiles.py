"""Launches of more tiles than can run here, of kernels whose plan says which block takes which tile: some tiles run.

Those are far from the first one, and at both ends of the bands that tiles are walked in. A persistent kernel is
launched with a block for each tile, so that none has to walk all those before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from cutegen.hostchecks.asked import family_of
from cutegen.hostchecks.judging import Host
from cutegen.hostchecks.parts import Parts, allowed, largest, launches, of_tiles, wrong
from cutegen.verification.asked import op_of
from cutegen.verification.lacking import NoMemory

if TYPE_CHECKING:
    from cutegen.emulator import Launch

_TILES = (1 << 26) + 3  # of a mode, at most
_FEWEST = (1 << 16) + 3  # where tensors of more would have more addresses than there are
_BESIDE = 9  # tiles along the other mode than that of the bands
_SMALL = 300  # tiles of a grid that shows whether the plan has the order right
_BLOCKS = (1 << 31) - (1 << 20)  # whose numbers 32 bits hold
_DEAR = 8.0  # seconds
WIDEST = 8  # tiles along a mode that blocks of one cluster have, at most


@dataclass(frozen=True)
class Tiles:
    """A call with so many `tiles` along a mode of the output, with only the `chosen` ones, and little of the other
    modes: one tile, or where tiles are walked in bands a few.

    `extents` has how much of each mode of the output blocks have that work on one tile, and `each` says how many these
    are.
    """

    mode: str
    sizes: Mapping[str, int]
    extents: Mapping[str, int]
    each: int
    chosen: Sequence[int]

    @property
    def parts(self) -> Parts:
        extent = self.extents[self.mode]
        return Parts(self.sizes, self.mode, of_tiles(self.chosen, extent, self.sizes[self.mode]))

    @property
    def count(self) -> int:
        """Tiles along the mode."""
        return -(-self.sizes[self.mode] // self.extents[self.mode])

    @property
    def blocks(self) -> int:
        """Blocks of a launch in which each tile has its own."""
        return prod(-(-self.sizes[mode] // extent) for mode, extent in self.extents.items()) * self.each

    def places(self, host: Host) -> list[int]:
        """The places of the chosen tiles in the order in which blocks take them."""
        others = [mode for mode in self.extents if mode != self.mode]
        starts = [[*range(0, self.sizes[mode], self.extents[mode])] for mode in others]
        found: list[int] = []
        for tile, *rest in product(self.chosen, *starts):
            at = {self.mode: tile * self.extents[self.mode], **dict(zip(others, rest, strict=True))}
            place = family_of(host.spec).place_of(host.plan, self.sizes, at)
            assert place is not None
            found.append(place)
        return found


def known(host: Host, mode: str) -> bool:
    """Whether the plan says which block takes which tile along a mode, and a launch has as many as it says."""
    plan, family = host.plan, family_of(host.spec)
    if host.scratch or mode in host.spec.static:
        return False
    call = _call(host, mode, _SMALL, [0])
    if family.place_of(plan, call.sizes, dict.fromkeys(call.extents, 0)) is None:
        return False
    launch = _launched(host, call) if call.parts.seconds(host) <= _DEAR / 4 else None
    return launch is not None and prod(launch.grid) in (call.blocks, family.blocks(plan, call.sizes))


def wrong_with_many(host: Host, mode: str) -> str | None:
    """Checks calls with as many tiles of a mode as there can be, and with whole bands of them. Returns what is wrong;
    None if the cause may be that blocks take tiles in another order than the plan says.
    """
    band = _band(host, mode)
    most = _most(host, mode)
    sizes = dict.fromkeys((most, most // 2, min(most, _FEWEST)))
    calls = _first_launched(host, [_ends(host, mode, tiles, band) for tiles in sizes])
    if band > 1:
        calls.append(_call(host, mode, 2 * band, [band - 1, band, 2 * band - 1]))
    for call in calls:
        if call.parts.seconds(host) <= _DEAR and (problem := _wrong(host, call)):
            if call.blocks > 2 * _SMALL and _wrong(host, _ends(host, mode, _SMALL, band)):
                return None
            ran = ", ".join(map(str, call.chosen))
            return f"of {call.count} tiles of {mode} those numbered {ran} ran: {problem}"
    return ""


def _first_launched(host: Host, calls: Sequence[Tiles]) -> list[Tiles]:
    """The first of several calls, largest first, that is launched as one kernel; none where no call is.

    A call that lacks memory gives way to a smaller one. Raises NoMemory where no smaller one is launched either.
    """
    lacking: NoMemory | None = None
    for call in calls:
        try:
            if _launched(host, call):
                return [call]
        except NoMemory as error:
            lacking = lacking or error
    if lacking:
        raise lacking
    return []


def all_of(host: Host, mode: str) -> Tiles:
    """A call of two bands and a rest, all of whose tiles run; of several tiles where there are no bands."""
    tiles = 2 * _band(host, mode) + 3
    return _call(host, mode, tiles, range(tiles))


def banded(host: Host, mode: str) -> bool:
    """Whether tiles of a mode are walked in bands."""
    return _band(host, mode) > 1


def _band(host: Host, mode: str) -> int:
    """How many tiles of a mode are walked together in a band; 1 where none are."""
    banded, width = family_of(host.spec).band(host.plan) or ("", 1)
    return width if banded == mode else 1


def _ends(host: Host, mode: str, tiles: int, band: int) -> Tiles:
    """A call of at most so many tiles, with the last one, and two at a power of two. In bands the last one is not
    whole, and the last tile of it is there, and so are several along the other mode: then the numbers of tiles have
    more bits than those along either mode.

    A number that is cut to fewer bits than that of the last tile has shows, and one that went through a float.
    """
    if band > 1:
        tiles = max(1, tiles - (tiles - band // 2) % band)  # a case may allow fewer than a band
        call = _call(host, mode, tiles, [tiles - 1], _BESIDE)
        return call if call.parts.seconds(host) <= _DEAR else _call(host, mode, tiles, [tiles - 1])
    highest = 1 << max(0, (tiles - 1).bit_length() - 1)
    return _call(host, mode, tiles, sorted({max(0, highest - 1), highest, tiles - 1}))


def _call(host: Host, mode: str, tiles: int, chosen: Sequence[int], beside: int = 2) -> Tiles:
    """A call of so many tiles of a mode, or a few more where its size may not be that, the last as small as can be.

    The last tile stands for those chosen beyond it, as where a case allows fewer. Of a mode walked in bands each has
    neighbours along the other, so many in all.
    """
    spec, covered = host.spec, family_of(host.spec).covered(host.plan)
    inner = op_of(spec).contracted(spec)
    little = {m: covered[m] // 2 + 1 if m in inner else 1 for m in spec.modes}
    extents = {m: _extent(host, m, little) for m in spec.by_element.output.shape}
    wanted = {**little, mode: (tiles - 1) * extents[mode] + 1}
    if _band(host, mode) > 1:
        other = next(m for m in reversed(spec.by_element.output.shape) if m != mode)
        wanted[other] = (beside - 1) * extents[other] + 1
    together = family_of(spec).tiles(host.plan, wanted)
    sizes = allowed(host, wanted)
    there = sorted({min(tile, (sizes[mode] - 1) // extents[mode]) for tile in chosen})
    return Tiles(mode, sizes, extents, 1 if together is None else together.blocks, there)


def _extent(host: Host, mode: str, little: Mapping[str, int]) -> int:
    """How much of a mode the blocks have that work on one tile: what one has, or several side by side."""
    extent, one = family_of(host.spec).covered(host.plan)[mode], blocks_of(host, {**little, mode: 1})
    several = [n * extent for n in (1, 2, 4, WIDEST)]
    return next((size for size in several if blocks_of(host, {**little, mode: size + 1}) > one), extent)


def blocks_of(host: Host, sizes: Mapping[str, int]) -> int:
    """Blocks of a call of these sizes in which each tile has its own."""
    tiles = family_of(host.spec).tiles(host.plan, sizes)
    return family_of(host.spec).blocks(host.plan, sizes) if tiles is None else tiles.count * tiles.blocks


def _most(host: Host, mode: str) -> int:
    """So many tiles of a mode that a launch can have, with as little as there can be of the others."""
    call = _call(host, mode, 4, [0])
    return min(_TILES, largest(host, mode, call.sizes) // call.extents[mode], _BLOCKS // -(-call.blocks // 4))


def _launched(host: Host, call: Tiles) -> Launch | None:
    """The one launch of a call, as large for all targets; None where there are several, or it is refused."""
    asked = launches(host, call.parts)
    made = [launch for one in asked for launch in one]
    shapes = {(launch.grid, launch.cluster) for launch in made}
    return made[0] if len(shapes) == 1 and len(made) == len(asked) else None


def _numbers(launch: Launch, blocks: int, places: Sequence[int]) -> list[int]:
    """The numbers of the blocks of clusters, x fastest, in a launch of so many blocks that is otherwise like that one.

    `places` are the numbers of the clusters.
    """
    cluster, counts = launch.cluster, [g // c for g, c in zip(launch.grid, launch.cluster, strict=True)]
    if prod(launch.grid) != blocks:
        counts = [blocks // prod(cluster) if count > 1 else 1 for count in counts]
    found = []
    for place in places:
        x, y, z = place % counts[0], place // counts[0] % counts[1], place // (counts[0] * counts[1])
        for i, j, k in product(*map(range, cluster)):
            row = y * cluster[1] + j + counts[1] * cluster[1] * (z * cluster[2] + k)
            found.append(x * cluster[0] + i + counts[0] * cluster[0] * row)
    return sorted(found)


def _wrong(host: Host, call: Tiles) -> str:
    """Runs the blocks of a call's chosen tiles and returns what is wrong.

    If blocks are meant to walk several tiles each, the launch has a block for each tile instead.
    """
    launch = _launched(host, call)
    if launch is None:
        return "it launches several kernels, or none"
    launched = prod(launch.grid)
    if launched < call.blocks == family_of(host.spec).blocks(host.plan, call.sizes):
        return f"{launched} blocks are launched, and each of {call.blocks} takes one tile"
    grid = None if launched == call.blocks else call.blocks
    return wrong(host, call.parts, _numbers(launch, call.blocks, call.places(host)), grid)
