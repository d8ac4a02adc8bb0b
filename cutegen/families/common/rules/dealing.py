"""Rules about layouts that deal a tile out to threads and values: ranks, and threads of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tensor_layouts import Layout, size

from cutegen import layouts
from cutegen.atoms.targets import WARP
from cutegen.language.kinds import Path
from cutegen.layouts import format_layout
from cutegen.lint.rule import Help, Say
from cutegen.lint.trial import say_layout
from cutegen.planning.sound import MAX_THREADS


@dataclass(frozen=True)
class Dealt:
    """A layout of a schedule that deals something out to threads or values."""

    path: Path  # its last step is `thread_layout` or `value_layout`
    layout: Layout
    rank: int  # modes that it must have
    most: int  # places that it may number
    of: str  # what it deals out, with its modes: `C [M, N]`

    @property
    def name(self) -> str:
        return str(self.path[-1])


def rank(dealt: Iterable[Dealt], say: Say, with_rank: Callable[[Dealt], Layout]) -> None:
    """A thread or value layout has one mode for every mode of what it deals out; `with_rank` makes one that has."""
    for one in dealt:
        found = len(layouts.modes_of(one.layout))
        if found == one.rank:
            continue
        say(
            f"`{one.name}` has {found} mode{'s' * (found > 1)}, and {one.of} has {one.rank}",
            *one.path,
            notes=(f"{format_layout(one.layout)} has the sizes {layouts.show(layouts.mode_sizes(one.layout))}",),
            help=say_layout(one.name, with_rank(one)),
        )


def threads(dealt: Iterable[Dealt], say: Say, smaller: Callable[[Dealt], Layout]) -> None:
    """A thread block has at most 1024 threads; `smaller` makes a layout with as few."""
    for one in dealt:
        if one.name != "thread_layout" or int(size(one.layout)) <= MAX_THREADS:
            continue
        sizes = layouts.mode_sizes(one.layout)
        say(
            f"`thread_layout` has {size(one.layout)} threads, and a block at most {MAX_THREADS}",
            *one.path,
            notes=(f"{' * '.join(map(str, sizes))} = {size(one.layout)} > {MAX_THREADS}",),
            help=say_layout("thread_layout", smaller(one)),
        )


def warps(count: int, say: Say, path: Path, help: Help, whose: str = "") -> None:
    """The threads of a block should fill its last warp; `whose` says more of what the threads do."""
    if count % WARP == 0:
        return
    say(
        f"a block of {count} threads{whose} leaves {whole_warps(count) - count} lanes of its last warp idle",
        *path,
        notes=(f"{count} = {count // WARP} * {WARP} + {count % WARP}",),
        help=help,
    )


def whole_warps(count: int) -> int:
    """The number of threads, increased to whole warps."""
    return -(-count // WARP) * WARP
