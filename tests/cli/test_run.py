"""The verb `run`, in a process of its own: how it ends, and what it prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cutegen.cli import cli
from cutegen.verbs.running.job import Job, Outcome

pytest.importorskip("cutlass")
PAGE = Path(__file__).parents[2] / "docs" / "run.md"


def test_the_page_of_the_documentation(tmp_path: Path) -> None:
    """Its first kernel reads past an end, which is said as the page has it; with the predicate it is right."""
    page = PAGE.read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    file = tmp_path / "axpy.py"

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        names = ["axpy.py:axpy", "--inputs", "axpy.py:make_inputs", "--reference", "axpy.py:reference"]
        command = [sys.executable, "-m", "cutegen", "run", *names, "--outputs", "out", *more]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    file.write_text(code)
    done = run()
    assert done.returncode == 1 and done.stderr.startswith("note: axpy launches on the default stream")
    told = done.stdout.replace(str(tmp_path), "/home/me").partition("\n\n")[2]
    assert "fault[out-of-bounds]" in told and told in page
    file.write_text(code.replace("    out[i] =", "    if i < out.shape[0]:\n        out[i] ="))
    done = run("--orders", "3", "--format", "json")
    found = json.loads(done.stdout)
    assert done.returncode == 0 and (found["ok"], found["exit_code"], found["status"]) == (True, 0, "ok")
    assert found["tensors"][2]["compared"]["largest"] == 0 and found["launches"][0]["orders"] == 3
    assert [path.name for path in tmp_path.iterdir()] == ["axpy.py"]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Job, float]]:
    """The jobs that the verb would run, of which none can be executed."""
    asked: list[tuple[Job, float]] = []

    def run_job(job: Job, timeout: float) -> Outcome:
        asked.append((job, timeout))
        return Outcome("not executed", "no", "yes", ("x.py:3: f()",))

    monkeypatch.setattr("cutegen.verbs.running.run.run_job", run_job)
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
    for flags in (["--target", "sm_70"], ["--orders", "0"], ["--inouts", "c"], ["--rtol", "nan"], ["--timeout", "inf"]):
        assert CliRunner().invoke(cli, ["run", "a.py:f", "--inputs", "b.py:g", *flags]).exit_code == 2
    assert CliRunner().invoke(cli, ["run", "a.py:f"]).exit_code == 2 and not jobs
    done = CliRunner().invoke(cli, ["run", "a.py:f", "--inputs", "b.py:g", "--format", "json"])
    told = json.loads(done.stdout)
    assert (told["ok"], told["exit_code"], told["message"], told["at"]) == (False, 2, "no", ["x.py:3: f()"])
