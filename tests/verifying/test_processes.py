"""Kernels are verified in processes of their own: what ends one, hangs it or interrupts it is its kernel's alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from verification_fakes import (
    add_plan,
    add_spec,
    write_module,
)

from cutegen import emulator
from cutegen.verbs.building.verification import why_unexecuted
from cutegen.verification import KernelReport, gpu_missing
from cutegen.verification.executors import make_executor
from cutegen.verifying import pool
from cutegen.verifying.jobs import Job
from cutegen.verifying.pool import verify_all
from cutegen.verifying.worker import _executor
from cutegen.workers import prepare
from cutegen.workers.worker import Setup, Worker


def test_a_crash_and_a_hang_are_reported_for_their_kernel_only(tmp_path: Path) -> None:
    jobs = []
    for bug in ("", "crash", "hang"):
        folder = tmp_path / (bug or "right")
        folder.mkdir()
        jobs.append(Job(add_plan(), write_module(folder, add_spec(), bug)))
    seen: list[KernelReport] = []
    sys.path.insert(0, str(Path(__file__).parents[1] / "kits"))
    try:
        right, crashed = verify_all(jobs[:2], "verification_fakes:CpuExecutor", workers=2, done=seen.append)
        (hung,) = verify_all(jobs[2:], "verification_fakes:CpuExecutor", timeout=4, done=seen.append)
    finally:
        sys.path.pop(0)
    assert right.ok and right.complete and len(seen) == 3
    for report, words in ((crashed, "signal SIGBUS"), (hung, "not done after 4 s")):
        assert not report.ok and words in report.error and "M one less" in report.error
        by_name = {c.name: c for c in report.cases}
        assert by_name["tile"].status == "passed"
        assert by_name["M one less"].status == "failed" and words in by_name["M one less"].message
        assert by_name["primes"].status == "not run"
        assert report.reason == by_name["M one less"].reason == by_name["primes"].reason == "process ended"
        assert by_name["tile"].reason is None
        assert len(report.cases) == len(right.cases)


def test_a_process_goes_on_after_a_right_kernel_only(tmp_path: Path) -> None:
    jobs, pids = [], []
    for number, bug in enumerate(("", "rounding", "", "")):
        (folder := tmp_path / str(number)).mkdir()
        module = write_module(folder, add_spec(), bug)
        pids.append(folder / "pid")
        module.write_text(f"{module.read_text()}\nimport os\nopen({str(pids[-1])!r}, 'w').write(str(os.getpid()))\n")
        jobs.append(Job(add_plan(), module))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "kits"))
        reports = verify_all(jobs, "verification_fakes:CpuExecutor", workers=1)
    assert [report.ok for report in reports] == [True, False, True, True]
    first, second, third, fourth = (path.read_text() for path in pids)
    assert first == second != third == fourth


def test_torch_has_one_thread_in_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads would wait for each other, for most of the time of a verification beside anything else that runs."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert pool.worker_setup("gpu").environment(tmp_path)["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize("on", ["cpu", "gpu"])
def test_a_process_has_its_own_time_to_start(on: str) -> None:
    """However little a case has: imports take seconds, and a case of a small kernel milliseconds."""
    setup = pool.worker_setup(on, 1.0)
    assert (setup.timeout, setup.start_timeout) == (1.0, pool.TIMEOUT)


def telling(folder: Path, bug: str = "") -> tuple[Job, Path]:
    """A kernel, and the file that the number of the process that verifies it is in from then on."""
    folder.mkdir()
    module, told = write_module(folder, add_spec(), bug), folder / "pid"
    module.write_text(f"import os\nopen({str(told)!r}, 'w').write(str(os.getpid()))\n{module.read_text()}")
    return Job(add_plan(), module, "verification_fakes:CpuExecutor"), told


def test_a_process_that_died_while_it_waited_fails_no_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "kits"))
    (one, first), (two, second) = telling(tmp_path / "one"), telling(tmp_path / "two")

    def kill(report: KernelReport) -> None:
        if not second.exists():
            os.kill(int(first.read_text()), signal.SIGKILL)

    reports = verify_all([one, two], workers=1, done=kill)
    assert [(report.ok, report.error) for report in reports] == [(True, "")] * 2
    assert first.read_text() != second.read_text()


def test_a_process_that_cannot_begin_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    (report,) = verify_all([telling(tmp_path / "one")[0]])
    assert not report.ok and report.reason == "process ended" and "exit status 1" in report.error


def interrupted(jobs: Sequence[Job], when: Callable[[], bool]) -> tuple[list[KernelReport], float]:
    """The progress reported by a verification that Ctrl-C ends as soon as `when` holds, and its duration."""
    seen: list[KernelReport] = []
    sent: list[float] = []

    def send() -> None:
        while not when():
            time.sleep(0.01)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        verify_all(jobs, workers=1, timeout=60, done=seen.append)
    return seen, time.monotonic() - sent[0]


def test_what_an_interrupt_killed_is_not_called_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "kits"))
    (right, _), (hanging, told), (waiting, never) = (telling(tmp_path / b, b) for b in ("right", "hang", "waiting"))
    seen, seconds = interrupted([right, hanging, waiting], lambda: told.exists() and told.read_text() != "")
    assert [report.ok for report in seen] == [True] and seconds < 30
    assert not never.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


def test_an_interrupt_ends_a_process_that_is_only_being_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "kits"))
    begun = threading.Event()

    class Slow(Worker):
        def __init__(self, setup: Setup) -> None:
            begun.set()
            time.sleep(1)
            super().__init__(setup)

    monkeypatch.setattr("cutegen.workers.crew.Worker", Slow)
    seen, seconds = interrupted([telling(tmp_path / "hang", "hang")[0]], begun.is_set)
    assert not seen and seconds < 30


def test_nothing_is_left_where_temporary_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    prepare(pool.worker_setup("gpu"))  # the process that workers are forked from has a folder of its own elsewhere
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)  # what was found before is asked for anew
    module = write_module(tmp_path, add_spec())
    left = "import os, tempfile\nos.makedirs(os.path.join(tempfile.gettempdir(), 'root', 'cache'), exist_ok=True)\n"
    module.write_text(f"{module.read_text()}\n{left}")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "kits"))
    (report,) = verify_all([Job(add_plan(), module)], "verification_fakes:CpuExecutor")
    assert report.ok and list(temporary.iterdir()) == []


def test_an_executor_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    job = Job(add_plan(), write_module(tmp_path, add_spec()))
    with pytest.raises(ValueError, match="unknown executor"):
        make_executor("toaster")
    (report,) = verify_all([job], "toaster")
    assert not report.ok and "unknown executor" in report.error and report.reason == "no executor"
    assert {(c.status, c.reason) for c in report.cases} == {("not run", "no executor")}


def test_an_emulator_that_does_not_load_runs_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "cutegen.emulator.host.modules", None)  # type: ignore[arg-type]
    monkeypatch.delitem(vars(emulator), "install", raising=False)
    report = _executor(Job(add_plan(), write_module(tmp_path, add_spec()), "cpu"))
    assert isinstance(report, KernelReport) and report.reason == "no executor"
    assert "ModuleNotFoundError: " in report.error and "cutegen.emulator.host.modules" in report.error
    assert why_unexecuted(report) == report.error


def test_the_parent_does_not_import_torch() -> None:
    code = "import sys, cutegen.verification as v; v.gpu_available(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(gpu_missing() is None, reason="this machine has a GPU")
def test_without_a_gpu_the_reason_is_told() -> None:
    assert "libcuda" in (gpu_missing() or "") or "cuInit" in (gpu_missing() or "") or "device" in (gpu_missing() or "")
    with pytest.raises(RuntimeError, match="no GPU to verify on"):
        make_executor("gpu")
