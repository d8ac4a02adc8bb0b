"""Which kernels an export has, for which targets, and what stands in its way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cutegen.building.build import Problem
from cutegen.codegen.cplusplus import shared_texts
from cutegen.codegen.shipping import MARK
from cutegen.exporting.files import library_of, names
from cutegen.language.names import suggestion
from cutegen.project.paths import shown
from cutegen.project.selection import select
from cutegen.project.sources import Unit, gather

if TYPE_CHECKING:
    from cutegen.exporting.export import Options


def with_gradients(units: Sequence[Unit]) -> tuple[list[Unit], list[str]]:
    """The units, and those that compute the gradients of their ops, with a notice of each that was added."""
    found, notices = list(units), []
    for unit in units:
        for gradient in unit.module.gradients:
            if any(one.kernel == gradient.by.kernel for one in found):
                continue
            beside = gather(select([Path(gradient.by.source.path)])).units
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
    return wanted, problems


def in_the_way(options: Options, units: Sequence[Unit]) -> list[Problem]:
    """A problem for each file that would be overwritten and was not exported, and for a folder that cannot be."""
    folder = options.folder
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return [Problem(f"{shown(there)} is not a folder", "choose another folder with -o")]
    if not os.access(there, os.W_OK | os.X_OK):
        return [Problem(f"{shown(there)} cannot be written to", "choose another folder with -o")]
    if options.force:
        return []
    files = [*shared_texts(), *(name for unit in units for name in names(unit.kernel))]
    foreign = [folder / name for name in files if _is_foreign(folder / name)]
    libraries = {library_of(unit, options.library) for unit in units}
    loaders = any((folder / f"{unit.kernel}.py").exists() for unit in units)
    foreign += [folder / name for name in sorted(libraries) if (folder / name).exists() and not loaders]
    help = "choose another folder with -o, or `--force`"
    return [Problem(f"{shown(path)} is there, and was not exported", help, str(path)) for path in foreign]


def _is_foreign(path: Path) -> bool:
    """Whether a file is there that no export wrote."""
    if not os.path.lexists(path):
        return False
    try:
        with path.open("rb") as file:
            return MARK.encode() not in file.readline()
    except OSError:
        return True
