"""A family and an op that cutegen does not know go through verification, and have something to be measured by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from verification_fakes import CpuExecutor

from cutegen.codegen.reference import Reference
from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import parse_compute
from cutegen.expressions.tree import Compute
from cutegen.family import Family
from cutegen.language.context import Context
from cutegen.language.model import KernelSpec, Scalar, Schedule, Tensor
from cutegen.measuring.shapes import shapes_of
from cutegen.ops.op import ELEMENTS, Op
from cutegen.peers.peers import COMPILED, EAGER, choose
from cutegen.planning.plan import Plan
from cutegen.planning.report import Report
from cutegen.reference.bounds import evaluate
from cutegen.reference.rounding import Bounded
from cutegen.verification.cases import derive_cases
from cutegen.verification.orders import case_for_orders
from cutegen.verifying.kernel import verify_kernel


class RowSum(Op):
    """`Y = X`, which stands for the sum of each row of X."""

    name = "row_sum"

    def check_compute(
        self, ctx: Context, compute: Compute, tensors: Mapping[str, Tensor], scalars: tuple[Scalar, ...]
    ) -> None:
        """Takes everything."""

    def modes_that_may_be_empty(self, compute: Compute, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
        return ("N",)

    def reference(self, plan: Plan) -> Reference:
        return Reference(("result = x.sum(1)",))

    def elements(self, spec: KernelSpec, tensor: Tensor, values: torch.Tensor) -> Bounded:
        """With a sum's bound, gamma(N) |X|, and none where all sums are of small whole numbers."""
        whole = bool((values == values.trunc()).all())
        bound = values.shape[1] * 2.0**-23 * values.abs().sum(1)
        bound = torch.zeros_like(bound) if whole else bound
        unknown = ~bound.isfinite() | (values.abs().sum(1) > 3e38)  # the order decides
        return Bounded(values.sum(1), bound.masked_fill(unknown, torch.inf), tensor.dtype)


@dataclass(frozen=True)
class RowSumSchedule(Schedule):
    """Has no keys."""


class RowSums(Family[RowSumSchedule, Plan]):
    """A block for each 4 rows."""

    name = "row_sums"
    op = RowSum()
    schedule = RowSumSchedule

    def resolve(self, spec: KernelSpec[RowSumSchedule], report: Report) -> KernelSpec[RowSumSchedule]:
        return spec

    def plan(self, spec: KernelSpec[RowSumSchedule]) -> Plan:
        return Plan(spec=spec, threads=32, tile={"M": 4, "N": 8})

    def claims(self, plan):  # type: ignore[no-untyped-def]
        return iter(())

    def kernel_parts(self, plan):  # type: ignore[no-untyped-def]
        raise NotImplementedError


FAMILY = RowSums()
SPEC = KernelSpec(
    kernel="sums",
    op="row_sum",
    tensors=(Tensor("X", ("M", "N"), Dtype.f32, "N", 4), Tensor("Y", ("M",), Dtype.f32, "M", 4, "out")),
    compute=parse_compute("Y = X"),
    schedule=RowSumSchedule(),
    targets=("sm_80",),
)
MODULE = """
import torch

def check(x, y):
    for name, t, rank in (("x", x, 2), ("y", y, 1)):
        if t.dtype != torch.float32:
            raise TypeError(f"{name} has another type")
        if t.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} must not want a gradient")
        steps = t.numel() and t.shape[-1] > 1
        if t.device.type != "cpu" or t.dim() != rank or steps and t.stride(-1) != 1:
            raise ValueError(f"{name} is another tensor")
    if x.shape[0] != y.shape[0]:
        raise ValueError("x and y differ")
    first, second = sorted((x, y), key=lambda t: t.data_ptr())
    end = first.data_ptr() + 4 * (1 + sum((n - 1) * s for n, s in zip(first.shape, first.stride())))
    if x.numel() and y.numel() and second.data_ptr() < end:
        raise ValueError("x overlaps y")

def sums(x, *, y=None):
    y = torch.empty(x.shape[0]) if y is None else y
    check(x, y)
    with torch.no_grad():
        y.copy_(x[:, : x.shape[1] - LEFT_OUT].sum(1))
    return y

def reference(x, *, y=None):
    return x.sum(1)

def make_inputs(M, N, device, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(M, N, generator=generator),)

def make_outputs(M, N, device, seed):
    return {"y": torch.empty(M)}

expected = compile_for = check
"""


def test_its_cases_follow_from_the_tile_and_from_what_is_summed() -> None:
    plan = FAMILY.plan(SPEC)
    names = [case.name for case in derive_cases(plan)]
    assert SPEC.operation.contracted(SPEC) == ("N",)
    assert {"tile", "M one less", "primes", "N = 0", "N 1 tiles and 1", "offset", "M = 0"} <= set(names)
    assert "special values" in names
    assert any(re.match(r"more than \d+ tiles of M", name) for name in names)
    chosen = case_for_orders(plan, derive_cases(plan))
    assert chosen is not None and FAMILY.blocks(plan, chosen.sizes) > 1


def test_its_reference_is_the_ops() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    ((value, bound, *_),) = evaluate(SPEC, {"X": x}, {}).values()
    assert value.tolist() == [3, 12] and bound.tolist() == [0, 0]


def test_it_is_verified(tmp_path: Path) -> None:
    for left_out in (0, 1):
        path = tmp_path / f"sums{left_out}.py"
        path.write_text(f"LEFT_OUT = {left_out}\n{MODULE}")
        report = verify_kernel(FAMILY.plan(SPEC), path, CpuExecutor())
        assert not report.error and report.complete
        assert report.ok == (left_out == 0), report.failures
        wrong = [check.what for check in report.host_checks if check.status == "failed"]
        assert len(wrong) > 2 * left_out - 1 and all(what.startswith("accepts ") for what in wrong)


def test_it_can_be_measured() -> None:
    assert choose(SPEC) == (COMPILED, EAGER)
    (shape,) = shapes_of(SPEC)
    assert shape["M"] * shape["N"] == ELEMENTS and SPEC.operation.rate == "GB/s"
