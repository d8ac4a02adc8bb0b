"""Progress of long commands: a few plain lines, or bars on a terminal."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from building_kit import project
from rich.console import Console

from cutegen.console import BarProgress, PlainProgress


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_plain_lines_come_ever_more_seldom(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = PlainProgress(clock)
    progress.start("verifying", 2)
    for second in range(100):
        clock.now = float(second)
        progress.part("slow", "cases", second + 1, 100)
        progress.part("other", "host checks", second + 1, None)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "verifying: 2"
    assert [line for line in lines if "slow" in line] == [f"slow: {n} of 100 cases" for n in (3, 7, 15, 31, 63)]
    assert [line for line in lines if "other" in line] == [f"other: {n} host checks" for n in (3, 7, 15, 31, 63)]
    progress.step("ok slow", "slow")
    progress.part("slow", "cases", 1, 100)
    assert capsys.readouterr().err == "ok slow\n", "another one of that name begins anew"


def test_a_terminal_has_a_bar_for_each_kernel_that_runs() -> None:
    progress = BarProgress()
    drawn = io.StringIO()
    progress._console = Console(file=drawn, force_terminal=True, width=100)

    def rows() -> list[tuple[str, float, float | None]]:
        return [(task.description.strip(), task.completed, task.total) for task in progress._bar.tasks]

    progress.stop()  # before it began
    progress.start("verifying", 2)
    progress.part("one", "cases", 120, 295)
    progress.part("two", "cases", 3, 40)
    assert rows() == [("verifying", 0, 2), ("one, cases", 120, 295), ("two, cases", 3, 40)]
    progress.part("one", "host checks", 7, None)
    progress.part("two", "cases", 4, 40)
    assert rows() == [("verifying", 0, 2), ("two, cases", 4, 40), ("one, host checks", 7, None)]
    progress.step("ok one", "one")
    assert rows() == [("verifying", 1, 2), ("two, cases", 4, 40)]
    progress.stop()
    progress.start("again", 1)
    progress.part("two", "cases", 1, 40)
    assert rows() == [("again", 0, 1), ("two, cases", 1, 40)]
    progress.stop()
    assert "ok one" in drawn.getvalue()


@pytest.mark.parametrize("verb", [["build", "--no-compile"], ["verify", "--on", "cpu"]])
def test_the_first_line_comes_before_what_takes_long(verb: list[str], tmp_path: Path) -> None:
    """Before the room that does it is imported."""
    project(tmp_path, "one")
    late = "cutegen.verbs.building.verification"
    code = f"""
import sys
from cutegen.cli import main
from cutegen.console import PlainProgress
say = PlainProgress._say
def told(self, line):
    print("late" if {late!r} in sys.modules else "early", line, file=sys.stderr)
    raise SystemExit(0)
PlainProgress._say = told
sys.argv[1:] = {verb + ["specs"]}
main()
"""
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert found.stderr == "early reading specs: 1\n"
