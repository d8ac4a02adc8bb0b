"""What a call of one kernel is estimated to take, in parts: which of them is the most says what a call waits for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """The estimate of one kernel for the sizes of a call. Times are in microseconds.

    `tiles` of the output are taken in `rounds` of as many as run `at_once`. `start` is what the kernel takes besides
    its rounds; `products` is what the rounds take, `loads` what all loads take from the second-level cache, and
    `memory` what the tensors take from memory. `crossing` says that loads go across the ends of lines.
    """

    tiles: int
    at_once: int
    start: float
    products: float
    loads: float
    memory: float
    crossing: bool = False

    @property
    def rounds(self) -> int:
        return -(-self.tiles // self.at_once)

    @property
    def last(self) -> float:
        """The share of the last round that has a tile."""
        return (self.tiles - (self.rounds - 1) * self.at_once) / self.at_once if self.tiles else 0.0

    @property
    def us(self) -> float:
        """All in all: none of the parts hides the others wholly, so the longest of three counts twice, and memory only
        if it is that one.
        """
        return self.start + self.products + self.loads + max(self.products, self.loads, self.memory)

    @property
    def parts(self) -> dict[str, float]:
        """The parts of `us` by their names, together as long as it; `idle` is what rounds take of multiprocessors that
        have no tile.
        """
        whole = {"products": self.products, "loads": self.loads, "memory": 0.0}
        longest = max(("products", self.products), ("loads", self.loads), ("memory", self.memory), key=lambda p: p[1])
        whole[longest[0]] += longest[1]
        busy = self.tiles / (self.rounds * self.at_once) if self.tiles else 1.0
        idle = whole["products"] * (1 - busy)
        return {"start": self.start, **whole, "products": whole["products"] - idle, "idle": idle}
