"""Which kernels an export has, for which targets, and what stands in its way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cutegen.codegen.cplusplus import shared_texts
from cutegen.codegen.shipping import MARK, told
from cutegen.language.names import suggestion
from cutegen.project.paths import shown
from cutegen.project.selection import select
from cutegen.project.sources import Unit, gather
from cutegen.verbs.building.build import Problem
from cutegen.verbs.exporting.files import library_of, names


def with_gradients(units: Sequence[Unit]) -> tuple[list[Unit], list[str]]:
    """The units, and those that compute the gradients of their ops, with a notice of each that was added."""
    found, notices = list(units), []
    for unit in found:  # which grows: a gradient may have one
        for gradient in unit.module.gradients:
            if any(one.kernel == gradient.by.kernel for one in found):
                continue
            file = unit.source.file.parent / Path(gradient.by.source.path).name  # they are in one folder
            beside = gather(select([file])).units
            found += [one for one in beside if one.kernel == gradient.by.kernel]
            notices.append(f"{gradient.by.kernel} is exported, too: it computes the gradient of {unit.kernel}")
    return found, notices


def chosen(units: Sequence[Unit], targets: Sequence[str]) -> tuple[list[tuple[str, ...]], list[Problem]]:
    """The targets that each unit is exported for, and a problem for each unit that cannot be."""
    wanted, problems = [], []
    first: dict[str, Unit] = {}
    for unit in units:
        own = unit.module.spec.targets
        wanted.append(tuple(target for target in own if not targets or target in targets))
        if not wanted[-1]:
            asked = " and ".join(f"`{target}`" for target in targets)
            problems.append(Problem(f"{unit.kernel} is not for {asked}", suggestion(targets[0], own, "its targets")))
        other = first.setdefault(unit.kernel, unit)
        if other is not unit:
            message = f"two kernels are called `{unit.kernel}`: {other.source.shown} and {unit.source.shown}"
            problems.append(Problem(message, "export them to different folders"))
    known = sorted({target for unit in units for target in unit.module.spec.targets})
    if not problems:
        problems += [
            Problem(f"no kernel here is for `{target}`", suggestion(target, known, "targets"))
            for target in dict.fromkeys(targets)
            if target not in known
        ]
    return wanted, problems


def in_the_way(
    folder: Path, units: Sequence[Unit], library: str | None = None, *, force: bool = False
) -> list[Problem]:
    """A problem for each file that would be overwritten and was not exported, unless `force` says so, and for a folder
    that cannot be written to. `library` is the name of one library for all units; None: each has its own.
    """
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return [Problem(f"{shown(there)} is not a folder", "choose another folder with -o")]
    if not os.access(there, os.W_OK | os.X_OK):
        return [Problem(f"{shown(there)} cannot be written to", "choose another folder with -o")]
    if force:
        return []
    files = [*shared_texts(), *(name for unit in units for name in names(unit.kernel))]
    foreign = [folder / name for name in files if _is_foreign(folder / name)]
    libraries = sorted({library_of(unit, library) for unit in units})
    foreign += [folder / name for name in libraries if _is_foreign(folder / name, whole=True)]
    help = "choose another folder with -o, or `--force`"
    problems = [Problem(f"{shown(path)} is there, and was not exported", help, str(path)) for path in foreign]
    for name in libraries:
        if others := sorted(_loaders_of(folder, name) - {unit.kernel for unit in units}):
            message = f"{shown(folder / name)} also has {told(others)}, which this export does not"
            help = "export all of them together, or `--library` with another name; `--force` leaves them without one"
            problems.append(Problem(message, help, str(folder / name)))
    return problems


def _loaders_of(folder: Path, library: str) -> set[str]:
    """The kernels in a folder whose exported Python loads that library."""
    said = f'LIBRARY = Path(__file__).with_name("{library}")\n'
    files = [path for path in folder.glob("*.py") if not _is_foreign(path)]
    return {path.stem for path in files if said in path.read_text(encoding="utf-8", errors="replace")}


def _is_foreign(path: Path, *, whole: bool = False) -> bool:
    """Whether a file is there that no export wrote: its first line does not say so, or nothing in the `whole` of it."""
    if not os.path.lexists(path):
        return False
    try:
        with path.open("rb") as file:
            return MARK.encode() not in (file.read() if whole else file.readline())
    except OSError:
        return True
