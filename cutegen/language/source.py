"""Where a spec came from: the places of its keys and values in a text, at which diagnostics point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cutegen.language.diagnostics import START, Diagnostic, Severity, Span
from cutegen.language.kinds import Path


@dataclass(frozen=True)
class Source:
    """Where a spec came from: its text's path (as shown to people) and the place of every key and value.

    `keys` and `values` map a path into the document, `("tensors", "A", "align")`, to a place.
    """

    path: str = "<spec>"
    keys: Mapping[Path, Span] = field(default_factory=dict)
    values: Mapping[Path, Span] = field(default_factory=dict)

    def at(self, *path: str | int, key: bool = False) -> Span:
        """The place of a value (or of its key); of the nearest enclosing one that was written, if it was left out."""
        if key and path in self.keys:
            return self.keys[path]
        while path:
            if path in self.values:
                return self.values[path]
            path = path[:-1]
            if path in self.keys:  # point at the key of what encloses it, not at its whole block
                return self.keys[path]
        return START

    def diagnostic(
        self,
        code: str,
        message: str,
        *path: str | int,
        key: bool = False,
        span: Span | None = None,
        severity: Severity = "error",
        notes: tuple[str, ...] = (),
        help: str | None = None,
    ) -> Diagnostic:
        return Diagnostic(code, message, span or self.at(*path, key=key), self.path, severity, notes, help)
