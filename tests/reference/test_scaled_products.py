"""Products with scales for blocks: their values, and bounds that sums of two levels keep and mistakes do not."""

from __future__ import annotations

import pytest
import torch

from cutegen.codegen import generate
from cutegen.language.model import KernelSpec
from cutegen.reference.bounds import Expected, evaluate

TEXT = """\
cutegen: 1
kernel: scaled
op: gemm
tensors:
  A: {shape: [M, K], dtype: f8e4m3}
  B: {shape: [N, K], dtype: f8e4m3}
  sA: {shape: [M, KB], dtype: f32}
  sB: {shape: [NB, KB], dtype: f32}
  C: {shape: [M, N], dtype: f32, role: out}
modes:
  KB: {blocks: K, size: 128}
  NB: {blocks: N, size: 64}
compute: C = (A * sA) @ (B * sB).T
schedule: {mma: {atom: wgmma}}
"""
M, N, K = 5, 70, 300


@pytest.fixture(scope="module")
def spec() -> KernelSpec:
    return generate(TEXT, "specs/x.yaml").modules[0].spec


def given(whole: bool = True) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    a, b = (torch.randint(-2, 3, shape) if whole else torch.randn(shape) for shape in ((M, K), (N, K)))
    return {
        "A": a.to(torch.float8_e4m3fn),
        "B": b.to(torch.float8_e4m3fn),
        "sA": torch.rand(M, 3) + 0.5,
        "sB": torch.rand(2, 3) + 0.5,
    }


def two_levels(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """The sums as a kernel makes them, but for the bits that tensor cores drop."""
    found = torch.zeros(M, N)
    for block in range(3):
        a, b = (tensors[name][:, 128 * block : 128 * block + 128].float() for name in ("A", "B"))
        scale = tensors["sA"][:, block, None] * tensors["sB"].repeat_interleave(64, 0)[:N, block]
        found += a @ b.T * scale
    return found


def expected(spec: KernelSpec, tensors: dict[str, torch.Tensor]) -> Expected:
    return evaluate(spec, tensors, {})["C"]


@pytest.mark.parametrize("whole", [True, False])
def test_sums_of_two_levels_are_within_the_bound(spec: KernelSpec, whole: bool) -> None:
    tensors = given(whole)
    found = expected(spec, tensors)
    assert ((two_levels(tensors) - found.value).abs() <= found.bound).all()


def test_of_whole_factors_blocks_are_exact_and_the_bound_is_that_of_their_sum(spec: KernelSpec) -> None:
    found = expected(spec, given())
    assert (found.bound <= 1e-5 * 4 * K).all()  # of terms up to 4 times a scale, with no bit dropped in a block


def test_whole_scales_leave_no_error(spec: KernelSpec) -> None:
    tensors = given() | {"sA": torch.full((M, 3), 2.0), "sB": torch.full((2, 3), -3.0)}
    assert (expected(spec, tensors).bound == 0).all()


def test_another_blocks_scale_is_beyond_the_bound(spec: KernelSpec) -> None:
    tensors = given(whole=False)
    found = expected(spec, tensors)
    wrong = two_levels(tensors | {"sA": tensors["sA"].roll(1, 1)})
    assert ((wrong - found.value).abs() > found.bound).float().mean() > 0.5


def test_a_nan_spreads_along_its_row_or_its_columns_alone(spec: KernelSpec) -> None:
    tensors = given()
    tensors["sA"][2, 1] = torch.nan
    tensors["sB"][1, 0] = torch.nan
    found = expected(spec, tensors)
    wanted = torch.zeros(M, N, dtype=torch.bool)
    wanted[2], wanted[:, 64:] = True, True
    assert torch.equal(found.value.isnan(), wanted) and (found.bound[wanted] == 0).all()


def test_scales_whose_product_overflows_leave_a_result_open(spec: KernelSpec) -> None:
    tensors = given()
    tensors["sA"][0], tensors["sB"][0] = 3e38, 3e38
    bound = expected(spec, tensors).bound
    assert bound[0, :64].isinf().all() and bound[1:, 64:].isfinite().all()
