"""Sums over so much of a mode that nobody could run all of it: most of it is zeros, whose rounds of a loop are cut."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cutegen.hostchecks.asked import family_of
from cutegen.hostchecks.judging import Check, Host
from cutegen.hostchecks.parts import TILES, Parts, allowed, is_packed, largest, of_tiles, telling, wrong
from cutegen.verification.asked import op_of
from cutegen.verification.executor import CannotRun
from cutegen.verification.lacking import NoMemory

_TRIED = (TILES, (1 << 12) + 3)  # tiles: the second where rounds of a loop are less alike
_ALL = (1 << 8) + 3  # tiles where all rounds run
_MORE = (1 << 12) + 3  # the same, on a GPU
_DEAR = 1.0  # seconds of one tile, from which on there is no check
_MOST = 12.0  # seconds of all tiles, from which on they are fewer
_ACCESS = 16  # elements, at most


def checks(host: Host) -> Iterator[Check]:
    """A check for each mode that is summed: as many of its tiles as can be.

    A kernel that counts them in fewer bits, or finds a tile by way of a float, is wrong then. Where the rounds of the
    loop over them are not alike, `_ALL` tiles run in full, more than eight bits count; the number is halved until they
    take `_MOST` at most.
    """
    spec = host.spec
    if any(spec.sizes_of(mode)[1] == 0 for mode in spec.modes):
        return  # a case for no elements, of which no sums are taken
    for mode in (m for m in op_of(spec).contracted(spec) if m not in spec.static and not is_packed(host, m)):
        if _all(host, mode, 1).seconds(host) <= _DEAR:
            what = f"accepts as many tiles of {mode} as can be run"
            yield Check(spec.output.argument, what, partial(_wrong_with_many, host, mode))


def _wrong_with_many(host: Host, mode: str) -> str:
    """Checks a call with as many tiles of a mode as can be run; returns what is wrong, empty if nothing is."""
    if not host.executor.chooses_blocks:
        return wrong(host, _all(host, mode, _MORE))
    if not host.scratch:  # which is as long as the mode
        for tiles in _TRIED:
            call = _some(host, mode, tiles)
            try:
                problem = wrong(host, call)
            except NoMemory:
                raise
            except CannotRun:  # zeros count, or the rounds of some loop are not alike
                continue
            return problem and f"with {call.sizes[mode]} of {mode}, zeros but for {_ranges(call)}: {problem}"
    tiles = _ALL
    while tiles > 1 and _all(host, mode, tiles).seconds(host) > _MOST:
        tiles //= 2
    return wrong(host, _all(host, mode, tiles))


def _all(host: Host, mode: str, tiles: int) -> Parts:
    """A call with so many tiles of a mode, all of which are there."""
    sizes = _sizes(host, mode, tiles)
    return Parts(sizes, mode, range(sizes[mode]))


def _some(host: Host, mode: str, tiles: int) -> Parts:
    """A call with so many tiles of a mode, or as many as possible; only revealing ones are not zeros."""
    extent = family_of(host.spec).covered(host.plan)[mode]
    most = largest(host, mode, _sizes(host, mode, 1)) // extent
    if most < tiles:  # a number of as many bits, of which the telling ones at its end leave one run of zeros only
        tiles = min(most, (1 << max(0, most.bit_length() - 1)) + 3)
    sizes = _sizes(host, mode, tiles)
    tiles = -(-sizes[mode] // extent)
    run = extent * -(-_ACCESS // extent)
    first = run * -(-2 * extent // run)
    zeros = range(first, first + run)
    there = of_tiles(telling(tiles), extent, sizes[mode])
    return Parts(sizes, mode, sorted({*there, *zeros}), zeros)


def _sizes(host: Host, mode: str, tiles: int) -> dict[str, int]:
    """Sizes with so many tiles of a mode, the last one as small as can be, and a part of a tile of the others, or all
    of it where elements are raised: what is beyond the others' ends is not, and is computed with as well.
    """
    covered = family_of(host.spec).covered(host.plan)
    whole = any(op_of(host.spec).raised(host.spec, tensor) for tensor in host.spec.inputs)
    part = {m: covered[m] if whole else covered[m] // 2 + 1 for m in host.spec.modes}
    return allowed(host, {**part, mode: (tiles - 1) * covered[mode] + 1})


def _ranges(call: Parts) -> str:
    """The coordinates that are not zeros, as text."""
    runs: list[list[int]] = []
    for i in (i for i in call.coordinates if call.elsewhere is None or i not in call.elsewhere):
        if runs and runs[-1][1] == i:
            runs[-1][1] = i + 1
        else:
            runs.append([i, i + 1])
    return ", ".join(f"[{start}, {end})" for start, end in runs)
