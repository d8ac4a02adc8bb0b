"""Comparison in few passes and in blocks: it says what a comparison of all elements at once says."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen.verification import compare as comparing
from cutegen.verification.compare import compare, compare_fully

SHAPES = [(), (7,), (40,), (5, 9), (30, 3), (2, 4, 6), (1, 50)]
EXPECTED = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -2.5, 3e38]
BOUNDS = [0.0, 0.0, math.inf, 1e-3, 0.5]
OFF = [0.0, 0.0, 0.0, 1e-3, 2e-3, -0.5, math.inf, math.nan]


def chosen(values: list[float], shape: tuple[int, ...], chance: torch.Generator) -> torch.Tensor:
    table = torch.tensor(values, dtype=torch.float64)
    return table[torch.randint(len(values), shape, generator=chance)]


FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int8, torch.int64, torch.bool])
@settings(deadline=None, max_examples=80)
@given(
    shape=st.sampled_from(SHAPES),
    ordinary=st.sampled_from([0.0, 0.9, 1.0]),
    right=st.sampled_from([0.0, 0.98, 1.0]),
    signed=st.booleans(),
    block=st.sampled_from([1, 10, 1 << 17]),
    seed=st.integers(0, 2**20),
)
def test_blocks_say_what_the_whole_says(
    dtype: torch.dtype, shape: tuple[int, ...], ordinary: float, right: float, signed: bool, block: int, seed: int
) -> None:
    chance = torch.Generator().manual_seed(seed)
    usual = torch.rand(shape, generator=chance) < ordinary
    normal = torch.randn(shape, generator=chance, dtype=torch.float64) * 4
    expected = torch.where(usual, normal, chosen(EXPECTED, shape, chance))
    bound = torch.where(usual, 1e-2, chosen(BOUNDS, shape, chance))
    off = torch.where(torch.rand(shape, generator=chance) < right, 0.0, chosen(OFF, shape, chance))
    if dtype.is_floating_point:
        actual = (expected + off).to(dtype)
    else:
        expected = expected.nan_to_num(0, 1, 0).clamp(-100, 100).round().to(dtype).to(torch.int64)
        actual = (expected + off.nan_to_num(1, 1, 1).clamp(-1, 1).ceil().to(torch.int64)).to(dtype)
        bound, signed = (bound * 100).ceil(), False
    if len(shape) > 1 and seed % 2:  # as a view whose rows do not stand behind each other
        actual = torch.cat([actual, actual], -1)[..., : shape[-1]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "BLOCK", block)
        found = compare(actual, expected, bound, signed)
    wanted = compare_fully(actual, expected, bound, signed)
    assert (found.ok, found.count, found.failed, found.unbounded) == (
        wanted.ok,
        wanted.count,
        wanted.failed,
        wanted.unbounded,
    )
    assert (found.max_error, found.max_bound, found.ratio) == (wanted.max_error, wanted.max_bound, wanted.ratio)
    assert found.reason == wanted.reason
    if not wanted.ok or wanted.ratio > 0:
        assert found.worst == wanted.worst


def test_blocks_of_a_gpu_are_as_large_as_keep_it_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    near, block_of = comparing._mostly_near, comparing._block
    monkeypatch.setattr(comparing, "_mostly_near", lambda a, *more: rows.append(len(a)) or near(a, *more))
    x = torch.ones(4096, 64, dtype=torch.float64)
    for on_gpu, wanted in ((False, [2048] * 2), (True, [4096])):
        monkeypatch.setattr(comparing, "_block", partial(lambda size, _: size, block_of(on_gpu)))
        assert compare(x, x, x).ok and rows == wanted
        rows.clear()


def test_what_is_near_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def noted(actual: torch.Tensor, *rest: torch.Tensor) -> comparing.Comparison:
        looked.append(actual.numel())
        return compare_fully(actual, *rest)

    monkeypatch.setattr(comparing, "compare_fully", noted)
    expected = torch.randn(64, 64, dtype=torch.float64)
    bound = torch.full_like(expected, 1e-3)
    expected[3, 4], expected[5, 6], bound[7] = math.nan, math.inf, math.inf
    expected[8, 2:5], bound[8, 3:5] = 0, 0
    assert compare(expected.clone(), expected, bound).unbounded == 64
    assert not looked
    assert compare(expected.clone(), expected, bound, signed=True).unbounded == 64
    assert looked == [2]
