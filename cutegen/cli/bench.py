"""The verb `cutegen bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cutegen.cli.common import gather_specs, print_json, select_specs, with_format, with_specs
from cutegen.cli.guard import Refusal
from cutegen.exits import BROKEN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cutegen.measuring.model import L2
    from cutegen.measuring.shape_files import Listed
    from cutegen.project.sources import Unit
    from cutegen.verbs.benching.bench import BenchReport
    from cutegen.verbs.benching.sweep import Swept

PICTURES = (".svg", ".png")


@click.command()
@with_specs
@click.option("--on", type=click.Choice(["gpu"]), default="gpu", show_default=True, help="Where the kernels run.")
@click.option("--device", type=click.IntRange(0, 255), default=0, show_default=True, help="Index of the GPU.")
@click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Only this kernel; may be repeated.")
@click.option(
    "--sizes", multiple=True, metavar="M=..,N=..", help="Sizes of all modes, instead of the spec's; may be repeated."
)
@click.option(
    "--sweep", metavar="FILE|M=1024..16384[:STEP]",
    help="Shapes of a file, one per line, and their geometric mean; or a curve over one mode or several: M=N=K=..."
)  # fmt: skip
@click.option(
    "--l2",
    type=click.Choice(["cold", "warm"]),
    default="cold",
    show_default=True,
    help="State of the L2 cache before a call.",
)
@click.option("--rounds", type=click.IntRange(5, 10000), help="Rounds of timing.  [30; 12 for a file of shapes]")
@click.option(
    "--vs", multiple=True, metavar="MODULE:FUNCTION",
    help="Your own peer, with the kernel's signature; or FILE.py:FUNCTION."
)  # fmt: skip
@click.option(
    "-o", "--out", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
    help="Draw a roofline, or the sweep, as FILE.svg or FILE.png.",
)  # fmt: skip
@click.option("--receipts", is_flag=True, help="Keep the figures in receipts beside the modules.")
@with_format
def bench(
    specs: tuple[Path, ...],
    on: str,
    device: int,
    kernels: tuple[str, ...],
    sizes: tuple[str, ...],
    sweep: str | None,
    l2: L2,
    rounds: int | None,
    vs: tuple[str, ...],
    out: tuple[Path, ...],
    receipts: bool,
    form: str,
) -> None:
    """Measure kernels on a GPU, side by side with torch and cuBLAS, and with quack and Liger if these are installed.

    All contenders run in turn on the same random data, short ones in CUDA graphs; every result is compared with the
    float64 reference. Figures that vary too much between rounds are not reported. Exit 1 for such a figure, and for a
    wrong result, also of a --vs function. Exit 2 if nothing could be measured.

    A file of shapes has one line for each, such as M=256, N=8192, K=8192, or a header M,N,K and lines of sizes. A shape
    applies to each kernel with these modes. Shapes that a kernel rejects are named, and the run continues.

    JSON: {verb, ok, exit_code, l2, rounds, seconds, spread_limit, machine, notes, problems, diagnostics, kernels,
    sweeps, written}; of a spec with errors {verb, ok, exit_code, diagnostics}.
    """
    from cutegen.console import make_progress, print_diagnostics
    from cutegen.measuring.model import ROUNDS, SWEEP_ROUNDS
    from cutegen.verbs.benching.bench import BenchOptions, run_bench
    from cutegen.verbs.benching.output import bench_json, print_bench
    from cutegen.verbs.benching.sweep import swept
    from cutegen.verification import gpu_missing

    for path in out:
        if path.suffix not in PICTURES:
            raise click.UsageError(f"-o: `{path.name}` ends neither in {' nor in '.join(PICTURES)}")
    if sweep is not None and sizes:
        raise click.UsageError("--sweep has its sizes; it takes no --sizes")
    gathered = gather_specs(select_specs(specs, None), form)
    units = _chosen(gathered.units, kernels)
    listed: list[Listed] = []
    if sweep is None or _is_curve(sweep):
        shapes = [_shapes(unit, sizes, sweep) for unit in units]
    else:
        units, listed = _listed(units, Path(sweep))
        shapes = [one.shapes for one in listed]
    default = SWEEP_ROUNDS if listed else ROUNDS
    options = BenchOptions(device, l2, rounds or default, tuple(map(_absolute, vs)), bool(listed), receipts)
    reason = gpu_missing()
    if reason is not None:
        raise Refusal(f"nothing was measured: {reason}", "run it where there is a CUDA GPU")
    report = run_bench(units, shapes, options, make_progress())
    sweeps = [swept(benched, one, report.machine) for benched, one in zip(report.kernels, listed, strict=False)]
    written = [*_draw(report, sweep, sweeps, out), *report.receipts]
    code = report.exit_code
    if form == "json":
        print_json(bench_json(report, options, gathered.diagnostics, written, sweeps), code)
    else:
        print_diagnostics(gathered.diagnostics, gathered.texts)
        print_bench(report, options, sweeps)
        for name in written:
            click.echo(f"wrote {name}")
    if code == BROKEN:
        failures = [failure for _, failure in report.failures]
        raise Refusal(f"something was not measured: {failures[0].message if failures else 'no kernel'}", told=True)
    click.get_current_context().exit(code)


def _chosen(units: Sequence[Unit], names: tuple[str, ...]) -> list[Unit]:
    """The units of the given names, by default all; units of an op that has nothing to be fast at are left out."""
    known = [unit.kernel for unit in units]
    for name in names:
        if name not in known:
            raise Refusal(f"there is no kernel `{name}`", f"there are {', '.join(known)}")
    named = [unit for unit in units if not names or unit.kernel in names]
    from cutegen.measuring.asked import op_of

    chosen = [unit for unit in named if op_of(unit.module.spec).unmeasured is None]
    if not chosen:
        ops = dict.fromkeys(unit.module.spec.op for unit in named)
        raise Refusal("there is nothing to measure", f"a {' or a '.join(ops)} has nothing to be fast at")
    return chosen


def _shapes(unit: Unit, sizes: tuple[str, ...], sweep: str | None) -> Sequence[Mapping[str, int]]:
    from cutegen.measuring.shapes import ShapeError, parse_sizes, parse_sweep, shapes_of, sweep_shapes

    spec = unit.module.spec
    option = "--sizes" if sizes else "--sweep"
    try:
        if sweep is not None:
            return sweep_shapes(parse_sweep(sweep), spec)
        return [parse_sizes(text, spec) for text in sizes] if sizes else shapes_of(spec)
    except ShapeError as error:
        raise Refusal(f"{option}: {error}", error.help) from None


def _is_curve(sweep: str) -> bool:
    """Whether `--sweep` names modes and sizes, and no file."""
    return "=" in sweep and not Path(sweep).exists()


def _listed(units: Sequence[Unit], path: Path) -> tuple[list[Unit], list[Listed]]:
    """The kernels that shapes of a file are for, each with its shapes; tells what is left out. Raises Refusal."""
    from cutegen.measuring.shape_files import list_shapes
    from cutegen.measuring.shapes import ShapeError
    from cutegen.project.paths import shown

    where = shown(path)
    try:
        found = list_shapes(path, where, [unit.module.spec for unit in units])
    except ShapeError as error:
        raise Refusal(f"--sweep: {error}", error.help) from None
    fitting = [(unit, one) for unit, one in zip(units, found, strict=True) if one is not None and one.shapes]
    for line in dict.fromkeys(line for one in found if one is not None for line in one.repeated):
        click.echo(f"note: {line}", err=True)
    for unit, one in zip(units, found, strict=True):
        if one is None or not one.shapes:
            why = f"has the modes {', '.join(unit.module.spec.modes)}" if one is None else "refuses all its shapes"
            click.echo(f"note: no shape of {where} is for {unit.kernel}, which {why}", err=True)
    return [unit for unit, _ in fitting], [one for _, one in fitting]


def _absolute(place: str) -> str:
    """The name of a file's function with the file's whole path, since the worker runs in another folder."""
    where, colon, name = place.rpartition(":")
    if not colon or not where or not name:
        raise click.UsageError(f"--vs: `{place}` is not MODULE:FUNCTION or FILE.py:FUNCTION")
    if not where.endswith(".py"):
        return place
    if not Path(where).is_file():
        raise Refusal(f"--vs: there is no file {where}")
    return f"{Path(where).resolve()}:{name}"


def _draw(report: BenchReport, sweep: str | None, sweeps: Sequence[Swept], out: Sequence[Path]) -> list[str]:
    from cutegen.drawing.charts import render
    from cutegen.project.write import write_all
    from cutegen.verbs.benching.charts import curves, roofline
    from cutegen.verbs.benching.ratio_chart import is_curve, ratios

    if not out or not any(benched.result.measured for benched in report.kernels):
        return []
    if sweeps and not all(is_curve(one) for one in sweeps):
        chart = ratios(report, sweeps)
    else:
        chart = roofline(report) if sweep is None else curves(report)
    for path in out:
        path.parent.mkdir(parents=True, exist_ok=True)
    write_all({path: render(chart, path.suffix) for path in out})
    return [str(path) for path in out]
