"""The tables of what `make test` leaves for `make sweep` name tests that exist: other names would do nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sweep_kit import PARTS, WHOLE

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("table", [PARTS, WHOLE], ids=["parts", "whole"])
def test_every_name_is_that_of_a_test(table: dict[str, tuple[str, ...]]) -> None:
    for file, names in table.items():
        defined = re.findall(r"^\s*def (test_\w+)\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE)
        assert set(names) <= set(defined), file


def test_no_test_is_in_both() -> None:
    assert not [file for file in PARTS if {*PARTS[file]} & {*WHOLE.get(file, ())}]
