"""Starts a search over a spec of a project: for which kernels and shapes, with which log; and writes the winner."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutegen.console import Progress
from cutegen.errors import CutegenError
from cutegen.exits import FINDINGS
from cutegen.language.cases import Cases
from cutegen.language.diagnostics import Span
from cutegen.measuring.asked import op_of
from cutegen.measuring.shapes import parse_sizes, shapes_of
from cutegen.project.selection import SpecFile
from cutegen.project.sources import Unit
from cutegen.project.write import locked, write_all
from cutegen.tuning.by_size import BySize, check_cases, groups_of, search_by
from cutegen.tuning.editing import Sheet
from cutegen.tuning.log import FOLDER, Log
from cutegen.tuning.model import Shape, Timer
from cutegen.tuning.pruning import Sieve
from cutegen.tuning.result import Options, Result
from cutegen.tuning.tune import Tuning
from cutegen.version import __version__


class NoTuning(CutegenError):
    """Says that what was asked for cannot be searched or written."""


class ChangedMeanwhile(NoTuning):
    """Says that the winner cannot be written, since the spec has another text than the one that was tuned."""

    exit_code = FINDINGS


@dataclass(frozen=True)
class Prepared:
    """A search that can begin. `text` is the spec file's, with its own line ends; `shapes` are by kernel."""

    source: SpecFile
    text: str
    sheet: Sheet
    kernels: tuple[str, ...]  # of the document that is searched
    shapes: Mapping[str, tuple[Shape, ...]]
    options: Options

    def run(self, log_file: Path, fresh: bool, progress: Progress, dry: bool) -> Result:
        """Runs the search on all GPUs of this machine, or with `dry` what of it needs none.

        Raises OSError for what the disk does, and where no worker process can be started.
        """
        with self._opened(log_file, fresh) as log:
            if dry:
                return self._tuning(self.shapes, log, progress).dry()
            with closing_all(make_timers()) as timers:
                return self._tuning(self.shapes, log, progress).run(timers)

    def run_by(self, mode: str, log_file: Path, fresh: bool, progress: Progress) -> BySize:
        """Runs a search for each size that the shapes have of a mode, and makes cases of the winners.

        Raises NoCases where they have one size only or the spec takes no cases, and OSError as `run` does.
        """
        least = min(groups_of(self.shapes, mode))
        check_cases(f"<= {least}", mode, self.sheet, self.source.name)
        with self._opened(log_file, fresh) as log, closing_all(make_timers()) as timers:

            def search(shapes: Mapping[str, tuple[Shape, ...]], also: Sequence[Mapping[str, Any]]) -> Result:
                return self._tuning(shapes, log, progress, also).run(timers)

            return search_by(mode, self.shapes, self.sheet, self.source.name, search)

    def _tuning(
        self,
        shapes: Mapping[str, tuple[Shape, ...]],
        log: Log,
        progress: Progress,
        also: Sequence[Mapping[str, Any]] = (),
    ) -> Tuning:
        sieve = Sieve(self.sheet, self.source.name, self.kernels)
        return Tuning(sieve, shapes, self.options, log, progress, also=also)

    @contextmanager
    def _opened(self, log_file: Path, fresh: bool) -> Iterator[Log]:
        """The log, in which this run is noted."""
        log = Log(log_file, fresh)
        ignore = log_file.with_name(".gitignore")
        if log_file.parent.name == FOLDER and not ignore.exists():
            ignore.write_text("*\n")  # what was measured here is of use on this machine only
        try:
            log.run(
                spec=self.source.name,
                sha256=hashlib.sha256(self.text.encode()).hexdigest(),
                cutegen=__version__,
                shapes={kernel: list(map(dict, shapes)) for kernel, shapes in self.shapes.items()},
                seed=self.options.seed,
            )
            yield log
        finally:
            log.close()


@contextmanager
def closing_all(timers: Sequence[Timer]) -> Iterator[Sequence[Timer]]:
    """Timers that are closed in the end, which also ends what they run."""
    try:
        yield timers
    finally:
        for timer in timers:
            timer.close()


def make_timers() -> Sequence[Timer]:
    """Makes a timer for every GPU that is visible."""
    import torch

    from cutegen.tuning.timers import SessionTimer

    return [SessionTimer(device) for device in range(torch.cuda.device_count())]


def prepare(units: Sequence[Unit], only: str | None, sizes: Sequence[str], options: Options) -> Prepared:
    """Prepares a search over the units of one spec file, or over the kernel `only`.

    `sizes` say the shapes, by default those of `bench`. Raises NoTuning, and ShapeError for sizes that a kernel
    refuses.
    """
    source = units[0].source
    documents = list(dict.fromkeys(_document(unit) for unit in units))
    chosen = [unit for unit in units if only in (None, unit.kernel)]
    if not chosen:
        known = ", ".join(unit.kernel for unit in units)
        raise NoTuning(f"there is no kernel `{only}` in {source.shown}", f"its kernels are {known}")
    if len({_document(unit) for unit in chosen}) > 1:
        help = "name a kernel of the one to tune with --only"
        raise NoTuning(f"{source.shown} holds {len(documents)} documents, each with a schedule of its own", help)
    if (op := op_of(chosen[0].module.spec)).unmeasured is not None:
        raise NoTuning(f"{chosen[0].kernel} is a {op.name}: there is no other way to do what it does")
    if isinstance(cases := chosen[0].module.spec.schedule, Cases):
        help = "tune a spec with the schedule of one case"
        if not any(path[:1] == ("schedule",) for path in chosen[0].module.spec.source.values):
            atom = cases.cases[0].schedule.as_data().get("mma", {}).get("atom")
            help = f"write one: `schedule: {{mma: {{atom: {atom}}}}}`" if atom else help
        raise NoTuning(f"{chosen[0].kernel} has a schedule of several cases", help)
    place = _document(chosen[0])
    text = source.file.read_bytes().decode("utf-8")
    kernels = tuple(unit.kernel for unit in units if _document(unit) == place)
    shapes = {unit.kernel: _shapes(unit, sizes) for unit in chosen}
    return Prepared(source, text, Sheet(text, documents.index(place)), kernels, shapes, options)


def _document(unit: Unit) -> Span:
    """The place in the spec file where the document of a kernel begins."""
    return unit.module.spec.source.values[()]


def _shapes(unit: Unit, sizes: Sequence[str]) -> tuple[Shape, ...]:
    """The shapes to time a unit at."""
    spec = unit.module.spec
    return tuple(parse_sizes(text, spec) for text in sizes) or shapes_of(spec)


def log_path(prepared: Prepared) -> Path:
    """The log of a search: `.cutegen-tune/KERNEL.jsonl` in the project's folder, with the kernel's name without the
    braces of placeholders.
    """
    name = re.sub(r"[^A-Za-z0-9_]", "", str(prepared.sheet.data["kernel"]))
    return prepared.source.root / FOLDER / f"{name}.jsonl"


def write_winner(prepared: Prepared, text: str) -> None:
    """Gives the spec file its new text. Raises ChangedMeanwhile if it has another one by now, OSError for the disk."""
    file = prepared.source.file.resolve()  # of a link, what it leads to
    with locked([file.parent]):
        if file.read_bytes() != prepared.text.encode():
            message = f"{prepared.source.shown} was changed while it was tuned, and is left as it is now"
            raise ChangedMeanwhile(message, "the log has what was timed; --no-write prints what would change")
        write_all({file: text.encode()})
