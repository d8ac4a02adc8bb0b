"""Regions of branches: the basic blocks between a branch and the place where its two paths meet again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from cutegen.emulator.machine.program import Block, Program


@dataclass(frozen=True)
class Region:
    """The part of a program that depends on the path that lanes take from the end of a basic block.

    `join` is the number of the basic block where the paths meet, or the number of basic blocks if they only meet at the
    end of the thread. `written` are the slots of the registers that some path writes. `repeats` says that a path leads
    back to the branch, which then decides how often a loop runs.
    """

    join: int
    written: tuple[int, ...]
    repeats: bool


def successors(blocks: Sequence[Block], number: int) -> tuple[int, ...]:
    """The numbers of the basic blocks that may follow one; `len(blocks)` stands for the end of the thread."""
    end, over = blocks[number].end, len(blocks)
    onward = (number + 1,) if end.guard is not None or end.kind in ("fall", "barrier", "wait") else ()
    if end.kind == "branch":
        return (*onward, end.target)
    return (*onward, over) if end.kind in ("exit", "trap") else onward


class Regions:
    """The regions of a program's branches, each found when it is first asked for."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._after = _always_reached(blocks)
        self._first = {passed: number for number, passed in enumerate(self._after)}
        self._found: dict[int, Region] = {}

    def of(self, number: int) -> Region:
        """The region that the end of the basic block with that number decides."""
        if number not in self._found:
            self._found[number] = self._region(number)
        return self._found[number]

    def _region(self, number: int) -> Region:
        blocks = self._blocks
        # What both ways pass lies on one line, and the first of it passes all of it
        join = self._first[reduce(and_, (self._after[s] for s in successors(blocks, number)))]
        inside: set[int] = set()
        left = [s for s in successors(blocks, number) if s != join]
        while left:
            one = left.pop()
            if one not in inside:
                inside.add(one)
                left += [s for s in successors(blocks, one) if s != join]
        written = {slot for n in inside for slots in blocks[n].writes for slot in slots or ()}
        return Region(join, tuple(sorted(written)), number in inside)


def regions_of(program: Program) -> Regions:
    """The regions of a program, made once for each program."""
    made = program.kept.get("regions") or program.kept.setdefault("regions", Regions(program.blocks))
    assert isinstance(made, Regions)
    return made


def _always_reached(blocks: Sequence[Block]) -> list[int]:
    """For each basic block, and for the end of the thread, those that every way from it passes, itself included: a
    number with a bit for each.
    """
    over = len(blocks)
    following = [successors(blocks, number) for number in range(over)]
    found = [(2 << over) - 1] * over + [1 << over]
    changed = True
    while changed:
        changed = False
        for number in reversed(range(over)):
            new = reduce(and_, (found[s] for s in following[number])) | 1 << number
            changed |= new != found[number]
            found[number] = new
    return found
