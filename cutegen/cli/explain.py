"""`cutegen explain`."""

from __future__ import annotations

from pathlib import Path

import click

from cutegen.cli.common import gather_specs, print_json, select_specs, with_format
from cutegen.cli.guard import Refusal


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--kernel", metavar="NAME", help="Only this one of the spec's kernels.")
@with_format
def explain(spec: Path, kernel: str | None, form: str) -> None:
    """Print the spec with everything filled in that was inferred, and why. It builds to the same modules.

    JSON: {verb, spec, kernels: [{kernel, text, inferred: [{path, why}]}]}.
    """
    from cutegen.building.output import print_diagnostics
    from cutegen.language.writer import write_spec

    gathered = gather_specs(select_specs((spec,), None), form)
    units = [unit for unit in gathered.units if kernel in (None, unit.kernel)]
    if not units:
        known = [unit.kernel for unit in gathered.units]
        raise Refusal(
            f"there is no kernel `{kernel}` in {gathered.units[0].source.shown}", f"its kernels are {', '.join(known)}"
        )
    if form == "json":
        entries = [
            {
                "kernel": unit.kernel,
                "text": write_spec(unit.module.spec),
                "inferred": [{"path": list(path), "why": why} for path, why in unit.module.inferred.items()],
            }
            for unit in units
        ]
        print_json({"verb": "explain", "spec": units[0].source.shown, "kernels": entries})
        return
    print_diagnostics(gathered.diagnostics, gathered.texts)
    texts = []
    for unit in units:
        comments = {path: f"inferred: {why}" for path, why in unit.module.inferred.items()}
        texts.append(write_spec(unit.module.spec, comments))
    click.echo("---\n".join(texts), nl=False)
