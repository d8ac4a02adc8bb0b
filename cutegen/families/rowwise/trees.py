"""How the threads of a row make one value of those that each has: step by step, in every exchange alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from cutegen.atoms.targets import WARP
from cutegen.families.rowwise.order import Exchange, exchanges_of
from cutegen.families.rowwise.plan import RowwisePlan

# `no`: lanes of one warp have all after their steps; `each`: every thread reads all partial results, one after
# another; `lanes`: each lane of a warp reads one, or one of every 32, and they exchange these in steps again
Reading = Literal["no", "each", "lanes"]
Held = tuple[frozenset[int], ...]  # of each lane: whose values its own is made of


@dataclass(frozen=True)
class Tree:
    """The lanes of a warp exchange their values in steps; then, through shared memory, the warps of a row theirs."""

    lanes: int  # of a warp, that share a row
    steps: int  # of these: in step i with the lane whose number differs in bit i
    results: int  # that warps leave in shared memory for a row, those of all blocks of a cluster
    reading: Reading
    places: int  # lanes that read a place of their own, of `lanes` reading; others read what these do
    result_steps: int  # of the lanes that have read

    @property
    def rounds(self) -> int:
        """Results that a lane reads."""
        return max(1, self.results // WARP)


def tree_of(plan: RowwisePlan) -> Tree:
    """The tree of all reductions over a row's threads; of launches that choose how many these are, with the most."""
    lanes, results = min(WARP, plan.threads_per_row), plan.warps_per_row * plan.cluster
    reading: Reading = "no" if results == 1 else "lanes" if plan.cluster > 1 or plan.fewer_threads else "each"
    places = min(WARP, plan.warps if plan.fewer_threads else results) if reading == "lanes" else 1
    return Tree(lanes, _halvings(lanes), results, reading, places, _halvings(places))


def _halvings(count: int) -> int:
    return count.bit_length() - 1


def lanes_of(tree: Tree) -> list[Held]:
    """The lanes whose values each lane of a warp has combined, at the start and after each step."""
    return butterfly([frozenset([lane]) for lane in range(tree.lanes)], tree.steps)


def readers_of(tree: Tree) -> list[Held]:
    """The partial results that each lane of any warp has combined: after each round of reading, then after each step.

    Where every thread reads the results one after another, a single lane stands for all threads.
    """
    if tree.reading == "each":
        return [(frozenset(range(number + 1)),) for number in range(tree.results)]
    first = [lane % tree.places for lane in range(WARP)]
    rounds = [
        tuple(frozenset(range(place, min(place + WARP * number + 1, tree.results), WARP)) for place in first)
        for number in range(tree.rounds)
    ]
    return [*rounds[:-1], *butterfly(rounds[-1], tree.result_steps)]


def butterfly(held: Sequence[frozenset[int]], steps: int) -> list[Held]:
    """The values that each lane has combined, at the start and after each step of a butterfly exchange: in a step, each
    lane adds the values of the lane at a distance of 1, 2, 4, ...
    """
    found = [tuple(held)]
    for step in range(steps):
        found.append(tuple(mine | found[-1][lane ^ 1 << step] for lane, mine in enumerate(found[-1])))
    return found


@dataclass(frozen=True)
class Barrier:
    """A barrier at which threads or blocks wait, for each row or once."""

    name: str
    exchange: int | None  # the number of the only exchange that uses it
    arrivals: int  # that end a phase of it
    bytes: int  # that must have come besides
    about: str


def exchange_barriers(plan: RowwisePlan) -> tuple[Barrier, ...]:
    """The barriers of all exchanges of a row."""
    found, tree = exchanges_of(plan), tree_of(plan)
    if tree.reading == "no" or not found:
        return ()
    if plan.cluster == 1:
        about = f"all {plan.threads} threads of a block: the partial results of its warps are there"
        waits = [Barrier(f"bar.sync {i}", i, plan.threads, 0, about) for i in range(len(found))]
        if plan.persistent and plan.program.meetings == 1 and not plan.kept and not plan.fewer_threads:
            about = f"all {plan.threads} threads of a block: they were read, before the next row's follow"
            waits.append(Barrier("bar.sync, end", None, plan.threads, 0, about))
        return tuple(waits)
    every = plan.threads * plan.cluster
    waits = [Barrier("barrier.cluster", None, every, 0, "all blocks of the cluster run, and have shared memory")]
    waits += [_arrived(plan, tree, i, exchange) for i, exchange in enumerate(found)]
    if plan.persistent:
        about = "a lane of each warp of all blocks has read them, before the next row's follow"
        warps = plan.warps * plan.cluster
        waits += [Barrier(f"mbarrier read {i}", i, warps, 0, about) for i in range(len(found))]
        about = "no block of the cluster ends before all have read what it may still be told"
        waits.append(Barrier("barrier.cluster, end", None, every, 0, about))
    return tuple(waits)


def _arrived(plan: RowwisePlan, tree: Tree, number: int, exchange: Exchange) -> Barrier:
    """The barrier of each block of a cluster that says that it has been told all partial results."""
    size = sum(one.dtype.bytes for one in exchange.reductions)
    whole = prod((tree.results, plan.rows, size))
    about = f"thread 0 of a block expects {tree.results} results of {size} bytes, and they have come from all blocks"
    return Barrier(f"mbarrier arrived {number}", number, 1, whole, about)
