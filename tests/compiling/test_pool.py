"""The pool's conduct: order, number of workers, exceptions, interrupts, environment. Uses a stand-in compiler."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from workers_kit import Counted, count_workers, script

from cutegen.compiling import Cache, Compiled, Failed, Job, compile_all
from cutegen.compiling import pool as pool_module
from cutegen.compiling.environment import clean_environment
from cutegen.compiling.pool import worker_setup
from cutegen.compiling.worker import tried
from cutegen.workers import Crew, Refused, Setup

ROOT = Path(__file__).parents[2]


# Compiles nothing: `ok` is right, `die` dies, `hang` hangs, `full` cannot be written anywhere, `leave` is right and
# leaves a process behind whose folder is gone. Anything else fails.
STAND_IN = script(
    """\
time.sleep(0.01 * (len(job.kernel) % 3))  # so that jobs end out of order
if here.exists() is False or job.text == "full":
    raise Refused(28)
if job.text == "leave":
    here.rmdir()
if job.text == "die":
    os._exit(7)
if job.text == "hang":
    time.sleep(600)
if job.text in ("ok", "leave"):
    artefact = Artefact(job.kernel, job.target, "", b"", "", Resources(1, 0, 0, 0, 0))
    return {"artefact": artefact.as_json(), "seconds": 0.5}
return {"failed": {"kind": "exception", "message": job.text, "line": 3, "text": "x", "trace": [[3, "x"]]}}
""",
    more="from pathlib import Path\nfrom cutegen.compiling import Artefact, Resources\nhere = Path.cwd()",
)
IMPOSSIBLE = {"kind": "exception", "message": "the compiler cannot be imported: ModuleNotFoundError: no cutlass"}


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Counted]]:
    """The stand-in in the place of the compiler; every process is ended by the end of the test."""
    monkeypatch.setattr(pool_module, "worker_command", lambda module: STAND_IN)
    counted = count_workers(monkeypatch)
    yield counted
    assert counted.alive == set()


def test_a_crew_stays_for_the_next_jobs(workers: type[Counted], tmp_path: Path) -> None:
    jobs = [Job("ok", f"k{i}", "sm_80") for i in range(3)]
    with Crew(worker_setup(60.0)) as crew:
        for some in (jobs[:1], jobs[1:]):
            found = compile_all(some, workers=2, crew=crew)
            assert [outcome.artefact.kernel for outcome in found if isinstance(outcome, Compiled)] == [
                job.kernel for job in some
            ]
        assert len(workers.alive) == 1


def test_outcomes_come_in_the_order_of_the_jobs(workers: type[Counted]) -> None:
    texts = ["ok", "die", "wrong", "hang", "ok", "ok", "die", "wrong", "ok"]
    jobs = [Job(text, f"k{'x' * number}", "sm_80") for number, text in enumerate(texts)]
    seen: list[tuple[Job, str]] = []
    caller = threading.get_ident()

    def on_done(job: Job, outcome: object) -> None:
        assert threading.get_ident() == caller
        seen.append((job, type(outcome).__name__))

    outcomes = compile_all(jobs, workers=3, on_done=on_done, timeout=3)
    kinds = {"ok": "ok", "die": "crash", "wrong": "exception", "hang": "timeout"}
    assert [o.kind if isinstance(o, Failed) else "ok" for o in outcomes] == [kinds[text] for text in texts]
    for job, outcome in zip(jobs, outcomes, strict=True):
        if isinstance(outcome, Compiled):
            assert (outcome.artefact.kernel, outcome.seconds, outcome.cached) == (job.kernel, 0.5, False)
        elif outcome.kind == "crash":
            assert outcome.message == "the compiler's process ended with status 7 in the middle of the job"
        elif outcome.kind == "timeout":
            assert outcome.message == "no answer from the compiler within 3 s; killed"
        else:
            assert (outcome.line, outcome.trace) == (3, ((3, "x"),))
    assert sorted(job.kernel for job, _ in seen) == sorted(job.kernel for job in jobs)
    assert workers.most <= 3
    assert len(workers.started) <= 3 + texts.count("die") + texts.count("hang")


@pytest.mark.parametrize(("given", "count", "most"), [(8, 2, 2), (1, 5, 1), (2, 6, 2)])
def test_no_more_workers_than_needed(workers: type[Counted], given: int, count: int, most: int) -> None:
    compile_all([Job("ok", "k", "sm_80")] * count, workers=given)
    assert 1 <= len(workers.started) <= most


def test_workers_must_be_positive() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        compile_all([Job("ok", "k", "sm_80")], workers=0)


def test_failures_are_not_cached_and_artefacts_are(workers: type[Counted], tmp_path: Path) -> None:
    jobs = [Job("ok", "good", "sm_80"), Job("wrong", "bad", "sm_80"), Job("die", "dead", "sm_80")]
    compile_all(jobs, workers=1, cache=Cache(tmp_path))
    good, bad, dead = compile_all(jobs, workers=1, cache=Cache(tmp_path))
    assert isinstance(good, Compiled) and good.cached
    assert isinstance(bad, Failed) and isinstance(dead, Failed)


def test_an_unusable_compiler_is_tried_once_a_worker(workers: type[Counted], monkeypatch: pytest.MonkeyPatch) -> None:
    command = script("pass", before=f"raise Unusable({IMPOSSIBLE!r})")
    monkeypatch.setattr(pool_module, "worker_command", lambda module: command)
    outcomes = compile_all([Job("ok", "k", "sm_80")] * 9, workers=2)
    assert outcomes == [Failed.from_json(IMPOSSIBLE)] * 9
    assert len(workers.started) <= 2


def test_an_exception_of_the_caller_ends_everything(workers: type[Counted]) -> None:
    def on_done(job: Job, outcome: object) -> None:
        raise RuntimeError("the caller's own")

    with pytest.raises(RuntimeError, match="the caller's own"):
        compile_all([Job("ok", "k", "sm_80")] * 50, workers=2, on_done=on_done)


def test_a_process_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(setup: Setup) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("cutegen.workers.crew.Worker", refuse)
    with pytest.raises(OSError, match="temporarily unavailable"):
        compile_all([Job("ok", "k", "sm_80")] * 3, workers=2)


def test_a_worker_without_a_folder_fails_no_job(workers: type[Counted]) -> None:
    outcomes = compile_all([Job(text, "k", "sm_80") for text in ("ok", "leave", "ok", "ok")], workers=1)
    assert all(isinstance(outcome, Compiled) for outcome in outcomes) and len(workers.started) == 2


def test_that_nothing_can_be_written_is_an_error_and_no_outcome(workers: type[Counted]) -> None:
    with pytest.raises(OSError, match=r"No space left on device: '.*cutegen-worker-"):
        compile_all([Job("ok", "k", "sm_80"), Job("full", "k", "sm_80")], workers=1)
    assert len(workers.started) == 2


@pytest.mark.parametrize("when", ["before", "while it compiles"])
def test_a_worker_whose_folder_is_gone_blames_no_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    if when == "before":
        folder.rmdir()
    text = f"import shutil\nshutil.rmtree({str(folder)!r})\nraise KeyError('x')\n"
    with pytest.raises(Refused) as refused:
        tried(Job(text, "k", "sm_80"), 0, keep_lines=False)
    assert refused.value.errno == errno.ENOENT


def test_the_environment_is_cleaned(tmp_path: Path) -> None:
    given = {
        "PATH": "/bin",
        "HOME": "/home/x",
        "CUTE_DSL_ARCH": "sm_100a",
        "CUTE_DSL_COMPILER_OPT": "iket",
        "CUTE_EXPERIMENTAL_DSL_DEBUG": "1",
        "LLVM_OVERRIDE_PRODUCER": "x",
        "PYTHONOPTIMIZE": "2",
        "PYTHONPATH": os.pathsep.join(["relative", "/absolute"]),
        "CUDA_VISIBLE_DEVICES": "0",
    }
    clean = clean_environment(given, tmp_path)
    assert clean["PATH"] == "/bin" and clean["HOME"] == "/home/x"
    assert not [name for name in clean if name.startswith(("CUTE_", "LLVM_"))]
    assert "PYTHONOPTIMIZE" not in clean
    assert clean["PYTHONPATH"].split(os.pathsep) == [str(ROOT), str(Path("relative").absolute()), "/absolute"]
    assert clean["CUDA_VISIBLE_DEVICES"] == "" and clean["TMPDIR"] == str(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_interrupt_kills_every_worker(tmp_path: Path) -> None:
    """Ctrl-C in the middle of jobs that hang: workers, their children and their folders go at once."""
    module = textwrap.dedent(
        """
        import os, pathlib, subprocess, sys, time
        child = subprocess.Popen(["sleep", "600"])
        def compile_for(arch, options):
            with open({pids!r}, "a") as file:
                file.write(f"{{os.getpid()}} {{child.pid}}\\n")
            time.sleep(600)
        """
    )
    pids = tmp_path / "pids"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    script = textwrap.dedent(
        f"""
        from cutegen.compiling import Job, compile_all
        text = {module.format(pids=str(pids))!r}
        compile_all([Job(text, "a", "sm_80"), Job(text, "b", "sm_80"), Job(text, "c", "sm_80")], workers=2)
        """
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    parent = subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (pids.exists() and len(pids.read_text().splitlines()) == 2):
        time.sleep(0.05)
    parent.send_signal(signal.SIGINT)
    _, said = parent.communicate(timeout=20)
    assert "KeyboardInterrupt" in said
    processes = [int(pid) for pid in pids.read_text().split()]
    assert len(processes) == 4
    deadline = time.monotonic() + 5  # the children's parent is gone: init reaps them
    while time.monotonic() < deadline and any(running(pid) for pid in processes):
        time.sleep(0.05)
    assert [pid for pid in processes if running(pid)] == []
    assert list(temporary.iterdir()) == []


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
