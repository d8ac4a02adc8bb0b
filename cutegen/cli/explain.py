"""The verb `cutegen explain`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cutegen.cli.common import SpecPath, gather_specs, print_json, select_specs, with_format
from cutegen.cli.guard import Refusal

if TYPE_CHECKING:
    from cutegen.language.model import KernelSpec
    from cutegen.project.sources import Unit


@click.command()
@click.argument("spec", type=SpecPath(), metavar="SPEC|DIR")
@click.option("--kernel", metavar="NAME", help="Only this kernel.")
@click.option(
    "--sizes",
    multiple=True,
    metavar="M=..,N=..",
    help="Sizes of all modes, for a roofline and estimates; may be repeated.",
)
@click.option(
    "--multiprocessors",
    type=click.IntRange(min=1),
    metavar="N",
    help="Multiprocessors of the GPU for these estimates; by default 132, as on an H200.",
)
@click.option("--no-proof", is_flag=True, help="Only the spec.")
@with_format
def explain(
    spec: Path, kernel: str | None, sizes: tuple[str, ...], multiprocessors: int | None, no_proof: bool, form: str
) -> None:
    """Print the spec with all inferred fields and their reasons, then proofs about the kernel.

    For a folder, it prints each spec. The output is a spec that builds to the same modules; the proofs are in its
    comments. They cover: each element of a tile once, bounds, access widths, bank conflicts, sectors, shared memory,
    occupancy and, for given or fixed sizes, the roofline and the estimates by which a call chooses among kernels. Exit
    1 if a proof fails.

    JSON: {verb, ok, exit_code, spec, diagnostics, kernels: [{kernel, spec, text, inferred: [{path, why}], proof}]}; the
    outer spec is the argument.
    """
    from cutegen.analysis.proof import prove
    from cutegen.analysis.report_json import as_json
    from cutegen.analysis.report_text import as_lines
    from cutegen.console import print_diagnostics
    from cutegen.exits import FINDINGS, OK
    from cutegen.language.diagnostics import as_json as diagnostic_json
    from cutegen.language.writer import write_spec
    from cutegen.project.paths import shown

    if no_proof and sizes:
        raise click.UsageError("--sizes is for the proof, which --no-proof leaves out")
    if no_proof and multiprocessors is not None:
        raise click.UsageError("--multiprocessors is for the proof, which --no-proof leaves out")
    asked = shown(spec)
    gathered = gather_specs(select_specs((spec,), None), form, spec=asked, kernels=[])
    units = [unit for unit in gathered.units if kernel in (None, unit.kernel)]
    if not units:
        known = [unit.kernel for unit in gathered.units]
        raise Refusal(f"there is no kernel `{kernel}` in {asked}", f"its kernels are {', '.join(known)}")
    proofs = [None if no_proof else prove(unit.module.plan, _sizes_for(unit, sizes), multiprocessors) for unit in units]
    holds = all(proof is None or proof.holds for proof in proofs)
    if form == "json":
        entries = [
            {
                "kernel": unit.kernel,
                "spec": unit.source.shown,
                "text": write_spec(unit.module.spec),
                "inferred": [{"path": list(path), "why": why} for path, why in unit.module.inferred.items()],
                "proof": proof and as_json(proof),
            }
            for unit, proof in zip(units, proofs, strict=True)
        ]
        diagnostics = [diagnostic_json(d) for d in gathered.diagnostics]
        said = {"verb": "explain", "spec": asked, "diagnostics": diagnostics, "kernels": entries}
        print_json(said, OK if holds else FINDINGS)
    else:
        print_diagnostics(gathered.diagnostics, gathered.texts)
        texts = []
        for unit, proof in zip(units, proofs, strict=True):
            comments = {path: f"inferred: {why}" for path, why in unit.module.inferred.items()}
            lines = [] if proof is None else ["", *as_lines(proof)]
            texts.append(write_spec(unit.module.spec, comments) + "".join(f"# {x}".rstrip() + "\n" for x in lines))
        click.echo("---\n".join(texts), nl=False)
    click.get_current_context().exit(OK if holds else FINDINGS)


def _sizes_for(unit: Unit, given: tuple[str, ...]) -> list[Mapping[str, int]]:
    """The sizes that were asked for, with fixed ones filled in; else the fixed sizes, if all are. Raises Refusal."""
    spec = unit.module.spec
    if not given:
        return [spec.static] if set(spec.modes) <= set(spec.static) else []
    return [_parsed(text, spec) for text in given]


def _parsed(text: str, spec: KernelSpec) -> Mapping[str, int]:
    """The size of every mode, as `text` and the spec's fixed sizes give it. Raises Refusal."""
    from cutegen.measuring.shapes import ShapeError, parse_sizes

    try:
        return parse_sizes(text, spec)
    except ShapeError as error:
        raise Refusal(f"--sizes: {error}", error.help) from None
