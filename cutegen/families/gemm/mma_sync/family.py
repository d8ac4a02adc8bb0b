"""The family of multistage gemms on tensor cores, as the rooms ask it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cutegen.atoms.gpus import TENSOR_8, TENSOR_16, TENSOR_32, Arithmetic
from cutegen.atoms.mma import ADA, ADA_F8, SumOrder
from cutegen.dtypes import Dtype
from cutegen.families.gemm.mma_sync.plan import MmaSyncPlan
from cutegen.families.gemm.mma_sync.schedule import OWN_ATOMS, MmaSyncSchedule, Spec
from cutegen.families.gemm.staged.family import StagedFamily
from cutegen.planning.conversions import multiplies_f8
from cutegen.planning.sound import MAX_THREADS

if TYPE_CHECKING:
    from tensor_layouts import Layout

    from cutegen.analysis.access import Access
    from cutegen.analysis.buffers import Buffer
    from cutegen.analysis.claim import Claim
    from cutegen.codegen.parts import KernelParts
    from cutegen.drawing.model import Figure
    from cutegen.expressions.tree import Compute
    from cutegen.language.context import Context
    from cutegen.language.kinds import Path
    from cutegen.language.model import Tensor
    from cutegen.lint.rule import PerformanceRule, Rule
    from cutegen.planning.report import Report
    from cutegen.tuning.choice import Choice

HOPPER = "sm_90a"
TF32_BITS = 11  # of the fraction, with the leading one


class MmaSyncFamily(StagedFamily[MmaSyncSchedule, MmaSyncPlan]):
    """Multistage gemms whose warps multiply on tensor cores (mma.sync), from Ampere on."""

    name = "gemm_mma_sync"
    schedule = MmaSyncSchedule
    atoms = OWN_ATOMS
    starter = """\
summary: GEMM of bf16 on tensor cores, from Ampere on.
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T                 # any epilogue may surround it: relu(A @ B.T + bias)
schedule:
  mma: {atom: mma_sync}             # the rest is inferred: `cutegen explain` prints it
divisible: {N: 8, K: 8}
targets: [sm_80, sm_90a]
"""

    def check_schedule(
        self, ctx: Context, schedule: MmaSyncSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
    ) -> None:
        from cutegen.families.gemm.mma_sync.reading import check_schedule

        check_schedule(ctx, schedule, tensors, compute)

    def unmeant(self, schedule: MmaSyncSchedule, tensors: Mapping[str, Tensor], compute: Compute) -> str | None:
        from cutegen.families.gemm.mma_sync.reading import unmeant

        return unmeant(schedule, tensors, compute)

    def resolve(self, spec: Spec, report: Report) -> Spec:
        from cutegen.families.gemm.mma_sync.inference import resolve

        return resolve(spec, report)

    def is_sound(self, spec: Spec) -> bool:
        from cutegen.families.gemm.mma_sync.product import is_sound

        return is_sound(spec)

    def is_finished(self, spec: Spec) -> bool:
        from cutegen.families.gemm.mma_sync.product import is_finished

        return is_finished(spec)

    def plan(self, spec: Spec) -> MmaSyncPlan:
        from cutegen.families.gemm.mma_sync.planning import plan

        return plan(spec)

    def rules(self) -> tuple[Rule, ...]:
        from cutegen.families.gemm.mma_sync.rules import RULES

        return RULES

    def performance_rules(self) -> tuple[PerformanceRule, ...]:
        from cutegen.families.gemm.mma_sync.rules import PERFORMANCE_RULES

        return PERFORMANCE_RULES

    def numbered_layouts(self, spec: Spec) -> Iterator[tuple[Path, Layout, int]]:
        atoms = spec.schedule.mma.atom_layout
        if atoms is not None:
            yield ("schedule", "mma", "atom_layout"), atoms, MAX_THREADS

    def kernel_parts(self, plan: MmaSyncPlan) -> KernelParts:
        from cutegen.families.gemm.mma_sync.text import kernel_parts

        return kernel_parts(plan)

    def accumulator(self, spec: Spec) -> Dtype | None:
        return Dtype.f32

    def factor_bits(self, spec: Spec) -> int | None:
        return TF32_BITS if spec.schedule.mma.operands == "tf32" else None

    def sum_orders(self, spec: Spec) -> tuple[SumOrder, ...]:
        """That of Ada, where it is a target: the others' sums of 8-bit floats have all bits of f32."""
        from cutegen.families.gemm.staged.product import product_of

        if not multiplies_f8(spec) or ADA not in spec.targets:
            return ()
        return (SumOrder(ADA_F8, ends_whole=spec.schedule.predication.get(product_of(spec).k) != "none"),)

    def claims(self, plan: MmaSyncPlan) -> Iterator[Claim]:
        from cutegen.families.gemm.mma_sync.claims import claims

        return claims(plan)

    def accesses(self, plan: MmaSyncPlan) -> tuple[Access, ...]:
        from cutegen.families.gemm.mma_sync.accesses import accesses_of

        return accesses_of(plan)

    def buffers(self, plan: MmaSyncPlan) -> Iterator[Buffer]:
        from cutegen.families.gemm.mma_sync.accesses import buffers

        return buffers(plan)

    def figures(self, plan: MmaSyncPlan) -> tuple[Figure, ...]:
        from cutegen.families.gemm.mma_sync.pictures import figures

        return figures(plan)

    def arithmetic(self, spec: Spec) -> Arithmetic:
        if multiplies_f8(spec) and HOPPER not in spec.targets:
            return TENSOR_8
        return TENSOR_32 if spec.schedule.mma.operands == "tf32" else TENSOR_16  # which Hopper makes of 8 bits here

    def axes(self, specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
        from cutegen.families.gemm.mma_sync.tuning import axes

        return axes(specs)

    def refinements(self, spec: Spec) -> Iterator[Choice]:
        from cutegen.families.gemm.mma_sync.tuning import refinements

        return refinements(spec)

    def inferred_from(self) -> Mapping[str, tuple[str, ...]]:
        from cutegen.families.gemm.mma_sync.inference import INFERRED_FROM

        return INFERRED_FROM
