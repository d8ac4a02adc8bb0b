"""The estimated time of a call of one kernel, in parts: the longest part tells what the call waits for."""

from __future__ import annotations

from dataclasses import dataclass

IDLE = 0.15  # of the time, in which multiprocessors have no tile: from it on, that is the reason


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

    @property
    def waits_for(self) -> str:
        """The longest part in a short phrase, or multiprocessors without a tile where that costs `IDLE` of the time."""
        parts = self.parts
        if parts["idle"] >= IDLE * self.us:
            if self.rounds == 1:
                return f"{tiles_text(self.tiles)} for {self.at_once} multiprocessors or clusters of them"
            return f"{self.rounds} rounds of {tiles_text(self.at_once)}, the last one {self.last:.0%} full"
        longest = max(("start", "products", "loads", "memory"), key=lambda name: parts[name])
        said = {
            "start": "the start and the end of the kernel",
            "products": f"products, {self.rounds} round{'s' * (self.rounds != 1)} of tiles",
            "loads": f"loads from the L2 cache{', as K crosses the ends of lines' * self.crossing}",
            "memory": "memory",
        }
        return f"{said[longest]}, {parts[longest] / self.us:.0%} of the estimate"


def tiles_text(number: int) -> str:
    """A number of tiles in words."""
    return f"{number} tile{'s' * (number != 1)}"
