"""The verb `run`, in a process of its own: how it ends, and what it prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cutegen.cli import cli
from cutegen.running.job import Job, Outcome

pytest.importorskip("cutlass")
FILE = Path(__file__).parents[1] / "kits" / "cute_functions.py"


def test_right_and_wrong(tmp_path: Path) -> None:
    """In an empty folder, with JSON of all that happened, and text of a fault."""

    def run(name: str, *more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cutegen", "run", f"{FILE}:{name}", "--inputs", f"{FILE}:make_inputs", *more]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    done = run("add", "--reference", f"{FILE}:expected", "--orders", "2", "--target", "sm_80", "--format", "json")
    told = json.loads(done.stdout)
    assert done.returncode == 0 and (told["ok"], told["exit_code"], told["status"]) == (True, 0, "ok")
    assert told["tensors"][2]["compared"]["mismatched"] == 0 and told["launches"][0]["orders"] == 2
    assert done.stderr.startswith("note: add launches on the default stream")
    done = run("one_block_too_few", "--outputs", "c")
    assert done.returncode == 1 and "fault[output-not-written]: 4 of 100 elements of c" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Job, float]]:
    """The jobs that the verb would run, of which none can be executed."""
    asked: list[tuple[Job, float]] = []

    def run_job(job: Job, timeout: float) -> Outcome:
        asked.append((job, timeout))
        return Outcome("not executed", "no", "yes", ("x.py:3: f()",))

    monkeypatch.setattr("cutegen.running.run.run_job", run_job)
    return asked


def test_what_a_job_is_made_of(jobs: list[tuple[Job, float]]) -> None:
    named = ["--outputs", "c,d", "--inouts", "e", "--target", "sm_89"]
    numbers = ["--orders", "4", "--seed", "2", "--rtol", "0.1", "--atol", "0", "--timeout", "9"]
    flags = [*named, *numbers]
    done = CliRunner().invoke(cli, ["run", "a.py:f", "--inputs", "b.py:g", "--reference", "c.py:h", *flags])
    assert done.exit_code == 2 and done.stderr == "error: no\n  at: x.py:3: f()\n  help: yes\n"
    want = Job("a.py:f", "b.py:g", str(Path.cwd()), "c.py:h", "sm_89", 4, 2, ("c", "d"), ("e",), 0.1, 0.0)
    assert jobs == [(want, 9.0)]


def test_wrong_flags(jobs: list[tuple[Job, float]]) -> None:
    for flags in (["--target", "sm_70"], ["--orders", "0"], ["--inouts", "c"]):
        assert CliRunner().invoke(cli, ["run", "a.py:f", "--inputs", "b.py:g", *flags]).exit_code == 2
    assert CliRunner().invoke(cli, ["run", "a.py:f"]).exit_code == 2 and not jobs
    done = CliRunner().invoke(cli, ["run", "a.py:f", "--inputs", "b.py:g", "--format", "json"])
    told = json.loads(done.stdout)
    assert (told["ok"], told["exit_code"], told["message"], told["at"]) == (False, 2, "no", ["x.py:3: f()"])
