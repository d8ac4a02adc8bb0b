"""The results of many specs: how many were generated and accepted, of which kinds, and the findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.fuzz.making import Made
from tests.fuzz.trial import Outcome

KEPT = 5  # numbers of specs with the same finding


@dataclass
class Found:
    """A kind of finding: how often it was made, the first specs with it, and what was said of the first."""

    count: int
    numbers: list[int]
    text: str


@dataclass
class Tally:
    """Counts by what a spec was made from, as `maker gemm changed`, and findings by kind."""

    made: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)  # of specs that were refused
    findings: dict[str, Found] = field(default_factory=dict)

    def add(self, number: int, made: Made, outcome: Outcome) -> None:
        what = f"{made.origin:7}{made.op:12}{'changed' if made.changes else 'as made'}"
        self.made[what] += 1
        self.accepted[what] += outcome.accepted
        if not outcome.accepted:
            self.codes.update(outcome.codes)
        for finding in outcome.findings:
            self.find(finding.kind, Found(1, [number], finding.text))

    def find(self, kind: str, found: Found) -> None:
        known = self.findings.setdefault(kind, Found(0, [], found.text))
        known.count += found.count
        known.numbers = (known.numbers + found.numbers)[:KEPT]

    def merge(self, other: Tally) -> None:
        self.made += other.made
        self.accepted += other.accepted
        self.codes += other.codes
        for kind, found in other.findings.items():
            self.find(kind, found)

    def lines(self) -> list[str]:
        """The counts as a table, and the most frequent codes."""
        total, good = self.made.total(), self.accepted.total()
        lines = [f"{good} of {total} specs accepted ({good / max(1, total):.0%})"]
        for what, count in sorted(self.made.items()):
            lines.append(f"  {what}  {self.accepted[what]:7} of {count:7}  {self.accepted[what] / count:4.0%}")
        codes = ", ".join(f"{code} {count}" for code, count in self.codes.most_common(12))
        return [*lines, f"  refused by {len(self.codes)} codes: {codes}"]


def as_data(tally: Tally) -> dict[str, Any]:
    """The tally as data that JSON can hold."""
    counts = {"made": dict(tally.made), "accepted": dict(tally.accepted), "codes": dict(tally.codes)}
    return {**counts, "findings": {kind: asdict(found) for kind, found in tally.findings.items()}}


def from_data(data: Mapping[str, Any]) -> Tally:
    """The tally that `as_data` made data of."""
    findings = {kind: Found(**found) for kind, found in data["findings"].items()}
    return Tally(Counter(data["made"]), Counter(data["accepted"]), Counter(data["codes"]), findings)
