"""Estimates the time of a call of a product kernel as a function of its sizes.

A kernel's blocks take tiles of the output in rounds, as many at a time as multiprocessors have room for. A round takes
the time of its steps along the sum, plus a fixed time for a tile. All loads share the bandwidth of the second-level
cache, and a call takes at least the time that its tensors take from memory. None of the three, rounds, loads and
memory, hides the others wholly: the estimate adds rounds and loads, and once more the largest of the three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from cutegen.planning.estimate import Estimate

LINE = 128  # bytes of a line of the second-level cache
BOX = 16  # rows, of which loads bring whole boxes where less than a tile is there


@dataclass(frozen=True)
class Cost:
    """The estimate of one kernel. Times are in microseconds.

    `m` and `n` are the modes of the output's matrices, `k` is the one that is summed, and `batch` the one of several
    products, if there is one; `rows`, `columns` and `depth` are what a cluster of blocks takes of the first three at a
    time.
    """

    m: str
    n: str
    k: str
    batch: str | None
    rows: int
    columns: int
    depth: int
    clusters: int  # that run at a time, on so many `multiprocessors`
    multiprocessors: int
    fixed: bool  # whether there are as many on every GPU; else they are in proportion to its multiprocessors
    start: float  # of the kernel, until the first products are made, and after the last
    tile: float  # of what happens to a tile besides its products
    step: float  # of one step along the sum
    load_rows: float  # of a cluster's loads of one step for all its rows, of what the second-level cache gives at best
    load_columns: float  # and for its columns

    def numbers(self, tells_fixed: bool) -> tuple[int | float, ...]:
        """The numbers without the names of modes, as modules list them; where it `tells_fixed`, 1 for `fixed` or 0."""
        counts = self.rows, self.columns, self.depth, self.clusters, *[int(self.fixed)] * tells_fixed
        return *counts, self.start, self.tile, self.step, self.load_rows, self.load_columns

    def at_once(self, multiprocessors: int | None) -> int:
        """The clusters that run at a time on a GPU; None: on the one that is assumed where none is known."""
        if self.fixed or multiprocessors is None:
            return self.clusters
        return max(1, self.clusters * multiprocessors // self.multiprocessors)

    def of(self, sizes: Mapping[str, int], memory: float, crossing: float, multiprocessors: int | None = None) -> float:
        """The estimate for these sizes, in microseconds; arguments as those of `parts`."""
        return self.parts(sizes, memory, crossing, multiprocessors).us

    def parts(
        self, sizes: Mapping[str, int], memory: float, crossing: float, multiprocessors: int | None = None
    ) -> Estimate:
        """The estimate for these sizes on a GPU of so many multiprocessors. `memory` is what the tensors take from
        memory, and `crossing` what loads take more where they go across the ends of lines.
        """
        clusters = self.at_once(multiprocessors)
        tiles = -(-sizes[self.m] // self.rows) * -(-sizes[self.n] // self.columns)
        tiles *= sizes[self.batch] if self.batch is not None else 1
        steps = -(-sizes[self.k] // self.depth)
        busy = -(-tiles // clusters) * (steps * self.step + self.tile)
        present = min(1.0, -(-sizes[self.m] // BOX) * BOX / self.rows)  # of the rows of a tile
        loads = tiles * steps * (self.load_rows * present + self.load_columns) * crossing
        return Estimate(tiles, clusters, self.start, busy, loads, memory, crossing > 1)


@dataclass(frozen=True)
class Moved:
    """The data that every kernel of a module moves: the modes of each tensor, and the bytes of one of its elements.

    `rate` is the bandwidth of memory, in bytes a microsecond. `line` is how many elements along `k` fill a line. Loads
    do not cross the ends of lines where the size of `k` is a multiple of that; elsewhere they take `crossing` times as
    long.
    """

    tensors: tuple[tuple[tuple[str, ...], int], ...]
    rate: float
    k: str
    line: int
    crossing: float

    def memory(self, sizes: Mapping[str, int]) -> float:
        """Returns the time that memory takes to move the tensors, in microseconds."""
        return sum(prod(sizes[mode] for mode in modes) * width for modes, width in self.tensors) / self.rate

    def crossed(self, sizes: Mapping[str, int]) -> float:
        """How many times as long loads take as those that do not cross the ends of lines."""
        return self.crossing if sizes[self.k] % self.line else 1.0


def estimates(
    costs: Sequence[Cost], moved: Moved, sizes: Mapping[str, int], multiprocessors: int | None = None
) -> list[float]:
    """Returns for each kernel the estimated time of a call of these sizes, in microseconds, on a GPU of so many
    multiprocessors; None: on the one that is assumed where none is known.
    """
    memory, crossing = moved.memory(sizes), moved.crossed(sizes)
    return [cost.of(sizes, memory, crossing, multiprocessors) for cost in costs]
