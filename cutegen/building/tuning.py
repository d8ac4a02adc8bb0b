"""A search over a spec of a project: which kernels and shapes, where its log is, and how the winner is written."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cutegen import __version__
from cutegen.building.project import SpecFile
from cutegen.building.sources import Unit
from cutegen.building.write import locked, write_all
from cutegen.language.diagnostics import Span
from cutegen.measuring.shapes import parse_sizes, shapes_of
from cutegen.measuring.tuning.editing import Sheet
from cutegen.measuring.tuning.flow import Options, Result, Tuning
from cutegen.measuring.tuning.log import FOLDER, Log
from cutegen.measuring.tuning.model import Progress, Shape, Timer
from cutegen.measuring.tuning.pruning import Sieve


class NoTuning(Exception):
    """What was asked for cannot be searched or written; `help` says what would work."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True)
class Prepared:
    """A search that can begin. `text` is the spec file's, with its own line ends; `shapes` by the kernels to time."""

    source: SpecFile
    text: str
    sheet: Sheet
    kernels: tuple[str, ...]  # of the document that is searched
    shapes: Mapping[str, tuple[Shape, ...]]
    options: Options

    def run(self, log_file: Path, fresh: bool, progress: Progress, dry: bool) -> Result:
        """The search on all GPUs of this machine; `dry`: what needs none. Raises OSError for what the disk does, and
        where no worker process can be started."""
        log = Log(log_file, fresh)
        ignore = log_file.with_name(".gitignore")
        if log_file.parent.name == FOLDER and not ignore.exists():
            ignore.write_text("*\n")  # what was measured here is of use on this machine only
        timers: list[Timer] = []
        try:
            log.run(
                spec=self.source.name,
                sha256=hashlib.sha256(self.text.encode()).hexdigest(),
                cutegen=__version__,
                shapes={kernel: list(map(dict, shapes)) for kernel, shapes in self.shapes.items()},
                seed=self.options.seed,
            )
            sieve = Sieve(self.sheet, self.source.name, self.kernels)
            tuning = Tuning(sieve, self.shapes, self.options, log, progress)
            if dry:
                return tuning.dry()
            timers += make_timers()
            return tuning.run(timers)
        finally:
            for timer in timers:
                timer.close()
            log.close()


def make_timers() -> Sequence[Timer]:
    """One for every GPU that is visible."""
    import torch

    from cutegen.measuring.tuning.timers import SessionTimer

    return [SessionTimer(device) for device in range(torch.cuda.device_count())]


def prepare(units: Sequence[Unit], only: str | None, sizes: Sequence[str], options: Options) -> Prepared:
    """Of the units of one spec file; `only` one kernel of them, at the shapes that `sizes` say or those of `bench`.

    Raises NoTuning, and ShapeError for sizes that a kernel refuses.
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
    if chosen[0].module.spec.op == "probe":
        raise NoTuning(f"{chosen[0].kernel} is a probe: there is no other way to do what it does")
    place = _document(chosen[0])
    text = source.file.read_bytes().decode("utf-8")
    kernels = tuple(unit.kernel for unit in units if _document(unit) == place)
    shapes = {unit.kernel: _shapes(unit, sizes) for unit in chosen}
    return Prepared(source, text, Sheet(text, documents.index(place)), kernels, shapes, options)


def _document(unit: Unit) -> Span:
    """Where the document begins that a kernel is from."""
    return unit.module.spec.source.values[()]


def _shapes(unit: Unit, sizes: Sequence[str]) -> tuple[Shape, ...]:
    spec = unit.module.spec
    return tuple(parse_sizes(text, spec) for text in sizes) or shapes_of(spec)


def log_path(prepared: Prepared) -> Path:
    """`.cutegen-tune/KERNEL.jsonl` in the project's folder; the kernel's name without the braces of placeholders."""
    name = re.sub(r"[^A-Za-z0-9_]", "", str(prepared.sheet.data["kernel"]))
    return prepared.source.root / FOLDER / f"{name}.jsonl"


def write_winner(prepared: Prepared, text: str) -> None:
    """Gives the spec file its new text. Raises NoTuning where somebody changed it meanwhile, OSError for the disk."""
    file = prepared.source.file.resolve()  # of a link, what it leads to
    with locked([file.parent]):
        if file.read_bytes() != prepared.text.encode():
            message = f"{prepared.source.shown} was changed while it was tuned, and is left as it is now"
            raise NoTuning(message, "the log has what was timed; --no-write prints what would change")
        write_all({file: text.encode()})
