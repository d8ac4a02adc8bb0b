"""The candidates of an elementwise kernel, and the fields that planning infers again after a change."""

from __future__ import annotations

from typing import Any

import pytest
from tuning_kit import ADD, sieve_of

from cutegen.families.elementwise import FAMILY
from cutegen.families.elementwise.tuning import refinements
from cutegen.tuning.schedules import changed

WRITTEN = {
    "partition": "inner_outer",
    "tiler": {"M": 8, "N": 128},
    "thread_layout": "(4,32):(32,1)",
    "copy": {"atom": "universal", "bits": 64},
}


@pytest.mark.parametrize(
    ("choice", "gone"),
    [
        ({("partition",): "inner"}, {"tiler", "thread_layout", "bits"}),
        ({("tiler", "N"): 256}, {"bits"}),
        ({("thread_layout",): "(8,32):(32,1)"}, {"bits"}),
        ({("value_layout",): "(2,4):(4,1)"}, {"bits"}),
        ({("copy", "bits"): 32}, set()),
        ({("scheduler",): {"raster": "M"}}, set()),
    ],
)
def test_what_depends_on_a_change_is_left_to_planning(choice: Any, gone: set[str]) -> None:
    after = changed(WRITTEN, choice, FAMILY, "Y")
    left = {key for key in WRITTEN if key not in after} | ({"bits"} if "bits" not in after["copy"] else set())
    assert left == gone and after["copy"]["atom"] == "universal"


def test_widths_and_walks_are_refined() -> None:
    found = list(refinements(sieve_of(ADD).incumbent().modules[0].spec))
    widths = [{("copy", "bits"): bits} for bits in (32, 64, 128)]
    assert found == [*widths, *({("scheduler",): {"raster": raster}} for raster in ("M", "N"))]
