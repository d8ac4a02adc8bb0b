"""Requests for cases that try to break a kernel of any family, before their sizes are brought to allowed ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from cutegen.dtypes import Dtype
from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan
from cutegen.verification.asked import family_of, op_of
from cutegen.verification.case_request import CaseRequest, Data, Layout
from cutegen.verification.costs import seconds
from cutegen.verification.telling_scalars import telling_scalars

ROUNDS = 3
"""The number of full rounds, followed by a partial one, of state that a block carries from round to round: a stage, a
phase, a turn, a buffer. What is carried wrongly from the second or from the third round on shows then.
"""

# Seconds that a case of many blocks may take, and one of just more than 2^8; of more, some run in hostchecks.far_blocks
_CHEAP, _NEEDED = 0.06, 0.6
_LONG = 17  # tiles of a sum
BANDS = {19: 0.1, 11: _NEEDED}
"""Tiles along a mode, 3 more than whole bands of 4, 8 and 16, with the seconds that they may take."""


def allowed(spec: KernelSpec, tiles: Mapping[str, int], request: CaseRequest) -> Iterator[dict[str, int]]:
    """The sizes of a request, brought to what `static` and `divisible` allow.

    They are rounded away from the tile's sizes first, then toward them.
    """
    if request.exactly:
        yield {mode: request.wanted.get(mode, tiles[mode]) for mode in spec.modes}
        return
    larger = any(size > tiles[mode] for mode, size in request.wanted.items())
    for up in (larger, not larger):
        sizes = {}
        for mode in spec.modes:
            wanted, step = request.wanted.get(mode, tiles[mode]), max(1, spec.divisible.get(mode, 1))
            rounded = -(-wanted // step) * step if up else wanted // step * step
            # only a case that asks for an empty mode gets one
            sizes[mode] = spec.static.get(mode, rounded if rounded or not wanted else step)
        if any(request.wanted.get(mode) == 0 and spec.sizes_of(mode)[0] for mode in spec.modes):
            continue
        sizes = {mode: between(spec, mode, size) for mode, size in sizes.items()}
        fitting = family_of(spec).accepted(spec, sizes)
        if fitting is not None:
            yield fitting


def between(spec: KernelSpec, mode: str, size: int) -> int:
    """The size of a mode that is nearest to one and within the bounds of what a call can have."""
    (low, high), step = spec.sizes_of(mode), max(1, spec.divisible.get(mode, 1))
    return min(max(size, -(-low // step) * step), high // step * step)


def tiles_of(plan: Plan) -> dict[str, int]:
    """The size that a block covers along each mode, within what a call can have; for a mode of fixed size, that size.

    If all allowed sizes are larger, it is the size of as many tiles as the least of them takes.
    """
    spec, found = plan.spec, {}
    for mode, size in family_of(spec).covered(plan).items():
        low = spec.sizes_of(mode)[0]
        found[mode] = spec.static.get(mode, between(spec, mode, max(1, -(-low // size)) * size))
    return found


def derived(plan: Plan, tile: Mapping[str, int]) -> Iterator[CaseRequest]:
    """The requests for any family's kernel, with the family's own among them.

    `tile` is what a block covers; of a fixed mode that is all of it.
    """
    spec, op = plan.spec, op_of(plan.spec)
    free = [m for m in spec.modes if m not in spec.static and m not in spec.taken]
    inner = op.contracted(spec)
    outer = [m for m in free if m not in inner]
    deep = {m: max(tile[m] * 2 + 1, 2) for m in inner}  # enough of k to be past a single tile

    yield CaseRequest("tile", "exactly one tile")
    yield CaseRequest("tile integers", "exactly one tile, the result must be exact", data="integers")
    for i, shape in enumerate(spec.verify.shapes):
        why = "a shape of the spec"
        yield CaseRequest(f"spec shape {i + 1}", why, shape, exactly=True)
        yield CaseRequest(
            f"spec shape {i + 1} integers", why + ", the result must be exact", shape, "compact", "integers", True
        )
    for mode in free:
        yield CaseRequest(f"{mode} one less", f"{mode} one below the tile", {mode: max(1, tile[mode] - 1)})
        yield CaseRequest(f"{mode} one more", f"{mode} one above the tile", {mode: tile[mode] + 1}, every_way=True)
    for mode in (m for m in spec.modes if m in spec.taken and m not in spec.static):
        yield CaseRequest(f"{mode} = 1", f"as few places along {mode} as can be", {mode: 1})
    less = {m: max(1, tile[m] - 1) for m in free}
    more = {m: tile[m] + 1 for m in free}
    yield CaseRequest("all one less", "every mode one below the tile", less, data="integers", every_way=True)
    yield CaseRequest("all one more", "every mode one above the tile", more, data="integers", form=True)
    for mode in free:
        yield CaseRequest(f"{mode} = 1", f"size 1 in {mode}", {**more, mode: 1})
    yield CaseRequest("all 1", "a single element", dict.fromkeys(free, 1), every_way=True)
    primes = dict(zip(free, _primes_above(tile[m] + tile[m] // 3 + 1 for m in free), strict=True))
    below = dict(zip(free, _primes_below(tile[m] * 2 // 3 + 1 for m in free), strict=True))
    yield CaseRequest("primes", "sizes that nothing divides", primes, every_way=True)
    yield CaseRequest(
        "primes integers", "sizes that nothing divides, the result must be exact", primes, data="integers"
    )
    yield CaseRequest("small primes", "less than a tile in every mode", below)
    several = {m: tile[m] * 3 for m in outer} | {m: tile[m] * 2 for m in inner if m in free}
    yield CaseRequest("several tiles", "whole tiles, several in every mode", several)
    yield from family_of(spec).more_requests(plan, tile)
    ragged = {m: size + max(1, tile[m] // 2 - 1) for m, size in several.items()}
    why = "several tiles and a part of one in every mode"
    yield CaseRequest("several and a residue", why, ragged, data="integers", form=True)
    if inner and all(m in free for m in inner):
        yield from _contraction(plan, tile, inner, outer)
    for layout, why in (
        ("padded", "rows further apart than they are long"),
        ("offset", "a slice at the least alignment that the spec allows"),
    ):
        kind: Layout = "padded" if layout == "padded" else "offset"
        yield CaseRequest(layout, why, deep, kind)
        yield CaseRequest(f"{layout} primes", why + ", sizes that nothing divides", primes, kind, "integers")
        yield CaseRequest(f"{layout} residue", why + ", a part of a tile in every mode", more, kind, every_way=True)
    yield from _many_tiles(plan, tile)
    yield from _special(plan, primes, below)
    for mode in (m for m in spec.lead.shape if m in free and m not in op.without_reference(spec)):
        what = "an empty output: nothing is launched, nothing is written"
        yield CaseRequest(f"{mode} = 0", what, {**deep, mode: 0}, every_way=mode == spec.lead.major)


def _many_tiles(plan: Plan, tile: Mapping[str, int]) -> Iterator[CaseRequest]:
    """Cases of so many tiles along one mode that counts of them overflow counters of 8 to 18 bits.

    Along each mode of the output that is as many blocks as are cheap, each with as little to do as there can be, which
    is nothing to sum. Those of `hostchecks.far_blocks` sum; many tiles of what is summed are `hostchecks.long_sums`'.
    Where the family says that tiles are walked in bands, `hostchecks.walked_tiles` has those.
    """
    spec = plan.spec
    free = [m for m in spec.modes if m not in spec.static and m not in spec.taken]
    summed = [m for m in op_of(spec).contracted(spec) if m in free]
    outer = [m for m in free if m not in summed]
    may_be_empty = op_of(spec).modes_that_may_be_empty(spec.compute, {t.name: t for t in spec.tensors})
    # of which one that is empty may not leave the grid without blocks
    empty = [m for m in may_be_empty if family_of(spec).blocks(plan, {**tile, m: 0})]
    little = {**dict.fromkeys(outer, 1), **{m: max(1, tile[m] // 2 + 1) for m in summed}}

    def blocks(mode: str, bits: int) -> CaseRequest:
        sizes = {**little, **dict.fromkeys(empty, 0), mode: 2**bits * tile[mode] + 1}
        others = [m for m in empty if m != mode and m in free]
        name = f"more than {2**bits} tiles of {mode}" + f", {', '.join(others)} = 0" * bool(others)
        what = "nothing to sum" if others else "little to do"
        return CaseRequest(name, f"blocks that no {bits} bits count, each with {what}", sizes, data="integers")

    def banded(mode: str, count: int) -> CaseRequest:
        sizes = {m: tile[m] + 1 for m in outer} | dict.fromkeys(summed, 1) | {mode: tile[mode] * count}
        return CaseRequest(f"{count} tiles of {mode}", "bands of blocks, the last one narrow", sizes)

    def takes(request: CaseRequest) -> float:
        """About how many seconds."""
        sizes = next(allowed(spec, tile, request), None)
        return math.inf if sizes is None else seconds(plan, sizes)

    for one in outer if len(outer) > 1 and family_of(spec).band(plan) is None else ():
        bands = ((banded(one, count), most) for count, most in BANDS.items())
        yield from [request for request, most in bands if takes(request) <= most][:1]
    for mode in outer:
        many = ((blocks(mode, bits), _CHEAP if bits > 8 else _NEEDED) for bits in range(18, 7, -1))
        yield from [request for request, most in many if takes(request) <= most][:1]


def _special(plan: Plan, primes: Mapping[str, int], below: Mapping[str, int]) -> Iterator[CaseRequest]:
    """Cases of values that kernels treat apart: of elements, then of scalars.

    `primes` are sizes of several tiles, `below` of less than one.
    """
    spec = plan.spec
    if any(t.dtype is not Dtype.bool for t in spec.tensors if t.reads):
        why = "NaN, infinities, both zeros, subnormals and the largest numbers among the inputs"
        yield CaseRequest("special values", why, primes, data="special")
    for name, values in telling_scalars(spec):
        why = "a value of a scalar that kernels treat apart"
        yield CaseRequest(name, why, below, data="special", scalars=values, once=True)


def _contraction(
    plan: Plan, tile: Mapping[str, int], inner: Iterable[str], outer: Iterable[str]
) -> Iterator[CaseRequest]:
    """Cases about the number of k tiles; the other modes are part of a tile, to keep predicates at work."""
    spec, stages = plan.spec, plan.stages
    may_be_empty = op_of(spec).modes_that_may_be_empty(spec.compute, {t.name: t for t in spec.tensors})
    part = {m: max(1, tile[m] // 2 + 1) for m in outer}
    for mode in inner:
        k = tile[mode]
        if mode in may_be_empty:
            yield CaseRequest(f"{mode} = 0", "an empty sum is zero", {**part, mode: 0})
        yield CaseRequest(f"{mode} below a tile", f"{mode} below one tile", {**part, mode: max(1, k // 2 + 1)})
        deepest = stages or 1
        for count in sorted({1, deepest - 1, deepest, deepest + 1, longest(plan)} - {0}):
            of = f"{count} tile{'s'[: count > 1]} of {mode}, {stages} stages" if stages else f"{count} tiles of {mode}"
            data: Data = "integers" if count == longest(plan) else "random"
            if count != longest(plan):
                yield CaseRequest(f"{mode} {count} tiles", of, {**part, mode: count * k}, data="integers")
            yield CaseRequest(
                f"{mode} {count} tiles and 1", of + " and a residue", {**part, mode: count * k + 1}, data=data
            )
        why = f"two blocks in every other mode, and so much of {mode} that every stage is used again"
        sizes = {**{m: tile[m] + 1 for m in outer}, mode: (deepest + 1) * k + 1}
        yield CaseRequest("blocks and stages", why, sizes, data="integers")


def longest(plan: Plan) -> int:
    """Tiles of the longest sum that a block takes in a case: so many that all stages are used again and again, and that
    what is rounded on the way, every few tiles, shows in sums that are exact.
    """
    return max(ROUNDS * (plan.stages or 1) + 1, _LONG)


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


def _primes_above(starts: Iterable[int]) -> Iterator[int]:
    """The first prime from each start on, all of them different, so that swapped modes cannot hide."""
    used: set[int] = set()
    for n in starts:
        while not _is_prime(n) or n in used:
            n += 1
        used.add(n)
        yield n


def _primes_below(starts: Iterable[int]) -> Iterator[int]:
    """The last prime up to each start (1 if there is none), different ones while there are."""
    used: set[int] = set()
    for n in starts:
        while n > 1 and (not _is_prime(n) or n in used):
            n -= 1
        used.add(n)
        yield max(1, n)
