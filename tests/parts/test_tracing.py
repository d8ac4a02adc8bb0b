"""The acts of agents in a tree: texts are evaluated for each thread, and each statement acts as its class says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cutegen.parts import acts, all_orders, one_order
from cutegen.parts.acting import Acting, Geometry
from cutegen.parts.acts import Act, Agent, Arrive, Barrier, Bring, Cell, NamedBarrier, Run
from cutegen.parts.barriers import Arrive as ArriveAt
from cutegen.parts.barriers import ClusterArrive, ClusterWait, Expect, Meet, Wait
from cutegen.parts.copying import (
    Array,
    ConvertFragment,
    CopyFromRegisters,
    CopyTile,
    CopyToRegisters,
    CpAsyncCommitGroup,
    CpAsyncWaitGroup,
    MultiplyAdd,
    ReadFragment,
    ReadSums,
    StoreSums,
    Summed,
)
from cutegen.parts.declared import Barriers, Buffer
from cutegen.parts.faults import Unproved
from cutegen.parts.moving import (
    CommitStores,
    Drain,
    Fence,
    Fragment,
    Load,
    Look,
    Multiply,
    Partition,
    Store,
    Stored,
    Use,
    Write,
)
from cutegen.parts.opening import Allocate, AllocateBarriers, FenceInitialised, Initialise, Overlay, SyncThreads
from cutegen.parts.statements import Body, Elected, For, If, Let, Statement
from cutegen.parts.tracing import traced

WARP = {("all", 0, 0): tuple(range(32))}


def buffer(name: str, copies: str) -> Buffer:
    return Buffer(variable=f"s{name}", cells=(name,), element="", layout="", copies=copies, bytes=64, alignment=64)


BAR = Barriers(name="bar", length="4", arrivals="1")
DECLARED: Body = (AllocateBarriers(BAR), Allocate(buffer("A", "2")), Allocate(buffer("C", "3")))


def run(
    *body: Statement, agents: dict[tuple[str, int, int], tuple[int, ...]] = WARP, blocks: int = 1, **given: int
) -> Run:
    return traced((*DECLARED, *body), WARP, Geometry(blocks), [given] * blocks)


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
    assert done(If("tidx < 5", (ArriveAt("bar", "0"),))) == [Arrive(Barrier(0, "bar", 0), 5)]
    assert done(If("tidx > 99", (ArriveAt("bar", "0"),), (Meet("3", 32),))) == [
        acts.Meet(acts.NamedBarrier(0, 3), 32, 32, waits=True)
    ]
    assert done(Elected((Expect("bar", "0", "BYTES"),)), BYTES=64) == [Arrive(Barrier(0, "bar", 0), 1, 64)]


def test_each_thread_has_a_value_of_its_own() -> None:
    """Threads 0 and 1 arrive at their own ranks, whatever else the others would compute."""
    body: Body = (
        Let("peer", "tidx + first"),
        If("tidx == 1", (Let("peer", "0"),)),
        If("tidx < 3", (ArriveAt("bar", "0", "peer"),)),
    )
    found = run(*body, blocks=3, first=0).acts[Agent(1, "all", 0, 0)]
    assert list(found) == [Arrive(Barrier(0, "bar", 0), 2), Arrive(Barrier(2, "bar", 0), 1)]


def test_a_value_that_must_be_one_is_refused_where_threads_differ() -> None:
    with pytest.raises(Unproved, match="differ in tidx"):
        done(Wait("bar", "tidx", "0"))
    with pytest.raises(Unproved, match="nothing"):
        done(Wait("bar", "nothing", "0"))
    at = Acting.of(Agent(0, "all", 0, 0), tuple(range(64)), Geometry(), {})
    with pytest.raises(ValueError, match="several warps"):
        at.elected()


def test_a_load_for_several_blocks_comes_to_each() -> None:
    """Each brings its part of the cell's bytes."""
    part = Partition("A", "tAsA", "tAgA", "gA", rank="x", among="4")
    load = Load("A", "", "tAsA", "1", "bar", "0", "('a',)", mask="mask")
    found = run(part, Let("mask", "3 << 1"), load, blocks=4).acts[Agent(2, "all", 0, 0)]
    cells = [Cell(block, "A", (1, 2)) for block in (1, 2)]
    assert list(found) == [Bring(cell, ("a",), Barrier(cell.block, "bar", 0), 16) for cell in cells]


@pytest.mark.parametrize(("among", "refused"), [("1", ""), ("2", "of which loads bring 32")])
def test_a_product_reads_all_parts_that_are_loaded(among: str, refused: str) -> None:
    """They must make up what it reads."""
    body: Body = (
        Partition("A", "tAsA", "tAgA", "gA", among=among),
        Load("A", "", "tAsA", "1", "bar", "0", "(1,)"),
        Fragment("tCrA", "A", "sA"),
        Fragment("tCrC", "B", "sC"),
        Multiply("tCrA", "tCrC", "1", "(1,)"),
    )
    if refused:
        with pytest.raises(Unproved, match=refused):
            done(*body)
        return
    product = done(*body)[-1]
    assert isinstance(product, acts.Multiply)
    assert [cell for cell, _ in product.cells] == [Cell(0, "A", (1, 0)), Cell(0, "C", (1,))]


def test_what_has_not_been_made_is_refused() -> None:
    for statement in (Load("A", "", "tAsA", "1", "bar", "0", "(1,)"), Multiply("tCrA", "tCrC", "1", "(1,)")):
        with pytest.raises(Unproved, match="is not defined"):
            done(statement)


def test_a_store_that_is_in_no_group_is_refused() -> None:
    (found,) = done(Store("C", "", "1", "(7,)"), Store("C", "", "2", "(8,)"), CommitStores())
    assert found == acts.Store(((Cell(0, "C", (1,)), (7,)), (Cell(0, "C", (2,)), (8,))))
    with pytest.raises(Unproved) as raised:
        done(Store("C", "", "1", "(7,)"))
    assert raised.value.fault.kind == "group"


PARTIAL = (Wait("bar", "0", "0"), Meet("1", 32), ClusterArrive(), ClusterWait(), Drain(0), Fence(), Use(), Stored("0"))


@pytest.mark.parametrize("statement", PARTIAL, ids=lambda statement: type(statement).__name__)
def test_what_all_threads_do_is_refused_of_some(statement: Statement) -> None:
    done(statement)
    with pytest.raises(Unproved) as raised:
        done(If("tidx % 2 == 0", (statement,)))
    assert raised.value.fault.kind == "partial"


@pytest.mark.parametrize(
    "statement",
    [
        *(Wait("bar", "4", "0"), ArriveAt("bar", "0 - 1"), Meet("16", 32), Look(("A",), "(2,)"), Initialise(BAR, "4")),
        *(Wait("other", "0", "0"), Look(("B",), "(0,)")),
    ],
    ids=str,
)
def test_what_is_beyond_an_array_or_in_none_is_refused(statement: Statement) -> None:
    with pytest.raises(Unproved) as raised:
        done(statement)
    assert raised.value.fault.kind == "outside"


MADE = If("tidx == 0", (Initialise(BAR, "0"), FenceInitialised()))
MET = (ClusterArrive(relaxed=True), ClusterWait())
TOLD = (If("x == 0 and tidx == 0", (ArriveAt("bar", "0", "1"),)), If("x == 1", (Wait("bar", "0", "0"),)))
OPENINGS: dict[str, tuple[Body, str]] = {
    "made, met": ((MADE, *MET, *TOLD), ""),
    "met late": ((MADE, MET[0], *TOLD, MET[1]), "start"),
    "not met": ((MADE, *TOLD), "start"),
    "met in each block alone": ((MADE, SyncThreads(), *TOLD), "start"),
    "made after they met": ((*MET, MADE, *TOLD), "start"),
    "not made": ((*MET, *TOLD), "start"),
    "not fenced": ((If("tidx == 0", (Initialise(BAR, "0"),)), *MET, *TOLD), "start"),
    "fenced before": ((If("tidx == 0", (FenceInitialised(), Initialise(BAR, "0"))), *MET, *TOLD), "start"),
    "fenced after they met": ((If("tidx == 0", (Initialise(BAR, "0"),)), *MET, FenceInitialised(), *TOLD), "start"),
    "made by all threads": ((Initialise(BAR, "0"), FenceInitialised(), *MET, *TOLD), "start"),
    "made twice": ((MADE, *MET, MADE, *TOLD), "start"),
    "made for no arrival": (
        (If("tidx == 0", (Initialise(replace(BAR, arrivals="0"), "0"), FenceInitialised())), *MET, *TOLD),
        "arrivals",
    ),
}


@pytest.mark.parametrize("prove", [one_order.prove, all_orders.prove])
@pytest.mark.parametrize("name", OPENINGS)
def test_barriers_are_initialised_and_seen_before_they_are_used(name: str, prove: Callable[[Run], object]) -> None:
    body, kind = OPENINGS[name]
    found = run(*body, blocks=2)
    if not kind:
        prove(found)
        return
    with pytest.raises(Unproved) as raised:
        prove(found)
    assert raised.value.fault.kind == kind


def test_a_relaxed_arrival_tells_of_barriers_alone() -> None:
    """A waiting thread does not see earlier writes."""
    peers = {("writer", 0, 0): tuple(range(32)), ("reader", 0, 0): tuple(range(32, 64))}
    for relaxed in (False, True):
        arrive, look = ClusterArrive(relaxed), If("tidx >= 32", (Look(("A",), "(0,)"),))
        body: Body = (*DECLARED, If("tidx < 32", (Write(("A",), "(0,)", "(1,)"),)), arrive, ClusterWait(), look)
        found = traced(body, peers, Geometry(), [{}])
        if relaxed:
            with pytest.raises(Unproved, match="before writer has written it"):
                one_order.prove(found)
        else:
            one_order.prove(found)


ABOVE = Overlay(replace(buffer("D", "1"), bytes=128, within="sA"))
LOADED = (
    *(MADE, SyncThreads(), Elected((Expect("bar", "0", "64"),)), Partition("A", "tAsA", "tAgA", "gA")),
    Load("A", "", "tAsA", "1", "bar", "0", "(1,)"),
)
SEEN, WROTE = (Wait("bar", "0", "0"), Look(("A",), "(1, 0)", "(1,)")), Write(("D",), "(0,)", "(2,)")
OVERLAYS: dict[str, tuple[Body, str]] = {
    "read, then written over": ((ABOVE, *LOADED, *SEEN, WROTE), ""),
    "written over before it is read": ((ABOVE, *LOADED, SEEN[0], WROTE, SEEN[1]), "unread"),
    "written over while it comes": ((ABOVE, *LOADED, WROTE, *SEEN), "overwrite"),
    "read again": ((ABOVE, *LOADED, *SEEN, WROTE, SEEN[1]), "early"),
    "in memory of its own": ((Allocate(ABOVE.buffer), *LOADED, WROTE, *SEEN), ""),
    "loaded over what was fenced": ((ABOVE, WROTE, Fence(), *LOADED, *SEEN), ""),
    "loaded over what was not fenced": ((ABOVE, WROTE, *LOADED, *SEEN), "fence"),
}


@pytest.mark.parametrize("prove", [one_order.prove, all_orders.prove])
@pytest.mark.parametrize("name", OVERLAYS)
def test_a_cell_in_the_place_of_others_ends_what_they_hold(name: str, prove: Callable[[Run], object]) -> None:
    body, kind = OVERLAYS[name]
    body = tuple(Allocate(replace(one.buffer, within="")) if type(one) is Allocate else one for one in body)
    if not kind:
        prove(run(*body))
        return
    with pytest.raises(Unproved) as raised:
        prove(run(*body))
    assert raised.value.fault.kind == kind


def test_a_meeting_of_the_block_is_of_all_its_threads() -> None:
    two = {("all", 0, 0): tuple(range(32)), ("others", 0, 0): tuple(range(32, 128))}
    found = traced((SyncThreads(),), two, Geometry(), [{}])
    assert one_order.prove(found).acts == 2
    with pytest.raises(Unproved, match="32 of 128 threads have come"):
        one_order.prove(traced((If("tidx < 32", (SyncThreads(),)),), two, Geometry(), [{}]))


# Of one tile with two k: copied, read, multiplied
READ = tuple(ReadFragment(name, f"s{name}", f"r{name}", f"r{name}", k, "0") for name in "AB" for k in "01")
MULTIPLIED = tuple(MultiplyAdd("rA", "rB", k) for k in "01")
SUMMED = Summed("1", "2")
STAGED: Body = (CopyTile("A", "0", "0"), CopyToRegisters("B", "0"), CopyFromRegisters("B", "0"))
GEMM: Body = (*STAGED, CpAsyncCommitGroup(), CpAsyncWaitGroup("0"), SyncThreads(), *READ, *MULTIPLIED, SUMMED)


def gemm(*body: Statement) -> Run:
    arrays = (Array(("gA", "gB"), "1"), Array(("A", "B", "rA", "rB"), "2"), Array(("C",), "1"))
    return traced((*arrays, *body), WARP, Geometry(), [{"no": False}])


def test_what_threads_bring_and_read_is_what_proofs_look_at() -> None:
    run = gemm(*GEMM)
    one_order.prove(run)
    (found,) = run.acts.values()
    a, b = (Cell(0, name, (0,)) for name in "AB")
    looks = [acts.Look(((cell, (0,)),)) for cell in (a, a, b, b)]
    meet = acts.Meet(NamedBarrier(0, 0), 32, 32, waits=True)
    copied = [acts.CpAsync(a, (0,)), acts.Write(b, (0,)), acts.CpAsyncCommitGroup(), acts.CpAsyncWaitGroup(0)]
    assert list(found) == [*copied, meet, *looks]


WRONG: dict[str, tuple[Body, str]] = {
    "a tile of what is not there": ((CopyTile("D", "0", "0"),), "outside"),
    "a tile that there is not": ((CopyTile("A", "1", "0"),), "outside"),
    "registers of a tile that there is not": ((CopyToRegisters("A", "1"),), "outside"),
    "a stage that there is not": ((CopyTile("A", "0", "2"),), "outside"),
    "fragments of a stage that there is not": ((ReadFragment("A", "", "", "rA", "0", "2"),), "outside"),
    "a k that there is not": ((ReadFragment("A", "", "", "rA", "2", "0"),), "outside"),
    "a tile twice": ((*STAGED, CopyTile("A", "0", "0")), "overwrite"),
    "from registers twice": ((*STAGED, CopyFromRegisters("B", "0")), "overwrite"),
    "a tile that was not copied": ((*STAGED[1:], *READ, *MULTIPLIED), "fragment"),
    "a copy that no predicate lets": (
        (CopyTile("A", "0", "0", "no"), *STAGED[1:], *READ, *MULTIPLIED),
        "fragment",
    ),
    "fragments that were not read": ((*STAGED, *READ[1:], *MULTIPLIED), "fragment"),
    "fragments of two k": ((*STAGED, *READ[2:], ReadFragment("A", "", "", "rA", "1", "0"), MULTIPLIED[0]), "fragment"),
    "another k's conversion": (
        (*STAGED, *READ, ConvertFragment("rA", "rA", "0", ""), ConvertFragment("rA", "no", "1", ""), *MULTIPLIED),
        "fragment",
    ),
    "a k less": ((*STAGED, *READ, MULTIPLIED[0], SUMMED), "sum"),
    "a k twice": ((*STAGED, *READ, *MULTIPLIED, MULTIPLIED[0], SUMMED), "sum"),
    "more than there is": ((*STAGED, *READ, *MULTIPLIED, Summed("1", "1")), "sum"),
    "sums that were not stored": ((ReadSums("C"),), "early"),
}


@pytest.mark.parametrize("what", WRONG)
def test_sums_of_something_else_are_refused(what: str) -> None:
    body, kind = WRONG[what]
    with pytest.raises(Unproved) as raised:
        gemm(*body)
    assert raised.value.fault.kind == kind


ALL_THREADS: Body = (*GEMM, StoreSums("C", ("A",)), ReadSums("C"))


@pytest.mark.parametrize(
    "place", range(len(ALL_THREADS)), ids=lambda place: f"{place} {type(ALL_THREADS[place]).__name__}"
)
def test_what_all_threads_of_a_gemm_do_is_refused_of_some(place: int) -> None:
    with pytest.raises(Unproved) as raised:
        gemm(*ALL_THREADS[:place], If("tidx % 2 == 0", (ALL_THREADS[place],)))
    assert raised.value.fault.kind == "partial"
