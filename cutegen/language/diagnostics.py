"""Diagnostics about a spec: one `Diagnostic` for each problem, with its place, the arithmetic and a way out.

A room, such as `language` or `lint`, never prints and never stops at the first problem: it collects diagnostics and
hands them on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cutegen.errors import CutegenError

LINE_BREAK = re.compile("\r\n|[\n\r]")
"""A line break by YAML 1.2, section 5.4. YAML 1.1 and Python's `splitlines` also break lines at other characters."""

Severity = Literal["error", "warning", "note"]  # a note is no finding


@dataclass(frozen=True, order=True)
class Span:
    """A place in a spec's text. `line` and `column` count from 1; `length` is in characters."""

    line: int
    column: int
    length: int = 1


START = Span(1, 1, 1)
_WORD = re.compile(r"(\w{40})\w{40,}()")  # longer than any name may be
_LONGEST = 480  # characters of a message, a note, a help
_QUOTED = re.compile(r"(`[^`]{160})[^`]{40,}(`)")


def _brief(text: str, *long: re.Pattern[str]) -> str:
    """One short line that a terminal shows as it is: a name in quotes may hold any escape."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    for pattern in long:
        text = pattern.sub(_cut, text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _cut(match: re.Match[str]) -> str:
    return f"{match[1]}...{match[2]}"


@dataclass(frozen=True)
class Diagnostic:
    """One problem of a spec.

    `code` is stable (`CG203`); `notes` hold the arithmetic that failed, a line each; `help` names what would work.
    """

    code: str
    message: str
    span: Span = START
    path: str = "<spec>"
    severity: Severity = "error"
    notes: tuple[str, ...] = ()
    help: str | None = None

    def __post_init__(self) -> None:
        """Cuts what was quoted of the spec, which may be as long as a file, and shows what cannot be seen of it as an
        escape. What helps is there to be copied.
        """
        object.__setattr__(self, "message", _brief(self.message, _WORD, _QUOTED))
        object.__setattr__(self, "notes", tuple(_brief(note, _WORD, _QUOTED) for note in self.notes))
        object.__setattr__(self, "help", self.help and _brief(self.help, _WORD))

    @property
    def sort_key(self) -> tuple[str, int, int, str, str]:
        return (self.path, self.span.line, self.span.column, self.code, self.message)


class SpecError(CutegenError):
    """A spec cannot be used. Holds every diagnostic found so far, errors and warnings, in file order."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(ordered(diagnostics))
        super().__init__("; ".join(f"{d.code} {d.message}" for d in self.diagnostics))


def ordered(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Diagnostics in file order, without repetitions (the variants of a matrix share their text)."""
    return sorted(set(diagnostics), key=lambda d: d.sort_key)


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(d.severity == "error" for d in diagnostics)


def render_text(diagnostic: Diagnostic, source: str | None) -> str:
    """A diagnostic as a compiler prints it: place, code and message, the line with a caret, notes, help."""
    d = diagnostic
    lines = [f"{d.path}:{d.span.line}:{d.span.column}: {d.severity}[{d.code}]: {d.message}"]
    text = LINE_BREAK.split(source or "")
    if 1 <= d.span.line <= len(text) and text[d.span.line - 1].strip():
        shown = text[d.span.line - 1].replace("\t", " ")
        # A minified or hostile line would bury the message: show the surroundings of the place only.
        first = max(0, d.span.column - 60)
        cut = shown[first : first + 120]
        number = str(d.span.line)
        caret = " " * (d.span.column - 1 - first) + "^" * max(1, min(d.span.length, len(cut)))
        lines += [f"{number} | {cut}", f"{' ' * len(number)} | {caret[:120]}"]
    lines += [f"  = {note}" for note in d.notes]
    if d.help:
        lines.append(f"  help: {d.help}")
    return "\n".join(lines)


def as_json(diagnostic: Diagnostic) -> dict[str, object]:
    d = diagnostic
    return {
        "path": d.path,
        "line": d.span.line,
        "column": d.span.column,
        "length": d.span.length,
        "severity": d.severity,
        "code": d.code,
        "message": d.message,
        "notes": list(d.notes),
        "help": d.help,
    }


def from_json(data: Mapping[str, Any]) -> Diagnostic:
    """The diagnostic that `as_json` made data of."""
    span = Span(data["line"], data["column"], data["length"])
    where = (span, data["path"], data["severity"])
    return Diagnostic(data["code"], data["message"], *where, notes=tuple(data["notes"]), help=data["help"])
