"""The results of verification, as data, as JSON and as one line of text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from cutegen.console import count
from cutegen.expressions.places import ONE
from cutegen.verification.cases import Case

Status = Literal["passed", "failed", "not run"]
Reason = Literal[
    "too large",  # for the executor
    "no memory",  # it needs more than there is
    "cannot run",  # the executor is not able to run this kernel, right or wrong
    "no executor",  # what should have run it could not be set up
    "not loaded",  # the module does not load, or lacks a function
    "device lost",  # the device stopped answering
    "process ended",  # it crashed, hung, or was ended
    "stopped",  # something failed before it
    "in part",  # a part was asked for, to which it does not belong
    "open",  # of some output the spec leaves open what each element is, in all cases that there are
]
"""The reason why something did not run, or not to its end, where that is not simply a wrong result."""


@dataclass(frozen=True)
class CaseReport:
    """The result of one case.

    `ratio` is the largest error relative to its bound; `message` says what failed or why the case did not run, and
    `reason` is the kind of that. `orders` is the number of orders of blocks and warps in which it ran.
    """

    name: str
    why: str
    sizes: Mapping[str, int]
    layout: str
    data: str
    status: Status
    message: str = ""
    reason: Reason | None = None
    orders: int = 1
    max_error: float = 0.0
    max_bound: float = 0.0
    ratio: float = 0.0
    elements: int = 0
    unbounded: int = 0  # elements about which the bound says nothing
    unjudged: tuple[str, ...] = ()  # outputs of which it says nothing about any element
    given: str = ""  # a digest of the inputs
    bits: str = ""  # a digest of what was computed from them, in all runs; of a case that passed
    seconds: float = 0.0

    @classmethod
    def of(cls, case: Case, status: Status, message: str = "", reason: Reason | None = None) -> CaseReport:
        return cls(case.name, case.why, dict(case.sizes), case.layout, case.data, status, message, reason)


@dataclass(frozen=True)
class HostCheck:
    """A call that must be refused with an error that names `argument` (or, for `accepts ...`, must be taken)."""

    argument: str
    what: str
    status: Status
    message: str = ""
    reason: Reason | None = None


@dataclass(frozen=True)
class KernelReport:
    """The results of all cases and host checks of one kernel.

    `error` says why the kernel could not be verified at all or to the end, and `reason` is the kind of that (None for
    an error of another kind). `in_part` is whether only a part of all was asked for.
    """

    kernel: str
    module: str
    executor: str
    cases: tuple[CaseReport, ...] = ()
    host_checks: tuple[HostCheck, ...] = ()
    error: str = ""
    reason: Reason | None = None
    seconds: float = 0.0
    in_part: bool = False

    @property
    def results(self) -> tuple[CaseReport | HostCheck, ...]:
        return self.cases + self.host_checks

    @property
    def ok(self) -> bool:
        """Whether something ran and nothing failed."""
        results = [r.status for r in self.results]
        return not self.error and "failed" not in results and any(c.status == "passed" for c in self.cases)

    @property
    def complete(self) -> bool:
        """Whether everything that was planned did run."""
        return not self.error and all(r.status != "not run" for r in self.results)

    @property
    def stopped(self) -> bool:
        """Whether a failure ended the run before something that was planned."""
        return any(r.reason == "stopped" for r in self.results)

    @property
    def left_out(self) -> str:
        """A remark on how much was left out after the first failure, and on what runs it; empty if nothing was."""
        found = [sum(r.reason == "stopped" for r in some) for some in (self.cases, self.host_checks)]
        said = [count(n, what) for n, what in zip(found, ("case", "host check"), strict=True) if n]
        verb = "was" if sum(found) == 1 else "were"
        return f"{' and '.join(said)} {verb} left out after it: `--all` runs all" if said else ""

    @property
    def orders(self) -> int:
        """The largest number of orders of blocks and warps that a passed case ran in."""
        return max((c.orders for c in self.cases if c.status == "passed"), default=1)

    @property
    def orders_text(self) -> str:
        """A remark to put after the number of cases, such as ` (1 in 3 orders)`; empty where no case ran in several."""
        several = sum(c.orders > 1 for c in self.cases if c.status == "passed")
        return f" ({several} in {self.orders} orders)" if several else ""

    @property
    def errors_text(self) -> str:
        """How the errors of the cases that passed compare with the bounds of what rounding may cause."""
        ratios = [case.ratio for case in self.cases if case.status == "passed"]
        if not ratios:
            return "nothing compared"
        return f"all within bounds (largest error {max(ratios):.2f} of its bound)" if max(ratios) else "all exact"

    @property
    def lacking(self) -> str:
        """A remark on the first case or check not run for lack of memory, with what it needs; empty if none."""
        found = next((r for r in self.results if r.reason == "no memory"), None)
        return found and f"not run for lack of memory (the first {found.message})" or ""

    @property
    def idle_text(self) -> str:
        """Why host checks did not run, in brackets; empty where all did, or none could."""
        reasons = dict.fromkeys(check.message for check in self.host_checks if check.reason == "cannot run")
        return f" ({'; '.join(reasons)})" if reasons else ""

    @property
    def failures(self) -> tuple[str, ...]:
        """The failures, one a line; cases that failed with the same words share a line."""
        lines = [self.error] if self.error else []
        alike: dict[str, list[CaseReport]] = {}
        for case in self.cases:
            if case.status == "failed":
                alike.setdefault(case.message, []).append(case)
        for message, (first, *others) in alike.items():
            more = f", and {len(others)} more" if others else ""
            lines.append(f"case {first.name} ({sizes_text(first.sizes)}){more}: {message}")
        lines += [f"{h.argument}: {h.what}: {h.message}" for h in self.host_checks if h.status == "failed"]
        return tuple(lines)

    @property
    def text(self) -> str:
        """The report in one line: the verdict, how much ran, the worst error of a kernel that is right, the first
        failure of one that is not."""
        passed = sum(c.status == "passed" for c in self.cases)
        refused = sum(h.status == "passed" for h in self.host_checks)
        idle = sum(r.status == "not run" and r.reason not in ("stopped", "in part") for r in self.results)
        parts = [
            f"{'ok' if self.ok else 'FAILED'} {self.kernel} on {self.executor}",
            f"{passed}/{len(self.cases)} cases{self.orders_text}",
            f"{refused}/{len(self.host_checks)} host checks",
        ]
        if self.in_part:
            parts[1] = f"in part: {parts[1]}"
        if idle:
            parts.append(f"{idle} not run{self.idle_text}")
        if self.lacking:
            parts.append(f"{sum(r.reason == 'no memory' for r in self.results)} of them {self.lacking}")
        parts += [*([self.errors_text] if self.ok else []), f"{self.seconds:.1f} s"]
        line = ", ".join(parts)
        after = f" ({self.left_out})" * bool(self.left_out)
        return f"{line}: {self.failures[0]}{after}" if self.failures else line


_SAID = ("ok", "complete", "stopped", "orders")  # in JSON beside the fields


def sizes_text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{mode} {size}" for mode, size in sizes.items() if mode != ONE)


def as_json(report: KernelReport) -> dict[str, Any]:
    """A report as plain data; numbers that JSON lacks become "inf" and "nan"."""
    said = {name: getattr(report, name) for name in _SAID}
    data = {**said, **asdict(report)}
    return {k: _plain(v) for k, v in data.items()}


def entry_as_json(entry: CaseReport | HostCheck) -> dict[str, Any]:
    return {k: _plain(v) for k, v in asdict(entry).items()}


def case_from_json(data: Mapping[str, Any]) -> CaseReport:
    numbers = {k: float(data[k]) for k in ("max_error", "max_bound", "ratio", "seconds")}
    return CaseReport(**{**data, **numbers, "unjudged": tuple(data["unjudged"])})


def from_json(data: Mapping[str, Any]) -> KernelReport:
    """The report that `as_json` made data of."""
    rest = {k: v for k, v in data.items() if k not in (*_SAID, "cases", "host_checks")}
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
