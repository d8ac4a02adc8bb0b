"""Where planning and lint put what they find, and what inference notes for `explain`."""

from __future__ import annotations

from dataclasses import dataclass, field

from cutegen.language.diagnostics import Diagnostic, Severity, Span, has_errors
from cutegen.language.kinds import Path
from cutegen.language.model import Source


@dataclass
class Report:
    """Collects diagnostics of one spec, and for every inferred field what it was inferred from."""

    source: Source
    diagnostics: list[Diagnostic] = field(default_factory=list)
    inferred: dict[Path, str] = field(default_factory=dict)

    def say(
        self,
        code: str,
        message: str,
        *path: str | int,
        notes: tuple[str, ...] = (),
        help: str | None = None,
        severity: Severity = "error",
        span: Span | None = None,
    ) -> None:
        self.diagnostics.append(
            self.source.diagnostic(code, message, *path, notes=notes, help=help, severity=severity, span=span)
        )

    def infer(self, why: str, *path: str | int) -> None:
        self.inferred[path] = why

    @property
    def failed(self) -> bool:
        return has_errors(self.diagnostics)
