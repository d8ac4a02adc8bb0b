"""Code that verbs share: options, and the steps from their arguments to specs that were read."""

from __future__ import annotations

import math
import string
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cutegen.cli.guard import Refusal
from cutegen.exits import BROKEN, OK

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from cutegen.console import Progress
    from cutegen.project.selection import Selection
    from cutegen.project.sources import Gathered

F = TypeVar("F", bound=Callable[..., Any])


def with_format(verb: F) -> F:
    return click.option(
        "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True,
        help="How results are printed on stdout.",
    )(verb)  # fmt: skip


class Finite(click.FloatRange):
    """A number in a range that is none of `nan`, which is below and above nothing, and `inf`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class SpecPath(click.Path):
    """The path of a spec or of a folder of specs; shells complete nothing else."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        head, _, start = incomplete.rpartition("/")
        folder = Path(f"{head}/" if "/" in incomplete else ".").expanduser()
        try:
            entries = [path for path in sorted(folder.iterdir()) if path.name.startswith(start or _FIRST)]
            files = [path.name for path in entries if path.suffix in (".yaml", ".yml")]
            only_files = not any(path.is_dir() for path in entries)
        except OSError:
            return super().shell_complete(ctx, param, incomplete)
        given = incomplete[: len(incomplete) - len(start)]
        # A shell goes on behind a folder, and puts quotes around what needs some, where it completes itself
        if files and only_files and all(_SEEN.issuperset(name) for name in [given, *files]):
            return [CompletionItem(given + name) for name in files]
        return super().shell_complete(ctx, param, incomplete)


_SEEN = frozenset(string.ascii_letters + string.digits + "_-./")  # what needs no quotes in any shell
_FIRST = tuple(_SEEN - {"."})  # of what is not hidden


def with_specs(verb: F) -> F:
    return click.argument("specs", nargs=-1, required=True, type=SpecPath(), metavar="SPEC|DIR...")(verb)


def with_jobs(verb: F) -> F:
    return click.option(
        "-j", "--jobs", type=click.IntRange(1, 256), metavar="N",
        help="Worker processes; by default one per processor, and a few for a GPU.",
    )(verb)  # fmt: skip


def with_all(verb: F) -> F:
    return click.option(
        "--all", "everything", is_flag=True,
        help="Continue after a kernel's first failure, and report every one.",
    )(verb)  # fmt: skip


def with_quick(verb: F) -> F:
    return click.option(
        "--quick", is_flag=True,
        help="Verify in part: one case for each way, kind of data, layout and size, and cheap host checks.",
    )(verb)  # fmt: skip


def select_specs(specs: tuple[Path, ...], out: Path | None) -> Selection:
    from cutegen.project.selection import select

    try:
        return select(specs, out)
    except (OSError, ValueError) as error:  # a path that no file can have
        raise Refusal(f"the specs cannot be found: {error}") from None


def progress_of_reading(selection: Selection) -> Progress:
    """Progress that has begun to tell of reading the specs. A verb makes it before it imports what reads them, so that
    its first line comes at once.
    """
    from cutegen.console import make_progress

    progress = make_progress()
    progress.start("reading specs", len(selection.files))
    return progress


def gather_specs(
    selection: Selection, form: str, *, gradients: bool = True, progress: Progress | None = None, **nothing: object
) -> Gathered:
    """Generates the modules of a selection. Ends the verb where a spec has an error.

    `progress` is what `progress_of_reading` made, if anything; it is stopped. `nothing` is what the verb's JSON has
    besides `{verb, ok, exit_code, diagnostics}`, as it is without a result.
    """
    from cutegen.console import print_diagnostics
    from cutegen.language.diagnostics import as_json
    from cutegen.project.sources import gather

    try:
        step = (lambda: None) if progress is None else (lambda: progress.step(None))
        gathered = gather(selection, gradients=gradients, read=step)
    finally:
        if progress is not None:
            progress.stop()
    if gathered.failed:
        if form == "json":
            verb = click.get_current_context().info_name
            diagnostics = [as_json(d) for d in gathered.diagnostics]
            print_json({"verb": verb, "ok": False, "exit_code": BROKEN, "diagnostics": diagnostics, **nothing})
        else:
            print_diagnostics(gathered.diagnostics, gathered.texts)
        click.get_current_context().exit(BROKEN)
    return gathered


def print_json(data: dict[str, Any], code: int | None = None) -> None:
    """Prints the JSON of a verb; with `code`, how it ends, `ok` and `exit_code` stand after the verb's name."""
    from cutegen.console import print_json

    if code is not None:
        data = {"verb": data["verb"], "ok": code == OK, "exit_code": code, **data}
    print_json(data)
