"""The candidates of a gemm, and the fields that planning infers again after a change."""

from __future__ import annotations

from typing import Any

import pytest
from tuning_kit import MM, sieve_of

from cutegen.families.gemm.fma import FAMILY
from cutegen.families.gemm.fma.tuning import SWIZZLES, refinements
from cutegen.tuning.schedules import changed, differences

WRITTEN = {
    "tiler": {"M": 128, "N": 128, "K": 8},
    "mma": {"atom": "fma", "thread_layout": "(16,16,1):(1,16,0)", "permutation": {"M": "(16,4):(4,1)"}},
    "copies": {"A": {"atom": "cp_async", "bits": 128, "thread_layout": "(32,8)"}, "C": {"bits": 128}},
    "smem": {"A": {"pad": 4}},
    "pipeline": {"stages": 3},
    "predication": {"M": "none"},
}


@pytest.mark.parametrize(
    ("choice", "gone"),
    [
        ({("tiler", "K"): 16}, "mma.permutation.M copies.A.bits copies.A.thread_layout copies.C.bits smem.A.pad"),
        (
            {("mma", "thread_layout"): "(16,8,1)"},
            "mma.permutation.M copies.A.bits copies.A.thread_layout copies.C.bits smem.A.pad",
        ),
        ({("mma", "permutation"): {"M": "(16,2):(2,1)"}}, "copies.C.bits smem.A.pad"),
        ({("copies", "A", "bits"): 64}, "copies.A.thread_layout"),
        ({("copies", "A", "thread_layout"): "(8,32)"}, "copies.A.bits smem.A.pad"),
        ({("pipeline", "stages"): 4}, ""),
        (
            {("workspace", "A"): {"major": "M"}},
            "copies.A.atom copies.A.bits copies.A.thread_layout smem.A.pad",
        ),
        ({("tiler",): {"M": 128, "N": 128, "K": 8}}, ""),  # as it is
        ({("mma", "thread_layout"): "(16,16,1):(1,16,0)"}, ""),
    ],
)
def test_what_depends_on_a_change_is_left_to_planning(choice: Any, gone: str) -> None:
    after = changed(WRITTEN, choice, FAMILY, "C")
    told = {path: new for path, (_, new) in differences(WRITTEN, after).items() if not _set(path, choice)}
    assert told == dict.fromkeys(gone.split())


def _set(path: str, choice: Any) -> bool:
    return any(path.startswith(".".join(steps)) for steps in choice)


def test_operands_that_are_summed_along_are_tried_with_a_workspace_and_without() -> None:
    def tried(text: str) -> list[Any]:
        found = refinements(sieve_of(text).incumbent().modules[0].spec)
        return [choice for choice in found if any(path[0] == "workspace" for path in choice)]

    turned = MM.replace("[M, K], dtype: f32, major: M", "[M, K], dtype: f32, major: K")
    turned = turned.replace("[N, K], dtype: f32, major: N", "[N, K], dtype: f32, major: K")
    assert tried(MM) == [] and turned != MM
    assert tried(turned) == [{("workspace", "A"): {"major": "M"}}, {("workspace", "B"): {"major": "N"}}]
    assert changed({"workspace": {"B": {"major": "N"}}}, {("workspace", "B"): {}}, FAMILY, "C") == {}


def test_every_walk_of_tiles_is_tried() -> None:
    found = [choice for choice in refinements(sieve_of(MM).incumbent().modules[0].spec) if ("scheduler",) in choice]
    walks = [{"raster": raster, "swizzle": swizzle} for raster in ("M", "N") for swizzle in SWIZZLES]
    assert found == [{("scheduler",): walk} for walk in walks] and {"raster": "M", "swizzle": 4} in walks
