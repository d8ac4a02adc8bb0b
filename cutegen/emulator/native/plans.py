"""Plans: how the core runs a graph whose inputs have entries for all lanes, for threads or blocks only, or for none.

What is the same for all threads, or for all blocks, is computed once, and spread over the lanes where it is used with
what is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.native.graphs import Graph
from cutegen.emulator.native.library import CONSTANT, FILL, INPUT, LANES, OUTPUT, PART, REPEAT, TILE, WHOLE

THREADS, BLOCKS = 1, 2
"""Sorts of arrays: one with an entry for each thread, or for each block; their sum stands for both, 0 for neither."""

_WORD = 0xFFFFFFFFFFFFFFFF
_NONE = [[-1] * (8 - length) for length in range(9)]  # what is missing from steps of each length
_SPREAD = {0: FILL, THREADS: REPEAT, BLOCKS: TILE}


@dataclass(frozen=True)
class Merge:
    """A result that is written in the lanes of a mask only: the numbers of its old value and of the mask as inputs."""

    old: int
    mask: int


@dataclass(frozen=True)
class Plan:
    """A plan, at the `address` of its `text`.

    `made` says of each array that is asked for its sort and the bytes of an element. `results` has, for each result of
    the graph, the number of that array, or of an input (as -1 - number) whose array is taken, or a constant.
    """

    text: Array
    made: tuple[tuple[int, int], ...]
    results: tuple[int | Array, ...]
    address: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", self.text.ctypes.data)


class Planner:
    """Makes the plan of a graph. `sorts` are those of the inputs: the graph's, then old values and masks of merges.

    `sizes` are the bytes of an element of each input, `merges` says which results are written in some lanes only, and
    `select` has the numbers of the operations that choose between two values, by their bytes.
    """

    def __init__(
        self,
        graph: Graph,
        sorts: Sequence[int],
        sizes: Sequence[int],
        merges: Mapping[int, Merge],
        select: Mapping[int, int],
    ) -> None:
        self.kinds: list[list[int]] = []  # kind, argument, size and sort of each value
        self.steps: list[list[list[int]]] = [[] for _ in range(4)]  # of each sort
        self._calls: list[tuple[int, int, tuple[int, ...]]] = []
        self._inputs = [-1] * len(sorts)
        number_of: list[int] = []
        given = iter(range(len(sorts)))
        for value in graph.values:
            if value.slot >= 0:
                number_of.append(self._input(next(given), sorts, sizes))
            elif value.operation < 0:
                signed = value.bits - (_WORD + 1 if value.bits >> 63 else 0)
                number_of.append(self._new(CONSTANT, signed, value.size, 0))
            else:
                number_of.append(self._call(value.operation, value.size, [number_of[s] for s in value.sources]))
        self.results: list[int] = []
        for slot, result in graph.results.items():
            chosen = number_of[result]
            if slot in merges:
                merge = merges[slot]
                old, mask = (self._input(n, sorts, sizes) for n in (merge.old, merge.mask))
                chosen = self._call(select[self.kinds[chosen][2]], self.kinds[chosen][2], [chosen, old, mask])
            self.results.append(chosen)

    def plan(self) -> Plan:
        """The plan."""
        outputs = [v for v in dict.fromkeys(self.results) if self.kinds[v][0] == WHOLE]
        for index, value in enumerate(outputs):
            self.kinds[value][:2] = [OUTPUT, index]
        spread: dict[tuple[int, int], int] = {}
        for operation, target, sources in self._calls:
            sort = self.kinds[target][3]
            found = []
            for source in sources:
                own = self.kinds[source][3]
                if own != sort:
                    if (source, sort) not in spread:
                        made = spread[source, sort] = self._new(WHOLE, 0, self.kinds[source][2], sort)
                        self.steps[sort].append([_SPREAD[own], sort, own == 0, made, source])
                    source = spread[source, sort]
                found.append(source)
            self.steps[sort].append([operation, sort, 0, target, *found])
        bytes_of_parts = self._keep_parts()
        steps = [step + _NONE[len(step)] for some in self.steps for step in some]
        head = len(self.kinds), len(steps), bytes_of_parts, LANES
        text = np.fromiter(chain(head, *self.kinds, *steps), np.int64, 4 + 4 * len(self.kinds) + 8 * len(steps))
        results: list[int | Array] = []
        for value in self.results:
            kind, argument, size = self.kinds[value][:3]
            constant = np.asarray(argument & _WORD, np.uint64).astype(f"u{size}") if kind == CONSTANT else None
            results.append(argument if kind == OUTPUT else -1 - argument if constant is None else constant)
        asked = tuple((self.kinds[v][3], self.kinds[v][2]) for v in outputs)
        return Plan(text, asked, tuple(results))

    def _keep_parts(self) -> int:
        """Gives memory for a part of the lanes to values that no other sort uses, and returns how much that is."""
        elsewhere = {s for some in self.steps for step in some for s in step[4:] if self.kinds[s][3] != step[1]}
        filled = {step[3] for some in self.steps for step in some if step[2]}  # once, for all lanes
        most = 0
        for some in self.steps:
            last = {value: place for place, step in enumerate(some) for value in step[3:]}
            free: dict[int, list[int]] = {}
            used = 0
            for place, step in enumerate(some):
                target = step[3]
                kind, _, size, _ = self.kinds[target]
                if kind == WHOLE and target not in elsewhere:
                    again = free.get(size, [])
                    at = used
                    if again and not step[2]:
                        at = again.pop()
                    else:
                        used += LANES * size
                    self.kinds[target][:2] = [PART, at]
                for value in set(step[3:]):
                    kind, argument, size, _ = self.kinds[value]
                    if kind == PART and last[value] == place and value not in filled:
                        free.setdefault(size, []).append(argument)
            most = max(most, used)
        return most

    def _new(self, kind: int, argument: int, size: int, sort: int) -> int:
        self.kinds.append([kind, argument, size, sort])
        return len(self.kinds) - 1

    def _input(self, number: int, sorts: Sequence[int], sizes: Sequence[int]) -> int:
        if self._inputs[number] < 0:
            self._inputs[number] = self._new(INPUT, number, sizes[number], sorts[number])
        return self._inputs[number]

    def _call(self, operation: int, size: int, sources: Sequence[int]) -> int:
        sort = 0
        for source in sources:
            sort |= self.kinds[source][3]
        target = self._new(WHOLE, 0, size, sort)
        self._calls.append((operation, target, tuple(sources)))
        return target
