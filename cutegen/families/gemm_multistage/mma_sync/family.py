"""The family of multistage gemms on tensor cores, as the rooms ask it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING

from cutegen.atoms.gpus import TENSOR_16, Arithmetic
from cutegen.dtypes import Dtype
from cutegen.families.gemm_multistage.mma_sync.plan import MmaSyncPlan
from cutegen.families.gemm_multistage.mma_sync.schedule import OWN_ATOMS, MmaSyncSchedule, Spec
from cutegen.family import Family
from cutegen.ops.gemm import GEMM

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from cutegen.analysis.accesses import Access
    from cutegen.analysis.claims import Claim
    from cutegen.analysis.proof import Buffer
    from cutegen.codegen.parts import KernelParts
    from cutegen.drawing.model import Figure
    from cutegen.expressions.tree import Compute
    from cutegen.language.context import Context
    from cutegen.language.kinds import Path
    from cutegen.language.model import Tensor
    from cutegen.lint.rule import Rule
    from cutegen.planning.report import Report
    from cutegen.tuning.schedules import Choice
    from cutegen.verification.wishes import Wish
    from collections.abc import Sequence
    from tensor_layouts import Layout

TF32_BITS = 11  # of the fraction, with the leading one


class MmaSyncFamily(Family[MmaSyncSchedule, MmaSyncPlan]):
    """Multistage gemms whose warps multiply on tensor cores (mma.sync), from Ampere on."""

    name = "gemm_mma_sync"
    op = GEMM
    schedule = MmaSyncSchedule
    atoms = OWN_ATOMS

    def check_schedule(
        self, ctx: Context, schedule: MmaSyncSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
    ) -> None:
        from cutegen.families.gemm_multistage.mma_sync.reading import check_schedule

        check_schedule(ctx, schedule, tensors, compute)

    def resolve(self, spec: Spec, report: Report) -> Spec:
        from cutegen.families.gemm_multistage.mma_sync.inference import resolve

        return resolve(spec, report)

    def is_sound(self, spec: Spec) -> bool:
        from cutegen.families.gemm_multistage.mma_sync.product import is_sound

        return is_sound(spec)

    def is_finished(self, spec: Spec) -> bool:
        from cutegen.families.gemm_multistage.mma_sync.product import is_finished

        return is_finished(spec)

    def plan(self, spec: Spec) -> MmaSyncPlan:
        from cutegen.families.gemm_multistage.mma_sync.planning import plan

        return plan(spec)

    def rules(self) -> tuple[Rule, ...]:
        from cutegen.families.gemm_multistage.mma_sync.rules import RULES

        return RULES

    @property
    def templates(self) -> Mapping[str, Traversable]:
        """Those of the gemm on the CUDA cores, of which this one replaces parts."""
        from cutegen.families.common.pointwise_text import templates

        shared = files("cutegen.families.gemm_multistage") / "templates"
        return {self.name: shared, "gemm_multistage": shared, **templates()}

    def kernel_parts(self, plan: MmaSyncPlan) -> KernelParts:
        from cutegen.families.gemm_multistage.mma_sync.text import kernel_parts

        return kernel_parts(plan)

    def accumulator(self, spec: Spec) -> Dtype | None:
        return Dtype.f32

    def factor_bits(self, spec: Spec) -> int | None:
        return TF32_BITS if spec.schedule.mma.operands == "tf32" else None

    def largest(self, plan: MmaSyncPlan) -> Mapping[str, int]:
        from cutegen.families.gemm_multistage.tile_walk import largest

        return largest(plan)

    def claims(self, plan: MmaSyncPlan) -> Iterator[Claim]:
        from cutegen.families.gemm_multistage.mma_sync.claims import claims

        return claims(plan)

    def arithmetic(self, spec: Spec) -> Arithmetic:
        return TENSOR_16

    def inferred_from(self) -> Mapping[str, tuple[str, ...]]:
        from cutegen.families.gemm_multistage.mma_sync.inference import INFERRED_FROM

        return INFERRED_FROM
