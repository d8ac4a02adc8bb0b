"""Times of several contenders, taken in turns so that what changes on the GPU meanwhile changes for all of them.

This module knows nothing of torch: a `Stopwatch` records and replays, `cuda.CudaStopwatch` on a GPU.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Generic, Protocol, TypeVar

from cutegen.measuring.model import ROUNDS, SPREAD_LIMIT, Timing

TARGET_US = 4000.0  # of one recording: against it, the cost of launching the graph is a part in a thousand
MOST_LAUNCHES = 4096  # in one recording
# A longer call is launched by the host, which is far ahead then: in a graph, torch's copies of 512 MB and more took
# longer by a third on an H200
LONG_US = 200.0
MORE = 3  # times the rounds, where the spread was too wide at first
SETTLED = 0.01  # of the time of a round, over STEADY rounds
STEADY = 3
LEAST_WARM_US, MOST_WARM_US = 3e5, 3e6  # of the GPU's time, before anything counts


def nothing() -> None:
    """Does nothing, for contenders that leave their arguments as they were."""


@dataclass(frozen=True)
class Contender:
    """Something that is timed. `calls` do the same work on each set of arguments.

    `reset` brings the arguments back to what they were; it is called before each replay, outside of what is timed.
    With `once` a replay makes each call once only: the second one would find what the first one wrote.
    """

    name: str
    calls: Sequence[Callable[[], object]]
    reset: Callable[[], object] = nothing
    once: bool = False


R = TypeVar("R")


class Stopwatch(Protocol, Generic[R]):
    """Records calls once and replays them as often as asked."""

    def record(self, contender: Contender, launches: int, graph: bool = True) -> R:
        """Records the contender's calls, in turn, until there are `launches`. Raises what a call raises.

        They are recorded in a graph, or without one to be made by the host each time.
        """

    def time(self, recordings: Sequence[R]) -> list[float]:
        """Replays recordings one after the other without a pause; gives the microseconds that each of them took."""


@dataclass(frozen=True)
class Prepared(Generic[R]):
    """A contender that is ready to be timed. `us` is a first estimate of one call."""

    name: str
    recording: R
    launches: int
    us: float


def prepare(contender: Contender, watch: Stopwatch[R], target_us: float = TARGET_US) -> Prepared[R]:
    """Records as many launches as make `target_us`, each set of arguments equally often, or as often as it may be.

    Raises what a call raises.
    """
    sets = len(contender.calls)
    once = watch.record(contender, sets)
    us = min(watch.time([once] * 3)) / sets
    wanted = 1 if contender.once else ceil(target_us / max(us * sets, 1e-3))
    passes = max(1, min(wanted, MOST_LAUNCHES // sets))
    graph = us < LONG_US
    recording = once if passes == 1 and graph else watch.record(contender, passes * sets, graph)
    return Prepared(contender.name, recording, passes * sets, us)


def settle(prepared: Sequence[Prepared[R]], watch: Stopwatch[R]) -> float:
    """Runs contenders until the time of a round no longer changes, since clocks follow power and heat.

    Gives the GPU's time in microseconds that this took.
    """
    spent = 0.0
    recent: list[float] = []
    while spent < MOST_WARM_US:
        total = sum(watch.time([p.recording for p in prepared]))
        spent += total
        recent = [*recent, total][-STEADY:]
        steady = len(recent) == STEADY and max(recent) <= (1 + SETTLED) * min(recent)
        if steady and spent >= LEAST_WARM_US:
            break
    return spent


def interleaved(
    prepared: Sequence[Prepared[R]], watch: Stopwatch[R], rounds: int = ROUNDS, limit: float = SPREAD_LIMIT
) -> dict[str, Timing]:
    """Times contenders; gives their times by name. In each round all of them run, in another order (see `balanced`).

    Where a spread is above `limit`, everything is measured once more with `MORE` times the rounds, and that counts; the
    caller refuses what is above it still.
    """
    settle(prepared, watch)
    timings = _rounds(prepared, watch, rounds)
    if any(timing.spread > limit for timing in timings.values()):
        settle(prepared, watch)
        timings = _rounds(prepared, watch, MORE * rounds)
    return timings


def _rounds(prepared: Sequence[Prepared[R]], watch: Stopwatch[R], rounds: int) -> dict[str, Timing]:
    times: dict[str, list[float]] = {p.name: [] for p in prepared}
    orders = balanced(len(prepared))
    for number in range(rounds):
        order = [prepared[i] for i in orders[number % len(orders)]]
        for p, us in zip(order, watch.time([p.recording for p in order]), strict=True):
            times[p.name].append(us / p.launches)
    return {
        name: summary(values, [other for key, other in times.items() if key != name]) for name, values in times.items()
    }


def balanced(count: int) -> list[list[int]]:
    """Orders of so many contenders: each one has every place, and follows each other one, equally often.

    So the clock and the heat that one of them leaves behind are no advantage of another. Source: Williams, Experimental
    designs balanced for the estimation of residual effects of treatments (1949).
    """
    first = [(i + 1) // 2 if i % 2 else (count - i // 2) % count for i in range(count)]
    orders = [[(i + turn) % count for i in first] for turn in range(count)]
    return orders + [order[::-1] for order in orders] if count % 2 and count > 1 else orders


def summary(values: Sequence[float], others: Sequence[Sequence[float]] = ()) -> Timing:
    """The median of a few times, and their spread. Raises ValueError for fewer than two.

    `others` are the times of other contenders in the same rounds. What makes all of those slower in a round is the GPU,
    whose clock falls as it takes more power than it may: where the times over that are steadier, their spread counts.
    """
    if len(values) < 2:
        raise ValueError("a spread takes at least two rounds")
    spread = _spread(values)
    if others:
        usual = [statistics.median(other) for other in others]
        common = [
            statistics.geometric_mean(us / most for us, most in zip(turn, usual, strict=True))
            for turn in zip(*others, strict=True)
        ]
        spread = min(spread, _spread([us / factor for us, factor in zip(values, common, strict=True)]))
    return Timing(statistics.median(values), spread, len(values))


def _spread(values: Sequence[float]) -> float:
    """The distance from the 10th to the 90th percentile, over the median."""
    tenths = statistics.quantiles(values, n=10, method="inclusive")
    return (tenths[-1] - tenths[0]) / statistics.median(values)
