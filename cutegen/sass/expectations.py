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

from cutegen.compiling.artefact import Artefact, mnemonics, with_sass
from cutegen.sass.banks import OPCODE, bank_clashes
from cutegen.sass.instructions import parse

if TYPE_CHECKING:
    from cutegen.language.counts import Count
    from cutegen.language.model import Expect

_NEAREST = 6


@dataclass(frozen=True)
class Judgement:
    """One expectation and what was found. `holds` is False also where nothing could be judged; `found` says so then."""

    path: tuple[str, ...]  # in the spec: ("expect", "sass", "LDG.E.128")
    wanted: str
    found: str
    holds: bool
    hint: str = ""
    help: str = ""

    @property
    def key(self) -> str:
        """The key of the expectation: `registers`, `sass['LDG.E.128']`."""
        return self.path[1] + "".join(f"[{part!r}]" for part in self.path[2:])


@dataclass(frozen=True)
class ExpectationFailure:
    """One expectation that does not hold, or that could not be judged (`found` says so)."""

    kernel: str
    target: str
    path: tuple[str, ...]  # in the spec: ("expect", "sass", "LDG.E.128")
    wanted: str
    found: str
    hint: str = ""
    help: str = ""

    @property
    def key(self) -> str:
        return ".".join(self.path[:2]) + "".join(f"[{part!r}]" for part in self.path[2:])

    def __str__(self) -> str:
        line = f"{self.kernel} on {self.target}: {self.key}: wanted {self.wanted}, found {self.found}"
        return f"{line}\n  {self.hint}" if self.hint else line


def check(expect: Expect, artefact: Artefact) -> list[ExpectationFailure]:
    """Every expectation that does not hold, in the spec's order; empty when all do."""
    return [
        ExpectationFailure(artefact.kernel, artefact.target, j.path, j.wanted, j.found, j.hint, j.help)
        for j in judge(expect, artefact)
        if not j.holds
    ]


def reads_sass(expect: Expect) -> bool:
    """Whether these are judged by the SASS."""
    return bool(expect.sass) or expect.bank_clashes is not None


def judge(expect: Expect, artefact: Artefact) -> list[Judgement]:
    """Every expectation with what was found, in the spec's order."""
    if reads_sass(expect):
        artefact = with_sass(artefact)
    resources = artefact.resources
    unknown = f"nothing to judge by ({'; '.join(artefact.missing) or 'not in the artefact'})"
    judged: list[Judgement] = []

    def add(
        path: tuple[str, ...], wanted: Count, number: int | None, found: str, hint: str = "", help: str = ""
    ) -> None:
        holds = number is not None and wanted.holds(number)
        text = unknown if number is None else found
        silent = holds or number is None
        told = ("", "") if silent else (hint, help)
        judged.append(Judgement(("expect", *path), str(wanted), text, holds, *told))

    if expect.spills is not None:
        parts = (resources.spill_stores, resources.spill_loads)
        total = None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
        found = f"{total} bytes a thread ({parts[0]} stored, {parts[1]} loaded)"
        add(("spills",), expect.spills, total, found, _spill_hint(artefact))
    if expect.registers is not None:
        add(("registers",), expect.registers, resources.registers, f"{resources.registers} a thread")
    if expect.bank_clashes is not None:
        clashing = None if artefact.sass is None else bank_clashes(artefact.sass)
        number = None if clashing is None else clashing.clashes
        hint = f"an {OPCODE} with three registers of one bank takes a cycle more"
        add(
            ("bank_clashes",),
            expect.bank_clashes,
            number,
            str(clashing),
            hint,
            _clash_help(expect.bank_clashes, number),
        )
    if expect.sass:
        counts = None if artefact.sass is None else mnemonics(artefact.sass)
        for pattern, wanted in expect.sass.items():
            if counts is None:
                add(("sass", pattern), wanted, None, "")
                continue
            matched = Counter({name: count for name, count in counts.items() if matches(pattern, name)})
            found = _listing(pattern, matched) + _by_kernel(pattern, artefact.sass or "")
            add(("sass", pattern), wanted, sum(matched.values()), found, _nearest_hint(pattern, counts - matched))
    return judged


def matches(pattern: str, mnemonic: str) -> bool:
    """Whether a key of `expect.sass` counts this mnemonic (the rule is at the top of this file)."""
    if any(character in pattern for character in "*?["):
        return fnmatchcase(mnemonic, pattern)
    return mnemonic == pattern or mnemonic.startswith(pattern + ".")


def nearest(pattern: str, counts: Counter[str]) -> list[tuple[str, int]]:
    """The mnemonics that the writer of `pattern` may have meant: of the same opcode, else similarly spelt."""
    pattern = pattern.upper()  # which mnemonics are
    opcode = pattern.partition(".")[0].rstrip("*?")
    same = Counter({name: n for name, n in counts.items() if opcode and name.partition(".")[0].startswith(opcode)})
    if same:
        return same.most_common(_NEAREST)
    names = difflib.get_close_matches(pattern.replace("*", ""), sorted(counts), n=_NEAREST, cutoff=0.5)
    return [(name, counts[name]) for name in names]


def _listing(pattern: str, matched: Counter[str]) -> str:
    """The number that was found, and what it is the sum of where the pattern alone does not say that."""
    total = sum(matched.values())
    if not matched or list(matched) == [pattern]:
        return str(total)
    more = len(matched) - _NEAREST
    return f"{total} ({_names(matched.most_common(_NEAREST))}{f', and {more} more' if more > 0 else ''})"


def _by_kernel(pattern: str, sass: str) -> str:
    """How a count is made up where a module has several kernels; empty where it has one or nothing was found."""
    functions = parse(sass)
    counts = {
        function.name.removeprefix("kernel_cutlass_").partition("_kernel_")[0]: sum(
            matches(pattern, instruction.mnemonic) for instruction in function.instructions
        )
        for function in functions
    }
    if len(counts) < 2 or not any(counts.values()):
        return ""
    return f"; {', '.join(f'{number} in {name}' for name, number in counts.items())}"


def _names(counted: list[tuple[str, int]]) -> str:
    return ", ".join(f"{name} x {count}" for name, count in counted)


def _nearest_hint(pattern: str, others: Counter[str]) -> str:
    close = nearest(pattern, others)
    if close:
        return f"nearest in the SASS: {_names(close)}"
    return f"nothing like it in the SASS, which has mostly {_names(others.most_common(_NEAREST))}" if others else ""


def _clash_help(wanted: Count, clashes: int | None) -> str:
    """Advice against bank clashes; empty where there are not too many."""
    if clashes is None or clashes < wanted.number or wanted.relation not in ("==", "<", "<="):
        return ""
    return (
        "the compiler gives out registers: another layout of threads, or a tile that leaves it more of them, may end "
        f'the clashes; or write `bank_clashes: "<= {clashes}"`, the current number'
    )


def _spill_hint(artefact: Artefact) -> str:
    registers = artefact.resources.registers
    if registers is None:
        return ""
    return f"the kernel has {registers} registers a thread; a smaller tile or more threads would give each less to hold"
