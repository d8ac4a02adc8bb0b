"""Launches of more blocks than can run here: some of them run, on those parts of tensors that are theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Literal

from cutegen.hostchecks import walked_tiles
from cutegen.hostchecks.asked import family_of
from cutegen.hostchecks.judging import Check, Host
from cutegen.hostchecks.parts import TILES, Parts, allowed, is_packed, largest, launches, of_tiles, telling, wrong
from cutegen.verification.asked import op_of

_FEW = (1 << 8) + 1  # tiles of which all run where blocks cannot be told
_SMALL = 300  # tiles of a grid of which some blocks show in which order they take tiles
_DEAR = 0.6  # seconds
_DEARER = 4.0  # where few tiles are as dear, and of blocks that walk several where there are a few more than blocks
_DEAREST = 8.0  # where blocks take tiles in bands, of which nothing else tells
_SOME = 6  # tiles that may take longer than `_DEAR`, but not than `_DEARER`

Order = Literal["slow", "fast"]
"""Whether the blocks of one tile of a mode have numbers one after the other, or those of one tile of the others."""
_ORDERS: tuple[Order, ...] = ("slow", "fast")


@dataclass(frozen=True)
class _Call:
    """A call with so many `tiles` of a mode, each of `extent`, which `others` blocks share, and little of the other
    modes. Of the mode the tiles `chosen` are there.
    """

    mode: str
    sizes: Mapping[str, int]
    extent: int
    others: int
    chosen: Sequence[int]

    @property
    def tiles(self) -> int:
        return -(-self.sizes[self.mode] // self.extent)

    @property
    def parts(self) -> Parts:
        return Parts(self.sizes, self.mode, of_tiles(self.chosen, self.extent, self.sizes[self.mode]))

    def blocks(self, order: Order) -> list[int]:
        """The numbers of the chosen tiles' blocks."""
        step, across = (self.others, 1) if order == "slow" else (1, self.tiles)
        return sorted(tile * step + other * across for tile in self.chosen for other in range(self.others))


def checks(host: Host) -> Iterator[Check]:
    """A check for each mode of the output: some blocks of as many as there can be, or all of what can be run.

    The former where blocks are seen to take tiles in order. What counts tiles wrong then, in however many bits or as a
    float, touches what another block has, or what nobody has.
    """
    for mode in (m for m in host.spec.lead.shape if m not in host.spec.static and not is_packed(host, m)):
        if host.executor.chooses_blocks and _has_blocks(host, mode) and _affordable(host, _all(host, mode, 1)):
            what = f"accepts as many tiles of {mode} as can be run"
            yield Check(host.spec.output.argument, what, partial(_wrong_with_many, host, mode))
        elif not host.executor.chooses_blocks and walked_tiles.banded(host, mode):
            call = walked_tiles.all_of(host, mode).parts
            what = f"accepts two bands of tiles of {mode}, and a part of one"
            yield Check(host.spec.output.argument, what, partial(wrong, host, call))


def _has_blocks(host: Host, mode: str) -> bool:
    """Whether more tiles of a mode take more blocks; else each block walks all of them."""
    one = {m: host.spec.static.get(m, extent) for m, extent in family_of(host.spec).covered(host.plan).items()}
    more = {**one, mode: 2 * walked_tiles.WIDEST * one[mode]}
    return walked_tiles.blocks_of(host, more) > walked_tiles.blocks_of(host, one)


def _wrong_with_many(host: Host, mode: str) -> str:
    """Checks calls with as many tiles of a mode as can be run; returns what is wrong, empty if nothing is."""
    known = walked_tiles.known(host, mode)
    if known:
        problem = walked_tiles.wrong_with_many(host, mode)
        if problem is not None:
            return problem
    if known or walked_tiles.banded(host, mode):
        several = walked_tiles.all_of(host, mode).parts
        problem = wrong(host, several) if several.seconds(host) <= _DEAREST else ""
        if problem:
            return problem
    order = _order(host, mode)
    if order is None:  # blocks that have a tile each take these in another order, or take wrong ones
        return _wrong_with_all(host, mode, _FEW, _DEARER if _one_each(host, mode) else 0.0)
    most = _most(host, mode)
    for tiles in (most, most // 2, 1 << 16):
        call = _call(host, mode, min(tiles, most), None)
        if call.tiles < _FEW or not _affordable(host, call):
            continue
        launched = _launched(host, call)
        if launched and launched < call.tiles * call.others:
            problem = _wrong_with_several(host, call, launched)
            if problem or not _walks(host, call, launched):
                return problem and f"{launched} blocks are launched for {call.tiles} tiles of {mode}: {problem}"
        if launched:
            problem = _wrong(host, call, order)
            ran = ", ".join(map(str, call.chosen))
            return problem and f"of {call.tiles} tiles of {mode} the blocks of {ran} ran: {problem}"
    return _wrong_with_all(host, mode, _FEW)


def _wrong_with_several(host: Host, call: _Call, launched: int) -> str:
    """Checks a call that launches fewer blocks than it has tiles: each block may take several of them.

    An error shows with a few more tiles than blocks. If those are too many to run, only the plan tells whether so few
    blocks are intended.
    """
    more = _all(host, call.mode, -(-launched // call.others) + 3)
    if more.parts.seconds(host) <= _DEARER:
        return _wrong(host, more, None)
    if family_of(host.spec).blocks(host.plan, call.sizes) == launched:
        return _wrong_with_all(host, call.mode, _FEW)
    return "fewer tiles have a block each"


def _wrong_with_all(host: Host, mode: str, tiles: int, most: float = 0.0) -> str:
    """Checks a call with so many tiles of a mode, all of whose blocks run. Halves their number until the call is
    affordable; `most` raises the limit for that, in seconds.
    """
    while tiles > 1 and not _affordable(host, _all(host, mode, tiles), most):
        tiles //= 2
    return _wrong(host, _all(host, mode, tiles), None)


def _all(host: Host, mode: str, tiles: int) -> _Call:
    """A call of so many tiles of a mode, all of which are there."""
    return _call(host, mode, tiles, range(tiles))


def _order(host: Host, mode: str) -> Order | None:
    """In which order blocks take tiles, as a small grid shows; None where it shows none."""
    if not _one_each(host, mode):
        return None
    return next((order for order in _ORDERS if not _wrong(host, _small(host, mode), order)), None)


def _small(host: Host, mode: str) -> _Call:
    """A call of few tiles, three of which exist."""
    return _call(host, mode, _SMALL, [1, _SMALL // 2, _SMALL - 1])


def _one_each(host: Host, mode: str) -> bool:
    """Whether a small grid can run in part: each tile has its blocks, or would have them if there were so many, and
    these read nothing that others have written.
    """
    call = _small(host, mode)
    if host.scratch or not _affordable(host, call):
        return False
    launched = _launched(host, call)
    return launched == call.tiles * call.others or _walks(host, call, launched)


def _walks(host: Host, call: _Call, launched: int) -> bool:
    """Whether so few blocks are meant to walk all tiles of a call."""
    meant = family_of(host.spec).blocks(host.plan, call.sizes)
    return 0 < launched == meant < call.tiles * call.others


def _most(host: Host, mode: str) -> int:
    """So many tiles of a mode that a launch can have, with as little as there can be of the others."""
    call = _call(host, mode, 4, [0])
    return min(TILES, largest(host, mode, call.sizes) // call.extent)


def _call(host: Host, mode: str, tiles: int, chosen: Sequence[int] | None) -> _Call:
    """A call of at least so many tiles of a mode, the last one as small as can be; by default with telling ones."""
    spec, plan, covered = host.spec, host.plan, family_of(host.spec).covered(host.plan)
    extent = covered[mode]
    several = plan.threads * extent  # a tile for each thread
    for more in (several, family_of(spec).reached(plan, _little(host, mode, extent)).get(mode, extent)):
        if family_of(spec).blocks(plan, _little(host, mode, more)) == 1:
            extent = more
            break
    sizes = _little(host, mode, (tiles - 1) * extent + 1)
    others = family_of(spec).blocks(plan, {**sizes, mode: min(extent, sizes[mode])})
    call = _Call(mode, sizes, extent, others, ())
    if chosen is None:
        chosen = telling(call.tiles, 1 << 8, 1 << 16)
    elif len(chosen) == tiles:
        chosen = range(call.tiles)
    return _Call(mode, sizes, extent, others, chosen)


def _little(host: Host, mode: str, size: int) -> dict[str, int]:
    """Sizes with at least that of a mode, and little of the others."""
    inner, covered = op_of(host.spec).contracted(host.spec), family_of(host.spec).covered(host.plan)
    return allowed(host, {m: covered[m] // 2 + 1 if m in inner else 1 for m in host.spec.modes} | {mode: size})


def _affordable(host: Host, call: _Call, most: float = 0.0) -> bool:
    """Whether a call takes no longer than `_DEAR` or `most` seconds, or where tiles are dear than a few of them."""
    one = _call(host, call.mode, 1, [0]).parts.seconds(host)
    return call.parts.seconds(host) <= max(_DEAR, most, min(_DEARER, _SOME * one))


def _launched(host: Host, call: _Call) -> int:
    """How many blocks a call launches, for all targets; 0 where it launches several kernels or is refused."""
    counts = {prod(made[0].grid) if len(made) == 1 else 0 for made in launches(host, call.parts)}
    return counts.pop() if len(counts) == 1 else 0


def _wrong(host: Host, call: _Call, order: Order | None) -> str:
    """Runs a call and returns what is wrong. With an `order` of blocks, only those of the chosen tiles run, else all.

    With an `order`, a launch whose blocks would walk several tiles has a block for each tile instead.
    """
    if order is None:
        return wrong(host, call.parts)
    every = call.tiles * call.others
    return wrong(host, call.parts, call.blocks(order), every if 0 < _launched(host, call) < every else None)
