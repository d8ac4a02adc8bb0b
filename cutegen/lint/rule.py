"""The kinds of lint rules, their findings, and how a rule reports them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from cutegen.analysis import Access
from cutegen.language.diagnostics import Severity
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec
from cutegen.planning.report import Report

Help = str | Callable[[], str | None] | None
Kind = Literal["correctness", "performance"]
Accesses = tuple[Access, ...]  # all that the plan makes
Candidate = tuple[Callable[[KernelSpec], str], KernelSpec]  # the words that suggest it, and the changed kernel


@dataclass(frozen=True)
class Say:
    """Reports under one rule's code. `help` may be a function: it is called only where somebody will read it."""

    report: Report
    code: str
    severity: Severity
    advise: bool

    def __call__(self, message: str, *path: str | int, notes: tuple[str, ...] = (), help: Help = None) -> None:
        if callable(help):
            help = help() if self.advise else None
        self.report.say(self.code, message, *path, notes=notes, help=help, severity=self.severity)

    @property
    def inferred(self) -> Mapping[Path, str]:
        """The reasons why planning filled in what it did, by path."""
        return self.report.inferred


@dataclass(frozen=True)
class Rule:
    """One thing that a spec of a family can do wrong; its page, `pages/CODE.md`, explains it to people.

    A `basic` rule also holds for specs that planning left unfinished because they are not sound.
    """

    kind: ClassVar[Kind] = "correctness"

    code: str
    check: Callable[[KernelSpec, Say], None]
    severity: Severity = "error"
    basic: bool = False


@dataclass(frozen=True)
class NoteRule:
    """Something that is worth knowing about the speed of a right kernel, and that no change of its spec mends.

    It is always a note, and said only where somebody asks for notes.
    """

    kind: ClassVar[Kind] = "performance"
    severity: ClassVar[Severity] = "note"

    code: str
    check: Callable[[KernelSpec, Say], None]


@dataclass(frozen=True)
class Finding:
    """Something that costs speed.

    `excess` measures it, 0 being none at all: what is spent beyond what would do, as a multiple of that. `others` are
    changed kernels that may be better, each with the words that suggest it.
    """

    message: str
    path: Path
    notes: tuple[str, ...]
    excess: float
    others: Iterable[Candidate] = ()


@dataclass(frozen=True)
class PerformanceRule:
    """Advice on speed, about a kernel that is right: always a warning, and only where somebody asks for it."""

    kind: ClassVar[Kind] = "performance"
    severity: ClassVar[Severity] = "warning"

    code: str
    find: Callable[[KernelSpec, Any, Accesses], Iterable[Finding]]  # of a spec, its family's plan, and what that makes
