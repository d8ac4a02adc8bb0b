"""Requirements for infinities, NaN, overflow and signed zeros: the guarantees of IEEE 754 in any order."""

from __future__ import annotations

import math

import pytest
import torch

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import parse_compute
from cutegen.families.elementwise.schedule import ElementwiseSchedule
from cutegen.families.gemm.staged.schedule import GemmSchedule
from cutegen.language.model import KernelSpec, Scalar, Tensor
from cutegen.reference.bounds import Expected, evaluate
from cutegen.verification.cases import Case
from cutegen.verification.compare import compare
from cutegen.verification.tensors import make_tensors

MATRIX = ("M", "N")
inf, nan = math.inf, math.nan


def product(dtype: Dtype, out: Dtype) -> KernelSpec:
    tensors = (
        Tensor("A", ("M", "K"), dtype, "K", 8),
        Tensor("B", ("N", "K"), dtype, "K", 8),
        Tensor("C", MATRIX, out, "N", 8, "out"),
    )
    return KernelSpec(
        kernel="p", op="gemm", tensors=tensors, compute=parse_compute("C = A @ B.T"), schedule=GemmSchedule()
    )


def pointwise(text: str, *names: str) -> KernelSpec:
    tensors = tuple(Tensor(name, ("M",), Dtype.f32, "M", 4) for name in names)
    return KernelSpec(
        kernel="k",
        op="elementwise",
        tensors=(*tensors, Tensor("D", ("M",), Dtype.f32, "M", 4, "out")),
        scalars=(Scalar("s", Dtype.f32),),
        compute=parse_compute(text),
        schedule=ElementwiseSchedule(),
    )


def of(text: str, **values: list[float]) -> Expected:
    tensors = {name: torch.tensor(numbers) for name, numbers in values.items()}
    return evaluate(pointwise(text, *values), tensors, {"s": 1.0})["D"]


@pytest.mark.parametrize("dtype", [Dtype.f64, Dtype.f32, Dtype.f16, Dtype.bf16])
def test_sums_in_any_order_are_within_the_bound_of_special_data(dtype: Dtype) -> None:
    """And the bound says something of most elements, NaN, infinities and overflows among them."""
    torch.manual_seed(3)
    wide = torch.float64 if dtype is Dtype.f64 else torch.float32
    found: set[str] = set()
    for out in {dtype, Dtype.f64 if dtype is Dtype.f64 else Dtype.f32}:
        spec = product(dtype, out)
        for seed in range(6):
            a, b, c = (
                t.view
                for t in make_tensors(spec, Case("c", "", {"M": 40, "N": 33, "K": 7}, data="special", seed=seed), "cpu")
            )
            wanted = evaluate(spec, {"A": a, "B": b}, {})["C"]
            judged = wanted.bound.isfinite()
            assert judged.float().mean() > 0.7
            found |= {
                name
                for name, which in (("nan", wanted.value.isnan()), ("inf", wanted.value.isinf()))
                if bool((judged & which).any())
            }
            overflows = judged & wanted.value.isinf() & (a.isfinite().all(1)[:, None] & b.isfinite().all(1)[None])
            found |= {"overflow"} if bool(overflows.any()) else set()
            for order in (torch.arange(7), torch.arange(6, -1, -1), torch.randperm(7)):
                total = torch.zeros(40, 33, dtype=wide)
                for k in order.tolist():
                    total += a[:, k, None].to(wide) * b[None, :, k].to(wide)
                result = compare(total.to(c.dtype), *wanted)
                assert result.ok, result.reason
    assert found == {"nan", "inf"} | ({"overflow"} if dtype in (Dtype.f16, Dtype.f32) else found & {"overflow"})


def test_a_sum_that_may_overflow_on_its_way_is_not_judged() -> None:
    spec = product(Dtype.f32, Dtype.f32)
    a = torch.tensor(
        [
            [3e38, 3e38, -3e38],
            [3e38, 3e38, 1.0],
            [inf, 3e38, 3e38],
            [inf, -inf, 1.0],
            [nan, 3e38, 3e38],
            [0.0, inf, 1.0],
        ]
    )
    value, bound, *_ = evaluate(spec, {"A": a, "B": torch.tensor([[1.0, 1.0, 1.0]])}, {})["C"]
    assert bound[:, 0].isfinite().tolist() == [False, True, False, True, True, True]
    assert value[1, 0] == inf and value[3:5, 0].isnan().all() and value[5, 0] == inf


def test_what_overflows_against_a_far_larger_sum_leaves_its_sign_open() -> None:
    """2^126 times 8 is infinity in f32, and minus it whatever comes after; in float64 it is lost beside 2^250."""
    a, b = torch.tensor([[2.0**126, -(2.0**125)]]), torch.tensor([[8.0, 2.0**125]])
    value, bound, *_ = evaluate(product(Dtype.f32, Dtype.f32), {"A": a, "B": b}, {})["C"]
    assert value.item() < -(2.0**127) and bound.item() == inf
    value, bound, *_ = evaluate(product(Dtype.f32, Dtype.f32), {"A": a, "B": torch.tensor([[-8.0, 8.0]])}, {})["C"]
    assert value.item() == -inf and bound.item() == 0


def test_a_product_that_overflows_may_be_fused_into_a_sum() -> None:
    """Rounded first it is infinite; in an fma it is not, and infinity minus it is no NaN."""
    found = of("D = X * Y + Z", X=[3e38] * 6, Y=[1.5] * 5 + [3.0], Z=[1.0, -2e38, -inf, inf, nan, -2e38])
    assert found.bound.isfinite().tolist() == [True, False, False, True, True, True]
    for text in ("D = Z - X * Y", "D = Z - (-X) * (-Y)"):
        assert of(text, X=[3e38] * 2, Y=[3.0] * 2, Z=[inf, -inf]).bound.isfinite().tolist() == [False, True]
    assert of("D = X * Y", X=[3e38], Y=[3.0])[1].item() == 0
    # An exponential ends with a multiplication by a power of two
    found = of("D = exp(X) + Z", X=[90.0, 89.0, 90.0, 90.0], Z=[-1.0, -2e38, -inf, inf])
    assert found.bound.isfinite().tolist() == [True, False, False, True] and of("D = exp(X)", X=[90.0])[1].item() == 0


@pytest.mark.parametrize(
    ("text", "signed"),
    [
        ("D = X", True),
        ("D = -X * s", True),
        ("D = where(X > 1, X, -X)", True),
        ("D = maximum(X, 0)", False),
        ("D = relu(X) + X", False),
        ("D = abs(minimum(X, s))", False),
    ],
)
def test_the_sign_of_a_zero_counts_where_it_is_agreed_on(text: str, signed: bool) -> None:
    x = torch.tensor([0.0, -0.0, 1.0])
    wanted = evaluate(pointwise(text, "X"), {"X": x}, {"s": 1.0})["D"]
    right = wanted.value.float()
    assert compare(right, *wanted).ok
    wrong = torch.where(right == 0, -right, right)
    found = compare(wrong, *wanted)
    assert found.ok is not signed
    assert not signed or (found.failed == 2 and found.ratio == inf and "-0" in found.reason)


def test_locals_carry_whether_a_zero_has_a_sign() -> None:
    x = torch.tensor([-0.0])
    for statements, signed in ((["t = -X", "D = t"], True), (["t = maximum(X, 0)", "D = t"], False)):
        spec = pointwise("D = X", "X")
        spec = KernelSpec(**{**spec.__dict__, "compute": parse_compute(statements)})
        assert evaluate(spec, {"X": x}, {"s": 1.0})["D"].signed is signed
