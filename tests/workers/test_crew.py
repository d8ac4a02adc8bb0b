"""A crew with workers that answer, die, hang, refuse, retire and cannot start. The processes are real."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from workers_kit import Counted, count_workers, script

from cutegen.workers import Crew, Death, Ending, Setup, exit_text, python_path

# The job is a pair: lines of Python, and a value that they know as `given`
RUN = """\
scope = {**globals(), "tell": tell, "given": job[1]}
exec(job[0], scope)
return scope.get("result", os.getpid())
"""


@pytest.fixture(autouse=True)
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Counted]]:
    counted = count_workers(monkeypatch)
    yield counted
    assert counted.alive == set()
    assert not any(worker.folder.exists() for worker in counted.started)


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": python_path(), "TMPDIR": str(folder)}


def setup(timeout: float = 30.0, *, before: str = "", **more: Any) -> Setup:
    return Setup(script(RUN, before), environment, timeout, **more)


def ended(crew: Crew, *jobs: str | tuple[str, Any]) -> list[Ending]:
    """The endings of jobs, in the jobs' order."""
    found = dict(crew.run([job if isinstance(job, tuple) else (job, None) for job in jobs]))
    return [found[number] for number in range(len(jobs))]


def deaths(endings: Sequence[Ending]) -> list[str | None]:
    return [ending.death and ending.death.how for ending in endings]


def test_results_and_events_are_those_of_their_jobs() -> None:
    with Crew(setup(), 2) as crew:
        jobs = [("tell('half', given)\ntell('whole', [given])\nresult = {'twice': 2 * given}", n) for n in range(7)]
        for number, ending in enumerate(ended(crew, *jobs)):
            assert ending.result == {"twice": 2 * number} and ending.death is None
            assert ending.events == (("half", number), ("whole", [number]))


def test_events_are_told_as_they_come() -> None:
    told: list[tuple[int, str, Any]] = []
    with Crew(setup(), 2) as crew:
        work = "tell('half', given)\nimport time\ntime.sleep(0.2)\ntell('whole', given)"
        for number, ending in crew.run([(work, n) for n in range(3)], event=lambda *event: told.append(event)):
            mine = [(kind, data) for index, kind, data in told if index == number]
            assert tuple(mine) == ending.events == (("half", number), ("whole", number))
    assert len(told) == 6


def test_workers_are_kept_from_job_to_job_and_from_run_to_run(workers: type[Counted]) -> None:
    with Crew(setup()) as crew:
        pids = {ending.result for _ in range(3) for ending in ended(crew, "", "")}
    assert len(pids) == 1 and len(workers.started) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(pids.pop(), 0)


@pytest.mark.parametrize(("jobs", "most"), [(1, 1), (5, 3)])
def test_there_are_never_more_workers_than_jobs_or_than_asked_for(workers: type[Counted], jobs: int, most: int) -> None:
    with Crew(setup(), 3) as crew:
        ended(crew, *["time.sleep(0.1)"] * jobs)
    assert workers.most == most


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("os._exit(3)", "exit status 3"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "signal SIGSEGV"),
        ("raise KeyError('x')", "exit status 1"),
    ],
)
def test_a_death_ends_one_job_and_the_next_gets_a_fresh_worker(end: str, words: str) -> None:
    with Crew(setup()) as crew:
        before, dead, after = ended(crew, "print('before')", f"tell('begun', 1)\nprint('mine', flush=True)\n{end}", "")
        assert deaths([before, dead, after]) == [None, "died", None]
        assert dead.events == (("begun", 1),) and dead.result is None
        assert dead.death is not None and exit_text(dead.death.code) == words
        assert dead.death.log.startswith("mine") and "before" not in dead.death.log
        assert before.result != after.result


def test_the_last_words_are_the_end_of_the_log() -> None:
    assert Death("died", log="one\ntwo\n\n").last_words == "; its last words: two"
    assert Death("died", log=" \n").last_words == ""


def test_what_a_job_prints_and_reads_is_not_the_protocols() -> None:
    with Crew(setup()) as crew:
        (ending,) = ended(crew, "print('{\"result\": 1}'); os.system('echo there'); result = sys.stdin.read()")
    assert ending.result == ""


def test_a_job_that_takes_too_long_is_ended_with_its_children() -> None:
    child = "import subprocess\ntell('child', subprocess.Popen(['sleep', '600']).pid)\ntime.sleep(600)"
    with Crew(setup(1.5)) as crew:
        start = time.monotonic()
        hung, after = ended(crew, child, "")
        assert time.monotonic() - start < 20
    assert deaths([hung, after]) == ["overdue", None] and hung.death is not None and hung.death.seconds == 1.5
    assert not alive(dict(hung.events)["child"])


def test_events_renew_the_time_of_a_job_where_the_setup_says_so() -> None:
    slow = "for n in range(4):\n    time.sleep(0.6)\n    tell('on', n)"
    with Crew(setup(1.5, renewed=True)) as crew:
        assert deaths(ended(crew, slow, "tell('on', 1)\ntime.sleep(600)")) == [None, "overdue"]
    with Crew(setup(1.5)) as crew:
        assert deaths(ended(crew, slow)) == ["overdue"]


def test_a_process_that_hangs_may_say_where() -> None:
    register = "import faulthandler\nfaulthandler.register(signal.SIGUSR1)"
    with Crew(setup(1.5, before=register, traced=True)) as crew:
        (ending,) = ended(crew, "def here():\n    time.sleep(600)\nhere()")
    assert ending.death is not None and " in here" in ending.death.log


def test_a_worker_that_died_while_it_waited_costs_no_job() -> None:
    with Crew(setup()) as crew:
        pids = []
        for _, ending in crew.run([("", None)] * 3):
            pids.append(ending.result)
            os.kill(ending.result, signal.SIGKILL)
    assert len(set(pids)) == 3


def test_a_worker_takes_no_job_after_its_last(workers: type[Counted]) -> None:
    with Crew(setup()) as crew:
        first, second, third = ended(crew, "result = Last(os.getpid())", "", "")
    assert first.result != second.result == third.result and len(workers.started) == 2


GOING_ON = """\
import atexit, itertools, pathlib
from cutegen.workers import Going

def steps():
    for sys.steps in itertools.count(1):
        pathlib.Path(given, "stepped").touch()
        yield

atexit.register(pathlib.Path(given, "ended").touch)
result = Going("begun", steps())
"""


def test_a_job_may_go_on_after_its_result_until_there_is_another_or_none(tmp_path: Path) -> None:
    with Crew(setup(patience=30.0)) as crew:
        for _ in range(2):  # the second job finds the first one going on
            (ending,) = ended(crew, (GOING_ON, str(tmp_path)))
            assert ending.result == "begun"
        deadline = time.monotonic() + 20
        while not (tmp_path / "stepped").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        (ending,) = ended(crew, "result = sys.steps")
        assert ending.result >= 1
        ended(crew, (GOING_ON, str(tmp_path)))
    assert (tmp_path / "ended").exists(), "by itself, once there are no more jobs"


def test_a_job_is_refused_twice_before_that_is_an_error(workers: type[Counted], tmp_path: Path) -> None:
    once = "import pathlib\nif not pathlib.Path(given).exists():\n    open(given, 'w')\n    raise Refused(28)"
    with Crew(setup()) as crew:
        assert deaths(ended(crew, "", (once, str(tmp_path / "there")), "")) == [None] * 3
        assert len(workers.started) == 2
        with pytest.raises(OSError, match=r"No space left on device: '.*cutegen-worker-") as problem:
            ended(crew, "raise Refused(28)")
    assert problem.value.errno == 28


def test_an_unusable_process_is_not_tried_again_in_the_same_run(workers: type[Counted]) -> None:
    with Crew(setup(before="raise Unusable(['no', 'device'])"), 2) as crew:
        endings = ended(crew, *[""] * 9)
        assert deaths(endings) == ["unusable"] * 9 and len(workers.started) <= 2
        assert all(ending.death is not None and ending.death.why == ["no", "device"] for ending in endings)


@pytest.mark.parametrize(
    ("before", "how", "code"), [("os._exit(7)", "died", 7), ("time.sleep(600)", "overdue", -signal.SIGKILL)]
)
def test_a_process_that_never_is_ready_is_the_end_of_its_job(before: str, how: str, code: int) -> None:
    with Crew(setup(before=before, start_timeout=1.0)) as crew:
        (ending,) = ended(crew, "")
    assert ending.death is not None and (ending.death.how, ending.death.code) == (how, code)


def test_what_cannot_be_started_is_an_error() -> None:
    with Crew(Setup(["/nowhere/python"], environment, 1.0)) as crew, pytest.raises(FileNotFoundError):
        ended(crew, "")

    def refuse(folder: Path) -> dict[str, str]:
        raise LookupError(folder.name)

    with Crew(Setup(script(RUN), refuse, 1.0)) as crew, pytest.raises(LookupError, match="work"):
        ended(crew, "")


def test_an_exception_of_the_caller_ends_the_jobs_that_run(workers: type[Counted], tmp_path: Path) -> None:
    told = tmp_path / "pid"
    hang = ("open(given, 'w').write(str(os.getpid()))\ntime.sleep(600)", str(told))
    wait = ("while not os.path.exists(given) or not os.path.getsize(given):\n    time.sleep(0.01)", str(told))
    with pytest.raises(ZeroDivisionError), Crew(setup(), 2) as crew:
        for _ in crew.run([hang, wait]):
            raise ZeroDivisionError
    assert not alive(int(told.read_text()))


def test_a_crew_that_another_thread_closes_ends_its_run() -> None:
    crew = Crew(setup(60.0))
    begun = time.monotonic()
    threading.Timer(1.0, crew.close).start()
    with pytest.raises(RuntimeError, match="closed"):
        ended(crew, "time.sleep(600)")
    assert time.monotonic() - begun < 20
    with pytest.raises(RuntimeError, match="closed"):
        ended(crew, "")
    crew.close()


def test_a_job_may_be_large() -> None:
    with Crew(setup()) as crew:
        (ending,) = ended(crew, ("result = given", "x" * 3_000_000))
    assert ending.result == "x" * 3_000_000


def alive(pid: int) -> bool:
    """Whether a process still runs a little later; one that nobody has waited for does not."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
        except (FileNotFoundError, ProcessLookupError):
            return False
        time.sleep(0.05)
    return True


def test_a_run_ends_at_a_time_and_what_it_was_doing_with_it(workers: type[Counted]) -> None:
    """Whether jobs are under way, waiting, or none was begun: none of them has an ending."""
    start = time.monotonic()
    with Crew(setup(), 2) as crew:
        jobs = [("", None), *[("time.sleep(60)", None)] * 4]
        assert [number for number, _ in crew.run(jobs, until=time.monotonic() + 4)] == [0]
        assert workers.alive == set() or len(workers.alive) == 1, "but one that waits for the next run"
        assert list(crew.run([("", None)], until=time.monotonic())) == []
        assert len(ended(crew, "")) == 1, "a crew is of use after that"
    assert time.monotonic() - start < 40
