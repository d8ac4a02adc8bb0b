"""The verb `cutegen schema`."""

from __future__ import annotations

import click

from cutegen.cli.common import with_format


@click.command()
@with_format
def schema(form: str) -> None:
    """Print the JSON Schema (draft 7) of the language, for editors. Both formats are the same JSON."""
    from cutegen.language.schema import schema_text

    click.echo(schema_text(), nl=False)
