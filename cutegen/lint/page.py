"""The page of every code, which explains it: what is wrong, why that matters, a spec that has it and one that has not.

A page stands with whoever says its code: in the folder `pages` of a family, of what several families share, or of lint
for what the language and a build say. It is Markdown. Its first line is `# CODE: title`, which is the one place for a
code's title; a block that is fenced as `yaml bad`, or as `sh bad` where the file is one that no page can show, holds
what the code is said about, and one fenced as `yaml good` the same mended. Where no spec is known to have the problem,
`text bad` holds what would be said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Literal, cast

from cutegen import registry
from cutegen.language.diagnostics import Severity
from cutegen.lint import all_note_rules, all_performance_rules, all_rules
from cutegen.lint.contract import CONTRACT
from cutegen.lint.rule import Kind, NoteRule, PerformanceRule, Rule

if TYPE_CHECKING:
    from importlib.abc import Traversable

_BUILT = "CG4"  # what codes begin with that only a build says
_TITLE = re.compile(r"# (CG[0-9]{3}): (.+)")
_BLOCK = re.compile(r"^```(yaml|sh|text) (bad|good)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Page:
    code: str
    title: str
    severity: Severity
    kind: Kind
    text: str  # all of it
    bad: str  # a spec, shell commands that write a `spec.yaml`, or what is said
    kind_of_bad: Literal["yaml", "sh", "text"]
    good: str


def folders() -> tuple[Traversable, ...]:
    """The folders of pages: lint's, those of the families, and that of what families share."""
    found = [files("cutegen.lint"), *registry.folders()]
    return tuple(pages for folder in found if (pages := folder.joinpath("pages")).is_dir())


def files_of_pages() -> tuple[Traversable, ...]:
    """The file of every page, folder by folder; no two have one name."""
    return tuple(file for folder in folders() for file in folder.iterdir() if file.name.endswith(".md"))


def codes() -> tuple[str, ...]:
    """Every code that has a page, in order: all that cutegen can say."""
    return tuple(sorted(file.name.removesuffix(".md") for file in files_of_pages()))


def codes_of_lint() -> tuple[str, ...]:
    """The codes that are reported without compiling or running anything."""
    return tuple(code for code in codes() if not code.startswith(_BUILT))


def read(code: str) -> Page:
    """The page of one of `codes()`. Raises ValueError for a file that does not have the form of a page, and for a code
    that has several: a family that was added says what is another one's.
    """
    found = [file for file in files_of_pages() if file.name == f"{code}.md"]
    if len(found) > 1:
        raise ValueError(f"{code} has {len(found)} pages, {', '.join(map(str, found))}: each code has one that says it")
    text = found[0].read_text(encoding="utf-8")
    title = _TITLE.match(text)
    blocks = {match[2]: match for match in _BLOCK.finditer(text)}
    if title is None or title[1] != code or blocks.keys() != {"bad", "good"}:
        raise ValueError(f"the page of {code} needs `# {code}: title` as its first line, a bad block and a good one")
    rules: tuple[Rule | PerformanceRule | NoteRule, ...] = (*all_rules(), *all_performance_rules(), *all_note_rules())
    severity: Severity = "note" if code in CONTRACT else "error"
    bad, rule = blocks["bad"], next((rule for rule in rules if rule.code == code), None)
    return Page(
        code=code,
        title=title[2],
        severity=rule.severity if rule else severity,
        kind=rule.kind if rule else "correctness",
        text=text,
        bad=bad[3],
        kind_of_bad=cast(Literal["yaml", "sh", "text"], bad[1]),
        good=blocks["good"][3],
    )
