"""Diagnostics in SARIF 2.1.0 (OASIS), which code scanning services and editors read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from cutegen.language.diagnostics import Diagnostic
from cutegen.lint import page
from cutegen.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(diagnostics: Sequence[Diagnostic]) -> dict[str, Any]:
    """A log of one run: the codes that were found, each with its page, and the diagnostics in their order.

    Paths are those that diagnostics show, relative to the current folder where they lie under it. Columns count
    characters from 1, and an end is the first column behind.
    """
    codes = sorted({d.code for d in diagnostics})
    driver = {"name": "cutegen", "semanticVersion": __version__, "rules": [_rule(code) for code in codes]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(d, codes.index(d.code)) for d in diagnostics],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    found = page.read(code)
    return {
        "id": code,
        "shortDescription": {"text": found.title},
        "fullDescription": {"text": " ".join(found.text.split("\n\n")[1].split())},  # behind the title
        "help": {"text": found.text, "markdown": found.text},
        "defaultConfiguration": {"level": found.severity},
    }


def _result(diagnostic: Diagnostic, rule: int) -> dict[str, Any]:
    d = diagnostic
    region = {"startLine": d.span.line, "startColumn": d.span.column, "endColumn": d.span.column + d.span.length}
    text = "\n".join([d.message, *d.notes, *([f"help: {d.help}"] if d.help else [])])
    return {
        "ruleId": d.code,
        "ruleIndex": rule,
        "level": d.severity,
        "message": {"text": text},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": quote(d.path)}, "region": region}}],
    }
