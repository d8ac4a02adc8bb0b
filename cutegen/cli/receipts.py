"""The verb `cutegen receipts`."""

from __future__ import annotations

from pathlib import Path

import click

from cutegen.cli.common import gather_specs, print_json, select_specs, with_format, with_specs
from cutegen.cli.guard import Refusal
from cutegen.exits import FINDINGS, OK


@click.command()
@with_specs
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the modules, not ROOT/generated."
)
@click.option(
    "--into",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Write the table into FILE, between the comments `cutegen receipts` and `end of cutegen receipts`.",
)
@with_format
def receipts(specs: tuple[Path, ...], out: Path | None, into: Path | None, form: str) -> None:
    """Print the measured figures of the kernels, on all GPUs: a Markdown table of their receipts. It needs no GPU.

    Receipts of other code than the current kernels are left out and named; exit 1 if there are any.

    JSON: {verb, ok, exit_code, diagnostics, receipts: [{file, kernel, spec, code_hash, gpu, versions, verified,
    measured, limits}], left_out: [{file, kind, state, why, advice, spec}]}.
    """
    from cutegen.console import print_diagnostics, print_markdown
    from cutegen.project.paths import shown
    from cutegen.project.state import advice
    from cutegen.receipts.beside_modules import receipt_of, receipt_states, units_by_file
    from cutegen.receipts.receipt_text import as_json
    from cutegen.receipts.table import markdown
    from cutegen.verbs.building.output import states_json

    selection = select_specs(specs, out)
    gathered = gather_specs(selection, form, receipts=[], left_out=[])
    states = receipt_states(gathered.units, selection.scopes)
    made = units_by_file(states, gathered.units)
    left_out = [state for state in states if state.state != "current"]
    current = [(state, receipt_of(state)) for state in states if state.state == "current"]
    table = markdown([(made[state.path], receipt) for state, receipt in current])
    if into is not None:
        _write(into, table)
    code = FINDINGS if left_out else OK
    if form == "json":
        found = [{"file": shown(state.path), **as_json(receipt)} for state, receipt in current]
        said = states_json("receipts", left_out, gathered.units, gathered.diagnostics, diff=False)
        print_json(
            {"verb": "receipts", "diagnostics": said["diagnostics"], "receipts": found, "left_out": said["files"]}, code
        )
    else:
        print_diagnostics(gathered.diagnostics, gathered.texts)
        if into is None:
            print_markdown(table)
        for state in left_out:
            click.echo(f"{shown(state.path)} is left out: {state.state}: {state.why}", err=True)
            click.echo(f"  help: {advice(state, made.get(state.path))}", err=True)
    click.get_current_context().exit(code)


def _write(into: Path, table: str) -> None:
    """Puts the table into the file, which is replaced whole, or left alone where it holds the table already."""
    from cutegen.project.paths import shown
    from cutegen.project.write import write_all
    from cutegen.receipts.table import END, START, put_into

    path = into.resolve()  # a link stays one
    old = path.read_bytes()
    try:
        new = put_into(old.decode(), table).encode()
    except UnicodeDecodeError:
        raise Refusal(f"{shown(into)} is not UTF-8") from None
    except ValueError as error:
        raise Refusal(f"{shown(into)}: {error}", f"write `{START}` and `{END}` where the table is to stand") from None
    if new != old:
        write_all({path: new})
    click.echo(f"{shown(into)} {'written' if new != old else 'unchanged'}", err=True)
