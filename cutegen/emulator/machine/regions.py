"""What a branch decides: the basic blocks between it and the place where its two ways meet again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutegen.emulator.machine.program import Block


@dataclass(frozen=True)
class Region:
    """What depends on the way that lanes take from the end of a basic block.

    `join` is the number of the basic block where the ways meet, or the number of basic blocks if they only meet at the
    end of the thread. `written` are the slots of the registers that some way writes. `repeats` says that a way leads
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


def region(blocks: Sequence[Block], number: int) -> Region:
    """The region that the end of the basic block with that number decides."""
    after = _always_reached(blocks)
    common = set.intersection(*(after[s] for s in successors(blocks, number)))
    # all of them lie on one line, each passing through those after it
    join = max(common, key=lambda n: len(after[n]))
    inside: list[int] = []
    left = [s for s in successors(blocks, number) if s != join]
    while left:
        one = left.pop()
        if one not in inside:
            inside.append(one)
            left += [s for s in successors(blocks, one) if s != join]
    written = {slot for n in inside for slots in blocks[n].writes for slot in slots or ()}
    return Region(join, tuple(sorted(written)), number in inside)


def _always_reached(blocks: Sequence[Block]) -> list[set[int]]:
    """For each basic block, and for the end of the thread, those that every way from it passes, itself included."""
    over = len(blocks)
    found = [set(range(over + 1)) for _ in range(over)] + [{over}]
    changed = True
    while changed:
        changed = False
        for number in reversed(range(over)):
            new = {number} | set.intersection(*(found[s] for s in successors(blocks, number)))
            changed |= new != found[number]
            found[number] = new
    return found
