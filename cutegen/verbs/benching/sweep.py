"""What shapes of a file come to, together: the geometric mean, the worst, and how many are slower than a peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from cutegen.measuring import Failure, Machine, Measured
from cutegen.measuring.shape_files import Listed, Unfit
from cutegen.verbs.benching.bench import Benched
from cutegen.verbs.benching.reasons import kernel_of, reason

BEHIND = 0.97  # times as fast as the best peer: a shape below it counts as slower
WORST = 5


@dataclass(frozen=True)
class Standing:
    """A kernel at one shape beside the fastest of its peers there.

    `name` is what the file calls the shape, `kernel` which one of a module's kernels it took (see `kernel_of`), and
    `why` what a model says that the call waits for.
    """

    measured: Measured
    line: int
    name: str
    kernel: str
    why: str

    @property
    def best(self) -> str | None:
        """The fastest peer; None where none has a figure."""
        peers = self.measured.peers
        return min(peers, key=lambda peer: peers[peer].us, default=None)

    @property
    def against_best(self) -> float | None:
        """The time of the fastest peer over the kernel's: above 1, the kernel is the fastest."""
        return None if self.best is None else self.measured.against(self.best)


@dataclass(frozen=True)
class Swept:
    """What became of the shapes of a file that are for one kernel, in the order of the file."""

    benched: Benched
    file: str
    standings: tuple[Standing, ...]
    unfit: tuple[Unfit, ...]
    failures: tuple[Failure, ...]  # that left a shape without a figure, or are of no shape

    @property
    def compared(self) -> list[tuple[float, Standing]]:
        """The shapes at which a peer has a figure, each with `against_best`, the worst first."""
        found = [(s.against_best, s) for s in self.standings if s.against_best is not None]
        return sorted(found, key=lambda pair: pair[0])

    @property
    def mean(self) -> float | None:
        """The geometric mean of `against_best`."""
        return geometric_mean(ratio for ratio, _ in self.compared) if self.compared else None

    @property
    def against(self) -> dict[str, tuple[float, int]]:
        """For each peer the geometric mean of its times over the kernel's, and at how many shapes it has a figure."""
        ratios: dict[str, list[float]] = {}
        for standing in self.standings:
            for peer in standing.measured.peers:
                ratios.setdefault(peer, []).append(standing.measured.against(peer))
        return {peer: (geometric_mean(found), len(found)) for peer, found in ratios.items()}

    @property
    def behind(self) -> int:
        """At how many shapes the kernel is less than `BEHIND` times as fast as the best peer."""
        return sum(ratio < BEHIND for ratio, _ in self.compared)

    @property
    def worst(self) -> list[tuple[float, Standing]]:
        """The shapes at which the kernel is the farthest behind the best peer, or the least ahead."""
        return self.compared[:WORST]


def swept(benched: Benched, listed: Listed, machine: Machine | None) -> Swept:
    """Puts figures of a kernel beside the lines of the file that they are of."""
    plan = benched.unit.module.plan
    entries = {_key(shape): entry for shape, entry in zip(listed.shapes, listed.entries, strict=True)}
    standings = []
    for measured in benched.result.measured:
        entry = entries[_key(measured.shape)]
        kernel, why = kernel_of(plan, measured, machine), reason(plan, measured, machine)
        standings.append(Standing(measured, entry.line, entry.name, kernel, why))
    known = {_key(measured.shape) for measured in benched.result.measured}
    failures = tuple(f for f in benched.result.failures if f.shape is None or _key(f.shape) not in known)
    return Swept(benched, listed.file, tuple(standings), listed.unfit, failures)


def _key(shape: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(shape.items()))


def sweep_json(sweeps: Sequence[Swept]) -> list[dict[str, Any]]:
    """Sweeps as JSON, one for each kernel: what the tables say, without the times, which stand under `kernels`."""
    return [_as_json(one) for one in sweeps]


def _as_json(one: Swept) -> dict[str, Any]:
    return {
        "kernel": one.benched.unit.kernel,
        "file": one.file,
        "measured": len(one.standings),
        "compared": len(one.compared),
        "geometric_mean": one.mean,
        "limit": BEHIND,
        "behind": one.behind,
        "share_behind": one.behind / len(one.compared) if one.compared else None,
        "against": {peer: {"geometric_mean": mean, "shapes": count} for peer, (mean, count) in one.against.items()},
        "worst": [_standing_json(standing) for _, standing in one.worst],
        "shapes": [_standing_json(standing) for standing in one.standings],
        "refused": [
            {"line": unfit.entry.line, "sizes": dict(unfit.entry.sizes), "name": unfit.entry.name, "why": unfit.why}
            for unfit in one.unfit
        ],
    }


def _standing_json(standing: Standing) -> dict[str, Any]:
    return {
        "line": standing.line,
        "name": standing.name,
        "shape": dict(standing.measured.shape),
        "best": standing.best,
        "against_best": standing.against_best,
        "kernel": standing.kernel,
        "why": standing.why,
    }
