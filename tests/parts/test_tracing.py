"""What agents do by a tree: texts are evaluated for each thread, and each statement does what its class says."""

from __future__ import annotations

import pytest

from cutegen.parts import acts
from cutegen.parts.acting import Acting, Geometry
from cutegen.parts.acts import Act, Agent, Arrive, Barrier, Bring, Cell, Run
from cutegen.parts.barriers import Arrive as ArriveAt
from cutegen.parts.barriers import ClusterArrive, ClusterWait, Expect, Meet, Wait
from cutegen.parts.faults import Unproved
from cutegen.parts.moving import CommitStores, Drain, Fence, Load, Look, Store, Stored, Use
from cutegen.parts.one_order import prove
from cutegen.parts.statements import Body, Elected, For, If, Let, Statement
from cutegen.parts.tracing import traced

WARP = {("all", 0, 0): tuple(range(32))}


def run(
    *body: Statement, agents: dict[tuple[str, int, int], tuple[int, ...]] = WARP, blocks: int = 1, **given: int
) -> Run:
    return traced(body, WARP, Geometry(blocks), [given] * blocks, {"bar": 32}, lengths={"bar": 4, "A": 2})


def done(*body: Statement, **given: int) -> list[Act]:
    (found,) = run(*body, **given).acts.values()
    return list(found)


def test_loops_and_conditions_take_the_values_of_variables() -> None:
    body = (
        Let("stage, phase", "cutlass.Int32(0), cutlass.Int32(0)"),
        For("k", "cutlass.range(3, unroll=1)", (
            Wait("bar", "stage", "phase"),
            Let("stage", "1", "+"),
            If("stage == STAGES", (Let("stage, phase", "0, 1 - phase"),)),
        )),
    )  # fmt: skip
    found = done(*body, STAGES=2)
    assert found == [acts.Wait(Barrier(0, "bar", index), parity) for index, parity in ((0, 0), (1, 0), (0, 1))]


def test_threads_that_a_condition_takes_are_counted() -> None:
    assert done(If("thr < 5", (ArriveAt("bar", "0"),))) == [Arrive(Barrier(0, "bar", 0), 5)]
    assert done(If("thr > 99", (ArriveAt("bar", "0"),), (Meet("3", 32),))) == [
        acts.Meet(acts.NamedBarrier(0, 3), 32, 32, waits=True)
    ]
    assert done(Elected((Expect("bar", "0", "BYTES"),)), BYTES=64) == [Arrive(Barrier(0, "bar", 0), 1, 64)]


def test_each_thread_has_a_value_of_its_own() -> None:
    """Threads 0 and 1 arrive at their own ranks, whatever else the others would compute."""
    body: Body = (
        Let("peer", "thr + first"),
        If("thr == 1", (Let("peer", "0"),)),
        If("thr < 3", (ArriveAt("bar", "0", "peer"),)),
    )
    found = run(*body, blocks=3, first=0).acts[Agent(1, "all", 0, 0)]
    assert list(found) == [Arrive(Barrier(0, "bar", 0), 2), Arrive(Barrier(2, "bar", 0), 1)]


def test_a_value_that_must_be_one_is_refused_where_threads_differ() -> None:
    with pytest.raises(Unproved, match="differ in thr"):
        done(Wait("bar", "thr", "0"))
    with pytest.raises(Unproved, match="nothing"):
        done(Wait("bar", "nothing", "0"))
    at = Acting.of(Agent(0, "all", 0, 0), tuple(range(64)), Geometry(), {})
    with pytest.raises(ValueError, match="several warps"):
        at.elected()


def test_a_load_for_several_blocks_comes_to_each() -> None:
    load = Load("A", "", "", "bar", "0", "A", "1", 64, "('a',)", mask="mask", part="x")
    found = run(Let("mask", "3 << 1"), load, blocks=4).acts[Agent(2, "all", 0, 0)]
    cells = [Cell(block, "A", (1, 2)) for block in (1, 2)]
    assert list(found) == [Bring(cell, ("a",), Barrier(cell.block, "bar", 0), 64) for cell in cells]


def test_a_store_that_is_in_no_group_is_refused() -> None:
    (found,) = done(Store("C", "", "1"), Store("C", "", "2"), CommitStores())
    assert found == acts.Store((Cell(0, "C", (1,)), Cell(0, "C", (2,))))
    with pytest.raises(Unproved) as raised:
        done(Store("C", "", "1"))
    assert raised.value.fault.kind == "group"


PARTIAL = (Wait("bar", "0", "0"), Meet("1", 32), ClusterArrive(), ClusterWait(), Drain(0), Fence(), Use(), Stored("0"))


@pytest.mark.parametrize("statement", PARTIAL, ids=lambda statement: type(statement).__name__)
def test_what_all_threads_do_is_refused_of_some(statement: Statement) -> None:
    done(statement)
    with pytest.raises(Unproved) as raised:
        done(If("thr % 2 == 0", (statement,)))
    assert raised.value.fault.kind == "partial"


@pytest.mark.parametrize(
    "statement", [Wait("bar", "4", "0"), ArriveAt("bar", "0 - 1"), Meet("16", 32), Look(("A",), "(2,)")], ids=str
)
def test_what_is_beyond_an_array_is_refused(statement: Statement) -> None:
    with pytest.raises(Unproved) as raised:
        done(statement)
    assert raised.value.fault.kind == "outside"


@pytest.mark.parametrize(("apart", "waits", "kind"), [(False, False, ""), (True, False, "start"), (True, True, "")])
def test_a_peer_that_may_not_have_begun_is_not_used(apart: bool, waits: bool, kind: str) -> None:
    tell = If("x == 0 and thr == 0", (ArriveAt("bar", "0", "1"),))
    hear = If("x == 1", (Wait("bar", "0", "0"),))
    body: Body = (ClusterArrive(), *[ClusterWait()] * waits, tell, hear, *[ClusterWait()] * (not waits))
    found = traced(body, WARP, Geometry(2), [{}, {}], {"bar": 1}, lengths={}, apart=apart)
    try:
        prove(found)
    except Unproved as error:
        assert error.fault.kind == kind, error
    else:
        assert not kind
