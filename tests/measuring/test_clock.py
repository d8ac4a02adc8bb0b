"""Times are taken in turns, after the clocks have settled, and summed up honestly."""

from __future__ import annotations

import random
import statistics
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measuring_kit import FakeWatch, steady

from cutegen.measuring import clock
from cutegen.measuring.clock import Contender, balanced, interleaved, prepare, settle, summary


def contender(name: str, sets: int = 1) -> Contender:
    return Contender(name, [lambda: None] * sets)


@given(st.lists(st.floats(1.0, 1e6), min_size=2, max_size=60))
def test_summary_is_the_median_and_the_tenth_to_ninetieth_percentile(values: list[float]) -> None:
    numpy = pytest.importorskip("numpy")
    found = summary(values)
    assert found.us == pytest.approx(statistics.median(values))
    low, high = numpy.percentile(values, [10, 90])
    assert found.spread == pytest.approx((high - low) / numpy.median(values), abs=1e-9)
    assert found.rounds == len(values)


def test_one_round_has_no_spread() -> None:
    with pytest.raises(ValueError, match="two rounds"):
        summary([1.0])


@pytest.mark.parametrize(("us", "sets"), [(2.0, 1), (2.0, 50), (70.0, 3), (25_000.0, 1), (25_000.0, 2), (0.1, 4000)])
def test_a_recording_is_long_enough_and_uses_each_set_equally(us: float, sets: int) -> None:
    watch = FakeWatch(steady(a=us))
    ready = prepare(contender("a", sets), watch)
    assert ready.us == pytest.approx(us)
    assert ready.launches % sets == 0
    assert ready.launches <= clock.MOST_LAUNCHES
    enough = ready.launches * us >= clock.TARGET_US
    assert enough or ready.launches + sets > clock.MOST_LAUNCHES
    # not a pass more than that takes
    assert ready.launches == sets or (ready.launches - sets) * us < clock.TARGET_US


def test_what_overwrites_its_arguments_runs_once_on_each_set() -> None:
    watch = FakeWatch(steady(a=2.0))
    assert prepare(Contender("a", [lambda: None] * 5, once=True), watch).launches == 5


@pytest.mark.parametrize(("us", "graph"), [(10.0, True), (199.0, True), (201.0, False), (25_000.0, False)])
def test_long_calls_are_not_put_into_a_graph(us: float, graph: bool) -> None:
    watch = FakeWatch(steady(a=us))
    ready = prepare(contender("a"), watch)
    assert ready.recording.graph is graph


def test_settling_waits_for_steady_rounds() -> None:
    watch = FakeWatch(lambda name, number: 10_000 * (1 + 1 / (1 + number)))
    ready = [prepare(contender("a"), watch)]
    spent = settle(ready, watch)
    last = [10_000 * (1 + 1 / (1 + n)) for n in range(len(watch.order))][-clock.STEADY :]
    assert max(last) <= 1.01 * min(last)
    assert clock.LEAST_WARM_US <= spent < clock.MOST_WARM_US


def test_settling_ends_where_nothing_gets_steady() -> None:
    noise = random.Random(0)
    watch = FakeWatch(lambda name, number: noise.uniform(5_000, 20_000))
    spent = settle([prepare(contender("a"), watch)], watch)
    assert clock.MOST_WARM_US <= spent < clock.MOST_WARM_US + 20_000


def test_a_short_steady_run_is_no_warm_up() -> None:
    watch = FakeWatch(steady(a=4_000))
    assert settle([prepare(contender("a"), watch)], watch) >= clock.LEAST_WARM_US


def test_each_round_has_all_and_another_one_first() -> None:
    watch = FakeWatch(steady())
    ready = [prepare(contender(name), watch) for name in "abc"]
    before = len(watch.order)
    timings = interleaved(ready, watch, rounds=6)
    rounds = ["".join(watch.order[i : i + 3]) for i in range(len(watch.order) - 18, len(watch.order), 3)]
    assert all(sorted(order) == ["a", "b", "c"] for order in rounds)
    assert sorted(order[0] for order in rounds) == ["a", "a", "b", "b", "c", "c"]
    assert len(watch.order) - before > 18, "they ran before, to settle the clocks"
    assert {name: t.us for name, t in timings.items()} == dict.fromkeys("abc", pytest.approx(10.0))
    assert all(t.rounds == 6 for t in timings.values())


@pytest.mark.parametrize("count", range(1, 8))
def test_each_contender_runs_in_each_place_and_behind_each_other_one_equally_often(count: int) -> None:
    orders = balanced(count)
    assert all(sorted(order) == list(range(count)) for order in orders)
    places = Counter((place, one) for order in orders for place, one in enumerate(order))
    behind = Counter(pair for order in orders for pair in zip(order, order[1:], strict=False))
    assert len(set(places.values())) == 1 and len(places) == count * count
    assert len(set(behind.values())) <= 1 and len(behind) == count * (count - 1)


def test_a_drift_of_the_clock_hits_all_contenders_alike() -> None:
    """The GPU gets slower by a percent a round: medians move, their ratio does not."""
    runs = iter(range(10**9))
    watch = FakeWatch(lambda name, number: {"a": 1000.0, "b": 2000.0}[name] * (1 + 0.0001 * next(runs)))
    ready = [prepare(contender(name), watch) for name in "ab"]
    timings = interleaved(ready, watch, rounds=20)
    assert timings["b"].us / timings["a"].us == pytest.approx(2.0, rel=1e-3)


def test_a_clock_that_falls_for_all_alike_is_no_spread() -> None:
    """Large products take more power than there is: the clock wanders, but what is faster stays so."""
    clock = [1 + 0.1 * (number % 7) / 7 for number in range(28)]
    one, other = [100 * x for x in clock], [110 * x for x in clock]
    assert summary(one).spread > 0.05 and summary(one, [other]).spread == pytest.approx(0, abs=1e-9)
    noisy = [110 * x * (1 + 0.1 * (number % 3)) for number, x in enumerate(clock)]
    assert summary(noisy, [one]).spread > 0.15  # of its own
    assert summary([100.0] * 28, [noisy]).spread == 0


def test_a_wide_spread_is_measured_once_more_with_more_rounds() -> None:
    noise = random.Random(1)
    watch = FakeWatch(lambda name, number: noise.uniform(5_000, 20_000) if name == "b" else 10_000)
    ready = [prepare(contender(name), watch) for name in "ab"]
    timings = interleaved(ready, watch, rounds=5)
    assert {t.rounds for t in timings.values()} == {5 * clock.MORE}
    assert timings["b"].spread > 0.05
    assert timings["a"].spread == 0


def test_what_settles_at_the_second_go_is_kept() -> None:
    noise = random.Random(1)
    watch = FakeWatch(lambda name, number: noise.uniform(5_000, 20_000) if number < 330 else 10_000)
    ready = [prepare(contender("a"), watch)]
    timings = interleaved(ready, watch, rounds=5)
    assert timings["a"].rounds == 15
    assert timings["a"].spread == 0


def test_arguments_are_reset_before_each_replay() -> None:
    seen: list[str] = []
    watch = FakeWatch(steady(a=10_000))
    one = Contender("a", [lambda: seen.append("call")], lambda: seen.append("reset"))
    watch.time([prepare(one, watch).recording] * 2)
    assert seen[-4:] == ["reset", "call"] * 2
