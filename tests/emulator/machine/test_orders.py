"""Orders of blocks and warps: races are found in any of them, and results that differ between them without any.

A kernel that only meets at barriers and has no race gives one result in every order. So what the orders catch, a
detector has missed; the tests of that blind the detector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import pytest
from emulator_kit import fault, go, kernel, tensors
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen.emulator.checks import global_races
from cutegen.emulator.checks.shared_races import AccessLog

BLOCKS, THREADS = 2, 64


@dataclass(frozen=True)
class Place:
    """An element of a block's shared memory or of the tensor, by block and thread; and the same in PTX, in %r9."""

    index: Callable[[int, int], int]
    ptx: str


ADD_BLOCK = "mad.lo.u32 %r9, %r1, 64, %r9;"
SHARED = {
    "own": Place(lambda b, t: t, "mov.u32 %r9, %r0;"),
    "neighbour's": Place(lambda b, t: t ^ 1, "xor.b32 %r9, %r0, 1;"),
    "other warp's": Place(lambda b, t: t ^ 32, "xor.b32 %r9, %r0, 32;"),
    "one": Place(lambda b, t: 0, "mov.u32 %r9, 0;"),
}
GLOBAL = {
    name: Place(lambda b, t, i=place.index: 64 * b + i(b, t), place.ptx + ADD_BLOCK)  # type: ignore[misc]
    for name, place in SHARED.items()
} | {
    "other block's": Place(lambda b, t: 64 * (1 - b) + t, "xor.b32 %r9, %r1, 1;mad.lo.u32 %r9, %r9, 64, %r0;"),
    "first of all": Place(lambda b, t: 0, "mov.u32 %r9, 0;"),
}
WHO: dict[str, tuple[Callable[[int, int], bool], str]] = {
    "all": (lambda b, t: True, "setp.eq.u32 %p1, %r0, %r0;"),
    "thread 0": (lambda b, t: t == 0, "setp.eq.u32 %p1, %r0, 0;"),
    "thread 33": (lambda b, t: t == 33, "setp.eq.u32 %p1, %r0, 33;"),
    "block 1": (lambda b, t: b == 1, "setp.eq.u32 %p1, %r1, 1;"),
    "thread 0 of block 0": (lambda b, t: b == t == 0, "or.b32 %r8, %r0, %r1;setp.eq.u32 %p1, %r8, 0;"),
}


@dataclass(frozen=True)
class Step:
    """A barrier, or what some threads do: add an element to their sum, or write their sum to it."""

    kind: Literal["read", "write", "barrier"]
    space: Literal["shared", "global"] = "shared"
    place: str = "own"
    who: str = "all"

    @property
    def where(self) -> Place:
        return (SHARED if self.space == "shared" else GLOBAL)[self.place]

    @property
    def ptx(self) -> str:
        if self.kind == "barrier":
            return "bar.sync 0;"
        if self.space == "shared":
            address, operand = "mov.u32 %r7, smem;mad.lo.u32 %r7, %r9, 4, %r7;", "[%r7]"
        else:
            address, operand = "mad.wide.u32 %rd9, %r9, 4, %rd0;", "[%rd9]"
        move = f"@%p1 st.{self.space}.b32 {operand}, %r5;"
        if self.kind == "read":
            move = f"mov.u32 %r6, 0;@%p1 ld.{self.space}.b32 %r6, {operand};add.u32 %r5, %r5, %r6;"
        return f"{self.where.ptx}{WHO[self.who][1]}{address}{move}"


def step(space: Literal["shared", "global"]) -> st.SearchStrategy[Step]:
    places = SHARED if space == "shared" else GLOBAL
    return st.builds(
        Step, st.sampled_from(["read", "write"]), st.just(space), st.sampled_from([*places]), st.sampled_from([*WHO])
    )


def text(steps: list[Step]) -> str:
    start = "add.u32 %r5, %r0, 100;" + Step("write").ptx + "bar.sync 0;"
    end = "mad.lo.u32 %r9, %r1, 64, %r0;mad.wide.u32 %rd9, %r9, 4, %rd1;st.global.b32 [%rd9], %r5;"
    return kernel((start + "".join(s.ptx for s in steps) + end).replace(";", ";\n"), shared=256)


def accesses(steps: list[Step]) -> Iterator[tuple[tuple[int, int], bool, int, int, int]]:
    """(memory and element), whether it is a write, block, thread, and how many barriers came before."""
    epoch = 0
    for s in steps:
        epoch += s.kind == "barrier"
        for b in range(BLOCKS):
            for t in range(THREADS):
                if s.kind != "barrier" and WHO[s.who][0](b, t):
                    memory = b if s.space == "shared" else -1
                    yield (memory, s.where.index(b, t)), s.kind == "write", b, t, epoch


def racy(steps: list[Step]) -> bool:
    """Two threads, one element, one of them writes, and not the same block with a barrier between."""
    touched: dict[tuple[int, int], list[tuple[bool, int, int, int]]] = {}
    for element, *access in accesses(steps):
        touched.setdefault(element, []).append(tuple(access))  # type: ignore[arg-type]
    return any(
        (w1 or w2) and (b1, t1) != (b2, t2) and (b1 != b2 or e1 == e2)
        for these in touched.values()
        for (w1, b1, t1, e1), (w2, b2, t2, e2) in combinations(set(these), 2)
    )


def result(steps: list[Step], memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The tensor and the sums of a kernel that has no race, one step after the other."""
    memory = memory.copy()
    sums = np.tile(np.arange(THREADS) + 100, (BLOCKS, 1))
    shared = sums.copy()
    for s in steps:
        before = shared.copy(), memory.copy()
        for b in range(BLOCKS):
            for t in range(THREADS):
                if s.kind == "barrier" or not WHO[s.who][0](b, t):
                    continue
                index = s.where.index(b, t)
                if s.kind == "read":
                    sums[b, t] += before[0][b, index] if s.space == "shared" else before[1][index]
                elif s.space == "shared":
                    shared[b, index] = sums[b, t]
                else:
                    memory[index] = sums[b, t]
    return memory, sums.reshape(-1)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.just(Step("barrier")), step("shared"), step("global")), max_size=6))
def test_a_race_is_found_in_every_order_and_without_one_all_orders_agree(steps: list[Step]) -> None:
    memory = np.arange(BLOCKS * THREADS, dtype=np.uint32)
    for seed in (0, 1, 2):
        x, y = memory.copy(), np.zeros_like(memory)
        report = go(text(steps), tensors((x, "inout"), (y, "out")), grid=BLOCKS, block=THREADS, seed=seed)
        assert [f.kind in ("race", "unordered") for f in report.faults] == [True] * racy(steps), str(report)
        if not racy(steps):
            wanted, sums = result(steps, memory)
            assert np.array_equal(x, wanted) and np.array_equal(y, sums)


# ------------------------------------------------------------------------------------------------ what the orders are

# Whoever comes takes the number that is in A[0], puts the next one there, and writes its own to B.
TICKET = """
ld.global.b32 %r3, [%rd0];
add.u32 %r4, %r3, 1;
st.global.b32 [%rd0], %r4;
mul.wide.u32 %rd9, %r5, 4;
add.s64 %rd9, %rd1, %rd9;
st.global.b32 [%rd9], %r3;
"""
OF_BLOCKS = "setp.ne.u32 %p1, %r0, 0;\n@%p1 ret;\nmov.u32 %r5, %r1;\n" + TICKET
OF_WARPS = "and.b32 %r6, %r0, 31;\nshr.u32 %r5, %r0, 5;\nsetp.ne.u32 %p1, %r6, 0;\n@%p1 ret;\n" + TICKET


def tickets(body: str, count: int, seed: int, shared: int = 0, **launch: int) -> list[int]:
    taken = np.zeros(count, np.uint32)
    go(
        kernel(body, shared=shared), tensors((np.zeros(1, np.uint32), "inout"), (taken, "out")), seed=seed, **launch
    ).check()
    return taken.tolist()


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """No race is seen, neither for global nor for shared memory."""
    monkeypatch.setattr(global_races, "_clash", lambda *_: None)
    monkeypatch.setattr(AccessLog, "_check", lambda *_: None)


@pytest.mark.usefixtures("blind")
@pytest.mark.parametrize("count", [2, 3])
def test_a_few_blocks_run_one_after_the_other_both_ways_round(count: int) -> None:
    for seed in (1, 3, 5, 7):
        forth = tickets(OF_BLOCKS, count, seed, grid=count)
        assert sorted(forth) == list(range(count))
        assert tickets(OF_BLOCKS, count, seed + 1, grid=count) == [count - 1 - ticket for ticket in forth]
    drawn = {tuple(tickets(OF_BLOCKS, count, seed, grid=count)) for seed in range(1, 41)}
    assert len(drawn) == {2: 2, 3: 6}[count]


@pytest.mark.usefixtures("blind")
def test_many_blocks_run_in_groups_and_warps_in_parts_both_ways_round() -> None:
    for body, count, launch, most in (
        (OF_BLOCKS, 4, {"grid": 4}, 2),
        (OF_BLOCKS, 300, {"grid": 300}, 100),
        (OF_WARPS, 2, {"block": 64}, 1),
        (OF_WARPS, 7, {"block": 200}, 4),
    ):
        forth, back = (tickets(body, count, seed, **launch) for seed in (1, 2))
        groups = [[i for i in range(count) if taken[i] == n] for taken in (forth, back) for n in sorted(set(taken))]
        assert groups[: len(groups) // 2] == groups[len(groups) // 2 :][::-1] and len(groups) > 3
        assert max(map(len, groups)) <= most and sorted(sum(groups, [])) == sorted([*range(count)] * 2)


@pytest.mark.usefixtures("blind")
def test_seed_0_is_the_order_of_the_numbers_and_a_seed_is_always_the_same_order() -> None:
    assert tickets(OF_BLOCKS, 8, 0, grid=8) == [0] * 8  # side by side
    for shared in (0, 16):  # blocks of 64 threads
        assert tickets(OF_BLOCKS, 600, 0, shared, grid=600, block=64) == [i // 512 for i in range(600)]
    assert tickets(OF_BLOCKS, 50, 9, grid=50) == tickets(OF_BLOCKS, 50, 9, grid=50)


# ------------------------------------------------------------------------------------------- what only the orders see

# Block 1 reads what block 0 writes.
BETWEEN_BLOCKS = """
setp.eq.u32 %p1, %r1, 0;
add.u32 %r3, %r0, 7;
@%p1 st.global.b32 [%rd0], %r3;
ld.global.b32 %r4, [%rd0];
mul.wide.u32 %rd9, %r1, 4;
add.s64 %rd9, %rd1, %rd9;
st.global.b32 [%rd9], %r4;
"""
# The first thread of each warp writes one word of shared memory, and that of the first warp reads it: in their order it
# is its own.
BETWEEN_WARPS = """
setp.eq.u32 %p1, %r0, 0;
@%p1 st.shared.b32 [smem], 5;
bar.sync 0;
and.b32 %r3, %r0, 31;
setp.eq.u32 %p2, %r3, 0;
@%p2 st.shared.b32 [smem], %r0;
bar.sync 0;
@%p1 ld.shared.b32 %r4, [smem];
@%p1 st.global.b32 [%rd0], %r4;
"""


def between_blocks(**more: int) -> tuple[str, list, dict[str, int]]:  # type: ignore[type-arg]
    bound = tensors((np.zeros(1, np.uint32), "inout"), (np.zeros(2, np.uint32), "out"))
    return kernel(BETWEEN_BLOCKS), bound, {"grid": 2, "block": 1, **more}


def between_warps(**more: int) -> tuple[str, list, dict[str, int]]:  # type: ignore[type-arg]
    bound = tensors((np.zeros(1, np.uint32), "inout"))
    return kernel(BETWEEN_WARPS, 1, shared=16), bound, {"block": 64, **more}


CASES = pytest.mark.parametrize(("make", "race"), [(between_blocks, "unordered"), (between_warps, "race")])


@CASES
def test_what_depends_on_the_order_is_a_race_in_each(make: Callable, race: str) -> None:  # type: ignore[type-arg]
    for seed in range(5):
        text, bound, launch = make(seed=seed)
        found = fault(text, bound, **launch)
        assert (found.kind, found.seed) == (race, seed)
        assert (f"in the order of seed {seed}" in str(found)) == (seed > 0)


@CASES
@pytest.mark.usefixtures("blind")
def test_orders_see_it_where_no_race_is_found(make: Callable, race: str) -> None:  # type: ignore[type-arg]
    text, bound, launch = make(orders=3)
    report = go(text, bound, **launch)
    (found,) = report.faults
    assert found.kind == "order-dependent" and found.seed > 0 and report.orders == found.seed + 1
    assert found.tensor == bound[-1].name and f"in the order of seed {found.seed}" in str(found)
    # The two accesses that changed places, with their threads and lines
    assert found.line and found.block is not None and found.thread is not None and len(found.notes) == 2
    for note in found.notes:
        assert note.place is not None and "block (" in note.text and "thread (" in note.text
        assert ("writes here" in note.text) == ("st." in note.place.text)
    ours = f"before the other one in the order of seed 0, after it in the order of seed {found.seed}"
    assert ours in found.notes[0].text and "change places" in found.explanation
    first = bound[-1].bytes().tobytes()  # the tensors hold what the first order gives
    for seed, same in ((0, True), (found.seed, False)):  # the seed alone gives what differed
        text, again, launch = make(seed=seed)
        go(text, again, **launch).check()
        assert (again[-1].bytes().tobytes() == first) == same


@pytest.mark.usefixtures("blind")
def test_one_order_does_not_see_it() -> None:
    for make in (between_blocks, between_warps):
        for seed in range(3):
            text, bound, launch = make(seed=seed)
            assert go(text, bound, **launch).ok


def test_there_are_no_orders_below_one() -> None:
    for wrong in ({"orders": 0}, {"seed": -1}):
        text, bound, launch = between_blocks(**wrong)
        with pytest.raises(ValueError, match="no orders"):
            go(text, bound, **launch)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_barrier_orders_all_reads_of_a_block_before_its_writes(seed: int) -> None:
    """However many threads of the block have read; those of another block are not ordered."""
    body = """
mad.lo.u32 %r2, %r1, 64, %r0;
ld.global.b32 %r7, [%rd0];
bar.sync 0;
setp.eq.u32 %p1, %r2, 37;
@%p1 st.global.b32 [%rd0], %r0;
"""
    assert go(kernel(body, 1), tensors((np.zeros(1, np.uint32), "inout")), block=64, seed=seed).ok
    found = fault(kernel(body, 1), tensors((np.zeros(1, np.uint32), "inout")), block=64, grid=2, seed=seed)
    assert found.kind == "unordered"


@pytest.mark.parametrize("writer", [0, 1])
def test_a_reader_is_not_forgotten_for_a_later_one(writer: int) -> None:
    body = f"""
setp.eq.u32 %p1, %r0, 0;
setp.eq.u32 %p2, %r0, 1;
setp.eq.u32 %p3, %r0, {writer};
@%p1 ld.global.b32 %r7, [%rd0];
@%p2 ld.global.b32 %r7, [%rd0];
@%p3 st.global.b32 [%rd0], %r0;
"""
    found = fault(kernel(body, 1), tensors((np.zeros(1, np.uint32), "inout")))
    assert found.kind == "unordered" and "several threads of block 0 read" in found.explanation
