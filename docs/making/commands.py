"""The command line as a reference, from click: what `cutegen VERB --help` says, of every verb."""

from __future__ import annotations

import inspect

import click

from cutegen.cli import VERBS, cli


def verbs() -> str:
    """A section for every verb, in the order of the help."""
    return "\n".join(map(section, VERBS))


def section(verb: click.Command) -> str:
    """The description of one verb, and its flags."""
    # The group says how help is asked for, and click keeps a verb's help option once it is made.
    context = click.Context(verb, info_name=verb.name, parent=click.Context(cli, **cli.context_settings))
    usage = " ".join(verb.collect_usage_pieces(context))
    rows = [row for one in verb.get_params(context) if (row := one.get_help_record(context)) is not None and row[1]]
    lines = [f"### {verb.name}", "", "```text", f"cutegen {verb.name} {usage}", "```", ""]
    lines += [inspect.cleandoc(verb.help or ""), ""]
    lines += ["| option | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(says)} |" for name, says in rows]
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    """A help as a cell of a table."""
    return text.replace("|", "\\|").replace("[default: ", "[left out: ")
