"""A small project on disk, a stand-in compiler, a view of a folder: for tests of building and of the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from cutegen.building.project import select
from cutegen.building.sources import Unit, gather
from cutegen.building.state import FileState, compare
from cutegen.compiling import Artefact, Cache, Compiled, Job, Outcome, Resources

ADD = """\
cutegen: 1
kernel: {name}
op: elementwise
tensors:
  A: {{shape: [M, N], dtype: f32, major: N, align: 16}}
  B: {{shape: [M, N], dtype: f32, major: N, align: 16}}
  C: {{shape: [M, N], dtype: f32, major: N, align: 16, role: out}}
compute: C = A + B
targets: [sm_80, sm_90a]
{more}"""


def spec_text(name: str = "add", more: str = "") -> str:
    return ADD.format(name=name, more=more)


def project(folder: Path, *names: str) -> Path:
    """A project with `specs/NAME.yaml` for each name. Returns the folder of the specs."""
    (folder / "pyproject.toml").touch()
    specs = folder / "specs"
    specs.mkdir(exist_ok=True)
    for name in names:
        (specs / f"{name}.yaml").write_text(spec_text(name))
    return specs


def units_of(specs: Path) -> tuple[Unit, ...]:
    gathered = gather(select([specs]))
    assert not gathered.failed, gathered.diagnostics
    return gathered.units


def states_of(*specs: Path, out: Path | None = None) -> dict[str, FileState]:
    selection = select(specs, out)
    return {state.path.name: state for state in compare(gather(selection).units, selection.scopes)}


def put(specs: Path) -> Path:
    """Writes the modules of the specs as they must be. Returns their folder."""
    units = units_of(specs)
    out = units[0].path.parent
    out.mkdir(exist_ok=True)
    for unit in units:
        unit.path.write_text(unit.module.text)
    return out


def snapshot(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Bytes, time of change and mode of every file under a folder."""
    found = {}
    for where, _, files in os.walk(folder):
        for name in files:
            path = Path(where, name)
            status = path.stat()
            found[path.relative_to(folder).as_posix()] = (path.read_bytes(), status.st_mtime_ns, status.st_mode)
    return found


SASS = "        /*0000*/                   LDG.E.128 R4, desc[UR4][R2.64] ;\n"


class StandInCompiler:
    """Takes the place of `compile_all`; `outcome` decides how a job ends. Counts its jobs."""

    def __init__(self, outcome: Callable[[Job], Outcome] | None = None) -> None:
        self.jobs: list[Job] = []
        self._outcome = outcome or good

    def __call__(
        self,
        jobs: Sequence[Job],
        *,
        workers: int | None = None,
        cache: Cache | None = None,
        on_done: Callable[[Job, Outcome], None] | None = None,
    ) -> list[Outcome]:
        outcomes = []
        for job in jobs:
            self.jobs.append(job)
            outcomes.append(self._outcome(job))
            if on_done is not None:
                on_done(job, outcomes[-1])
        return outcomes


def good(job: Job) -> Outcome:
    return Compiled(Artefact(job.kernel, job.target, "", b"", SASS, Resources(24, 0, 0, 0, 0)), 0.1, cached=False)
