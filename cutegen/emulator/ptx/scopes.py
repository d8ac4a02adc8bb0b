"""Scopes of names in the body of a kernel or a function: a pair of braces, and the braces around it."""

from __future__ import annotations

from dataclasses import dataclass, field

from cutegen.emulator.ptx.model import Register, Symbol, Vector


@dataclass
class Scope:
    """The names that are declared between a pair of braces.

    `number` tells scopes apart; 0 is that of the body itself. `names` are registers, vectors of these, and variables;
    `labels` maps each label to a name that is unique in the body.
    """

    number: int
    parent: Scope | None
    names: dict[str, Register | Symbol | Vector] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def find(self, name: str) -> Register | Symbol | Vector | None:
        """The register, vector or symbol that a name denotes, declared in this scope or one around it; else None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def label(self, name: str) -> str | None:
        """The unique name of a label that is seen from this scope, or None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return None
