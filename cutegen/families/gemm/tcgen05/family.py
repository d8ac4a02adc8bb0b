"""The family of gemms on Blackwell's tensor cores, as the rooms ask it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cutegen.atoms.gpus import TENSOR_8, TENSOR_16, Arithmetic
from cutegen.atoms.mma import BLACKWELL_SUMS, SumOrder
from cutegen.dtypes import Dtype
from cutegen.families.gemm.tcgen05.plan import Tcgen05Plan
from cutegen.families.gemm.tcgen05.schedule import OWN_ATOMS, Spec, Tcgen05Schedule
from cutegen.family import Family
from cutegen.ops.gemm import GEMM

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from cutegen.analysis.access import Access
    from cutegen.analysis.buffers import Buffer
    from cutegen.analysis.claim import Claim
    from cutegen.codegen.parts import KernelParts
    from cutegen.drawing.model import Figure
    from cutegen.expressions.tree import Compute
    from cutegen.language.context import Context
    from cutegen.language.model import Tensor
    from cutegen.lint.rule import Rule
    from cutegen.planning.report import Report
    from cutegen.tuning.choice import Choice
    from cutegen.verification.case_request import CaseRequest


class Tcgen05Family(Family[Tcgen05Schedule, Tcgen05Plan]):
    """Gemms on Blackwell's tensor cores: one warp loads, one thread starts products into tensor memory, and four warps
    store. They have been executed on the CPU, and never on a GPU.
    """

    name = "gemm_tcgen05"
    op = GEMM
    schedule = Tcgen05Schedule
    atoms = OWN_ATOMS
    only_targets = ("sm_100a",)
    caution = "executed on the CPU, never on a GPU"
    starter = """\
summary: GEMM of bf16 on Blackwell's tensor cores; executed on the CPU, never on a GPU.
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T                 # any epilogue may surround it: relu(A @ B.T + bias)
schedule:
  mma: {atom: tcgen05}              # the rest is inferred: `cutegen explain` prints it
divisible: {N: 8}
targets: [sm_100a]
"""

    def check_schedule(
        self, ctx: Context, schedule: Tcgen05Schedule, tensors: Mapping[str, Tensor], compute: Compute | None
    ) -> None:
        from cutegen.families.gemm.tcgen05.reading import check_schedule

        check_schedule(ctx, schedule, tensors, compute)

    def unmeant(self, schedule: Tcgen05Schedule, tensors: Mapping[str, Tensor], compute: Compute) -> str | None:
        from cutegen.families.gemm.tcgen05.reading import unmeant

        return unmeant(tensors, compute)

    def resolve(self, spec: Spec, report: Report) -> Spec:
        from cutegen.families.gemm.tcgen05.inference import resolve

        return resolve(spec, report)

    def is_sound(self, spec: Spec) -> bool:
        from cutegen.families.gemm.tcgen05.product import is_sound

        return is_sound(spec)

    def is_finished(self, spec: Spec) -> bool:
        from cutegen.families.gemm.tcgen05.product import is_finished

        return is_finished(spec)

    def plan(self, spec: Spec) -> Tcgen05Plan:
        from cutegen.families.gemm.tcgen05.planning import plan

        return plan(spec)

    def variants(self, plan: Tcgen05Plan) -> tuple[Tcgen05Plan, ...]:
        from cutegen.families.gemm.tcgen05.planning import variants

        return variants(plan)

    def rules(self) -> tuple[Rule, ...]:
        from cutegen.families.gemm.tcgen05.rules import RULES

        return RULES

    @property
    def templates(self) -> Mapping[str, Traversable]:
        from cutegen.families.common.pointwise_text import templates

        return {**super().templates, **templates()}

    def kernel_parts(self, plan: Tcgen05Plan) -> KernelParts:
        from cutegen.families.gemm.tcgen05.text import kernel_parts

        return kernel_parts(plan)

    def accumulator(self, spec: Spec) -> Dtype | None:
        return Dtype.f32

    def sum_orders(self, spec: Spec) -> tuple[SumOrder, ...]:
        return (SumOrder(BLACKWELL_SUMS["f8f6f4" if _is_f8(spec) else "f16"]),)

    def arithmetic(self, spec: Spec) -> Arithmetic:
        return TENSOR_8 if _is_f8(spec) else TENSOR_16

    def largest(self, plan: Tcgen05Plan, beside: Mapping[str, int] | None = None) -> Mapping[str, int]:
        return plan.largest

    def blocks(self, plan: Tcgen05Plan, sizes: Mapping[str, int]) -> int:
        matrices = 1 if plan.batch is None else sizes[plan.batch]
        return super().blocks(plan, sizes) * matrices

    def place_of(self, plan: Tcgen05Plan, sizes: Mapping[str, int], start: Mapping[str, int]) -> int | None:
        from cutegen.families.gemm.tcgen05.pictures import walk_of

        modes = plan.spec.output.shape
        return walk_of(plan).over(sizes[mode] for mode in modes).block([start[mode] for mode in modes])[0]

    def more_requests(self, plan: Tcgen05Plan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
        from cutegen.families.gemm.tcgen05.cases import more_requests

        return more_requests(plan)

    def accesses(self, plan: Tcgen05Plan) -> tuple[Access, ...]:
        from cutegen.families.gemm.tcgen05.accesses import accesses_of

        return accesses_of(plan)

    def claims(self, plan: Tcgen05Plan) -> Iterator[Claim]:
        from cutegen.families.gemm.tcgen05.claims import claims

        return claims(plan)

    def buffers(self, plan: Tcgen05Plan) -> Iterator[Buffer]:
        from cutegen.families.gemm.tcgen05.accesses import buffers

        return buffers(plan)

    def figures(self, plan: Tcgen05Plan) -> tuple[Figure, ...]:
        from cutegen.families.gemm.tcgen05.pictures import figures

        return figures(plan)

    def facts(self, plan: Tcgen05Plan) -> list[tuple[str, str]]:
        return [*super().facts(plan), ("run", self.caution), ("tensor memory", f"{plan.columns} columns")]

    def axes(self, specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
        from cutegen.families.gemm.tcgen05.tuning import axes

        return axes(specs)

    def refinements(self, spec: Spec) -> Iterator[Choice]:
        from cutegen.families.gemm.tcgen05.tuning import refinements

        return refinements(spec)

    def inferred_from(self) -> Mapping[str, tuple[str, ...]]:
        from cutegen.families.gemm.tcgen05.inference import INFERRED_FROM

        return INFERRED_FROM


def _is_f8(spec: Spec) -> bool:
    """Whether the operands are floats of 8 bits."""
    from cutegen.families.gemm.tcgen05.product import product_of

    return product_of(spec).is_f8
