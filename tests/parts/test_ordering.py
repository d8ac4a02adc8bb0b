"""Happens-before: correct runs of a few acts, and the missing order in almost equal runs.

If all orders show another fault than one order, or none, it is the third entry.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from acts_kit import Run

from cutegen.parts import all_orders, one_order
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
    Fence,
    Look,
    Meet,
    Multiply,
    NamedBarrier,
    Store,
    Stored,
    Use,
    Wait,
    Write,
)
from cutegen.parts.acts import Run as WholeRun
from cutegen.parts.faults import Unproved

BAR = Barrier(0, "bar", 0)
X, Y = Cell(0, "X", (0,)), Cell(0, "Y", (0,))
ONE, TWO = ("one",), ("two",)
TOGETHER = Meet(NamedBarrier(0, 1), 2, 1, waits=True)
ENDS = (ClusterArrive(), ClusterWait())


def run(*agents: tuple[Act, ...], arrivals: int = 1, blocks: tuple[int, ...] = ()) -> Run:
    """Of agents a, b, c, all in one block, or in these."""
    at = blocks or (0,) * len(agents)
    return Run(
        {Agent(block, name, 0, 0): acts for block, name, acts in zip(at, "abc", agents, strict=False)},
        {"bar": arrivals},
    )


def parts(*agents: tuple[Act, ...]) -> Run:
    """Of agents of one warpgroup."""
    return Run({Agent(0, "a", 0, part): acts for part, acts in enumerate(agents)}, {"bar": 1})


def kind(prove: Callable[[WholeRun], object], of: Run) -> str:
    try:
        prove(of.opened)
    except Unproved as unproved:
        return unproved.fault.kind
    return "right"


def products(*after: Act, before: tuple[Act, ...] = ()) -> tuple[Act, ...]:
    return (Write(X, ONE), *before, Multiply(((X, ONE),), ("r",)), *after)


LOAD = (Arrive(BAR, 1, 8), Bring(X, ONE, BAR, 8))
SEEN = (Wait(BAR, 0), Look(((X, ONE),)))
COMMIT, ALL = CpAsyncCommitGroup(), CpAsyncWaitGroup(0)
LOOK = Look(((X, ONE),))
PEER = Cell(1, "X", (0,))
PEER_BAR = Barrier(1, "bar", 0)
PEER_LOAD = (Arrive(PEER_BAR, 1, 8), Bring(PEER, ONE, PEER_BAR, 8))

CASES: dict[str, tuple[Run, str] | tuple[Run, str, str]] = {
    "nothing": (run((), ()), "right"),
    # What threads write is read by threads after a barrier, by asynchronous reads after a fence.
    "written, seen": (run((Write(X, ONE), TOGETHER), (TOGETHER, Look(((X, ONE),)))), "right"),
    "written, not seen": (run((Write(X, ONE), TOGETHER), (Look(((X, ONE),)), TOGETHER)), "early"),
    "written, no barrier": (run((Write(X, ONE),), (Look(((X, ONE),)),)), "early"),
    "written, other content": (run((Write(X, ONE), Look(((X, TWO),)))), "content"),
    "written, any content": (run((Write(X, ONE), Look(((X, None),)))), "right"),
    "multiplied after a fence": (run(products(Drain(0), before=(Fence(),))), "right"),
    "multiplied without a fence": (run(products(Drain(0))), "fence"),
    "not drained": (run(products(before=(Fence(),))), "exit"),
    "a loaded cell is stored": (run((*LOAD, Wait(BAR, 0), Store(((X, None),)), Stored(0))), "right"),
    "a cell is stored that holds something else": (
        run((*LOAD, Wait(BAR, 0), Store(((X, TWO),)), Stored(0))),
        "content",
    ),
    "a cell is stored while it is loaded": (run((*LOAD, Store(((X, None),)), Stored(0))), "early"),
    "registers after the drain": (run(products(Drain(0), Use(("r",)), before=(Fence(),))), "right"),
    "other registers before it": (run(products(Use(("s",)), Drain(0), before=(Fence(),))), "right"),
    "registers before the drain": (run(products(Use(("r",)), Drain(0), before=(Fence(),))), "registers"),
    # Written and loaded over.
    "read, then written": (run((*LOAD, Wait(BAR, 0), TOGETHER, Write(X, TWO)), (*SEEN, TOGETHER)), "right"),
    "read while written": (run((*LOAD, Wait(BAR, 0), Write(X, TWO)), SEEN), "unread"),
    "written and fenced, then loaded": (run((Write(X, TWO), Fence(), *LOAD, *SEEN)), "right"),
    "written, then loaded": (run((Write(X, TWO), *LOAD, *SEEN)), "fence"),
    "two write in turn": (run((Write(X, ONE), TOGETHER), (TOGETHER, Write(X, TWO))), "right"),
    "two write at once": (run((Write(X, ONE),), (Write(X, TWO),)), "overwrite", "right"),
    "loaded by another over what it does not know": (run((Write(X, TWO), Fence()), (*LOAD, *SEEN)), "overwrite"),
    "written while its load comes": (run((*LOAD, Write(X, TWO))), "overwrite"),
    "a part is written after a read": (parts((Write(X, ONE), Look(((X, ONE),))), (Write(X, ONE),)), "overwrite"),
    "a part is written before a read": (
        parts((Write(X, ONE), TOGETHER, Look(((X, ONE),))), (Write(X, ONE), TOGETHER)),
        "right",
    ),
    "a load that nobody waits for": (run(LOAD), "unread"),
    "a load that nobody reads": (run((*LOAD, Wait(BAR, 0))), "unread"),
    # Copies of threads are done for those that have waited for their group, and for others after a barrier.
    "copied, waited for, read": (run((CpAsync(X, ONE), COMMIT, ALL, LOOK)), "right"),
    "copied and read at once": (run((CpAsync(X, ONE), COMMIT, LOOK, ALL)), "early"),
    "copied in no group": (run((CpAsync(X, ONE), ALL, COMMIT)), "exit"),
    "copied and not waited for": (run((CpAsync(X, ONE), COMMIT)), "exit"),
    "all groups but the last": (
        run((CpAsync(X, ONE), COMMIT, CpAsync(Y, TWO), COMMIT, CpAsyncWaitGroup(1), LOOK, ALL)),
        "right",
    ),
    "the last group": (
        run((CpAsync(Y, TWO), COMMIT, CpAsync(X, ONE), COMMIT, CpAsyncWaitGroup(1), LOOK, ALL)),
        "early",
    ),
    "an empty group counts": (run((CpAsync(X, ONE), COMMIT, COMMIT, CpAsyncWaitGroup(1), LOOK)), "right"),
    "copied, seen by another": (run((CpAsync(X, ONE), COMMIT, ALL, TOGETHER), (TOGETHER, LOOK)), "right"),
    "copied, waited for behind the barrier": (run((CpAsync(X, ONE), COMMIT, TOGETHER, ALL), (TOGETHER, LOOK)), "early"),
    "copied by both": (parts(*[(CpAsync(X, ONE), COMMIT, ALL, TOGETHER, LOOK)] * 2), "right"),
    "copied by both, seen by one": (
        parts((CpAsync(X, ONE), COMMIT, ALL, TOGETHER, LOOK), (CpAsync(X, ONE), COMMIT, TOGETHER, ALL)),
        "early",
    ),
    "copied over what is read": (
        run((TOGETHER, LOOK), (Write(X, ONE), TOGETHER, CpAsync(X, TWO), COMMIT, ALL)),
        "overwrite",
        "early",
    ),
    "copied over what was read": (
        run((Write(X, ONE), TOGETHER, TOGETHER, CpAsync(X, TWO), COMMIT, ALL), (TOGETHER, LOOK, TOGETHER)),
        "right",
    ),
    "copied over its own copy": (run((CpAsync(X, ONE), CpAsync(X, TWO), COMMIT, ALL)), "overwrite"),
    "written over another's copy": (
        run((CpAsync(X, ONE), COMMIT, TOGETHER, ALL), (TOGETHER, Write(X, TWO))),
        "overwrite",
    ),
    "copied, fenced, multiplied": (
        run((CpAsync(X, ONE), COMMIT, ALL, Fence(), Multiply(((X, ONE),)), Drain(0))),
        "right",
    ),
    "copied, multiplied": (run((CpAsync(X, ONE), COMMIT, ALL, Multiply(((X, ONE),)), Drain(0))), "fence"),
    # A barrier's end is known to who waits, and to who knows of all arrivals, but then not of bytes.
    "arrives twice alone": (run((Arrive(BAR, 1), Arrive(BAR, 1))), "right"),
    "arrives again, knowing of the other": (
        run((Arrive(BAR, 1), TOGETHER, Arrive(BAR, 2)), (Arrive(BAR, 1), TOGETHER), arrivals=2),
        "right",
    ),
    "arrives again, not knowing of the other": (
        run((Arrive(BAR, 1), Arrive(BAR, 1)), (Arrive(BAR, 2),), arrivals=2),
        "stray",
        "arrivals",
    ),
    "bytes again without waiting": (run((*LOAD, *SEEN, *LOAD), ()), "unread"),
    "bytes at once in two phases": (run((*LOAD, Arrive(BAR, 1, 8), Bring(Y, ONE, BAR, 8)), SEEN), "stray", "arrivals"),
    "a barrier without arrivals": (run((Wait(BAR, 0),), arrivals=0), "arrivals"),
    "bytes that never come": (run((Arrive(BAR, 1, 8),)), "bytes"),
    "bytes that are too many": (run((Arrive(BAR, 1, 4), Bring(X, ONE, BAR, 8), *SEEN)), "bytes"),
    # Bytes may be expected apart from the arrival, if before it.
    "expected, then arrived": (run((Arrive(BAR, 0, 8), Arrive(BAR, 1), Bring(X, ONE, BAR, 8), *SEEN)), "right"),
    "expected by another before": (
        run((Arrive(BAR, 0, 8), TOGETHER, Bring(X, ONE, BAR, 8), *SEEN), (TOGETHER, Arrive(BAR, 1))),
        "right",
    ),
    "expected by another": (
        run((Arrive(BAR, 0, 8), Bring(X, ONE, BAR, 8), *SEEN), (Arrive(BAR, 1),)),
        "stray",
        "early",
    ),
    # Named barriers are passed by the same threads in every order.
    "two after two": (run((TOGETHER, TOGETHER), (TOGETHER, TOGETHER)), "right"),
    "three by twos": (run((TOGETHER,), (TOGETHER, TOGETHER), (TOGETHER,)), "threads", "deadlock"),
    "for other numbers of threads": (run((TOGETHER,), (Meet(NamedBarrier(0, 1), 3, 1, waits=False),)), "threads"),
    "an arrival that nobody waits for": (run((Meet(NamedBarrier(0, 1), 2, 1, waits=False),)), "threads"),
    "too many threads": (run(*[(Meet(NamedBarrier(0, 1), 3, 2, waits=False),)] * 2), "threads"),
    # Another block's memory is used while it stays.
    "a peer is read": (run((Look(((PEER, ONE),)), *ENDS), (), blocks=(0, 1)), "early"),
    "a peer's cell is read": (
        run((*ENDS, Look(((PEER, ONE),)), *ENDS), (Write(PEER, ONE), *ENDS, *ENDS), blocks=(0, 1)),
        "right",
    ),
    "a peer's cell is read at the end": (
        run((*ENDS, Look(((PEER, ONE),))), (Write(PEER, ONE), *ENDS), blocks=(0, 1)),
        "exit",
    ),
    "a peer ends while a copy to it comes": (
        run((*ENDS, Bring(PEER, ONE, PEER_BAR, 8), Wait(PEER_BAR, 0)), (Arrive(PEER_BAR, 1, 8), *ENDS), blocks=(0, 1)),
        "unread",
        "exit",
    ),
    "a peer's cell is written": (run((Write(PEER, ONE), *ENDS), ENDS, blocks=(0, 1)), "right"),
    "a peer's cell is written at the end": (run((Write(PEER, ONE),), (), blocks=(0, 1)), "exit"),
    "a peer's cell is loaded": (run(PEER_LOAD, (Wait(PEER_BAR, 0), Look(((PEER, ONE),))), blocks=(0, 1)), "right"),
    "a peer's cell is loaded, which it does not see": (
        run((*PEER_LOAD, Wait(PEER_BAR, 0), Look(((PEER, ONE),)), *ENDS), ENDS, blocks=(0, 1)),
        "right",
    ),
    "a peer ends before its load": (
        run((*PEER_LOAD, Wait(PEER_BAR, 0), Look(((PEER, ONE),))), (), blocks=(0, 1)),
        "exit",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_known_decides(name: str) -> None:
    of, one, *others = CASES[name]
    assert kind(one_order.prove, of) == one
    assert kind(all_orders.prove, of) == (others[0] if others else one)
