"""The verb `cutegen grad`."""

from __future__ import annotations

from pathlib import Path

import click

from cutegen.cli.common import SpecPath, gather_specs, print_json, select_specs, with_format
from cutegen.cli.guard import Refusal
from cutegen.exits import OK


@click.command()
@click.argument("spec", type=SpecPath())
@click.option("--wrt", metavar="X,W", help="Tensors whose gradients are computed; by default all float inputs.")
@click.option(
    "--of", "of_outputs", metavar="Y", help="Outputs whose gradients are given; by default all float outputs."
)
@click.option("--kernel", metavar="NAME", help="Only this kernel of the spec.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file to write: a new one, or an unedited one that grad wrote; by default stdout.",
)
@with_format
def grad(spec: Path, wrt: str | None, of_outputs: str | None, kernel: str | None, out: Path | None, form: str) -> None:
    """Write the spec of a kernel's backward: the statements of `compute`, differentiated symbolically.

    The backward of a contraction, such as attention, is several kernels in one file: the gradients by its left and by
    its right factors, and before them the values of rows that these need.

    It reads dY for every output Y, and writes dX for every input X, summed along the modes along which X broadcasts. It
    reads outputs of the forward instead of computing them again if that saves a reduction, a function or bytes; 16-bit
    outputs only where torch does the same. With --of, the other outputs are saved for the backward only, like the rstd
    of a norm.

    JSON: {verb, ok, exit_code, spec, diagnostics, kernels: [{kernel, of, text, without, refused}], written}; `without`
    lists float tensors without a gradient; `refused` gives, by name, why no kernel can compute a gradient.
    """
    from cutegen.console import print_diagnostics
    from cutegen.differentiation import buildable
    from cutegen.language.diagnostics import as_json
    from cutegen.language.reader import read_specs
    from cutegen.language.writer import write_spec
    from cutegen.project.paths import quoted, readable, shown
    from cutegen.project.rewriting import write_again
    from cutegen.project.starter import check_yaml

    if spec.is_dir():
        raise Refusal(f"{spec} is a folder", "differentiate one spec at a time")
    if out is not None:
        check_yaml(out)
    asked = shown(spec)
    selection = select_specs((spec,), None)
    gathered = gather_specs(selection, form, gradients=False, spec=asked, kernels=[], written=None)
    found = read_specs(gathered.texts[gathered.units[0].source.shown])  # as it is written, without what is inferred
    forwards = [forward for forward in found if kernel in (None, forward.kernel)]
    if not forwards:
        names = ", ".join(forward.kernel for forward in found)
        raise Refusal(f"there is no kernel `{kernel}` in {asked}", f"its kernels are {names}")
    found_backwards = [buildable(forward, _names(wrt), _names(of_outputs)) for forward in forwards]
    made = [(of, one, spec) for of, one in zip(forwards, found_backwards, strict=True) for spec in one.made.specs]
    texts = [write_spec(spec) for _, _, spec in made]
    whole = "---\n".join(texts)
    if out is not None:
        write_again(out, whole)
    written = None if out is None else readable(out.as_posix())
    if form == "json":
        kernels = [
            {
                "kernel": spec.kernel,
                "of": forward.kernel,
                "text": text,
                "without": list(one.made.without),
                "refused": {name: as_json(why) for name, why in one.refused.items()},
            }
            for (forward, one, spec), text in zip(made, texts, strict=True)
        ]
        diagnostics = [as_json(d) for d in gathered.diagnostics]
        said = {"verb": "grad", "spec": asked, "diagnostics": diagnostics, "kernels": kernels, "written": written}
        print_json(said, OK)
        return
    print_diagnostics(gathered.diagnostics, gathered.texts)
    for one in found_backwards:
        for name in one.made.without:
            said_of = "`{}` has no gradient: nothing that is written changes with it smoothly"
            if name in one.made.summed:
                said_of = "the gradient of `{}` is left out: it adds up what is read several times"
            click.echo(f"note: {said_of.format(name)}", err=True)
        for name, why in one.refused.items():
            click.echo(f"note: the gradient of `{name}` is left out: {why.code}, {why.message}", err=True)
    if written is None:
        click.echo(whole, nl=False)
    else:
        click.echo(f"wrote {written}\nnext: cutegen build {quoted(written)}")


def _names(text: str | None) -> list[str]:
    """The names of a list as `X,W`. Raises Refusal for an empty one."""
    if text is None:
        return []
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise Refusal(f"`{text}` is not a list of names", "write it as `X,W`")
    return names
