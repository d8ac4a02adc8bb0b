"""The family of warp-specialised gemms, as the rooms ask it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cutegen.atoms.gpus import TENSOR_8, TENSOR_16, Arithmetic
from cutegen.atoms.mma import HOPPER_F8, SumOrder
from cutegen.dtypes import Dtype
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.schedule import OWN_ATOMS, Spec, WarpspecializedSchedule
from cutegen.family import Family
from cutegen.ops.gemm import GEMM

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from cutegen.analysis.access import Access
    from cutegen.analysis.buffers import Buffer
    from cutegen.analysis.claim import Claim
    from cutegen.analysis.cost import Cost, Moved
    from cutegen.analysis.tiles import Tiles
    from cutegen.codegen.parts import KernelParts
    from cutegen.drawing.model import Figure
    from cutegen.expressions.tree import Compute
    from cutegen.language.context import Context
    from cutegen.language.model import Tensor
    from cutegen.lint.rule import Rule
    from cutegen.planning.report import Report
    from cutegen.tuning.choice import Choice
    from cutegen.verification.case_request import CaseRequest


class WgmmaFamily(Family[WarpspecializedSchedule, WarpspecializedPlan]):
    """Gemms on Hopper's tensor cores: a warp loads tiles by tensor maps, and warpgroups multiply them (wgmma)."""

    name = "gemm_wgmma"
    op = GEMM
    schedule = WarpspecializedSchedule
    atoms = OWN_ATOMS
    only_targets = ("sm_90a",)
    estimated = True
    starter = """\
summary: GEMM of bf16 on Hopper's tensor cores.
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
compute: C = A @ B.T                 # any epilogue may surround it: relu(A @ B.T + bias), or two products of A
schedule:
  mma: {atom: wgmma}                # the rest is inferred: `cutegen explain` prints it
divisible: {N: 8}
"""

    def check_schedule(
        self,
        ctx: Context,
        schedule: WarpspecializedSchedule,
        tensors: Mapping[str, Tensor],
        compute: Compute | None,
    ) -> None:
        from cutegen.families.gemm.wgmma.reading import check_schedule

        check_schedule(ctx, schedule, tensors, compute)

    def unmeant(self, schedule: WarpspecializedSchedule, tensors: Mapping[str, Tensor], compute: Compute) -> str | None:
        from cutegen.families.gemm.batches import why_unplaced

        product = compute.matmul
        factor = tensors.get(product.a) if product else None
        unplaced = why_unplaced(tensors, "its tensor maps move rows that follow one another")
        if unplaced is not None:
            return unplaced
        if factor is None or factor.dtype.is_f8 or factor.dtype.bits == 16:
            return None
        return f"wgmma cannot multiply {factor.dtype.value}"

    def resolve(self, spec: Spec, report: Report) -> Spec:
        from cutegen.families.gemm.wgmma.inference import resolve

        return resolve(spec, report)

    def is_sound(self, spec: Spec) -> bool:
        from cutegen.families.gemm.wgmma.product import is_sound

        return is_sound(spec)

    def is_finished(self, spec: Spec) -> bool:
        from cutegen.families.gemm.wgmma.product import is_finished

        return is_finished(spec)

    def plan(self, spec: Spec) -> WarpspecializedPlan:
        from cutegen.families.gemm.wgmma.planning import plan

        return plan(spec)

    def rules(self) -> tuple[Rule, ...]:
        from cutegen.families.gemm.wgmma.rules import RULES

        return RULES

    @property
    def templates(self) -> Mapping[str, Traversable]:
        from cutegen.families.common.pointwise_text import templates

        return {**super().templates, **templates()}

    def kernel_parts(self, plan: WarpspecializedPlan) -> KernelParts:
        from cutegen.families.gemm.wgmma.text import kernel_parts

        return kernel_parts(plan)

    def compared(self, spec: Spec) -> Iterable[WarpspecializedSchedule]:
        from cutegen.families.gemm.wgmma.compared import compared

        return compared(spec)

    def cost(self, plan: WarpspecializedPlan) -> tuple[Cost, Moved]:
        from cutegen.families.gemm.wgmma.cost import cost_of, moved_by

        return cost_of(plan), moved_by(plan)

    def with_fields(
        self, plan: WarpspecializedPlan, names: frozenset[str] | None, told: frozenset[str] = frozenset()
    ) -> WarpspecializedPlan | None:
        from cutegen.families.gemm.wgmma.text import with_fields

        return with_fields(plan, names, told)

    def accumulator(self, spec: Spec) -> Dtype | None:
        return Dtype.f32

    def sum_orders(self, spec: Spec) -> tuple[SumOrder, ...]:
        from cutegen.families.gemm.wgmma.product import product_of, split_of

        if not _is_f8(spec):
            return ()
        shares, tiler = split_of(spec), spec.schedule.tiler or {}
        return (SumOrder(HOPPER_F8, shares=shares, tile=tiler[product_of(spec).k] if shares > 1 else 1),)

    def blocks(self, plan: WarpspecializedPlan, sizes: Mapping[str, int]) -> int:
        from cutegen.families.gemm.wgmma.cases import blocks

        return blocks(plan, sizes)

    def largest(self, plan: WarpspecializedPlan, beside: Mapping[str, int] | None = None) -> Mapping[str, int]:
        from cutegen.families.gemm.wgmma.block_text import largest

        return largest(plan, beside or {})

    def tiles(self, plan: WarpspecializedPlan, sizes: Mapping[str, int]) -> Tiles:
        from cutegen.families.gemm.wgmma.cases import tiles

        return tiles(plan, sizes)

    def value_seconds(self, plan: WarpspecializedPlan, sizes: Mapping[str, int]) -> float:
        from cutegen.families.gemm.wgmma.cases import value_seconds

        return value_seconds(plan, sizes)

    def place_of(self, plan: WarpspecializedPlan, sizes: Mapping[str, int], start: Mapping[str, int]) -> int | None:
        from cutegen.families.gemm.wgmma.pictures import walk_of

        if plan.segments is not None:  # the ends say which tile comes at which place
            return None
        modes = plan.spec.output.shape
        return walk_of(plan).over(sizes[mode] for mode in modes).block([start[mode] for mode in modes])[0]

    def band(self, plan: WarpspecializedPlan) -> tuple[str, int] | None:
        return (plan.spec.output.shape[plan.tile_order[1]], plan.band) if plan.band > 1 else None

    def requests(self, plan: WarpspecializedPlan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
        from cutegen.families.gemm.wgmma.cases import requests

        return requests(plan, tiles)

    def more_requests(self, plan: WarpspecializedPlan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
        from cutegen.families.gemm.wgmma.cases import more_requests

        return more_requests(plan, tiles)

    def verified_form(self, plan: WarpspecializedPlan) -> object:
        from cutegen.families.gemm.wgmma.cases import verified_form

        return verified_form(plan)

    def variants(self, plan: WarpspecializedPlan) -> tuple[WarpspecializedPlan, ...]:
        from cutegen.families.gemm.wgmma.variants import variants

        return variants(plan)

    def accesses(self, plan: WarpspecializedPlan) -> tuple[Access, ...]:
        from cutegen.families.gemm.wgmma.accesses import accesses_of

        return accesses_of(plan)

    def claims(self, plan: WarpspecializedPlan) -> Iterator[Claim]:
        from cutegen.families.gemm.wgmma.claims import claims

        return claims(plan)

    def figures(self, plan: WarpspecializedPlan) -> tuple[Figure, ...]:
        from cutegen.families.gemm.wgmma.pictures import figures

        return figures(plan)

    def buffers(self, plan: WarpspecializedPlan) -> Iterator[Buffer]:
        from cutegen.families.gemm.wgmma.accesses import buffers

        return buffers(plan)

    def arithmetic(self, spec: Spec) -> Arithmetic:
        return TENSOR_8 if _is_f8(spec) else TENSOR_16

    def axes(self, specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
        from cutegen.families.gemm.wgmma.tuning import axes

        return axes(specs)

    def refinements(self, spec: Spec) -> Iterator[Choice]:
        from cutegen.families.gemm.wgmma.tuning import refinements

        return refinements(spec)

    def inferred_from(self) -> Mapping[str, tuple[str, ...]]:
        from cutegen.families.gemm.wgmma.inference import INFERRED_FROM

        return INFERRED_FROM


def _is_f8(spec: Spec) -> bool:
    """Whether the operands are floats of 8 bits."""
    from cutegen.families.gemm.wgmma.product import product_of

    return product_of(spec).dtype.is_f8
