"""Address properties of an elementwise kernel's accesses that follow from fixed sizes."""

from __future__ import annotations

import pytest
from planning_specs import document

from cutegen.codegen import generate
from cutegen.families.elementwise.accesses import counted_sizes

TENSORS = {name: {"shape": ["M", "N"], "dtype": "f32"} for name in "SD"}
TENSORS["D"]["role"] = "out"
TV = {"thread_layout": "(4,16):(16,1)", "value_layout": "(2,4):(4,1)"}
INNER = {"partition": "inner", "threads": 64}


@pytest.mark.parametrize(
    ("schedule", "fits"), [(INNER | {"tiler": {"M": 1, "N": 4}}, {8, 12, 60, 64, 68}), (TV, {64, 68})]
)
def test_a_fixed_size_counts_where_no_thread_of_a_whole_tile_is_beyond_it(
    schedule: dict[str, object], fits: set[int]
) -> None:
    for size in (6, 8, 12, 60, 62, 64, 68):
        (module,) = generate(document("elementwise", TENSORS, "D = S", schedule, static={"N": size}), "x.yaml").modules
        assert counted_sizes(module.plan) == ({"N": size} if size in fits else {})
