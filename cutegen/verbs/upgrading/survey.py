"""A survey of kernels in the environment of this process: how they compile, and whether they are right.

A survey goes from one process to another as JSON.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cutegen.compiling import Cache, Compiled
from cutegen.console import Progress
from cutegen.language.diagnostics import Diagnostic, as_json, from_json
from cutegen.project.sources import Unit
from cutegen.verbs.building.compilation import compile_and_tell
from cutegen.verbs.building.output import verification_json
from cutegen.verbs.building.verification import Verification, Where, run_verification
from cutegen.verbs.inspecting.inspection import (
    Inspection,
    inspect_unit,
    inspection_from_json,
    inspection_json,
)
from cutegen.verification import EVERYTHING
from cutegen.verification import from_json as report_from_json

_COMMENT = re.compile(r"//.*")


@dataclass(frozen=True)
class Found:
    """One kernel. `inspections` and `code`, a digest of the PTX without its comments, are by target, of those that it
    compiled for; `failed` says of the others why it did not. `verification` is None where nobody asked for one.
    """

    kernel: str
    spec: str
    inspections: Mapping[str, Inspection]
    code: Mapping[str, str]
    failed: Mapping[str, str]
    verification: Verification | None = None


@dataclass(frozen=True)
class Survey:
    """The kernels of some specs, in their order, and an error for each failure."""

    compiler: str  # the file that `import cutlass` reads, empty where there is none
    kernels: tuple[Found, ...]
    diagnostics: tuple[Diagnostic, ...]
    notices: tuple[str, ...] = ()


def survey_compiled(units: Sequence[Unit], jobs: int | None, progress: Progress) -> Survey:
    """Compiles the units for all of their targets. Raises OSError where no worker process can be started."""
    cache = Cache()
    compilations = compile_and_tell(units, progress, workers=jobs, cache=cache, sass=True)
    kernels: list[Found] = []
    diagnostics: list[Diagnostic] = []
    for unit, compilation in zip(units, compilations, strict=True):
        diagnostics += compilation.diagnostics
        found = {one.target: one for one in inspect_unit(unit, compilation.outcomes)}
        ptx = {t: o.artefact.ptx for t, o in compilation.outcomes.items() if isinstance(o, Compiled)}
        failed = {t: o.message for t, o in compilation.outcomes.items() if not isinstance(o, Compiled)}
        kernels.append(Found(unit.kernel, unit.source.shown, found, {t: _digest(p) for t, p in ptx.items()}, failed))
    notices = [cache.warning] if cache.warning else []
    notices += dict.fromkeys(why for one in kernels for i in one.inspections.values() for why in i.missing)
    return Survey(_compiler(), tuple(kernels), tuple(diagnostics), tuple(notices))


def survey_verified(
    survey: Survey, units: Sequence[Unit], wanted: Sequence[bool], on: Where, jobs: int | None, progress: Progress
) -> Survey:
    """The survey with the verifications of the units that are wanted. One that does not compile is not run."""
    numbers = [number for number, want in enumerate(wanted) if want and not survey.kernels[number].failed]
    kernels, diagnostics = list(survey.kernels), list(survey.diagnostics)
    for number, want in enumerate(wanted):
        if want and survey.kernels[number].failed:
            kernels[number] = replace(kernels[number], verification=Verification("not executed", "it does not compile"))
    if numbers:
        verifications, found = run_verification(
            [units[number] for number in numbers], on, jobs, progress, extent=EVERYTHING
        )
        diagnostics += found
        for number, verification in zip(numbers, verifications, strict=True):
            kernels[number] = replace(kernels[number], verification=verification)
    return replace(survey, kernels=tuple(kernels), diagnostics=tuple(diagnostics))


def _compiler() -> str:
    try:
        spec = importlib.util.find_spec("cutlass")
    except (ImportError, ValueError):
        return ""
    return "" if spec is None or spec.origin is None else spec.origin


def _digest(ptx: str) -> str:
    return hashlib.sha256(_COMMENT.sub("", ptx).encode()).hexdigest()[:16]


# JSON


def survey_json(survey: Survey) -> dict[str, Any]:
    """A survey as data that JSON can hold, for `survey_from_json`."""
    return {
        "compiler": survey.compiler,
        "kernels": [
            {
                "kernel": one.kernel,
                "spec": one.spec,
                "inspections": {t: inspection_json(i, ptx=False, sass=False) for t, i in one.inspections.items()},
                "code": dict(one.code),
                "failed": dict(one.failed),
                "verification": None if one.verification is None else verification_json(one.verification),
            }
            for one in survey.kernels
        ],
        "diagnostics": [as_json(diagnostic) for diagnostic in survey.diagnostics],
        "notices": list(survey.notices),
    }


def survey_from_json(data: Mapping[str, Any]) -> Survey:
    """The survey that `survey_json` made data of."""
    kernels = tuple(
        Found(
            one["kernel"],
            one["spec"],
            {target: inspection_from_json(one["kernel"], i) for target, i in one["inspections"].items()},
            one["code"],
            one["failed"],
            None if one["verification"] is None else _verification(one["verification"]),
        )
        for one in data["kernels"]
    )
    return Survey(data["compiler"], kernels, tuple(map(from_json, data["diagnostics"])), tuple(data["notices"]))


def _verification(data: Mapping[str, Any]) -> Verification:
    report = data["report"]
    return Verification(data["verdict"], data["why"], None if report is None else report_from_json(report))
