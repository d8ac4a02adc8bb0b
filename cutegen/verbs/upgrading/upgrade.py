"""The flow of `cutegen verify --with`: an environment beside this one, a survey in each, and what differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cutegen.console import Progress
from cutegen.language.diagnostics import Diagnostic
from cutegen.project.sources import Unit
from cutegen.verbs.building.verification import Where
from cutegen.verbs.upgrading.beside import COMPILER, packages_here
from cutegen.verbs.upgrading.comparing import KernelChange, compare_surveys, needs_verification_here
from cutegen.verbs.upgrading.environments import Environment, environment_with
from cutegen.verbs.upgrading.remote import RemoteError, survey_remote
from cutegen.verbs.upgrading.requirements import Requirement, too_old
from cutegen.verbs.upgrading.survey import survey_compiled, survey_verified

NOTHING = "what was asked for is what is installed here: there is nothing to compare, and nothing was run"


@dataclass(frozen=True)
class Upgrade:
    """The effect of another environment. `versions` has the versions of each package that differs, here and there, by
    name; empty where a side has none. `diagnostics` are about what is wrong there.
    """

    requirements: tuple[str, ...]
    installer: str
    versions: Mapping[str, tuple[str, str]]
    kernels: tuple[KernelChange, ...]
    diagnostics: tuple[Diagnostic, ...]
    notices: tuple[str, ...]


def compare_with(
    requirements: Sequence[Requirement],
    specs: Sequence[Path],
    units: Sequence[Unit],
    on: Where,
    *,
    pre: bool,
    jobs: int | None,
    progress: Progress,
    tell: Callable[[str], None],
) -> Upgrade:
    """Compiles and verifies kernels with other packages, and compares with what they are here.

    Where all that was asked for is what is here, nothing is run. Otherwise all of them are run there; here those that
    an equal PTX does not already tell of. `tell` gets a line as each part begins. Raises InstallError and RemoteError,
    and OSError where no process can be started.
    """
    with environment_with(requirements, pre=pre, tell=tell) as environment:
        versions = _versions(environment)
        if not environment.own:
            return Upgrade(tuple(one.text for one in requirements), environment.installer, {}, (), (), (NOTHING,))
        notices = [*too_old(environment.own), *_hidden(environment)]
        for notice in notices:
            tell(f"note: {notice}")
        tell(f"with {named(versions, 1)}:")
        there = survey_remote(environment.python, specs, on, jobs)
        _check(environment, there.compiler)
    tell(f"with {named(versions, 0)}, as it is here:")
    here = survey_compiled(units, jobs, progress)
    wanted = [needs_verification_here(old, new) for old, new in zip(here.kernels, there.kernels, strict=True)]
    here = survey_verified(here, units, wanted, on, jobs, progress)
    kernels = compare_surveys(here, there)
    texts = tuple(requirement.text for requirement in requirements)
    said = tuple(dict.fromkeys([*notices, *there.notices]))
    return Upgrade(texts, environment.installer, versions, kernels, there.diagnostics, said)


def _versions(environment: Environment) -> dict[str, tuple[str, str]]:
    """The versions of the packages that differ."""
    here = {package.name: package.version for package in packages_here()}
    names = sorted({*environment.own, *environment.hidden})
    return {name: (here.get(name, ""), environment.own.get(name, "")) for name in names}


def _hidden(environment: Environment) -> list[str]:
    """A notice of the parts of the compiler that are here and not there."""
    parts = environment.hidden
    if not parts:
        return []
    return [f"{', '.join(parts)} {'is a part' if len(parts) == 1 else 'are parts'} of the compiler here, and not there"]


def named(versions: Mapping[str, tuple[str, str]], side: int) -> str:
    """The packages of a side in words, of the compiler's the first one only."""
    there = [name for name, both in versions.items() if both[side]]
    shown = [name for name in there if name == COMPILER or not name.startswith(COMPILER)]
    return ", ".join(f"{name} {versions[name][side]}" for name in shown or there) or "the packages"


def _check(environment: Environment, compiler: str) -> None:
    """Raises RemoteError where the process imported another compiler than the environment's own."""
    folder = environment.python.parents[1]
    if COMPILER in environment.own and not Path(compiler).is_relative_to(folder):
        where = compiler or "nowhere"
        help = "is another one in PYTHONPATH? Leave that out"
        raise RemoteError(f"the compiler that was installed is not the one that is imported, from {where}", help)
