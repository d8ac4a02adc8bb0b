"""The process in the other environment: takes a survey there, with the code of this very cutegen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from cutegen.errors import CutegenError
from cutegen.exits import INTERRUPTED
from cutegen.verbs.building.verification import Where
from cutegen.verbs.upgrading.survey import Survey, survey_compiled, survey_from_json, survey_json, survey_verified

_START = f"""\
if __name__ == "__main__":
    try:
        from cutegen.verbs.upgrading.remote import main

        main()
    except KeyboardInterrupt:  # also while it imports, which takes seconds
        raise SystemExit({INTERRUPTED}) from None
"""
_PATIENCE = 15.0  # seconds for a process to end its workers


class RemoteError(CutegenError):
    """Says that nothing can be found out in the other environment."""


def survey_remote(python: Path, specs: Sequence[Path], on: Where, jobs: int | None) -> Survey:
    """Compiles and verifies the kernels of specs in the environment of that interpreter.

    Its progress goes to this process's standard error. Raises RemoteError where the process does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="cutegen-there-", ignore_cleanup_errors=True) as folder:
        # A folder with nothing but this package: where it is installed, the packages of this environment are beside it
        os.symlink(Path(__file__).absolute().parents[2], Path(folder, "cutegen"))
        start, answer = Path(folder, "start.py"), Path(folder, "answer.json")
        start.write_text(_START, encoding="utf-8")
        request = json.dumps({"specs": list(map(str, specs)), "on": on, "jobs": jobs})
        process = subprocess.Popen([python, start, request, answer], env=_environment(folder), stdout=2)
        try:
            code = process.wait()
        except BaseException:  # Ctrl-C reached it too; what ends this process alone does not
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
        try:
            data = json.loads(answer.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            if code == INTERRUPTED:
                raise KeyboardInterrupt from None
            raise RemoteError(
                f"cutegen ended there with status {code}, and printed nothing more than the lines above"
            ) from None
    if "why" in data:
        raise RemoteError(data["why"])
    return survey_from_json(data)


def _environment(code: str) -> dict[str, str]:
    """The variables of the other process: as here, but that its cutegen is the one in the folder `code`."""
    own = str(Path(__file__).absolute().parents[2])
    given = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    path = os.pathsep.join([code, *(entry for entry in given if entry != own)])
    dropped = ("PYTHONHOME", "PYTHONSAFEPATH", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
    return {**{name: value for name, value in os.environ.items() if name not in dropped}, "PYTHONPATH": path}


def main() -> None:
    """Runs in the other process: takes the survey that argument 1 requests, and writes it to the file of argument 2."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)  # so that workers are ended
    data = _survey(json.loads(sys.argv[1]))
    Path(sys.argv[2]).write_text(json.dumps(data), encoding="utf-8")


def _survey(request: dict[str, Any]) -> dict[str, Any]:
    """The survey that was asked for as data, or `{why}` where there can be none."""
    from cutegen.console import make_progress, print_diagnostics
    from cutegen.project.selection import select
    from cutegen.project.sources import gather
    from cutegen.verbs.building.verification import emulator_missing
    from cutegen.verification import gpu_missing

    gathered = gather(select(map(Path, request["specs"])))
    if gathered.failed:
        print_diagnostics(gathered.diagnostics, gathered.texts)
        return {"why": "the specs have errors there that they do not have here"}
    on, jobs, progress = request["on"], request["jobs"], make_progress()
    missing = emulator_missing() if on == "cpu" else gpu_missing()
    if missing is not None:
        return {"why": f"nothing can be executed there: {missing}"}
    survey = survey_compiled(gathered.units, jobs, progress)
    wanted = [True] * len(gathered.units)
    return survey_json(survey_verified(survey, gathered.units, wanted, on, jobs, progress))
