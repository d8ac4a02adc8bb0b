"""Holds an artefact to what its spec expects of it.

A key of `expect.sass` without a wildcard names a mnemonic or its beginning up to a dot: `FFMA` counts `FFMA` and
`FFMA.FTZ` (not `FFMA2`), `LDG.E.128` counts also `LDG.E.128.CONSTANT`. A key with `*`, `?` or `[...]` is a
case-sensitive glob over the whole mnemonic: `LDGSTS*.128`; and so `LDG.[E]` counts the 32-bit `LDG.E` alone.
"""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cutegen.compiling.artefact import Artefact, mnemonics

if TYPE_CHECKING:
    from cutegen.language.model import Count, Expect

_NEAREST = 6


@dataclass(frozen=True)
class ExpectationFailure:
    """One expectation that does not hold, or that could not be judged (`found` says so)."""

    kernel: str
    target: str
    path: tuple[str, ...]  # in the spec: ("expect", "sass", "LDG.E.128")
    wanted: str
    found: str
    hint: str = ""

    @property
    def key(self) -> str:
        return ".".join(self.path[:2]) + "".join(f"[{part!r}]" for part in self.path[2:])

    def __str__(self) -> str:
        line = f"{self.kernel} on {self.target}: {self.key}: wanted {self.wanted}, found {self.found}"
        return f"{line}\n  {self.hint}" if self.hint else line


def check(expect: Expect, artefact: Artefact) -> list[ExpectationFailure]:
    """Every expectation that does not hold, in the spec's order; empty when all do."""
    failures: list[ExpectationFailure] = []
    why = "; ".join(artefact.missing) or "not in the artefact"

    def fail(path: tuple[str, ...], wanted: Count, found: str, hint: str = "") -> None:
        failures.append(
            ExpectationFailure(artefact.kernel, artefact.target, ("expect", *path), str(wanted), found, hint)
        )

    resources = artefact.resources
    if expect.spills is not None:
        if resources.spill_stores is None or resources.spill_loads is None:
            fail(("spills",), expect.spills, f"nothing to judge by ({why})")
        elif not expect.spills.holds(total := resources.spill_stores + resources.spill_loads):
            parts = f"{resources.spill_stores} stored, {resources.spill_loads} loaded"
            fail(("spills",), expect.spills, f"{total} bytes a thread ({parts})", _spill_hint(artefact))
    if expect.registers is not None:
        if resources.registers is None:
            fail(("registers",), expect.registers, f"nothing to judge by ({why})")
        elif not expect.registers.holds(resources.registers):
            fail(("registers",), expect.registers, f"{resources.registers} a thread")
    if not expect.sass:
        return failures
    if artefact.sass is None:
        for pattern, wanted in expect.sass.items():
            fail(("sass", pattern), wanted, f"nothing to judge by ({why})")
        return failures
    counts = mnemonics(artefact.sass)
    for pattern, wanted in expect.sass.items():
        matched = Counter({name: count for name, count in counts.items() if matches(pattern, name)})
        if not wanted.holds(total := sum(matched.values())):
            fail(("sass", pattern), wanted, _listing(total, matched), _nearest_hint(pattern, counts - matched))
    return failures


def matches(pattern: str, mnemonic: str) -> bool:
    """Whether a key of `expect.sass` counts this mnemonic (the rule is at the top of this file)."""
    if any(character in pattern for character in "*?["):
        return fnmatchcase(mnemonic, pattern)
    return mnemonic == pattern or mnemonic.startswith(pattern + ".")


def nearest(pattern: str, counts: Counter[str]) -> list[tuple[str, int]]:
    """The mnemonics that the writer of `pattern` may have meant: of the same opcode, else similarly spelt."""
    opcode = pattern.partition(".")[0].rstrip("*?")
    same = Counter({name: n for name, n in counts.items() if opcode and name.partition(".")[0].startswith(opcode)})
    if same:
        return same.most_common(_NEAREST)
    names = difflib.get_close_matches(pattern.replace("*", ""), sorted(counts), n=_NEAREST, cutoff=0.5)
    return [(name, counts[name]) for name in names]


def _listing(total: int, matched: Counter[str]) -> str:
    if len(matched) < 2 and total == sum(matched.values()):
        return str(total)
    return f"{total} ({_names(matched.most_common(_NEAREST))})"


def _names(counted: list[tuple[str, int]]) -> str:
    return ", ".join(f"{name} x {count}" for name, count in counted)


def _nearest_hint(pattern: str, others: Counter[str]) -> str:
    close = nearest(pattern, others)
    if close:
        return f"nearest in the SASS: {_names(close)}"
    return f"nothing like it in the SASS, which has mostly {_names(others.most_common(_NEAREST))}" if others else ""


def _spill_hint(artefact: Artefact) -> str:
    registers = artefact.resources.registers
    if registers is None:
        return ""
    return f"the kernel has {registers} registers a thread; a smaller tile or more threads would give each less to hold"
