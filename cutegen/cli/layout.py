"""The verb `cutegen layout`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cutegen.cli.common import with_format
from cutegen.cli.guard import Refusal
from cutegen.exits import BROKEN, OK

if TYPE_CHECKING:
    from cutegen.algebra import AlgebraError


class _WithFunctions(click.Command):
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the functions of layout algebra, from where they are registered, at the end of the help."""
        from cutegen.algebra import functions_by_group

        for group, functions in functions_by_group().items():
            with formatter.section(group.capitalize()):
                formatter.write_dl(functions)


@click.command(cls=_WithFunctions)
@click.argument("expression", metavar="EXPR")
@click.option("--threads", is_flag=True, help="List the elements of each thread of a layout (thread, value).")
@with_format
def layout(expression: str, threads: bool, form: str) -> None:
    """Compute layout algebra as CuTe does, with the steps of the derivation.

    \b
      cutegen layout 'zipped_divide((16,32):(32,1), (2,4))'
      cutegen layout 'divide((16,32):(32,1), (2,4))'           all four divides
      cutegen layout 'make_layout_tv((4,32):(32,1), (4,4):(4,1))'
      cutegen layout '((2,2),(2,3)):((2,12),(1,4))' --threads
      cutegen layout 'S<3,4,3> o (8,64):(64,1)'

    Layouts are written as CuTe prints them, (4,8):(8,1); without strides, the first mode is fastest. Calls nest, and
    take parameter names. L((1,_)) slices, L((1,2)) gives an offset, L[0] a mode. An expression for which CuTeDSL
    returns a wrong layout is an error; a note names a layout that is extended past its end.

    JSON: {verb, ok, exit_code, expression, result: {kind, text, shape, stride, size, cosize, injective, surjective},
    notes, steps: [{expression, value, why, depth}]}, with --threads also threads: {count, values, offsets};
    of a wrong expression {verb, ok, exit_code, expression, error, offset, length, help}.
    """
    import json

    from cutegen.algebra import AlgebraError, evaluate, show

    try:
        evaluation = evaluate(expression)
        found = show.thread_offsets(evaluation.value) if threads else None
    except AlgebraError as error:
        if form == "json":
            click.echo(json.dumps(_error_json(expression, error), indent=2))
        raise Refusal(show.error_text(expression, error), error.help, told=form == "json") from None
    if form == "json":
        data = {"verb": "layout", "ok": True, "exit_code": OK, **show.as_json(evaluation)}
        if found is not None:
            data["threads"] = dict(zip(("count", "values", "offsets"), found, strict=True))
        click.echo(json.dumps(data, indent=2))
        return
    import shutil

    width, height = shutil.get_terminal_size((120, 40))
    lines = show.text(evaluation, width, height - 8, grid=not threads)
    if threads:
        lines += ["", *show.threads_text(evaluation.value, width, height - 8)]
    click.echo("\n".join(lines))


def _error_json(expression: str, error: AlgebraError) -> dict[str, object]:
    return {
        "verb": "layout",
        "ok": False,
        "exit_code": BROKEN,
        "expression": expression,
        "error": error.message,
        "offset": error.offset,
        "length": error.length,
        "help": error.help,
    }
