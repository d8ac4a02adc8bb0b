"""The worker's own part, and the stopwatch of CUDA, with stand-ins for the device."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from measuring_kit import FakeWatch, elementwise, steady

from cutegen.measuring.clock import Contender
from cutegen.measuring.cuda import CudaStopwatch
from cutegen.measuring.limits import LimitError
from cutegen.measuring.measure import Refused
from cutegen.measuring.model import Limits, Machine, Request
from cutegen.measuring.worker import Job, Lost, Worker

torch = pytest.importorskip("torch")
LIMITS = Limits(4000.0, 5000.0, 4500.0, 60.0)
MACHINE = Machine("G", "9.0", "580", {}, 132, 1 << 12, 1 << 30)
RIGHT = "import torch\ndef work(a, b, d):\n    return torch.add(a, b, out=d)\ndef _compiled(*_):\n    return work\n"


class Events(list[tuple[str, Any]]):
    def tell(self, kind: str, data: Any) -> None:
        self.append((kind, data))

    def of(self, kind: str) -> list[Any]:
        return [data for found, data in self if found == kind]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Events:
    monkeypatch.setattr("gc.collect", lambda: 0)  # which here goes through all that other tests have left
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    monkeypatch.setattr("cutegen.measuring.machine.this_machine", lambda: replace(MACHINE, clocks={"sm": 1980}))
    monkeypatch.setattr("cutegen.measuring.limits.measure_limits", lambda *given: LIMITS)
    return Events()


def worker(events: Events) -> Worker:
    made = Worker(events.tell, MACHINE, device="cpu")
    made.watch = FakeWatch(steady())  # type: ignore[assignment]
    return made


def job(tmp_path: Path, text: str, limits: Limits | None = None, **more: Any) -> Job:
    path = tmp_path / "work.py"
    path.write_text(text)
    shapes = ({"M": 16, "N": 24}, {"M": 8, "N": 8})
    asked = Request(elementwise("D = A + B").plan, path, "ab", shapes, rounds=5)
    return Job(replace(asked, **more), limits)


def test_every_shape_is_told_of_and_the_machine_once_it_worked(tmp_path: Path, events: Events) -> None:
    worker(events).run(job(tmp_path, RIGHT))
    assert events.of("shape") == [{"M": 16, "N": 24}, {"M": 8, "N": 8}]
    assert [data["shape"] for data in events.of("measured")] == events.of("shape")
    assert not events.of("failure")
    assert set(events.of("host")[0]) == {"call", "compiled", "torch.add"}
    (told,) = events.of("machine")
    assert Machine.from_json(told) == replace(MACHINE, limits=LIMITS, clocks={"sm": 1980})
    assert events.of("measured")[0]["limit_us"] == pytest.approx(3 * 16 * 24 * 4 / 4000e9 * 1e6)


def test_limits_are_measured_once(tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("cutegen.measuring.limits.measure_limits", lambda *given: asked.append(given) or LIMITS)
    here = worker(events)
    here.run(job(tmp_path, RIGHT, host=False))
    here.run(job(tmp_path, RIGHT, host=False))
    worker(events).run(job(tmp_path, RIGHT, LIMITS, host=False))
    assert len(asked) == 1
    assert all(told["limits"]["copy"] == 4000.0 for told in events.of("machine"))


def test_limits_that_vary_are_noted_and_not_tried_again(
    tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def vary(*given: object) -> Limits:
        tried.append(1)
        raise LimitError("copy varies by 9.0%")

    monkeypatch.setattr("cutegen.measuring.limits.measure_limits", vary)
    here = worker(events)
    here.run(job(tmp_path, RIGHT, host=False))
    here.run(job(tmp_path, RIGHT, host=False))
    assert len(tried) == 1 and "copy varies by 9.0%" in events.of("note")[0]
    assert events.of("measured")[0]["limit_us"] is None


def test_a_wrong_shape_does_not_keep_the_next_one_from_being_measured(tmp_path: Path, events: Events) -> None:
    text = RIGHT.replace("return torch", "if a.shape[0] == 16: return d\n    return torch")
    worker(events).run(job(tmp_path, text, host=False))
    (failure,) = events.of("failure")
    assert failure["kind"] == "wrong" and failure["shape"] == {"M": 16, "N": 24}
    assert [data["shape"] for data in events.of("measured")] == [{"M": 8, "N": 8}]


def test_a_peer_that_breaks_the_device_is_blamed_and_not_the_kernel(
    tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_it(*given: object) -> None:
        raise Refused("crashed", "torch.add broke the device", "torch.add")

    monkeypatch.setattr("cutegen.measuring.measure.measure_shape", break_it)
    worker(events).run(job(tmp_path, RIGHT, host=False))
    assert {(failure["kind"], failure["what"]) for failure in events.of("failure")} == {("crashed", "torch.add")}


def test_a_module_is_loaded_once_for_requests_in_turn_and_anew_when_it_changed(tmp_path: Path, events: Events) -> None:
    counted = RIGHT + f"open({str(tmp_path / 'loads')!r}, 'a').write('x')\n"
    here = worker(events)
    for text in (counted, counted, counted + "# changed\n"):
        here.run(job(tmp_path, text, host=False))
    assert (tmp_path / "loads").read_text() == "xx"
    assert len(events.of("measured")) == 6


def test_kernels_of_coming_requests_are_compiled_before_anything_runs(tmp_path: Path, events: Events) -> None:
    """Peers may change the compiler afterwards, and the process is kept for those requests."""
    choosing = f"""
import functools
@functools.cache
def _compiled(device, number):
    open({str(tmp_path / "compiled")!r}, "a").write(f"{{number}} ")
    if number == 1:
        raise RuntimeError("does not compile")
    return work
def _cheapest(M):
    return M // 8
def _arguments(a, b, d):
    return a, b, d, _cheapest(a.shape[0])
"""
    here = worker(events)
    here.run(job(tmp_path, RIGHT + choosing, host=False, coming=({"M": 48, "N": 8}, {"M": 32, "N": 8})))
    assert (tmp_path / "compiled").read_text() == "1 2 4 6 "
    assert len(events.of("measured")) == 2
    here.run(job(tmp_path, RIGHT + choosing, host=False))
    assert (tmp_path / "compiled").read_text() == "1 2 4 6 "


def test_a_module_that_does_not_load_is_named(tmp_path: Path, events: Events) -> None:
    worker(events).run(job(tmp_path, "raise RuntimeError('no')\n"))
    (failure,) = events.of("failure")
    assert failure["kind"] == "cannot run" and "does not load: RuntimeError: no" in failure["message"]
    assert not events.of("measured")


def test_a_lost_device_ends_the_worker(tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with ...")

    monkeypatch.setattr("torch.cuda.synchronize", lost)
    with pytest.raises(Lost, match="^CUDA error: an illegal memory access was encountered$"):
        worker(events).run(job(tmp_path, RIGHT))


# the stopwatch


class Device:
    """Writes down what is asked of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.breaks = False
        device, log = self, self.log

        class Stream:
            def synchronize(self) -> None:
                log.append("wait")

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self, stream: object) -> None:
                assert isinstance(stream, Stream)
                log.append("event")

            def elapsed_time(self, end: object) -> float:
                assert log[-2:] == ["wait", "off"], "only what is done has a time"
                return 1.5  # milliseconds

        class Graph:
            def replay(self) -> None:
                log.append("replay")

        @contextlib.contextmanager
        def graph(made: object, pool: object, stream: object, capture_error_mode: str) -> Iterator[None]:
            assert isinstance(made, Graph) and pool == (0, 7) and isinstance(stream, Stream)
            log.append("capture")
            try:
                yield
            finally:
                if device.breaks:
                    raise RuntimeError("the capture is invalid")
                log.append("end")

        @contextlib.contextmanager
        def stream(made: object) -> Iterator[None]:
            log.append("on")
            yield
            log.append("off")

        for name, value in {
            "Stream": Stream,
            "Event": Event,
            "CUDAGraph": Graph,
            "graph": graph,
            "stream": stream,
            "graph_pool_handle": lambda: (0, 7),
            "synchronize": lambda: log.append("wait for all"),
            "current_device": lambda: 0,
            "_sleep": lambda cycles: log.append("sleep"),
        }.items():
            monkeypatch.setattr(f"torch.cuda.{name}", value)


def test_what_is_recorded_ran_before_and_takes_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch)
    watch = CudaStopwatch()
    watch.record(Contender("k", [lambda n=n: device.log.append(n) for n in "abc"]), 7)
    assert device.log == ["wait for all", "on", "a", "b", "wait", "capture", *"abcabca", "end", "wait", "off"]


def test_only_the_graph_is_between_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch)
    watch = CudaStopwatch()
    recorded = [watch.record(Contender("k", [lambda: None], lambda: device.log.append("reset")), 1) for _ in range(2)]
    device.log.clear()
    assert watch.time(recorded) == [1500.0, 1500.0]
    assert device.log == ["on", *["reset", "sleep", "event", "replay", "event"] * 2, "wait", "off"]


def test_a_call_that_cannot_be_recorded_says_why_and_tears_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch)
    watch = CudaStopwatch()

    def call() -> None:
        if "capture" in device.log:
            device.breaks = True
            raise ValueError("it waits for the device")

    with pytest.raises(ValueError, match="it waits for the device"):
        watch.record(Contender("k", [call]), 4)
    assert watch.torn
    device.breaks = False
    device.log.clear()
    watch.record(Contender("k", [lambda: None]), 1)


def test_torch_takes_what_the_stopwatch_gives() -> None:
    inspect.signature(torch.cuda.graph).bind(None, None, None, capture_error_mode="thread_local")
    inspect.signature(torch.cuda.Event).bind(enable_timing=True)
    for owner, names in {
        torch.cuda: ("CUDAGraph", "graph_pool_handle", "_sleep", "get_device_properties"),
        torch.cuda.CUDAGraph: ("replay",),
        torch.cuda.Event: ("record", "elapsed_time"),
    }.items():
        assert all(hasattr(owner, name) for name in names)
