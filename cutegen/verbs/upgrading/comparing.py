"""Two surveys of the same kernels held against each other: what another environment changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cutegen.verbs.building.verification import Verification
from cutegen.verbs.inspecting.comparing import Comparison, compare
from cutegen.verbs.inspecting.inspection import Inspection
from cutegen.verbs.upgrading.survey import Found, Survey

State = Literal[
    "same code",  # right there, and what runs is the same PTX as here
    "same bits",  # right in both, and bit for bit the same
    "other bits",  # right in both, and not the same
    "other inputs",  # right in both, of other random numbers
    "mended",  # right there, and not here
    "wrong",  # there, and not here
    "still wrong",  # in both
    "not compiled",  # there
    "not executed",  # there
]
BROKEN_STATES = ("wrong", "still wrong", "not compiled")


@dataclass(frozen=True)
class Change:
    """A kernel for one target in both environments; None where it did not compile. `comparison` is there for both."""

    target: str
    here: Inspection | None
    there: Inspection | None
    comparison: Comparison | None
    failed: str = ""  # why it does not compile there

    @property
    def same(self) -> bool:
        """Whether both are the same code as far as it is known, independent of the PTX version."""
        return self.comparison is not None and self.comparison.same


@dataclass(frozen=True)
class KernelChange:
    """A kernel in both environments, target by target, and what became of its results.

    `cases` are how many passed on both sides with the same inputs, `other` the names of those whose bits differ.
    """

    kernel: str
    spec: str
    targets: tuple[Change, ...]
    state: State
    why: str = ""
    cases: int = 0
    other: tuple[str, ...] = ()
    here: Verification | None = None
    there: Verification | None = None

    @property
    def same(self) -> bool:
        """Whether nothing changed: neither code nor results."""
        return self.state in ("same code", "same bits") and all(change.same for change in self.targets)


def needs_verification_here(here: Found, there: Found) -> bool:
    """Whether only a run here tells what changed: not where there is no result there to compare with, or where it is
    that of the same PTX, and right.
    """
    if there.verification is None or there.verification.verdict == "not executed" or here.failed:
        return False
    return there.verification.verdict == "failed" or here.code != there.code


def compare_surveys(here: Survey, there: Survey) -> tuple[KernelChange, ...]:
    """Compares the kernels of two surveys of the same specs, in their order."""
    others: Mapping[tuple[str, str], Found] = {(one.kernel, one.spec): one for one in there.kernels}
    return tuple(_compare(one, others[one.kernel, one.spec]) for one in here.kernels)


def _compare(here: Found, there: Found) -> KernelChange:
    """Compares one kernel."""
    targets = []
    for target in dict.fromkeys([*here.inspections, *here.failed]):
        old, new = here.inspections.get(target), there.inspections.get(target)
        both = None if old is None or new is None else compare(old, new)
        targets.append(Change(target, old, new, both, there.failed.get(target, "")))
    state, why, cases, other = _result(here, there)
    return KernelChange(
        here.kernel, here.spec, tuple(targets), state, why, cases, other, here.verification, there.verification
    )


def _result(here: Found, there: Found) -> tuple[State, str, int, tuple[str, ...]]:
    """The state of a kernel's results, the reason, the number of cases compared, and those that have other bits."""
    new, old = there.verification, here.verification
    assert new is not None
    if there.failed:
        return "not compiled", next(iter(there.failed.values())), 0, ()
    if new.verdict == "not executed":
        return "not executed", new.why, 0, ()
    if new.verdict == "failed":
        why = (new.report.failures or ("not one case ran",))[0] if new.report is not None else new.why
        return ("wrong" if old is None or old.verdict == "passed" else "still wrong"), why, 0, ()
    if old is None and here.failed:
        return "mended", "it does not compile here", 0, ()
    if old is None:
        return "same code", "", 0, ()
    if old.verdict != "passed" or old.report is None or new.report is None:
        return "mended", old.why, 0, ()
    before = {case.name: case for case in old.report.cases if case.status == "passed"}
    pairs = [(before[c.name], c) for c in new.report.cases if c.status == "passed" and c.name in before]
    told = [(a, b) for a, b in pairs if a.given == b.given]
    other = tuple(a.name for a, b in told if a.bits != b.bits)
    if not told and pairs:
        return "other inputs", "", 0, ()
    return ("other bits" if other else "same bits"), "", len(told), other


def totals(changes: Sequence[KernelChange]) -> Mapping[State, int]:
    """How many kernels there are of each state."""
    found: dict[State, int] = {}
    for change in changes:
        found[change.state] = found.get(change.state, 0) + 1
    return found
