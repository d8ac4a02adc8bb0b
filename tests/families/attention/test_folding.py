"""Where scores are scaled with their exponentials, which tiles of a walk are cut, and which skeleton that leads to."""

from __future__ import annotations

import pytest

from cutegen.codegen import Module, generate
from cutegen.families.attention.mma_sync.plan import AttentionPlan
from cutegen.families.attention.wgmma.plan import WarpgroupAttentionPlan

SPEC = """\
cutegen: 1
kernel: attention
op: contract
tensors:
  Q: {{shape: [B, M, H, D], dtype: bf16}}
  K: {{shape: [B, N, H, D], dtype: bf16}}
  V: {{shape: [B, N, H, D], dtype: bf16}}
  slope: {{shape: [H], dtype: f32}}
  O: {{shape: [B, M, H, D], dtype: bf16, role: out}}
scalars: {{scale: f32, left: i32}}
compute:
{statements}
  - p = exp(s - max(s, N))
  - O = sum(cast(p, bf16) * V, N) / (sum(p, N) + 0 * slope * scale * left)
static: {{D: 64}}
{more}targets: [sm_90a]
"""
WGMMA = "schedule: {mma: {atom: wgmma}}\n"
CAUSAL = "where(coord(N) <= coord(M), {}, -inf)"
WINDOW = "where(coord(N) <= coord(M) and coord(M) - coord(N) <= left, {}, -inf)"


def module(*statements: str, more: str = "") -> Module:
    lines = "\n".join(f'  - "{one}"' for one in statements)
    return generate(SPEC.format(statements=lines, more=more), "specs/attention.yaml").modules[0]


def plan(*statements: str) -> WarpgroupAttentionPlan:
    found = module(*statements, more=WGMMA).plan
    assert isinstance(found, WarpgroupAttentionPlan)
    return found


@pytest.mark.parametrize(
    "score",
    [
        "sum(Q * K, D) * scale",
        "scale * sum(Q * K, D)",
        "sum(Q * K, D) * (2 * scale)",
        "sum(Q * K, D) * 0.125",
        "sum(Q * K, D) * -0.125",
    ],
)
@pytest.mark.parametrize("mask", ["{}", CAUSAL, WINDOW])
def test_scores_that_are_only_scaled_are_so_with_their_exponentials(score: str, mask: str) -> None:
    found = module(f"s = {mask.format(score)}", more=WGMMA)
    assert isinstance(found.plan, WarpgroupAttentionPlan) and found.plan.folds
    assert "cute.math.exp2(scores * steep - base, fastmath=True)" in found.text
    assert found.plan.parts == {"{}": (False,), CAUSAL: (True, False), WINDOW: (True, False, True)}[mask]


@pytest.mark.parametrize(
    "statements",
    [
        ("s = sum(Q * K, D)",),  # there is no factor
        ("s = sum(Q * K, D) * slope",),  # it differs from head to head
        ("s = sum(Q * K, D) * scale + slope",),
        ("x = sum(Q * K, D) * scale", "s = 30 * tanh(x / 30)"),
        ("s = where(coord(N) <= coord(M), sum(Q * K, D) * scale, 0)",),  # what is left out counts
        ("s = where(coord(N) % 2 == 0, sum(Q * K, D) * scale, -inf)",),  # it is left out of every tile
    ],
)
def test_other_scores_are_computed_before(statements: tuple[str, ...]) -> None:
    found = module(*statements, more=WGMMA)
    assert isinstance(found.plan, WarpgroupAttentionPlan)
    assert not found.plan.folds and found.plan.parts == (False,) and "steep" not in found.text


def test_precise_exponentials_are_of_differences() -> None:
    found = module("s = sum(Q * K, D) * scale", more="schedule: {mma: {atom: wgmma}, math: precise}\n")
    assert isinstance(found.plan, WarpgroupAttentionPlan) and not found.plan.folds and "exp2" not in found.text


def test_windows_of_scores_that_take_long_are_left_to_single_warps() -> None:
    capped = "30 * tanh(sum(Q * K, D) * scale / 30)"
    assert isinstance(module(f"s = {WINDOW.format(capped)}").plan, AttentionPlan)
    assert isinstance(module(f"s = {CAUSAL.format(capped)}").plan, WarpgroupAttentionPlan)
    assert isinstance(module(f"s = {WINDOW.format('sum(Q * K, D) * scale')}").plan, WarpgroupAttentionPlan)
