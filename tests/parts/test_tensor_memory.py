"""Runs of a few acts on tensor memory: right ones, and what is missing in almost equal ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cutegen.parts.acts import (
    Act,
    Agent,
    AllocateColumns,
    Barrier,
    Bring,
    Cell,
    Commit,
    FenceInitialised,
    FreeColumns,
    Initialise,
    LoadColumns,
    Meet,
    NamedBarrier,
    Run,
    StartProducts,
    TensorFence,
    Use,
    Wait,
    WaitLoads,
)
from cutegen.parts.acts import Arrive as ArriveAt
from cutegen.parts.faults import Unproved
from cutegen.parts.one_order import prove

FULL, EMPTY, READY, AGAIN = (Barrier(0, name, 0) for name in ("full", "empty", "ready", "again"))
STAGE, SUMS, ONE, TWO = Cell(0, "A", (0,)), Cell(0, "sums", ()), ("one",), ("two",)
TOGETHER = Meet(NamedBarrier(0, 0), 3, 1, waits=True)
AFTER, BEFORE = TensorFence(after=True), TensorFence(after=False)
Acts = tuple[Act, ...]


def product(content: tuple[str, ...], adds: bool) -> StartProducts:
    return StartProducts(((STAGE, content),), SUMS, content, adds)


# Two tiles of one step each in the same columns, which the second one may replace once the first has been loaded
LOADER: Acts = (
    TOGETHER,
    ArriveAt(FULL, 1, 64), Bring(STAGE, ONE, FULL, 64),
    Wait(EMPTY, 0), ArriveAt(FULL, 1, 64), Bring(STAGE, TWO, FULL, 64),
    TOGETHER,
)  # fmt: skip
MULTIPLIER: Acts = (
    *(Initialise(barrier, 1) for barrier in (FULL, EMPTY, READY, AGAIN)), FenceInitialised(),
    AllocateColumns(SUMS), TOGETHER,
    Wait(FULL, 0), AFTER, product(ONE, False), Commit(EMPTY), Commit(READY),
    Wait(AGAIN, 0), Wait(FULL, 1), AFTER, product(TWO, False), Commit(READY),
    TOGETHER, AFTER, FreeColumns(SUMS),
)  # fmt: skip
STORING: Acts = (
    TOGETHER,
    Wait(READY, 0), AFTER, LoadColumns(SUMS, (ONE,), "acc"), WaitLoads(), BEFORE, ArriveAt(AGAIN, 1), Use(("acc",)),
    Wait(READY, 1), AFTER, LoadColumns(SUMS, (TWO,), "acc"), WaitLoads(), Use(("acc",)), BEFORE,
    TOGETHER,
)  # fmt: skip


def kind(loader: Acts = LOADER, multiplier: Acts = MULTIPLIER, storing: Acts = STORING) -> str:
    """The kind of fault that is found; nothing where there is none."""
    roles = {"loader": loader, "multiplier": multiplier, "storing": storing}
    try:
        prove(Run({Agent(0, role, 0, 0): acts for role, acts in roles.items()}))
    except Unproved as error:
        return error.fault.kind
    return ""


def without(acts: Acts, left_out: Act | type[Act], place: int = 0) -> Acts:
    """The acts without one: that which stands at a place among all like it."""
    like = [
        i for i, act in enumerate(acts) if act == left_out or (isinstance(left_out, type) and type(act) is left_out)
    ]
    return (*acts[: like[place]], *acts[like[place] + 1 :])


def instead(acts: Acts, old: Act, new: Act) -> Acts:
    assert old in acts
    return tuple(new if act == old else act for act in acts)


def test_tiles_in_turn_are_right() -> None:
    assert kind() == ""


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        (lambda: kind(multiplier=without(MULTIPLIER, Wait(FULL, 0))), "early"),
        (lambda: kind(multiplier=without(MULTIPLIER, Wait(AGAIN, 0))), "overwrite"),
        (lambda: kind(multiplier=without(MULTIPLIER, AFTER, 0)), "fence"),
        (lambda: kind(multiplier=without(MULTIPLIER, AFTER, 1)), "fence"),
        (lambda: kind(multiplier=without(MULTIPLIER, AFTER, 2)), "fence"),
        (lambda: kind(multiplier=without(MULTIPLIER, Commit(EMPTY))), "deadlock"),
        (lambda: kind(multiplier=without(MULTIPLIER, Commit(READY))), "deadlock"),
        (lambda: kind(multiplier=without(MULTIPLIER, Commit(READY), 1)), "deadlock"),
        (lambda: kind(multiplier=without(MULTIPLIER, AllocateColumns)), "start"),
        (lambda: kind(multiplier=without(MULTIPLIER, FreeColumns)), "exit"),
        (lambda: kind(multiplier=instead(MULTIPLIER, product(TWO, False), product(TWO, True))), "content"),
        (lambda: kind(multiplier=instead(MULTIPLIER, product(ONE, False), product(ONE, True))), "early"),
        (lambda: kind(loader=without(LOADER, Wait(EMPTY, 0))), "stray"),
        (lambda: kind(storing=without(STORING, Wait(READY, 0))), "early"),
        (lambda: kind(storing=without(STORING, AFTER)), "fence"),
        (lambda: kind(storing=without(STORING, WaitLoads)), "registers"),
        (lambda: kind(storing=without(STORING, WaitLoads, 1)), "registers"),
        (lambda: kind(storing=without(STORING, BEFORE)), "overwrite"),
        (lambda: kind(storing=without(STORING, BEFORE, 1)), "overwrite"),
        (lambda: kind(storing=without(STORING, LoadColumns, 1)), "unread"),
    ],
)
def test_what_is_missing_is_found(changed: Callable[[], str], found: str) -> None:
    assert changed() == found


def test_a_product_of_another_agent_waits_for_the_first_one() -> None:
    """Products of one agent follow one another by themselves; those of two do not."""
    second = (TOGETHER, Wait(FULL, 0), AFTER, StartProducts(((STAGE, ONE),), SUMS, TWO, True), Commit(READY), TOGETHER)
    first = (*MULTIPLIER[:12], TOGETHER, AFTER, FreeColumns(SUMS))
    assert kind(loader=(*LOADER[:3], TOGETHER), multiplier=first, storing=second) in ("overwrite", "early")
