"""The verb `cutegen init`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cutegen.cli.common import print_json, with_format
from cutegen.exits import OK


class Looked(click.ParamType):  # type: ignore[type-arg, unused-ignore]  # generic since click 8.4
    """A choice of what is looked up when it is needed: that takes its time."""

    name = "choice"

    def _choice(self) -> Any:
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self._choice().convert(value, param, ctx)

    def get_metavar(self, *where: Any, **more: Any) -> Any:
        return self._choice().get_metavar(*where, **more)

    def get_missing_message(self, *where: Any, **more: Any) -> Any:
        return self._choice().get_missing_message(*where, **more)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        return self._choice().shell_complete(ctx, param, incomplete)


class OpName(Looked):
    """A choice of the ops that have a starter."""

    def _choice(self) -> Any:
        from cutegen.registry import ops

        return click.Choice([op.name for op in ops() if op.starter])


class AtomName(Looked):
    """A choice of the mma atoms of all ops."""

    def _choice(self) -> Any:
        from cutegen.registry import families

        return click.Choice([atom for family in families() for atom in family.atoms])


@click.command()
@click.argument("name")
@click.option("--op", type=OpName(), required=True, help="Family of the kernel.")
@click.option(
    "--atom", type=AtomName(), help="For a gemm, the product's instruction: fma on CUDA cores, others on tensor cores."
)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="The file of the spec; by default specs/NAME.yaml."
)
@with_format
def init(name: str, op: str, atom: str | None, out: Path | None, form: str) -> None:
    """Write a complete starter spec, with the line that lets editors check it.

    JSON: {verb, ok, exit_code, spec, schema}.
    """
    from cutegen.project.paths import quoted, readable
    from cutegen.project.starter import write_starter

    starter = write_starter(name, op, out, atom)
    spec, schema = (readable(path.as_posix()) for path in (starter.spec, starter.schema))
    if form == "json":
        print_json({"verb": "init", "spec": spec, "schema": schema}, OK)
    else:
        click.echo(f"wrote {spec}, and {schema} for editors")
        click.echo(f"next: cutegen build {quoted(spec)}")
