"""The effects of a branch: where its paths meet, and the registers that they write."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from cutegen.emulator.machine.program import Block, End
from cutegen.emulator.machine.regions import Regions, successors


def block(number: int, target: int | None) -> Block:
    """A basic block that writes one register, and then may branch, or falls."""
    end = End("fall") if target is None else End("branch", guard=0, target=target)
    return Block((), (), ((),), ((number,),), end, ())


def reached(blocks: Sequence[Block], start: int, without: int) -> set[int]:
    """The basic blocks that lanes come to from one, by ways that do not pass another one."""
    found: set[int] = set()
    left = [start]
    while left:
        one = left.pop()
        if one not in found and one != without:
            found.add(one)
            left += successors(blocks, one) if one < len(blocks) else ()
    return found


@pytest.mark.parametrize("seed", range(8))
def test_ways_meet_at_the_first_place_that_all_of_them_pass(seed: int) -> None:
    chance, over = Random(seed), 14
    blocks = [block(n, chance.choice([None, chance.randint(0, over)])) for n in range(over)]
    regions = Regions(blocks)
    for number, one in enumerate(blocks):
        if one.end.kind != "branch":
            continue
        found, ways = regions.of(number), successors(blocks, number)
        passed = [n for n in range(over + 1) if all(over not in reached(blocks, way, n) for way in ways)]
        inside = set().union(*(reached(blocks, way, found.join) for way in ways))
        assert found.join in passed and over in passed
        assert inside.isdisjoint(passed), "none of these is before it"
        assert set(found.written) == inside and found.repeats == (number in inside)
        assert regions.of(number) is found


class Watched(list[Block]):
    """Basic blocks that count how often one of them is looked at."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return super().__getitem__(index)


def test_each_region_looks_at_a_basic_block_a_few_times_only() -> None:
    count = 500  # each of them in all regions before it
    blocks = Watched(block(n, min(n + 3, count)) for n in range(count))
    regions = Regions(blocks)
    assert all(regions.of(number).join > number for number in range(count))
    assert blocks.looks <= 3 * count * count
