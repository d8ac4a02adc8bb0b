"""In which order lanes that have parted take basic blocks, so that they come together where their ways meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cutegen.emulator.machine.program import Block, Program

_NAME = "turns"  # under which a program keeps them

Turns = tuple[int, ...] | None


def turns_of(program: Program) -> Turns:
    """The turn of each basic block of a program, by its number, as `turns_of_blocks` has them, found once."""
    if _NAME not in program.kept:
        program.kept[_NAME] = turns_of_blocks(program.blocks)
    turns = program.kept[_NAME]
    assert turns is None or isinstance(turns, tuple)
    return turns


def turns_of_blocks(blocks: Sequence[Block]) -> Turns:
    """The turn of each basic block, by its number: lanes at one with an earlier turn go first. None where the order of
    the text does, in which a block stands before all that come after it, but for loops.

    The compiler puts ways that are seldom taken behind all others, from where they lead back to a block in the middle:
    lanes there would come to it when the others have long been at a shuffle behind it. The turns are then those of a
    reverse postorder of the control flow, with what a loop is left for behind all of the loop.
    """
    ways = [sorted(_following(block, number), reverse=True) for number, block in enumerate(blocks)]
    done, under_way, in_line = list[int](), {0}, True
    seen, stack = {0}, [(0, iter(ways[0]))]
    while stack:
        number, left = stack[-1]
        following = next(left, None)
        if following is None:
            stack.pop()
            under_way.discard(number)
            done.append(number)
            continue
        in_line &= following > number or following in under_way
        if following not in seen:
            seen.add(following)
            under_way.add(following)
            stack.append((following, iter(ways[following])))
    if in_line:
        return None
    turns = [len(blocks)] * len(blocks)
    for turn, number in enumerate(reversed(done)):
        turns[number] = turn
    return tuple(turns)


def _following(block: Block, number: int) -> Iterator[int]:
    """The numbers of the blocks to which lanes may go from the end of that one."""
    end = block.end
    if end.kind == "branch":
        yield end.target
    if end.kind not in ("branch", "exit", "trap") or end.guard is not None:
        yield number + 1
