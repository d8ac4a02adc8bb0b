"""In which order cases tell most of a kernel, most early: each shows as much as there is that none before it has shown,
for the time that it takes.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Hashable, Mapping, Sequence

from cutegen.planning.plan import Plan
from cutegen.verification.case_requests import tiles_of
from cutegen.verification.cases import Case
from cutegen.verification.costs import seconds

_CASE = 0.05  # seconds: the part of a case that does not depend on its size
_QUICK = ("way", "data", "layout", "blocks", "size")
_MANY = 8  # tiles
_DATA = {"integers": 3.0, "rows": 3.0, "special": 2.0, "peaks": 2.0, "random": 1.0, "magnitudes": 1.0}

Feature = tuple[Hashable, ...]


def in_order(plan: Plan, cases: Sequence[Case]) -> tuple[int, ...]:
    """The numbers of all cases in the order in which they had best run."""
    tiles = {kernel.case: tiles_of(kernel.ways[0]) for kernel in plan.kernels}
    shows = [_features(case, tiles.get(case.of[0], {})) for case in cases]
    takes = [_CASE + seconds(plan, case.sizes) for case in cases]
    seen: set[Feature] = set()

    def rank(number: int) -> tuple[float, float, int]:
        new = sum(weight for feature, weight in shows[number].items() if feature not in seen)
        return -new / takes[number], takes[number], number

    # What a case still shows that none before it did can only become less: only the best ones are looked at again
    heap = [rank(number) for number in range(len(cases))]
    heapq.heapify(heap)
    found: list[int] = []
    while heap:
        number = heap[0][2]
        if (now := rank(number)) > heap[0]:
            heapq.heapreplace(heap, now)
            continue
        heapq.heappop(heap)
        found.append(number)
        seen |= shows[number].keys()
    return tuple(found)


def quick_part(plan: Plan, cases: Sequence[Case], without: Container[int] = ()) -> tuple[int, ...]:
    """The numbers of a few cases, in the order in which they had best run: one for each way of running, kind of data,
    layout, and relation of a size to a block that there is. Those `without` are none of them.
    """
    tiles = {kernel.case: tiles_of(kernel.ways[0]) for kernel in plan.kernels}
    seen: set[Feature] = set()
    found: list[int] = []
    for number in (number for number in in_order(plan, cases) if number not in without):
        case = cases[number]
        shows = {feature for feature in _features(case, tiles.get(case.of[0], {})) if feature[0] in _QUICK}
        if not shows <= seen:
            found.append(number)
            seen |= shows
    return tuple(found)


def _features(case: Case, tile: Mapping[str, int]) -> dict[Feature, float]:
    """The features of a kernel that a case exercises, each weighted by how often it reveals a fault."""
    of = case.of
    if case.empty:  # which hardly anything is run for
        return {("empty", of): 0.5}
    found: dict[Feature, float] = {
        ("way", of): 4.0,
        ("data", case.data): _DATA[case.data],
        ("data", case.data, of): _DATA[case.data] / 2,
        ("layout", case.layout): 2.0,
        ("layout", case.layout, of): 1.0,
        ("blocks", case.blocks is None, of): 2.0,
        ("name", case.name): 1.0,
    }
    for mode, size in case.sizes.items():
        if mode in tile:
            found["size", mode, _kind(size, tile[mode]), of] = 1.0
    for name, value in case.scalars.items():
        found["scalar", name, str(value)] = 0.5
    return found


def _kind(size: int, tile: int) -> str:
    """How a size compares with what a block covers."""
    if size in (0, 1):
        return str(size)
    if size < tile:
        return "less"
    if size % tile == 0:
        return "one" if size == tile else "several"
    return "one and a part" if size < 2 * tile else "several and a part" if size < _MANY * tile else "many and a part"
