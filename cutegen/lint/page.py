"""The page of every code, which explains it: what is wrong, why that matters, a spec that has it and one that has not.

A page is Markdown. Its first line is `# CODE: title`; a block that is fenced as `yaml bad`, or as `sh bad` where the
file is one that no page can show, holds what the code is said about, and one fenced as `yaml good` the same mended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

from cutegen.language.diagnostics import Severity
from cutegen.lint import ALL_RULES
from cutegen.lint.rule import Kind

_FOLDER = files("cutegen.lint").joinpath("pages")
_TITLE = re.compile(r"# (CG[0-9]{3}): (.+)")
_BLOCK = re.compile(r"^```(yaml|sh) (bad|good)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Page:
    code: str
    title: str
    severity: Severity
    kind: Kind
    text: str  # all of it
    bad: str  # a spec, or shell commands that write a `spec.yaml`
    is_shell: bool
    good: str


def codes() -> tuple[str, ...]:
    """Every code that has a page, in order: all that cutegen can say."""
    return tuple(sorted(file.name.removesuffix(".md") for file in _FOLDER.iterdir() if file.name.endswith(".md")))


def read(code: str) -> Page:
    """The page of one of `codes()`. Raises ValueError for a file that does not have the form of a page."""
    text = _FOLDER.joinpath(f"{code}.md").read_text(encoding="utf-8")
    title = _TITLE.match(text)
    blocks = {match[2]: match for match in _BLOCK.finditer(text)}
    if title is None or title[1] != code or blocks.keys() != {"bad", "good"}:
        raise ValueError(f"the page of {code} needs `# {code}: title` as its first line, a bad block and a good one")
    bad, rule = blocks["bad"], next((rule for rule in ALL_RULES if rule.code == code), None)
    return Page(
        code=code,
        title=title[2],
        severity=rule.severity if rule else "error",
        kind=rule.kind if rule else "correctness",
        text=text,
        bad=bad[3],
        is_shell=bad[1] == "sh",
        good=blocks["good"][3],
    )
