"""Claims of the proof about a probe."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from analysis_by_hand import image
from claims_kit import (
    failing,
    plan_of,
    quick,
)
from hypothesis import assume, given, settings
from planning_specs import document, probe
from tensor_layouts import Layout

from cutegen.analysis.claims import claims
from cutegen.families.probe.plan import ProbePlan


@settings(quick, max_examples=20)
@given(probe())
def test_claims_hold_of_every_probe(text: str) -> None:
    plan = plan_of(text)
    assume(plan is not None)
    assert isinstance(plan, ProbePlan) and not failing(plan)
    stretched = replace(plan, tv_layout=Layout(plan.tv_layout.shape, times(plan.tv_layout.stride, 2)))
    assert bool(failing(stretched)) == bool(2 * max(image(plan.tv_layout)) >= prod(plan.tiler))


def times(stride: Any, factor: int) -> Any:
    return tuple(times(s, factor) for s in stride) if isinstance(stride, tuple) else stride * factor


def test_a_broken_probe_fails() -> None:
    tensors = {
        "A": {"shape": ["M", "N"], "dtype": "f32", "major": "M"},
        "D": {"shape": ["T", "V"], "dtype": "f32", "role": "out"},
    }
    plan = plan_of(document("probe", tensors, "D = A", {"tv_layout": "(4,6):(1,4)", "tiler": {"M": 24, "N": 1}}))
    assert isinstance(plan, ProbePlan) and claims(plan)[0].holds
    for change in (
        {"tv_layout": Layout((4, 6), (1, 5))},
        {"tiler": (23, 1)},
        {"threads": 5},
        {"values": 7},
        {"tv_layout": Layout((4, 5), (1, 4))},
        {"spec": replace(plan.spec, static={**plan.spec.static, "M": 20})},
        {"spec": replace(plan.spec, static={**plan.spec.static, "V": 5})},
    ):
        assert not claims(replace(plan, **change))[0].holds, change  # type: ignore[arg-type]
