"""Times of a run: as early as barriers let each agent go on, whatever order the agents are followed in."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from cutegen.parts.acts import (
    Act,
    Agent,
    Arrive,
    Barrier,
    Bring,
    Cell,
    ClusterArrive,
    ClusterWait,
    CpAsync,
    CpAsyncCommitGroup,
    CpAsyncWaitGroup,
    Drain,
    Initialise,
    Meet,
    Multiply,
    NamedBarrier,
    Run,
    Store,
    Stored,
    Wait,
)
from cutegen.parts.timing import Span, Stuck, Taken, timed

FULL, EMPTY = (tuple(Barrier(0, name, i) for i in range(8)) for name in ("full", "empty"))
PRODUCER, CONSUMER = Agent(0, "producer", 0, 0), Agent(0, "consumer", 0, 0)
CELL = Cell(0, "A", (0, 0))
LATE: list[Act] = [Initialise(FULL[7], 1), Bring(CELL, (), FULL[7], 1)]  # which keep an agent busy for 1


def ring(stages: int, tiles: int) -> Run:
    """A warp that loads tiles to stages in turn, and one that multiplies them and waits for each product."""
    loads: list[Act] = [Initialise(one, 1) for stage in range(stages) for one in (FULL[stage], EMPTY[stage])]
    products: list[Act] = []
    for tile in range(tiles):
        stage, phase = tile % stages, tile // stages % 2
        cell = Cell(0, "A", (stage, 0))
        loads += [Wait(EMPTY[stage], 1 - phase), Arrive(FULL[stage], 1, 64), Bring(cell, (tile,), FULL[stage], 64)]
        products += [Wait(FULL[stage], phase), Multiply(((cell, (tile,)),)), Drain(0), Arrive(EMPTY[stage], 1)]
    return Run({PRODUCER: loads, CONSUMER: products})


def takes(run: Run) -> dict[Agent, list[Taken]]:
    return {agent: list(map(takes_of, acts)) for agent, acts in run.acts.items()}


def takes_of(act: Act) -> Taken:
    """A load keeps its warp busy for 1 and comes after 5; a product takes 2, what is stored is read after 3."""
    match act:
        case Bring():
            return Taken(1, 5)
        case Multiply():
            return Taken(0, 2)
        case Store():
            return Taken(0, 3)
    return Taken()


def at_once(run: Run) -> list[Span]:
    return timed(run, takes(run))


def of(spans: list[Span], kind: type[Act]) -> list[Span]:
    return [span for span in spans if isinstance(span.act, kind)]


def test_products_follow_their_loads_and_loads_the_products_that_free_their_stage() -> None:
    spans = at_once(ring(2, 5))
    loads, products = of(spans, Bring), of(spans, Multiply)
    assert [span.start for span in loads] == [0, 1, 7, 9, 14]
    assert [span.done for span in loads] == [5, 6, 12, 14, 19]
    assert [span.done for span in products] == [7, 9, 14, 16, 21]


@pytest.mark.parametrize("stages", range(1, 7))
def test_more_stages_are_never_slower_and_enough_of_them_hide_all_loads_but_the_first(stages: int) -> None:
    end = max(span.done for span in at_once(ring(stages, 12)))
    more = max(span.done for span in at_once(ring(stages + 1, 12)))
    assert more <= end and end >= 5 + 12 * 2
    if stages >= 4:  # a round of them takes no less than a load and a product
        assert end == 5 + 12 * 2


def test_products_of_one_unit_are_made_one_after_the_other() -> None:
    groups = [Agent(0, "consumer", group, 0) for group in range(2)]
    run = Run({agent: [Multiply(((CELL, ()),)), Drain(0)] for agent in groups})
    apart = timed(run, takes(run))
    assert [span.done for span in of(apart, Multiply)] == [2, 2]
    shared = timed(run, takes(run), lambda group: group.block)
    assert sorted(span.done for span in of(shared, Multiply)) == [2, 4]
    assert sorted(span.end for span in of(shared, Drain)) == [2, 4]


def test_a_product_starts_when_all_of_its_warpgroup_have_come() -> None:
    one, other = (Agent(0, "consumer", 0, part) for part in range(2))
    product: list[Act] = [Multiply(((CELL, ()),)), Drain(0)]
    run = Run({one: product, other: [*LATE, *product]})
    assert {span.done for span in of(timed(run, takes(run)), Multiply)} == {3}
    assert {span.end for span in of(timed(run, takes(run)), Drain)} == {3}


def test_a_buffer_is_free_when_its_store_has_read_it() -> None:
    run = Run({CONSUMER: [Store((CELL,)), Store((CELL,)), Stored(1), Stored(0)]})
    assert [span.end for span in timed(run, takes(run))] == [0, 0, 3, 3]


def test_copies_are_waited_for_by_their_groups() -> None:
    copy, commit = CpAsync(CELL, ()), CpAsyncCommitGroup()
    acts: list[Act] = [copy, commit, copy, copy, commit, commit, CpAsyncWaitGroup(2), CpAsyncWaitGroup(0)]
    spans = timed(Run({CONSUMER: acts}), {CONSUMER: [Taken(1, 4) if act == copy else Taken() for act in acts]})
    assert [span.end for span in of(spans, CpAsyncWaitGroup)] == [4, 6]


def test_who_waits_at_a_named_barrier_or_for_a_cluster_goes_on_with_the_last() -> None:
    barrier = NamedBarrier(0, 1)
    meets: dict[Agent, list[Act]] = {
        PRODUCER: [*LATE, LATE[1], Meet(barrier, 64, 32, waits=False), ClusterArrive(), ClusterWait()],
        CONSUMER: [Meet(barrier, 64, 32, waits=True), ClusterArrive(), ClusterWait()],
    }
    spans = at_once(Run(meets))
    assert [(span.start, span.end) for span in of(spans, Meet)] == [(2, 2), (0, 2)]
    assert {span.end for span in of(spans, ClusterWait)} == {2}


def test_fractions_stay_exact() -> None:
    run = ring(3, 9)
    third = {agent: [Taken(Fraction(1, 3), Fraction(2, 3))] * len(acts) for agent, acts in run.acts.items()}
    spans = timed(run, third)
    assert {span.done.denominator for span in spans} == {1, 3}


def test_the_order_in_which_agents_are_followed_changes_no_time() -> None:
    run, chance = ring(3, 20), random.Random(7)
    wanted = {agent: [s for s in timed(run, takes(run)) if s.agent == agent] for agent in run.acts}
    for _ in range(4):
        agents = list(run.acts)
        chance.shuffle(agents)
        spans = timed(Run({agent: run.acts[agent] for agent in agents}), takes(run))
        assert {agent: [s for s in spans if s.agent == agent] for agent in run.acts} == wanted


def test_a_deadlock_is_told() -> None:
    run = Run({CONSUMER: [Initialise(FULL[0], 1), Wait(FULL[0], 0)]})
    with pytest.raises(Stuck, match="consumer"):
        timed(run, takes(run))
