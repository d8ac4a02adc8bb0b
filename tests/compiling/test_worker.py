"""The compiler's process: what its second try for a failure's line is good for, and how it words what went wrong."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from workers_kit import count_workers, script

from cutegen.compiling import Failed, Job, compile_all
from cutegen.compiling.deaths import fault_trace
from cutegen.compiling.worker import essence, run
from cutegen.workers import Last, Refused

FIRST = {"kind": "exception", "message": "first", "line": 9}
SECOND = {"kind": "exception", "message": "second", "line": 4}


@pytest.mark.parametrize(
    ("then", "result"),
    [
        ({"failed": SECOND, "unlocated": False}, SECOND),
        ({"failed": {**SECOND, "line": 9}, "unlocated": True}, FIRST),
        ({"artefact": {}, "seconds": 0.1}, FIRST),
        (Refused(28), FIRST),
    ],
)
def test_a_second_try_only_ever_adds_a_line(monkeypatch: pytest.MonkeyPatch, then: Any, result: Any) -> None:
    def tried(job: Job, number: int, *, keep_lines: bool) -> Any:
        if not keep_lines:
            return {"failed": FIRST, "unlocated": True}
        if isinstance(then, Exception):
            raise then
        return then

    monkeypatch.setattr("cutegen.compiling.worker.tried", tried)
    said: list[tuple[str, Any]] = []
    answer = run(Job("bad", "k", "sm_80"), count(), lambda kind, data: said.append((kind, data)))
    if isinstance(then, Refused):
        assert isinstance(answer, Last), "a worker that cannot write takes no other job"
        answer = answer.result
    assert answer["failed"] == result and said == [("failed", FIRST)]


@pytest.mark.parametrize(
    ("then", "workers"),
    [(f"return {{'failed': {FIRST!r}}}", 1), ("os._exit(1)", 2), ("time.sleep(600)", 2)],
)
def test_a_second_try_that_ends_a_worker_leaves_the_first_outcome(
    monkeypatch: pytest.MonkeyPatch, then: str, workers: int
) -> None:
    good = "if job.text == 'good':\n    return {'failed': {'kind': 'exception', 'message': 'next'}}"
    command = script(f"{good}\ntell('failed', {FIRST!r})\n{then}", more="import cutegen.compiling")
    monkeypatch.setattr("cutegen.compiling.pool.worker_command", lambda module: command)
    counted = count_workers(monkeypatch)
    first, second = compile_all([Job("bad", "k", "sm_80"), Job("good", "k", "sm_80")], workers=1, timeout=3)
    assert isinstance(first, Failed) and isinstance(second, Failed)
    assert (first.message, second.message, len(counted.started)) == ("first", "next", workers)
    assert counted.alive == set()


def test_fault_trace() -> None:
    job = Job("one\ntwo\nthree\n", "k", "sm_80")
    said = """\
Fatal Python error: Floating point exception
  File "/venv/cutlass/k.py", line 1 in elsewhere
  File "/tmp/w/job-3/k.py", line 2 in kernel
  File "/venv/cutlass/dsl.py", line 7 in _func
  File "/tmp/w/job-3/k.py", line 3 in compile
  File "/tmp/w/job-3/k.py", line 99 in gone
  File "/tmp/w/job-3/other.py", line 1 in x""".splitlines()
    assert fault_trace(said, job) == ((3, "three"), (2, "two"))
    assert fault_trace(said, replace(job, kernel="z")) == ()


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("plain", "plain"),
        ("", ""),
        ("two\nlines", "two lines"),
        ("Operation creation failed:\nerror: unknown: no", "Operation creation failed: no"),
        (
            "error[INTERNAL]: It could not.\n\n  --> k.py:3:4\n      in function `f(...)`:\n   |\n  2 | a\n> 3 | b\n"
            "     |  ^\n  error: IR failed: 'op'\n         goes on\n"
            "  suggestion: Try\n     this.\n  note: log:\n     x: y\n",
            "It could not. IR failed: 'op' goes on note: log: x: y",
        ),
        ("error: PTX failed\n\n  error: ptxas rejected it.", "PTX failed: ptxas rejected it."),
        ("bad\n  = note: Caused exception: bad\n  suggestion: mend it", "bad"),
    ],
)
def test_essence(said: str, wanted: str) -> None:
    assert essence(said) == wanted
