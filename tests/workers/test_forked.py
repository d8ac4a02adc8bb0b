"""Workers that are forked from a process which has imported what they need: they are like those that are started."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutegen.workers import Crew, Ending, Setup, end_fork_servers, prepare, python_path, worker_command
from cutegen.workers.worker import Worker

KITS = str(Path(__file__).parents[1] / "kits")


@pytest.fixture(autouse=True)
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fork servers of these tests' own, which leave no process behind. Those of other tests go on."""
    with monkeypatch.context() as patch:
        patch.setattr("cutegen.workers.forked._servers", {})
        yield
        end_fork_servers()


def setup(timeout: float = 30.0, imports: tuple[str, ...] = ("forked_kit",), **variables: str) -> Setup:
    def environment(folder: Path) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": python_path(KITS), "TMPDIR": str(folder), **variables}

    return Setup(worker_command("forked_kit"), environment, timeout, imports=imports)


def endings(crew: Crew, *jobs: tuple[str, Any]) -> list[Ending]:
    found = dict(crew.run(jobs))
    return [found[number] for number in range(len(jobs))]


def tells(crew: Crew) -> dict[str, Any]:
    (ending,) = endings(crew, ("tell", None))
    assert isinstance(ending.result, dict)
    return ending.result


def test_workers_are_forked_from_one_process_that_has_the_imports() -> None:
    with Crew(setup(), 2) as crew, Crew(setup()) as other:
        found = [ending.result for ending in endings(crew, ("tell", None), ("tell", None))] + [tells(other)]
    assert len({each["imported by"] for each in found}) == 1
    assert all(each["process"] != each["imported by"] for each in found)


@pytest.mark.parametrize("name", ["PYTEST_CURRENT_TEST", "CUTEGEN_CACHE_DIR"])
def test_variables_that_no_import_reads_need_no_other_process_to_fork_from(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the name of the test that runs, which pytest keeps in one, and the folder of caches that a test has."""
    found = []
    for value in ("one", "two"):
        monkeypatch.setenv(name, value)
        with Crew(setup()) as crew:
            found.append(tells(crew))
        assert found[-1]["variables"][name] == value
    assert found[0]["imported by"] == found[1]["imported by"]


def test_without_imports_a_worker_is_a_process_of_its_own() -> None:
    with Crew(setup(imports=())) as crew:
        found = tells(crew)
    assert found["process"] == found["imported by"]


def test_a_worker_has_its_own_folder_session_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "1")
    with Crew(setup()) as crew:
        first = tells(crew)
    assert first["session"] == first["process"] and first["folder"] == first["temporary"]
    assert not Path(first["folder"]).exists() and first["variables"]["ONE"] == "1"
    assert first["variables"]["TMPDIR"] == first["folder"] and KITS in first["path"]
    monkeypatch.delenv("ONE")  # of which what was imported may have made something
    with Crew(setup()) as crew:
        second = tells(crew)
    assert "ONE" not in second["variables"] and second["imported by"] != first["imported by"]


@pytest.mark.parametrize(
    ("job", "code"),
    [(("exit", 3), 3), (("exit", "why"), 1), (("raise", "x"), 1), (("signal", "SIGSEGV"), -signal.SIGSEGV)],
)
def test_how_a_worker_ended_is_told(job: tuple[str, Any], code: int) -> None:
    with Crew(setup()) as crew:
        (ending,) = endings(crew, job)
        assert ending.death is not None and (ending.death.how, ending.death.code) == ("died", code)
        assert {"exit": "last words", "raise": "KeyError"}.get(job[0], "") in ending.death.log
        assert tells(crew)["process"] > 0


def test_a_worker_that_hangs_is_killed() -> None:
    with Crew(setup(timeout=0.5)) as crew:
        start = time.monotonic()
        (ending,) = endings(crew, ("sleep", 600))
        assert ending.death is not None and ending.death.how == "overdue" and time.monotonic() - start < 20


def ends(process: int) -> bool:
    """Whether a process ends soon."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":  # whose parent is gone
            return True
        time.sleep(0.05)
    return False


def test_what_a_worker_started_ends_with_it() -> None:
    with Crew(setup()) as crew:
        (ending,) = endings(crew, ("leave", 600))
    assert isinstance(ending.result, int) and ends(ending.result)
    with Crew(setup()) as crew:
        left, died = endings(crew, ("leave", 600), ("exit", 3))
        assert died.death is not None and isinstance(left.result, int) and ends(left.result)


def test_without_a_fork_server_a_worker_is_ended_all_the_same() -> None:
    worker = Worker(setup())
    told: list[tuple[str, Any]] = []
    worker.send(("tell", None))
    while not any(kind == "result" for kind, _ in told):
        told += worker.hear() or []
    found = dict(told)["result"]
    worker.send(("sleep", 600))
    os.kill(found["imported by"], signal.SIGKILL)
    worker.close()
    assert ends(found["process"])


def test_a_process_that_cannot_be_forked_is_started() -> None:
    with Crew(setup(imports=("forked_kit", "forked_none"))) as crew:
        found = tells(crew)
    assert found["process"] == found["imported by"]


def test_a_worker_that_has_not_begun_can_be_ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the fork server still imports."""
    slow = setup(imports=("forked_slow",))
    monkeypatch.syspath_prepend(KITS)
    worker = Worker(slow)
    start = time.monotonic()
    worker.kill()
    assert worker.end(0.0) == -signal.SIGKILL and time.monotonic() - start < 15  # of the 20 that the import takes
    worker.close()
    assert not worker.folder.exists()


def test_a_crew_whose_workers_have_not_begun_can_be_closed_by_another_thread() -> None:
    crew, raised = Crew(setup(imports=("forked_slow",))), []

    def run() -> None:
        with pytest.raises(RuntimeError, match="closed"):
            endings(crew, ("tell", None))
        raised.append(True)

    running = threading.Thread(target=run)
    running.start()
    while not crew._workers:
        time.sleep(0.01)
    closing = threading.Thread(target=crew.close)
    closing.start()
    for thread in (closing, running):
        thread.join(10.0)  # a half of what the imports take
        assert not thread.is_alive()
    assert raised
    crew.close()


def test_a_fork_server_that_died_is_replaced() -> None:
    with Crew(setup()) as crew:
        first = tells(crew)
    os.kill(first["imported by"], signal.SIGKILL)
    assert ends(first["imported by"])
    with Crew(setup()) as crew:
        second = tells(crew)
    assert second["imported by"] != first["imported by"]


def test_what_cannot_be_imported_is_left_to_the_workers() -> None:
    with Crew(setup(imports=("no_such_module",))) as crew:
        found = tells(crew)
    assert found["process"] == found["imported by"]  # the worker itself


@pytest.mark.parametrize("threads", [False, True])
def test_a_process_that_has_threads_is_not_forked(threads: bool) -> None:
    with Crew(setup(imports=("forked_kit", *["forked_threads"] * threads))) as crew:
        found = tells(crew)
        assert (found["process"] == found["imported by"]) is threads
        assert found["session"] == found["process"] and found["folder"] == found["temporary"]
        (ending,) = endings(crew, ("exit", 3))
        assert ending.death is not None and ending.death.code == 3 and "last words" in ending.death.log


def test_with_a_driver_of_cuda_nothing_is_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutegen.workers.forked._has_driver", lambda: True)
    with Crew(setup()) as crew:
        found = tells(crew)
    assert found["process"] == found["imported by"]


def test_a_fork_server_is_prepared_without_waiting() -> None:
    start = time.monotonic()
    prepare(setup(imports=("forked_slow",)))
    assert time.monotonic() - start < 15  # of the 20 that the import takes


def test_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Crew(setup()) as crew:
        first = tells(crew)["imported by"]
    os.kill(first, signal.SIGKILL)
    with Crew(setup()) as crew:
        assert tells(crew)["process"]
    assert ends(first)
    with Crew(setup()) as crew:
        process = tells(crew)["imported by"]
    end_fork_servers()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_several_threads_may_ask() -> None:
    found: list[dict[str, Any]] = []

    def ask() -> None:
        with Crew(setup(ONE="1" * 100_000)) as crew:
            found.append(tells(crew))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each["process"] for each in found}) == 8 and len({each["imported by"] for each in found}) == 1


def test_a_worker_is_forked_once_what_it_needs_is_imported() -> None:
    modules = ("forked_kit", "forked_pause", "forked_last")
    prepare(setup(imports=modules, OF="several modules"))
    with Crew(setup(imports=modules[:2], OF="several modules")) as crew:
        first = tells(crew)
    with Crew(setup(imports=modules, OF="several modules")) as crew:
        second = tells(crew)
    assert "forked_pause" in first["modules"] and "forked_last" not in first["modules"]
    assert {*modules} <= {*second["modules"]}
    assert first["imported by"] == second["imported by"] and first["process"] != first["imported by"]


def test_a_worker_holds_nothing_of_those_that_are_forked_after_it() -> None:
    """Both wait for the import. The first one goes on, and the end of the second is told all the same."""
    both = setup(timeout=15.0, imports=("forked_kit", "forked_pause"), OF="two at once")
    with Crew(both, 2) as crew:
        _, second = endings(crew, ("tell", None), ("signal", "SIGKILL"))
    assert second.death is not None and second.death.how == "died" and second.death.code == -signal.SIGKILL
