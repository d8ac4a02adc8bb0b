"""Diagnostics as workflow commands, which GitHub Actions shows at the lines of a pull request."""

from __future__ import annotations

from cutegen.language.diagnostics import Diagnostic


def workflow_command(diagnostic: Diagnostic) -> str:
    """A diagnostic as `::error file=...,line=...,col=...,endColumn=...,title=CODE::message`.

    Notes and help stand in lines of their own. The end column is the first one after the place. Escapes are those of
    actions/toolkit, `core/src/command.ts`.
    """
    d = diagnostic
    properties = {
        "file": d.path,
        "line": d.span.line,
        "col": d.span.column,
        "endColumn": d.span.column + d.span.length,
        "title": d.code,
    }
    fields = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in properties.items())
    text = "\n".join([d.message, *d.notes, *([f"help: {d.help}"] if d.help else [])])
    level = "notice" if d.severity == "note" else d.severity
    return f"::{level} {fields}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":  # the percent sign first: it begins the escapes
        text = text.replace(character, f"%{ord(character):02X}")
    return text
