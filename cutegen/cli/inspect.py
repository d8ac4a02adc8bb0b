"""The verb `cutegen inspect`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cutegen.cli.common import gather_specs, print_json, select_specs, with_format, with_jobs, with_specs
from cutegen.cli.guard import Refusal
from cutegen.exits import FINDINGS, OK

if TYPE_CHECKING:
    from cutegen.compiling import Cache, Job, Outcome
    from cutegen.project.sources import Gathered, Unit
    from cutegen.verbs.inspecting.comparing import Comparison
    from cutegen.verbs.inspecting.inspection import Inspection


@click.command()
@with_specs
@click.option("--kernel", metavar="NAME", help="Only this kernel.")
@click.option("--target", metavar="T", help="Only for this target.")
@click.option("--ptx", is_flag=True, help="Print the PTX; with --diff, its differences.")
@click.option("--sass", is_flag=True, help="Print the SASS; with --diff, its differences.")
@click.option(
    "--diff",
    "old",
    type=click.Path(path_type=Path),
    metavar="OLD",
    help="Print what changed since OLD: a spec, a generated module, or this verb's JSON.",
)
@click.option("--no-cache", is_flag=True, help="Compile everything again, and keep nothing.")
@with_jobs
@with_format
def inspect(
    specs: tuple[Path, ...],
    kernel: str | None,
    target: str | None,
    ptx: bool,
    sass: bool,
    old: Path | None,
    no_cache: bool,
    jobs: int | None,
    form: str,
) -> None:
    """Print registers, shared memory, spills, multiply-adds that read three registers of one bank, and instructions by
    kind of the compiled kernels.

    Instructions of the mainloop, the innermost loop that multiplies on tensor cores or else the longest one, are
    counted separately; so are those of each role in a warp-specialised gemm. It needs no GPU.

    Exit 1 if a kernel does not compile or an expectation of its spec fails.

    JSON: {verb, ok, exit_code, diagnostics, notices, kernels: [{kernel, spec, targets: [{target, resources,
    ptx_version, kernels, instructions, padding, kinds, loops, mainloop, roles, bank_clashes, expect, occupancy,
    missing, ptx?, sass?, diff?}]}]}.
    """  # fmt: skip
    from cutegen.compiling import Cache
    from cutegen.console import make_progress, print_diagnostics
    from cutegen.language.diagnostics import as_json
    from cutegen.verbs.building.compilation import compile_and_tell
    from cutegen.verbs.inspecting.inspection import inspect_unit, inspection_json

    gathered = gather_specs(select_specs(specs, None), form, notices=[], kernels=[])
    units = _chosen(gathered, kernel, target)
    cache = None if no_cache else Cache()
    try:
        compilations = compile_and_tell(units, make_progress(), workers=jobs, cache=cache, target=target, sass=True)
    except OSError as error:
        raise Refusal(f"no compiler process can run: {error}", code=FINDINGS) from None
    found = [inspect_unit(unit, c.outcomes) for unit, c in zip(units, compilations, strict=True)]
    compared: dict[tuple[str, str], tuple[Comparison, dict[str, str]]] = {}
    notices: list[str] = []
    if old is not None:
        wanted = [what for what, asked in (("ptx", ptx), ("sass", sass)) if asked]
        compared, notices = _against(old, [i for some in found for i in some], kernel, wanted, jobs, cache)
    notices += [cache.warning] if cache is not None and cache.warning else []
    found_wrong = [d for c in compilations for d in c.diagnostics]
    diagnostics, code = [*gathered.diagnostics, *found_wrong], FINDINGS if found_wrong else OK
    if form == "json":
        kernels = []
        for unit, inspections in zip(units, found, strict=True):
            targets = []
            for i in inspections:
                targets.append(inspection_json(i, ptx=ptx, sass=sass))
                if (i.kernel, i.target) in compared:
                    targets[-1]["diff"] = _diff_json(old, *compared[i.kernel, i.target])
            kernels.append({"kernel": unit.kernel, "spec": unit.source.shown, "targets": targets})
        said = {"diagnostics": [as_json(d) for d in diagnostics], "notices": notices}
        print_json({"verb": "inspect", "ok": code == OK, "exit_code": code, **said, "kernels": kernels})
    else:
        print_diagnostics(diagnostics, gathered.texts)
        for notice in notices:
            click.echo(f"note: {notice}", err=True)
        if old is not None:
            _print_comparisons(old, [*compared.values()])
        else:
            _print_inspections(units, found, ptx=ptx, sass=sass)
    click.get_current_context().exit(code)


def _chosen(gathered: Gathered, kernel: str | None, target: str | None) -> list[Unit]:
    """The units that were asked for. Refuses names that none of them has."""
    named = [unit for unit in gathered.units if kernel in (None, unit.kernel)]
    if not named:
        known = ", ".join(unit.kernel for unit in gathered.units)
        raise Refusal(f"there is no kernel `{kernel}` in these specs", f"their kernels are {known}")
    units = [unit for unit in named if target is None or target in unit.module.spec.targets]
    if not units:
        known = ", ".join(dict.fromkeys(t for unit in named for t in unit.module.spec.targets))
        raise Refusal(f"`{target}` is not a target of these kernels", f"their targets are {known}")
    return units


def _against(
    old: Path, new: list[Inspection], kernel: str | None, texts: list[str], jobs: int | None, cache: Cache | None
) -> tuple[dict[tuple[str, str], tuple[Comparison, dict[str, str]]], list[str]]:
    """Comparisons and the diffs of their texts, by kernel and target; and notices of what could not be compared."""
    from cutegen.console import print_diagnostics
    from cutegen.language.diagnostics import SpecError
    from cutegen.project.paths import shown
    from cutegen.verbs.inspecting.comparing import pair, read_old, text_diff

    if not new:  # nothing compiled: there is no more to print
        return {}, []
    name, targets = shown(old), list(dict.fromkeys(i.target for i in new))
    try:
        older = read_old(old, targets, kernel, lambda wanted: _compile_old(wanted, name, jobs, cache))
        comparisons, notices = pair(new, older, name)
        compared = {
            (c.new.kernel, c.new.target): (c, {what: text_diff(c.old, c.new, what, name) for what in texts})
            for c in comparisons
        }
    except SpecError as error:
        print_diagnostics(error.diagnostics, {})
        raise Refusal(f"{name} has errors") from None
    return compared, [*notices, *(why for c in comparisons for why in c.unknown)]


def _compile_old(wanted: Sequence[Job], name: str, jobs: int | None, cache: Cache | None) -> Sequence[Outcome]:
    from cutegen.compiling import compile_all
    from cutegen.console import make_progress

    fresh = [job for job in wanted if cache is None or cache.get(job) is None]
    progress = make_progress()
    if fresh:
        progress.start(f"compiling {name}", len(fresh))
    try:
        return compile_all(
            wanted,
            workers=jobs,
            cache=cache,
            on_done=lambda job, _: progress.step(f"done: {job.kernel} for {job.target}") if job in fresh else None,
        )
    finally:
        progress.stop()


def _diff_json(old: Path | None, comparison: Comparison, texts: dict[str, str]) -> dict[str, Any]:
    from cutegen.project.paths import shown
    from cutegen.verbs.inspecting.comparing import comparison_json

    assert old is not None
    return {"against": shown(old), **comparison_json(comparison), **texts}


def _print_comparisons(old: Path, compared: list[tuple[Comparison, dict[str, str]]]) -> None:
    from cutegen.project.paths import shown
    from cutegen.verbs.inspecting.comparing import print_comparison

    for number, (comparison, texts) in enumerate(compared):
        if texts:
            click.echo("".join(texts.values()), nl=False)
            continue
        click.echo("\n" * bool(number), nl=False)
        print_comparison(comparison, shown(old))


def _print_inspections(units: list[Unit], found: list[list[Inspection]], *, ptx: bool, sass: bool) -> None:
    from cutegen.verbs.inspecting.text import print_inspection

    first = True
    for unit, inspections in zip(units, found, strict=True):
        for inspection in inspections:
            texts = [text for text, asked in ((inspection.ptx, ptx), (inspection.sass, sass)) if asked]
            if texts:
                click.echo(f"// {inspection.kernel} for {inspection.target}")
                for text in texts:
                    click.echo(text.rstrip("\n") if text is not None else f"// {'; '.join(inspection.missing)}")
                continue
            click.echo("" if first else "\n", nl=False)
            first = False
            print_inspection(inspection, unit.source.shown)
