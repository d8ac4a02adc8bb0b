"""The lists that `make test` leaves for `make sweep` name existing tests, since other names would have no effect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep_kit import FEWER, PARTS, WHOLE, draw_fewer_examples

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("table", [PARTS, WHOLE], ids=["parts", "whole"])
def test_every_name_is_that_of_a_test(table: dict[str, tuple[str, ...]]) -> None:
    for file, names in table.items():
        defined = re.findall(r"^\s*def (test_\w+)\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE)
        assert set(names) <= set(defined), file


def test_no_test_is_in_both() -> None:
    assert not [file for file in PARTS if {*PARTS[file]} & {*WHOLE.get(file, ())}]


@given(number=st.integers())
@settings(max_examples=30, database=None)
def property_of_numbers(number: int, drawn: list[int]) -> None:
    drawn.append(number)


@pytest.mark.parametrize("sweep", [True, False])
def test_a_property_draws_all_its_examples_in_the_sweep_and_else_a_part(
    sweep: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in vars(property_of_numbers).items():  # which is as it was, afterwards
        monkeypatch.setattr(property_of_numbers, name, value)
    item = pytest.Function.from_parent(request.node.parent, name="property", callobj=property_of_numbers)
    draw_fewer_examples([item], sweep)
    property_of_numbers(drawn=(drawn := []))
    assert len(drawn) == (30 if sweep else 30 // FEWER)
    assert (item.get_closest_marker("sweep") is not None) == sweep
