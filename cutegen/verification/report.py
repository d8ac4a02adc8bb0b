"""What verification found, as data, as JSON and as one line of text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["passed", "failed", "not run"]


@dataclass(frozen=True)
class CaseReport:
    """`ratio` is the largest error relative to its bound; `message` says what failed or why the case did not run."""

    name: str
    why: str
    sizes: Mapping[str, int]
    layout: str
    data: str
    status: Status
    message: str = ""
    max_error: float = 0.0
    max_bound: float = 0.0
    ratio: float = 0.0
    elements: int = 0
    unbounded: int = 0  # elements about which the bound says nothing
    seconds: float = 0.0


@dataclass(frozen=True)
class HostCheck:
    """A call that must be refused with an error that names `argument` (or, for `accepts ...`, must be taken)."""

    argument: str
    what: str
    status: Status
    message: str = ""


@dataclass(frozen=True)
class KernelReport:
    """`error`: what kept the kernel from being verified at all or to the end (it does not load, a crash, a timeout)."""

    kernel: str
    module: str
    executor: str
    cases: tuple[CaseReport, ...] = ()
    host_checks: tuple[HostCheck, ...] = ()
    error: str = ""
    seconds: float = 0.0

    @property
    def results(self) -> tuple[CaseReport | HostCheck, ...]:
        return self.cases + self.host_checks

    @property
    def ok(self) -> bool:
        """Nothing failed, and something ran."""
        results = [r.status for r in self.results]
        return not self.error and "failed" not in results and any(c.status == "passed" for c in self.cases)

    @property
    def complete(self) -> bool:
        """Everything that was planned did run."""
        return not self.error and all(r.status != "not run" for r in self.results)

    @property
    def failures(self) -> tuple[str, ...]:
        """One line a failure."""
        lines = [self.error] if self.error else []
        lines += [f"case {c.name} ({sizes_text(c.sizes)}): {c.message}" for c in self.cases if c.status == "failed"]
        lines += [f"{h.argument}: {h.what}: {h.message}" for h in self.host_checks if h.status == "failed"]
        return tuple(lines)

    @property
    def text(self) -> str:
        """One line: the verdict, how much ran, the worst error and the first failure."""
        passed = sum(c.status == "passed" for c in self.cases)
        refused = sum(h.status == "passed" for h in self.host_checks)
        idle = sum(r.status == "not run" for r in self.results)
        worst = max((c.ratio for c in self.cases if c.status == "passed"), default=0.0)
        parts = [
            f"{'ok' if self.ok else 'FAILED'} {self.kernel} on {self.executor}",
            f"{passed}/{len(self.cases)} cases",
            f"{refused}/{len(self.host_checks)} host checks",
        ]
        if idle:
            parts.append(f"{idle} not run")
        parts += [f"worst error {worst:.2g} of its bound", f"{self.seconds:.1f} s"]
        line = ", ".join(parts)
        return f"{line}: {self.failures[0]}" if self.failures else line


def sizes_text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{mode} {size}" for mode, size in sizes.items())


def as_json(report: KernelReport) -> dict[str, Any]:
    """Plain data; numbers that JSON lacks become "inf" and "nan"."""
    data = {"ok": report.ok, "complete": report.complete, **asdict(report)}
    return {k: _plain(v) for k, v in data.items()}


def entry_as_json(entry: CaseReport | HostCheck) -> dict[str, Any]:
    return {k: _plain(v) for k, v in asdict(entry).items()}


def case_from_json(data: Mapping[str, Any]) -> CaseReport:
    numbers = {k: float(data[k]) for k in ("max_error", "max_bound", "ratio", "seconds")}
    return CaseReport(**{**data, **numbers})


def from_json(data: Mapping[str, Any]) -> KernelReport:
    """The inverse of `as_json`."""
    rest = {k: v for k, v in data.items() if k not in ("ok", "complete", "cases", "host_checks")}
    cases = tuple(case_from_json(c) for c in data["cases"])
    return KernelReport(**rest, cases=cases, host_checks=tuple(HostCheck(**h) for h in data["host_checks"]))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
