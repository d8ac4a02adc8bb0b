"""Aggregates of one kernel's figures at many shapes, compared with those of its peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from cutegen.measuring.model import Measured

BEHIND = 0.97  # times as fast as the best peer: a shape below it counts as slower


@dataclass(frozen=True)
class Totals:
    """Ratios are a peer's time over the kernel's: above 1, the kernel is faster."""

    measured: Sequence[Measured]

    @property
    def compared(self) -> list[float]:
        """Those of the best peer at each shape at which one has a figure."""
        return [ratio for m in self.measured if (ratio := m.against_best) is not None]

    @property
    def mean(self) -> float | None:
        """The geometric mean of `compared`."""
        return geometric_mean(self.compared) if self.compared else None

    @property
    def behind(self) -> int:
        """At how many shapes the kernel is less than `BEHIND` times as fast as the best peer."""
        return sum(ratio < BEHIND for ratio in self.compared)

    @property
    def share_behind(self) -> float | None:
        """`behind`, as a share of the shapes at which a peer has a figure."""
        return self.behind / len(self.compared) if self.compared else None

    @property
    def against(self) -> dict[str, tuple[float, int]]:
        """For each peer the geometric mean of its ratios, and at how many shapes it has a figure."""
        ratios: dict[str, list[float]] = {}
        for m in self.measured:
            for peer in m.peers:
                ratios.setdefault(peer, []).append(m.against(peer))
        return {peer: (geometric_mean(found), len(found)) for peer, found in ratios.items()}
