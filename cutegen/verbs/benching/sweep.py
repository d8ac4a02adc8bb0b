"""Totals over the shapes of a file: the geometric mean, the worst, and how many are slower than a peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutegen.measuring import Failure, Machine, Measured
from cutegen.measuring.shape_files import Listed, Unfit
from cutegen.measuring.totals import BEHIND, Totals
from cutegen.verbs.benching.bench import Benched
from cutegen.verbs.benching.reasons import kernel_of, reason

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


@dataclass(frozen=True)
class Swept:
    """Results for those shapes of a file that are for one kernel, in the order of the file."""

    benched: Benched
    file: str
    standings: tuple[Standing, ...]
    unfit: tuple[Unfit, ...]
    failures: tuple[Failure, ...]  # that left a shape without a figure, or are of no shape

    @property
    def totals(self) -> Totals:
        return Totals([standing.measured for standing in self.standings])

    @property
    def compared(self) -> list[tuple[float, Standing]]:
        """The shapes at which a peer has a figure, each with its `against_best`, the worst first."""
        found = [(ratio, s) for s in self.standings if (ratio := s.measured.against_best) is not None]
        return sorted(found, key=lambda pair: pair[0])

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
    totals = one.totals
    return {
        "kernel": one.benched.unit.kernel,
        "file": one.file,
        "measured": len(one.standings),
        "compared": len(totals.compared),
        "geometric_mean": totals.mean,
        "limit": BEHIND,
        "behind": totals.behind,
        "share_behind": totals.share_behind,
        "against": {peer: {"geometric_mean": mean, "shapes": count} for peer, (mean, count) in totals.against.items()},
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
        "best": standing.measured.best,
        "against_best": standing.measured.against_best,
        "kernel": standing.kernel,
        "why": standing.why,
    }
