"""Graphs that differ in their registers only have the same plans."""

from __future__ import annotations

import gc
import weakref

from cutegen.emulator.native.graphs import Graph, Value
from cutegen.emulator.native.plans import BLOCKS, THREADS
from cutegen.emulator.native.shared_plans import shared_plans

SELECT = {1: 90, 2: 91, 4: 92, 8: 93}
LANES = THREADS + BLOCKS


def graph(one: int, other: int, target: int, operation: int = 5, bits: int = 7) -> Graph:
    """target = operation(one, operation(other, bits))."""
    values = (
        Value(4, slot=one),
        Value(4, slot=other),
        Value(4, bits=bits),
        Value(4, operation=operation, sources=(1, 2)),
        Value(4, operation=operation, sources=(0, 3)),
    )
    return Graph(values, {target: 4})


def test_a_plan_is_made_once_for_all_registers() -> None:
    plans = shared_plans(graph(1, 2, 3), SELECT)
    assert shared_plans(graph(8, 9, 1), SELECT) is plans
    assert plans.plan((), (LANES, 0)) is plans.plan((), (LANES, 0))
    assert plans.plan((), (LANES, 0)) is not plans.plan((), (LANES, THREADS))
    merged = plans.plan((0,), (LANES, 0, LANES, LANES))
    assert merged is not plans.plan((), (LANES, 0))
    assert SELECT[4] in merged.text.tolist() and SELECT[4] not in plans.plan((), (LANES, 0)).text.tolist()


def test_graphs_that_compute_something_else_have_other_plans() -> None:
    plans = shared_plans(graph(1, 2, 3), SELECT)
    both = Graph(graph(1, 2, 3).values, {3: 4, 4: 3})
    others = [graph(1, 2, 3, operation=6), graph(1, 2, 3, bits=8), both]
    assert all(shared_plans(other, SELECT) is not plans for other in others)
    assert shared_plans(graph(1, 2, 3), {**SELECT, 4: 94}) is not plans


def test_plans_go_with_the_last_graph_of_their_shape() -> None:
    def address() -> int:
        return shared_plans(graph(1, 2, 3, bits=99), SELECT).plan((), (LANES, 0)).address

    kept = shared_plans(graph(4, 5, 6, bits=99), SELECT)
    assert kept.plan((), (LANES, 0)).address == address()
    there = weakref.ref(kept)
    del kept
    gc.collect()
    assert there() is None
