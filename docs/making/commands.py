"""The command line as a reference, from click: what `cutegen VERB --help` says, of every verb."""

from __future__ import annotations

import inspect
import re

import click

from cutegen.cli import VERBS

_CODE = re.compile(r"(?<![`\w])(--[a-z0-9-]+|[A-Z_]{4,}|specs/\S+|generated/\S*|~/\S+)(?![`\w])")


def verbs() -> str:
    """A section for every verb, in the order of the help."""
    return "\n".join(map(section, VERBS))


def section(verb: click.Command) -> str:
    """What one verb does, and its flags."""
    context = click.Context(verb, info_name=f"cutegen {verb.name}")
    usage = " ".join(verb.collect_usage_pieces(context))
    rows = [row for one in verb.get_params(context) if (row := one.get_help_record(context)) is not None]
    lines = [f"### {verb.name} {{ #{verb.name} }}", "", "```text", f"cutegen {verb.name} {usage}", "```", ""]
    lines += [inspect.cleandoc(verb.help or ""), ""]
    lines += ["| option | what it says |", "|---|---|"]
    lines += [f"| {_code(name)} | {_cell(says)} |" for name, says in rows]
    return "\n".join([*lines, ""])


def _code(text: str) -> str:
    return f"`{_bars(text)}`"


def _cell(text: str) -> str:
    """A help as a cell of a table."""
    return _bars(text).replace("[default: ", "[left out: ")


def _bars(text: str) -> str:
    """A text that may stand in a table."""
    return text.replace("|", "\\|")
