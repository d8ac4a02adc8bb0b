"""The stopwatch of a CUDA device: launches recorded in CUDA graphs unless they are long, timed by the device's own
events."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutegen.measuring.clock import Contender

if TYPE_CHECKING:
    import torch

_DELAY = 600_000  # clock cycles, about 0.3 ms: the host queues the graph meanwhile


@dataclass(frozen=True)
class Recording:
    play: Callable[[], object]
    reset: Callable[[], object]


class CudaStopwatch:
    """Records and replays on a stream of its own, of the current device.

    A graph's launches follow each other on the device with no host between them; long calls need no graph for that.
    Each replay is preceded by a pause of the device, so that the host's time to start is not in the figure.

    `torn`: a recording failed, after which torch may still think that it records; a fresh process is safer.
    """

    def __init__(self) -> None:
        import torch

        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.torn = False

    def record(self, contender: Contender, launches: int, graph: bool = True) -> Recording:
        return self._graph(contender, launches) if graph else _by_hand(contender, launches)

    def _graph(self, contender: Contender, launches: int) -> Recording:
        import torch

        torch.cuda.synchronize()
        with torch.cuda.stream(self.stream):
            for call in contender.calls[:2]:  # compiles, allocates workspaces: nothing that a capture may do
                call()
            self.stream.synchronize()
            graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
            failed: Exception | None = None
            try:
                # Other threads (of a compiler's pool, say) may talk to the driver meanwhile
                with torch.cuda.graph(graph, pool, self.stream, capture_error_mode="thread_local"):
                    try:
                        for number in range(launches):
                            contender.calls[number % len(contender.calls)]()
                    except Exception as error:
                        failed = error
                        raise
            except Exception as error:  # of the capture's end, where a call broke it: the call's own says more
                self.torn = True
                # Where the capture's end failed, the allocator was not told of it
                with contextlib.suppress(AttributeError, RuntimeError, TypeError):
                    torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)
                raise failed or error from None
            self.stream.synchronize()
        return Recording(graph.replay, contender.reset)

    def time(self, recordings: Sequence[Recording]) -> list[float]:
        import torch

        spans = []
        with torch.cuda.stream(self.stream):
            for recording in recordings:
                recording.reset()
                start, end = _event(), _event()
                torch.cuda._sleep(_DELAY)  # type: ignore[no-untyped-call]
                start.record(self.stream)
                recording.play()
                end.record(self.stream)
                spans.append((start, end))
            self.stream.synchronize()
        return [start.elapsed_time(end) * 1e3 for start, end in spans]


def _by_hand(contender: Contender, launches: int) -> Recording:
    def play() -> None:
        for number in range(launches):
            contender.calls[number % len(contender.calls)]()

    return Recording(play, contender.reset)


def _event() -> torch.cuda.Event:
    import torch

    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
