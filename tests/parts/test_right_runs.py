"""Right runs are proved, by one order and by all."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from acts_kit import Plan, gemm
from sweep_kit import sampled

from cutegen.parts import all_orders, one_order

KINDS = {
    "a consumer": Plan(consumers=1),
    "two consumers": Plan(),
    "storing": Plan(consumers=1, pieces=3),
    "in turn": Plan(in_turn=True, pieces=2),
    "two blocks": Plan(blocks=2, consumers=1, pieces=1),
}


# Every third one is of each kind, and of each number of stages
@pytest.mark.parametrize(("name", "stages"), sampled(product(KINDS, range(1, 5))))
def test_every_count_of_stages_steps_and_tiles_is_proved(name: str, stages: int) -> None:
    for rounds, rest, tiles in product(range(4), range(2), range(5)):
        plan = replace(KINDS[name], stages=stages, rounds=rounds, rest=rest, tiles=tiles)
        run = gemm(plan).opened
        proof = one_order.prove(run)
        assert proof.acts == sum(map(len, run.acts.values()))
        assert proof.phases == plan.blocks * tiles * plan.steps * 2, plan


def test_two_blocks_in_turn_are_proved() -> None:
    for tiles, stages in product(range(4), (2, 3)):
        one_order.prove(gemm(Plan(blocks=2, in_turn=True, pieces=2, tiles=tiles, stages=stages)).opened)


@pytest.mark.parametrize(
    "plan",
    [
        Plan(),
        Plan(parts=1, stages=1),
        Plan(parts=1, tiles=1, pieces=2),
        Plan(parts=1, in_turn=True, tiles=3),
        Plan(consumers=1, rest=0, pieces=2),
        Plan(rounds=0, tiles=1, consumers=1, parts=1, blocks=2),
        Plan(tiles=0, blocks=2),
    ],
    ids=str,
)
def test_all_orders_of_few_acts_are_right(plan: Plan) -> None:
    run = gemm(plan).opened
    assert one_order.prove(run).acts == sum(map(len, run.acts.values()))
    assert all_orders.prove(run).states > 1


def test_a_limit_of_states_proves_nothing() -> None:
    run = gemm(Plan(parts=1)).opened
    states = all_orders.prove(run).states
    assert all_orders.prove(run, states).states == states
    with pytest.raises(all_orders.TooManyStates, match=f"more than {states - 1} states"):
        all_orders.prove(run, states - 1)
