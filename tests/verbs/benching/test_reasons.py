"""Why a call takes as long as it does, in a phrase: by the estimate of its kernel, or by blocks and limits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from benching_kit import MACHINE

from cutegen.codegen import Module, generate
from cutegen.measuring import Measured, Timing
from cutegen.planning.estimate import Estimate
from cutegen.planning.plan import Plan
from cutegen.verbs.benching.reasons import kernel_of, reason

CASES = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: bf16, role: out}
compute: C = A @ B.T
schedule:
  - {for: {cost: least}, mma: {atom: wgmma}}
targets: [sm_90a]
"""
ROWS = """\
cutegen: 1
kernel: rows
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * sum(X, N)
targets: [sm_90a]
"""


@cache
def module(text: str) -> Module:
    return generate(text, "k.yaml").modules[0]


def at(us: float, limit: float | None = None, **shape: int) -> Measured:
    return Measured(shape, Timing(us, 0.01, 12), {}, {}, 1, 1, limit, "cold", None, None, None)


class Estimated(Plan):
    """A plan whose call is estimated so."""

    of: Estimate

    def estimate(self, sizes: object, multiprocessors: int | None = None) -> Estimate | None:
        return self.of


def said(estimate: Estimate, us: float | None = None) -> str:
    class Of(Estimated):
        of = estimate

    plan = module(ROWS).plan
    return reason(Of(spec=plan.spec, threads=1, tile={}), at(us or estimate.us, M=8, N=8), MACHINE)


USUAL = Estimate(tiles=264, at_once=132, start=3.0, products=40.0, loads=20.0, memory=10.0)


@pytest.mark.parametrize(
    ("estimate", "words"),
    [
        (USUAL, "products, 2 rounds of tiles, 78% of the estimate"),
        (replace(USUAL, tiles=133), "2 rounds of 132 tiles, the last one 1% full"),
        (replace(USUAL, tiles=40), "40 tiles for 132 multiprocessors"),
        (replace(USUAL, loads=50.0), "loads from the L2 cache, 70% of the estimate"),
        (replace(USUAL, loads=50.0, crossing=True), "loads from the L2 cache, as K crosses the ends of lines, 70%"),
        (replace(USUAL, memory=90.0), "memory, 59% of the estimate"),
        (replace(USUAL, start=200.0), "the start and the end of the kernel"),
    ],
)
def test_the_longest_part_of_an_estimate_is_the_reason(estimate: Estimate, words: str) -> None:
    assert said(estimate).startswith(words)


def test_a_time_that_is_far_from_its_estimate_is_said_to_be() -> None:
    assert said(USUAL).endswith("; estimated at 103.0 us")
    assert said(USUAL, 206.0).endswith("; estimated at 103.0 us, takes 100% more")
    assert said(USUAL, 51.5).endswith("; estimated at 103.0 us, takes 50% less")


def test_of_several_kernels_the_one_that_is_taken_is_named_by_its_number_and_tile() -> None:
    plan = module(CASES).plan
    few, many = at(10.0, M=8, N=4096, K=4096), at(10.0, M=8192, N=8192, K=8192)
    for measured in (few, many):
        taken = plan.taken(measured.shape)
        tile = " x ".join(str(taken.tile[mode]) for mode in "MNK")
        number = next(i for i, kernel in enumerate(plan.kernels, 1) if kernel is taken)
        assert kernel_of(plan, measured, MACHINE) == f"{number}: {tile}"
    assert kernel_of(plan.kernels[0], few, MACHINE) == ""
    assert "estimated at" in reason(plan, few, MACHINE)


def test_without_an_estimate_blocks_and_limits_are_the_reason() -> None:
    plan = module(ROWS).plan
    assert reason(plan, at(100.0, 60.0, M=65536, N=4096), MACHINE) == "memory, 60% of what the GPU can do"
    few = reason(plan, at(100.0, 10.0, M=1, N=4096), MACHINE)
    assert few.startswith("1 block for 132 multiprocessors; memory, 10%")
    short = reason(plan, at(5.0, 2.0, M=65536, N=64), MACHINE)
    assert short == "the start and the end of the kernel, 3.0 us beside the limit of memory"
    assert reason(plan, at(10.0, None, M=65536, N=4096), None) == "no model"
    other = replace(MACHINE, capability="7.5")
    assert reason(plan, at(100.0, 60.0, M=65536, N=4096), other) == "memory or arithmetic, 60% of what the GPU can do"
