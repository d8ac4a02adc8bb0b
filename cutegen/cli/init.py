"""`cutegen init`."""

from __future__ import annotations

from pathlib import Path

import click

from cutegen.cli.common import print_json, with_format
from cutegen.cli.guard import OK, Refusal


@click.command()
@click.argument("name")
@click.option("--op", type=click.Choice(["elementwise", "gemm", "probe"]), required=True, help="Family of the kernel.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="The spec; by default specs/NAME.yaml.")
@with_format
def init(name: str, op: str, out: Path | None, form: str) -> None:
    """Write a starter spec that builds as it is, with the line that lets editors check it.

    JSON: {verb, ok, exit_code, spec, schema}.
    """
    from cutegen.building.project import quoted, readable
    from cutegen.building.starter import StarterError, write_starter

    try:
        starter = write_starter(name, op, out)
    except StarterError as error:
        raise Refusal(str(error), error.help) from None
    spec, schema = (readable(path.as_posix()) for path in (starter.spec, starter.schema))
    if form == "json":
        print_json({"verb": "init", "spec": spec, "schema": schema}, OK)
    else:
        click.echo(f"wrote {spec}, and {schema} for editors")
        click.echo(f"next: cutegen build {quoted(spec)}")
