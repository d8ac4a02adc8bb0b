"""Each mistake is found, by its kind, by one order of the agents; and by the search of all where that can be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import get_args

import pytest
from acts_kit import Plan, Run, gemm
from wrong_acts import BUFFERED, PARTED, STORES, TINY, Mistake, mistakes

from cutegen.parts import all_orders, one_order
from cutegen.parts.acts import Arrive, Wait
from cutegen.parts.acts import Run as WholeRun
from cutegen.parts.faults import Fault, Kind, Unproved

MISTAKES = list(mistakes())


def fault(prove: Callable[[WholeRun], object], run: Run) -> Fault | None:
    try:
        prove(run.opened)
    except Unproved as unproved:
        return unproved.fault
    return None


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.what)
def test_a_mistake_is_found(mistake: Mistake) -> None:
    right = gemm(mistake.plan)
    wrong = mistake.makes(right)
    assert wrong != right, "changes nothing"
    assert fault(one_order.prove, right) is None
    found = fault(one_order.prove, wrong)
    assert found and found.kind == mistake.kind, found
    if mistake.seen is not None:
        seen = fault(all_orders.prove, wrong)
        assert seen and seen.kind in mistake.seen.split(), seen


def test_mistakes_differ_and_show_every_kind() -> None:
    assert len({mistake.what for mistake in MISTAKES}) == len(MISTAKES) > 60
    # The others are of blocks that begin apart, and of trees (test_tracing)
    others = {"start", "fragment", "group", "outside", "partial", "sum", "text"}
    assert {mistake.kind for mistake in MISTAKES} | others == set(get_args(Kind))


TEXTS = {
    "no wait for full stages": (
        "consumer (warpgroup 0) starts a product on A[0] before the load of producer has come for sure"
    ),
    "a stage is released before its drain": (
        "producer loads A[0] while a product of consumer (warpgroup 0) reads (0, 0) in it, which may be later"
    ),
    "an arrival less at empty barriers": (
        "consumer (warpgroup 1) arrives at empty[0] for its phase 1 without knowing that phase 0 is over: that may fall"
        " into phase 0"
    ),
    "an arrival more at empty barriers": (
        "nobody goes on: producer waits for phase 0 of empty[0] (parity 0), which lacks 1 of 3 arrivals; consumer"
        " (warpgroup 0) waits for phase 1 of full[0] (parity 1), which lacks 1 of 1 arrivals; consumer (warpgroup 1)"
        " waits for phase 1 of full[0] (parity 1), which lacks 1 of 1 arrivals"
    ),
    "A is not loaded": "phase 0 of full[0] is never over: it expects more bytes than come (64 more)",
    "a byte less expected": "more bytes come to full[0] in its phase 0 than are expected (1 more)",
    "a wait that its parity does not tell": (
        "reader waits for phase 2 of signal[0] (parity 0) without knowing that phase 1 is over: it may come before"
        " that, pass at once, and go on two phases early"
    ),
    "a waiter that releases nothing": (
        "phase 1 of full[0] may be over before watcher has seen that phase 0 is: it would wait for ever, or for a later"
        " phase"
    ),
    "the other's tile is not skipped": "consumer (warpgroup 1) starts a product on A[0] for (0, 3), and finds (0, 4)",
    "no fence of the part that does not store": (
        "consumer (part 0) stores C[0, 0], which consumer (part 1) wrote and has not fenced for sure"
    ),
    "fewer threads come": (
        "nobody goes on: consumer (part 0) waits at named barrier 3, where 96 of 128 threads have come; consumer (part"
        " 1) waits at named barrier 3, where 96 of 128 threads have come"
    ),
    "a block does not wait at the end": (
        "consumer (block 0) arrives at empty[0] of block 1: block 1 may have ended by then"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", TEXTS)
def test_texts_say_who_where_and_why(what: str) -> None:
    mistake = next(mistake for mistake in MISTAKES if mistake.what == what)
    found = fault(one_order.prove, mistake.makes(gemm(mistake.plan)))
    assert found and found.text == TEXTS[what]
    assert str(Unproved(found)) == f"{mistake.kind}: {TEXTS[what]}"


def test_a_fault_tells_which_act_of_which_agent() -> None:
    mistake = next(mistake for mistake in MISTAKES if mistake.what == "no fence before a buffer is stored")
    wrong = mistake.makes(gemm(mistake.plan))
    found = fault(one_order.prove, wrong)
    assert found and found.agent and found.act is not None
    assert type(wrong.opened.acts[found.agent][found.act]).__name__ == "Store"


def edited(run: Run) -> Iterator[Run]:
    """The run with one act less, twice, after the next one, with the other parity, or with its bytes expected apart."""
    for agent, acts in run.acts.items():
        for at, act in enumerate(acts):
            instead = [[], [act, act]]
            if isinstance(act, Wait):
                instead += [[replace(act, parity=1 - act.parity)]]
            if isinstance(act, Arrive):
                alone, expects = replace(act, expected=0), replace(act, count=0)
                instead += [[alone, expects], [expects, alone]]
            for new in instead:
                yield replace(run, acts={**run.acts, agent: [*acts[:at], *new, *acts[at + 1 :]]})
            swapped = [*acts[:at], *acts[at + 1 : at + 2], act, *acts[at + 2 :]]
            yield replace(run, acts={**run.acts, agent: swapped})


@pytest.mark.parametrize(
    "plan",
    [
        PARTED,
        replace(STORES, tiles=1),
        BUFFERED,
        pytest.param(TINY, marks=pytest.mark.sweep),
        Plan(parts=1, in_turn=True, rest=0),
        Plan(parts=1, rounds=2, rest=0, tiles=1),
    ],
    ids=str,
)
def test_what_one_order_proves_holds_in_all(plan: Plan) -> None:
    proved = 0
    for run in edited(gemm(plan)):
        if fault(one_order.prove, run) is None:
            proved += 1
            wrong = fault(all_orders.prove, run)
            assert wrong is None, (wrong, run)
    assert proved > 20
