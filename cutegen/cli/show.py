"""The verb `cutegen show`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cutegen.cli.common import gather_specs, print_json, select_specs, with_format
from cutegen.cli.guard import Refusal
from cutegen.dtypes import Dtype
from cutegen.exits import OK

if TYPE_CHECKING:
    from cutegen.drawing.model import Figure
    from cutegen.project.sources import Unit

DTYPES = tuple(dtype.value for dtype in Dtype)
PAGE = ".html"
ROWS_OF_EACH = 16  # cells high on a terminal, where there are several pictures


@click.command()
@click.argument("subjects", nargs=-1, required=True, metavar="SPEC|DIR|LAYOUT [LAYOUT]")
@click.option("--tv", is_flag=True, help="The layout maps (thread, value) to a place in a tile.")
@click.option(
    "--tile", metavar="M,N", help="With --tv, the tile's shape in elements; by default inferred from the strides."
)
@click.option("--banks", type=click.Choice(DTYPES), help="Draw the shared-memory banks of elements of this type.")
@click.option("--kernel", metavar="NAME", help="Only this kernel of the spec.")
@click.option("--picture", "pictures", multiple=True, metavar="NAME", help="Only this picture of a kernel.")
@click.option(
    "-o", "--out", multiple=True, type=click.Path(path_type=Path), metavar="FILE|DIR",
    help="Write FILE.svg, .png, .txt, or .html (a kernel's page), or a page for each kernel into DIR.",
)  # fmt: skip
@with_format
def show(
    subjects: tuple[str, ...],
    tv: bool,
    tile: str | None,
    banks: str | None,
    kernel: str | None,
    pictures: tuple[str, ...],
    out: tuple[Path, ...],
    form: str,
) -> None:
    """Draw a kernel, all kernels of a folder, or a layout; by default on the terminal.

    A layout is any expression of layout algebra, as in `cutegen layout`. A cell is a coordinate and shows its offset;
    with --tv, a cell is an element of a tile and shows its thread and value. Two layouts are drawn as the copy from the
    first to the second.

    A kernel's pictures show its tiles on the grid, threads and values, copies, shared-memory banks and pipeline; for
    row kernels, the walks over rows and the steps of reductions; for warp-specialised gemms, roles over time, clusters,
    and shared memory with its swizzle. Its page shows them beside the generated code.

    JSON: {verb, ok, exit_code, pictures: [{kernel, name, title, remarks, legend, arrows, panels}], written}; for a spec
    with errors also its diagnostics.
    """
    from cutegen.drawing.data import as_json
    from cutegen.project.write import write_all

    if any(map(_is_spec, subjects)):
        if len(subjects) > 1 or tv or tile or banks:
            raise click.UsageError("a spec is drawn alone, and without --tv, --tile and --banks")
        drawn = _kernels(Path(subjects[0]), kernel, pictures, form)
    else:
        if kernel or pictures:
            raise click.UsageError("--kernel and --picture are for a spec")
        drawn = [(None, [_layouts(subjects, tv, tile, banks)])]
    files = _render(drawn, out)
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
    write_all(files)
    if form == "json":
        found = [{"kernel": unit and unit.kernel, **as_json(figure)} for unit, figures in drawn for figure in figures]
        written = [str(path) for path in files]
        print_json({"verb": "show", "ok": True, "exit_code": OK, "pictures": found, "written": written})
    elif out:
        for path in files:
            click.echo(f"wrote {path}")
    else:
        _print([figure for _, figures in drawn for figure in figures])


Drawn = list[tuple["Unit | None", list["Figure"]]]


def _is_spec(subject: str) -> bool:
    path = Path(subject)
    return os.sep in subject or path.suffix in (".yaml", ".yml") or os.path.lexists(path)


def _layouts(texts: Sequence[str], tv: bool, tile: str | None, banks: str | None) -> Figure:
    from cutegen.drawing.requests import draw_layouts
    from cutegen.dtypes import Dtype

    return draw_layouts(texts, threads=tv, tile=tile, element_bytes=Dtype(banks).bytes if banks else None)


def _kernels(path: Path, kernel: str | None, names: Sequence[str], form: str) -> Drawn:
    """The pictures of a spec's kernels; all, or those of some names. Ends the verb where the spec has an error."""
    from cutegen.console import print_diagnostics
    from cutegen.drawing.kernels import draw_kernel

    gathered = gather_specs(select_specs((path,), None), form, pictures=[], written=[])
    known = [unit.kernel for unit in gathered.units]
    if kernel is not None and kernel not in known:
        raise Refusal(f"there is no kernel `{kernel}` in {path}", f"its kernels are {', '.join(known)}")
    if form == "text":
        print_diagnostics(gathered.diagnostics, gathered.texts)
    drawn: Drawn = []
    for unit in gathered.units:
        if kernel not in (None, unit.kernel):
            continue
        figures = draw_kernel(unit.module.plan)
        missing = [name for name in names if name not in {figure.name for figure in figures}]
        if missing:
            its = _listed(figure.name for figure in figures)
            raise Refusal(f"{unit.kernel} has no picture `{missing[0]}`", f"its pictures are {its}")
        drawn.append((unit, [figure for figure in figures if not names or figure.name in names]))
    return drawn


def _render(drawn: Drawn, out: Sequence[Path]) -> dict[Path, bytes | None]:
    """The files to write. Raises Refusal where one cannot hold what was asked for."""
    from cutegen.drawing.files import KINDS, ONE_EACH, render

    figures = [figure for _, found in drawn for figure in found]
    files: dict[Path, bytes | None] = {}
    for path in out:
        kind = path.suffix.lower()
        if kind == PAGE or path.is_dir() or not kind:
            files |= _pages(drawn, path)
            continue
        if kind not in KINDS:
            raise Refusal(f"{path} does not end in {', '.join((*KINDS, PAGE))}", "the ending says what is drawn")
        if not figures:
            raise Refusal(f"{path} would hold no picture: its family draws none", f"end the file's name in {PAGE}")
        if kind in ONE_EACH and len(figures) > 1:
            names = _listed(figure.name for figure in figures)
            help = f"choose one with --picture ({names}) and --kernel, or end in {PAGE}"
            raise Refusal(f"{path} holds one picture, and there are {len(figures)}", help)
        files[path] = render(figures, kind)
    return files


def _listed(names: Iterable[str]) -> str:
    """Names of pictures; those of several kernels, which differ in a last number, as `roles-1 to roles-24`."""
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        alike.setdefault(name.rstrip("0123456789"), []).append(name)
    return ", ".join(f"{found[0]} to {found[-1]}" if len(found) > 2 else ", ".join(found) for found in alike.values())


def _pages(drawn: Drawn, path: Path) -> dict[Path, bytes | None]:
    from cutegen.drawing.files import KINDS
    from cutegen.drawing.pages import render_page

    pages = [(unit.module, figures) for unit, figures in drawn if unit is not None]
    if not pages:
        raise Refusal(
            f"{path} would be a page, or a folder of pages, and a page shows a kernel, not a layout",
            f"end the file's name in {', '.join(KINDS)}, or draw a spec",
        )
    if path.suffix.lower() != PAGE:
        return {path / f"{module.spec.kernel}{PAGE}": render_page(module, mine).encode() for module, mine in pages}
    if len(pages) > 1:
        names = ", ".join(module.spec.kernel for module, _ in pages)
        raise Refusal(f"{path} holds one kernel, and there are {len(pages)}", f"name a folder, or --kernel: {names}")
    return {path: render_page(*pages[0]).encode()}


def _print(figures: Sequence[Figure]) -> None:
    """Prints pictures on the terminal in colour, and without colour where stdout is no terminal."""
    from rich.console import Console

    from cutegen.drawing.text import MOST_ROWS, render_text

    console = Console(highlight=False)
    for i, figure in enumerate(figures):
        if i:
            click.echo("\n")
        rows = MOST_ROWS if len(figures) == 1 else ROWS_OF_EACH
        for line in render_text(figure, console.width, console.encoding, rows):
            if console.is_terminal:
                console.print(line, no_wrap=True, overflow="ignore", crop=False)
            else:
                click.echo(line.plain.rstrip())
