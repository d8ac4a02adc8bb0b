"""The family of multistage gemms, as the rooms ask it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cutegen.atoms.gpus import CUDA_F32, CUDA_F64, Arithmetic
from cutegen.dtypes import Dtype
from cutegen.families.gemm.staged.family import StagedFamily
from cutegen.families.gemm.staged.plan import GemmPlan
from cutegen.families.gemm.staged.schedule import OWN_ATOMS, GemmSchedule, Spec

if TYPE_CHECKING:
    from tensor_layouts import Layout

    from cutegen.analysis.access import Access
    from cutegen.analysis.buffers import Buffer, Scratch
    from cutegen.analysis.claim import Claim
    from cutegen.codegen.parts import KernelParts
    from cutegen.drawing.model import Figure
    from cutegen.dtypes import Dtype
    from cutegen.expressions.tree import Compute
    from cutegen.language.context import Context
    from cutegen.language.kinds import Path
    from cutegen.language.model import Tensor
    from cutegen.lint.rule import NoteRule, PerformanceRule, Rule
    from cutegen.planning.report import Report
    from cutegen.tuning.choice import Choice


class FmaFamily(StagedFamily[GemmSchedule, GemmPlan]):
    """Gemms whose operands travel through `stages` of shared memory, which a mainloop along k fills and multiplies."""

    name = "gemm_fma"
    schedule = GemmSchedule
    atoms = OWN_ATOMS
    starter = """\
summary: Single-precision GEMM on the CUDA cores.
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: K, align: 16}
  B: {shape: [N, K], dtype: f32, major: K, align: 16}
  C: {shape: [M, N], dtype: f32, major: N, align: 16, role: out}
compute: C = A @ B.T                 # any epilogue may surround it: relu(alpha * (A @ B.T))
schedule:
  tiler: {M: 128, N: 64, K: 8}
  mma: {atom: fma}
targets: [sm_80, sm_90a]
"""

    def check_schedule(
        self, ctx: Context, schedule: GemmSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
    ) -> None:
        from cutegen.families.gemm.staged.reading import check_schedule

        check_schedule(ctx, schedule, tensors, compute)

    def unmeant(self, schedule: GemmSchedule, tensors: Mapping[str, Tensor], compute: Compute) -> str | None:
        from cutegen.families.gemm.batches import why_unplaced

        return why_unplaced(tensors, "its threads copy rows that follow one another")

    def resolve(self, spec: Spec, report: Report) -> Spec:
        from cutegen.families.gemm.fma.inference import resolve

        return resolve(spec, report)

    def is_sound(self, spec: Spec) -> bool:
        from cutegen.families.gemm.staged.product import is_sound

        return is_sound(spec)

    def is_finished(self, spec: Spec) -> bool:
        from cutegen.families.gemm.staged.product import is_finished

        return is_finished(spec)

    def plan(self, spec: Spec) -> GemmPlan:
        from cutegen.families.gemm.fma.planning import plan

        return plan(spec)

    def rules(self) -> tuple[Rule, ...]:
        from cutegen.families.gemm.fma.rules import RULES

        return RULES

    def performance_rules(self) -> tuple[PerformanceRule, ...]:
        from cutegen.families.gemm.fma.rules import PERFORMANCE_RULES

        return PERFORMANCE_RULES

    def note_rules(self) -> tuple[NoteRule, ...]:
        from cutegen.families.gemm.fma.rules import NOTE_RULES

        return NOTE_RULES

    def numbered_layouts(self, spec: Spec) -> Iterator[tuple[Path, Layout, int]]:
        from cutegen.families.gemm.fma.rules.dealing import numbered_layouts

        return numbered_layouts(spec)

    def unreported_cost(self, plan: GemmPlan, made: Sequence[Access]) -> float:
        from cutegen.families.gemm.fma.rules.bank_conflicts import narrow_reads

        return narrow_reads(plan, made)

    def kernel_parts(self, plan: GemmPlan) -> KernelParts:
        from cutegen.families.gemm.fma.text import kernel_parts

        return kernel_parts(plan)

    def accumulator(self, spec: Spec) -> Dtype | None:
        return spec.schedule.mma.accumulator

    def accesses(self, plan: GemmPlan) -> tuple[Access, ...]:
        from cutegen.families.gemm.staged.accesses import accesses_of

        return accesses_of(plan)

    def claims(self, plan: GemmPlan) -> Iterator[Claim]:
        from cutegen.families.gemm.staged.claims import claims

        return claims(plan)

    def buffers(self, plan: GemmPlan) -> Iterator[Buffer]:
        from cutegen.families.gemm.staged.accesses import buffers

        return buffers(plan)

    def scratch(self, plan: GemmPlan) -> Iterator[Scratch]:
        from cutegen.families.gemm.staged.accesses import scratch

        return scratch(plan)

    def arithmetic(self, spec: Spec) -> Arithmetic:
        return CUDA_F64 if spec.schedule.mma.accumulator is Dtype.f64 else CUDA_F32

    def figures(self, plan: GemmPlan) -> tuple[Figure, ...]:
        from cutegen.families.gemm.staged.pictures import figures

        return figures(plan)

    def axes(self, specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
        from cutegen.families.gemm.fma.tuning import axes

        return axes(specs)

    def refinements(self, spec: Spec) -> Iterator[Choice]:
        from cutegen.families.gemm.fma.tuning import refinements

        return refinements(spec)

    def inferred_from(self) -> Mapping[str, tuple[str, ...]]:
        from cutegen.families.gemm.fma.inference import INFERRED_FROM

        return INFERRED_FROM
