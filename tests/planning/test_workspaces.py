"""Inference for products with an operand that goes through a workspace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from planning_specs import document

from cutegen.families.gemm.staged.schedule import GemmSchedule
from cutegen.language.model import KernelSpec
from cutegen.language.reader import read_specs
from cutegen.planning import resolve
from cutegen.planning.report import Report


def of_operands(a: str, b: str, schedule: dict[str, Any] | None = None, **more: Any) -> KernelSpec:
    tensors = {
        "A": {"shape": ["M", "K"], "dtype": "f32", "major": a},
        "B": {"shape": ["N", "K"], "dtype": "f32", "major": b},
        "C": {"shape": ["M", "N"], "dtype": "f32", "role": "out"},
    }
    (spec,) = read_specs(document("gemm", tensors, "C = A @ B.T", schedule or {}, **more), "x.yaml")
    return resolve(spec, Report(spec.source))


@pytest.mark.parametrize(
    ("spaces", "read"),
    [({"B": {"major": "N"}}, "KN"), ({"A": {"major": "M"}}, "MK"), ({"A": {"major": "M"}, "B": {"major": "N"}}, "MN")],
)
def test_a_workspace_gets_the_schedule_of_what_is_read_there(spaces: dict[str, Any], read: str) -> None:
    """The mainloop does not know where its operands come from."""
    turned, plain = of_operands("K", "K", {"workspace": spaces}), of_operands(*read)
    assert isinstance(turned.schedule, GemmSchedule) and isinstance(plain.schedule, GemmSchedule)
    assert replace(turned.schedule, workspace={}) == plain.schedule


@pytest.mark.parametrize(
    ("schedule", "more", "layout"),
    [
        ({}, {"divisible": {"K": 4}}, "((4,4),(8,2)):((1,32),(4,128))"),
        ({}, {}, "((2,4),(16,2)):((1,32),(2,128))"),
        ({"predication": {"K": "none"}}, {}, "((4,4),(8,2)):((1,32),(4,128))"),  # K is a multiple of the tile's
        ({"copies": {"A": {"bits": 128}}}, {}, "((4,4),(8,2)):((1,32),(4,128))"),  # which promises K
    ],
)
def test_threads_that_fill_a_workspace_suit_the_accesses_that_they_make(
    schedule: dict[str, Any], more: dict[str, Any], layout: str
) -> None:
    spec = of_operands("K", "K", {"workspace": {"B": {"major": "N"}}, **schedule}, **more)
    assert isinstance(spec.schedule, GemmSchedule)
    assert str(spec.schedule.workspace["B"].thread_layout).replace(" ", "") == layout
