"""A worker answers in events; whatever becomes of it, the parent says what it was doing and goes on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from measuring_kit import elementwise
from workers_kit import script

from cutegen.measuring.model import Failure, Limits, Machine, Measured, Request, Timing
from cutegen.measuring.session import Invisible, Session, visible_device

TIMING = Timing(2.0, 0.01, 30)
MEASURED = Measured({"M": 4}, TIMING, {}, {}, 1, 2, None, "cold", None, None, None)
MACHINE = Machine("G", "9.0", "580", {}, 132, 1, 2, {}, Limits(1.0, 2.0, 3.0, None))

# A worker that does what its job's module says: lines of Python, which may set a `result`
WORKER = script(
    """\
def say(**event):
    for kind, data in event.items():
        tell(kind, data)
scope = {**globals(), "job": job, "say": say}
exec(job.request.module.read_text(), scope)
return scope.get("result")
""",
    more="import cutegen.measuring.worker",
)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)  # which may leave no GPU
    plan = elementwise("D = A").plan

    def make(script: str) -> Request:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.py"
        path.write_text(script)
        return Request(plan, path, "ab", ({"M": 4, "N": 4},))

    return make


def session(**more: object) -> Session:
    return Session(worker=WORKER, **more)  # type: ignore[arg-type]


def say(**event: object) -> str:
    return f"say(**{event!r})\n"


ONE = say(running="work") + say(shape={"M": 4}) + say(measured=MEASURED.as_json())


def test_what_a_worker_says_becomes_a_result(job) -> None:  # type: ignore[no-untyped-def]
    failure = {"kind": "spread", "what": "torch.add", "shape": {"M": 4}, "message": "wide"}
    notes: list[str] = []
    script = say(machine=MACHINE.as_json()) + say(note="a note") + ONE + say(failure=failure)
    script += say(host={"call": {"us": 4.0, "spread": 0.1, "rounds": 50}})
    with session(note=notes.append) as opened:
        found = opened.measure(job(script))
        assert opened.machine == MACHINE
    assert found.kernel == "work" and found.code_hash == "ab"
    assert found.measured == (MEASURED,)
    assert found.failures == (Failure(**failure),)
    assert found.host == {"call": Timing(4.0, 0.1, 50)}
    assert notes == ["a note"]


def test_one_worker_serves_many_requests(job) -> None:  # type: ignore[no-untyped-def]
    tell = "say(failure={'kind': 'spread', 'what': str(os.getpid()), 'shape': None, 'message': ''})\n"
    with session() as opened:
        pids = [opened.measure(job(tell)).failures[0].what for _ in range(3)]
    assert len(set(pids)) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids[0]), 0)


def test_a_worker_that_retires_is_followed_by_another(job) -> None:  # type: ignore[no-untyped-def]
    tell = "say(failure={'kind': 'spread', 'what': str(os.getpid()), 'shape': None, 'message': ''})\n"
    with session() as opened:
        pids = [opened.measure(job(tell + "result = Last(None)\n")).failures[0].what for _ in range(2)]
    assert len(set(pids)) == 2


def test_a_worker_that_died_while_it_waited_is_no_crash_of_the_next_kernel(job) -> None:  # type: ignore[no-untyped-def]
    tell = "say(failure={'kind': 'spread', 'what': str(os.getpid()), 'shape': None, 'message': ''})\n"
    with session() as opened:
        first = int(opened.measure(job(tell)).failures[0].what)
        os.kill(first, signal.SIGKILL)
        (told,) = opened.measure(job(tell)).failures
        assert told.kind == "spread" and int(told.what) != first


def test_a_kernel_that_ends_two_workers_is_given_up(job) -> None:  # type: ignore[no-untyped-def]
    """Before either says anything: the first one could have died while it waited, but not the fresh one."""
    with session() as opened:
        assert opened.measure(job(ONE)).ok
        (failure,) = opened.measure(job("os.kill(os.getpid(), signal.SIGSEGV)\n")).failures
        assert failure.kind == "crashed" and "signal SIGSEGV" in failure.message


def test_what_a_library_prints_is_no_event(job) -> None:  # type: ignore[no-untyped-def]
    with session() as opened:
        assert opened.measure(job("print('hello'); os.system('echo there')\n" + ONE)).ok


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)\n", "signal SIGSEGV"),
        ("print('illegal address', file=sys.stderr); sys.exit(7)\n", "exit status 7; its last words: illegal address"),
        ("result = Last({'lost': 'an illegal memory access'})\n", "the device was lost: an illegal memory access"),
    ],
)
def test_a_crash_is_named_with_what_ran_and_the_next_kernel_gets_a_fresh_worker(job, end: str, words: str) -> None:  # type: ignore[no-untyped-def]
    with session() as opened:
        found = opened.measure(job(ONE + say(running="cuBLAS") + say(shape={"M": 8}) + end))
        (failure,) = found.failures
        assert (failure.kind, failure.what, failure.shape) == ("crashed", "cuBLAS", {"M": 8})
        assert words in failure.message
        assert found.measured == (MEASURED,), "what was measured before is kept"
        assert opened.measure(job(ONE)).ok


def test_a_hang_is_named(job) -> None:  # type: ignore[no-untyped-def]
    with session(timeout=1.0) as opened:
        start = time.monotonic()
        found = opened.measure(job(ONE + "time.sleep(600)\n"))
        assert time.monotonic() - start < 500, "nobody waited for its end"
        assert [(f.kind, f.what) for f in found.failures] == [("hung", "work")]
        assert "1 s" in found.failures[0].message
        assert opened.measure(job(ONE)).ok


def test_a_slow_worker_that_speaks_is_no_hang(job) -> None:  # type: ignore[no-untyped-def]
    slow = "".join("time.sleep(0.6)\n" + say(running="work") for _ in range(4))
    with session(timeout=2.0) as opened:
        assert opened.measure(job(slow + ONE)).ok


def test_limits_are_measured_once_for_all_workers(job) -> None:  # type: ignore[no-untyped-def]
    tell = "say(failure={'kind': 'spread', 'what': repr(job.limits), 'shape': None, 'message': ''})\n"
    with session() as opened:
        assert opened.measure(job(tell + say(machine=MACHINE.as_json()))).failures[0].what == "None"
        opened.measure(job("sys.exit(1)\n"))
        assert opened.measure(job(tell)).failures[0].what == repr(MACHINE.limits)


def test_limits_that_end_a_worker_are_not_asked_for_again(job) -> None:  # type: ignore[no-untyped-def]
    tell = "say(failure={'kind': 'spread', 'what': str(job.request.limits), 'shape': None, 'message': ''})\n"
    with session() as opened:
        assert opened.measure(job(tell)).failures[0].what == "True"
        opened.measure(job(say(running="the GPU's own limits") + "sys.exit(1)\n"))
        assert opened.measure(job(tell)).failures[0].what == "False"


def test_a_worker_sees_one_device(job, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    tell = "say(failure={'kind': 'spread', 'what': os.environ['CUDA_VISIBLE_DEVICES'], 'shape': None, 'message': ''})\n"
    with session(device=3) as opened:
        assert opened.measure(job(tell)).failures[0].what == "3"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    with session(device=1) as opened:
        assert opened.measure(job(tell)).failures[0].what == "5"
    with session(device=2) as opened:
        (failure,) = opened.measure(job(tell)).failures
        assert failure.kind == "cannot run" and opened.machine is None
        assert "no GPU 2" in failure.message and "`4,5`" in failure.message and "GPUs 0 to 1" in failure.message


@pytest.mark.parametrize(
    ("device", "visible", "wanted"),
    [(0, None, "0"), (2, None, "2"), (0, "4,5", "4"), (1, "4, GPU-abc", "GPU-abc"), (0, "4,-1,5", "4")],
)
def test_devices_are_counted_among_those_that_are_visible(device: int, visible: str | None, wanted: str) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert visible_device(device, environment) == wanted


@pytest.mark.parametrize(("device", "visible"), [(0, ""), (0, "-1"), (1, "3"), (1, "4,-1,5"), (2, "4,5")])
def test_a_device_that_is_not_visible_is_refused(device: int, visible: str) -> None:
    with pytest.raises(Invisible, match=f"no GPU {device}: CUDA_VISIBLE_DEVICES is `{visible}`"):
        visible_device(device, {"CUDA_VISIBLE_DEVICES": visible})


def test_the_real_worker_without_a_gpu_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    module = elementwise("D = A")
    path = tmp_path / "work.py"
    path.write_text(module.text)
    with Session() as opened:
        found = opened.measure(Request(module.plan, path, "ab", ({"M": 4, "N": 4},)))
        assert opened.machine is None
    (failure,) = found.failures
    assert failure.kind == "cannot run"
    assert "the device cannot be used" in failure.message and "CUDA" in failure.message
