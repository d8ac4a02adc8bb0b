"""Vector clocks, against reachability in a graph of events; and races found by them, against the log of a block."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import go, in_and_out, indexed
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen.emulator.checks.clocks import Clocks
from cutegen.emulator.checks.told import Told

SHAPE, SIZE = (3, 4), 2  # threads and blocks of a batch of two clusters
LANES = [(thread, block) for block in range(SHAPE[1]) for thread in range(SHAPE[0])]
EVENTS = st.tuples(
    st.sampled_from(["act", "put", "relaxed", "fence", "proxy", "get", "meet"]), st.integers(0, 11), st.integers(0, 2)
)


def mask(*lanes: tuple[int, int]) -> np.ndarray:
    found = np.zeros(SHAPE, np.bool_)
    for lane in lanes:
        found[lane] = True
    return found


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**31), st.sets(st.integers(0, 3), min_size=1), st.booleans())
def test_many_lanes_learn_and_tell_what_each_of_them_does(seed: int, warps: set[int], scattered: bool) -> None:
    """Warps that lie next to each other are looked at as a whole: that is the same as one lane after the other."""
    random = np.random.default_rng(seed)
    made = [Clocks((64, 4), 2) for _ in range(2)]
    for lane, other in random.integers(0, (64, 4), (12, 2, 2)).tolist():
        one, two = (np.zeros((64, 4), np.bool_) for _ in range(2))
        one[tuple(lane)] = two[other[0], lane[1] // 2 * 2 + other[1] % 2] = True
        for clocks in made:
            clocks.fence_proxies(one)
            clocks.tick()
            clocks.learn(two, clocks.told(one))
    lanes, reader = np.zeros((64, 4), np.bool_), np.zeros((64, 4), np.bool_)
    for warp in warps:  # of the first cluster
        lanes[32 * (warp // 2) : 32 * (warp // 2) + 32, warp % 2] = True
    lanes[5, 0] &= not scattered
    reader[7, 1] = True
    for clocks in made:
        clocks.tick()
    together, joined = made[0].told_together(lanes), made[1].told(lanes).joined()
    for some, others in zip((together.order, together.after), (joined.order, joined.after), strict=True):
        assert (some == others).all()
    assert together.proxy is not None and joined.proxy is not None and (together.proxy == joined.proxy).all()
    news = made[0].told(reader)
    made[0].learn(lanes, news)
    for thread, block in np.argwhere(lanes).tolist():
        one = np.zeros((64, 4), np.bool_)
        one[thread, block] = True
        made[1].learn(one, news)
    for lane in np.ndindex(64, 4):
        assert (made[0].row(lane) == made[1].row(lane)).all()
    for some, others in zip(*(clocks.told(np.ones((64, 4), np.bool_)).after for clocks in made), strict=True):
        assert (some == others).all()
    cluster, member, other = np.ogrid[:2, :128, :128]
    for time in {*joined.proxy.ravel().tolist()}:
        covered = (clocks.covered(cluster, member, other, np.asarray(time)) for clocks in made)
        assert (next(covered) == next(covered)).all()


@settings(deadline=None, max_examples=100)
@given(st.lists(EVENTS, max_size=40))
def test_what_is_before_what(events: list[tuple[str, int, int]]) -> None:
    """Each event of a lane comes after its events before, and a `get` after what a `put` to its box has told."""
    clocks = Clocks(SHAPE, SIZE)
    boxes: dict[tuple[int, int], Told] = {}
    past: dict[tuple[int, int], set[int]] = {lane: set() for lane in LANES}  # the acts before what a lane does
    run: dict[tuple[int, int], set[int]] = {lane: set() for lane in LANES}  # those that have run before
    proxied: dict[tuple[int, int], set[int]] = {lane: set() for lane in LANES}  # those that a proxy fence covers
    fenced: dict[tuple[int, int], set[int]] = {lane: set() for lane in LANES}
    told: dict[tuple[int, int], tuple[set[int], set[int], set[int]]] = {}
    acts: list[tuple[tuple[int, int], int]] = []
    for what, number, box in events:
        lane = LANES[number]
        key = (lane[1] // SIZE, box)
        if what == "act":
            past[lane].add(len(acts))
            run[lane].add(len(acts))
            acts.append((lane, clocks.now))
        elif what in ("put", "relaxed"):
            clocks.tick()
            boxes[key] = clocks.told(mask(lane), relaxed=what == "relaxed").and_what(boxes.get(key))
            old = told.get(key, (set(), set(), set()))
            if what == "put":
                told[key] = (old[0] | past[lane], old[1] | run[lane], old[2] | proxied[lane])
            else:
                told[key] = (old[0] | fenced[lane], old[1] | run[lane], old[2])
        elif what == "fence":
            clocks.fence(mask(lane))
            fenced[lane] = set(past[lane])
        elif what == "proxy":
            clocks.fence_proxies(mask(lane))
            proxied[lane] |= past[lane]
        elif what == "get" and key in boxes:
            clocks.learn(mask(lane), boxes[key])
            past[lane] |= told[key][0]
            run[lane] |= told[key][1]
            proxied[lane] |= told[key][2]
        elif what == "meet":
            both = lane, ((lane[0] + 1) % SHAPE[0], lane[1])
            clocks.meet(mask(*both), np.zeros((1, 1), np.int64))
            for sets in (past, run, proxied):
                union = sets[both[0]] | sets[both[1]]
                sets[both[0]], sets[both[1]] = set(union), set(union)
    for lane in LANES:
        for act, (other, time) in enumerate(acts):
            if other[1] // SIZE != lane[1] // SIZE:
                continue
            where = clocks.cluster[lane], clocks.member[lane], clocks.member[other], np.asarray(time)
            assert clocks.before(*where) == (act in past[lane] or other == lane)
            assert clocks.covered(*where) == (act in proxied[lane])
            if act in run[lane]:  # more may be known to have run: warps are known as a whole
                assert clocks.ran_before(*where)
        for rank in range(SIZE):
            block = lane[1] // SIZE * SIZE + rank
            mine = {act for act, (other, _) in enumerate(acts) if other[1] == block}
            if mine & run[lane]:
                assert clocks.has_run(mask(lane), np.asarray([rank]))


STEPS = st.lists(
    st.sampled_from(
        [
            "st.shared.b32 [%r6], %r0;\n",
            "ld.shared.b32 %r8, [%r6];\n",
            "ld.shared.b32 %r8, [%r7];\n",
            "st.shared.b32 [%r7], %r0;\n",
            "@%p1 ld.shared.b32 %r8, [%r7];\n",
            "@%p1 st.shared.b32 [smem], %r0;\n",
            "st.shared.b16 [%r6+2], 7;\n",
            "bar.sync 0;\n",
            "bar.sync 0;\n",
        ]
    ),
    max_size=7,
)


@settings(deadline=None, max_examples=40)
@given(STEPS, st.integers(0, 2))
@pytest.mark.parametrize("away", [4, 128])
def test_clocks_and_the_log_find_the_same_races(away: int, steps: list[str], seed: int) -> None:
    """A fence makes it a kernel in which more than whole blocks might meet, and orders nothing here."""
    body = f"xor.b32 %r7, %r6, {away};\nsetp.eq.u32 %p1, %r0, 33;\n" + "".join(steps)
    plain = go(indexed(body, 512), in_and_out(64, "inout"), block=64, seed=seed)
    clocked = go(indexed("fence.acq_rel.cluster;\n" + body, 512), in_and_out(64, "inout"), block=64, seed=seed)
    assert [f.kind for f in plain.faults] == [f.kind for f in clocked.faults], f"{plain}\n{clocked}"
