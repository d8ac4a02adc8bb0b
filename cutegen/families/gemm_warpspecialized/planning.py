"""The plan of a gemm whose warps have roles: what inference resolved, as the numbers that the templates print."""

from __future__ import annotations

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import annotate
from cutegen.families.common import raster
from cutegen.families.common.planning import may_branch, names_read, operand
from cutegen.families.common.pointwise import Pointwise
from cutegen.families.gemm_warpspecialized.plan import Side, WarpspecializedPlan
from cutegen.families.gemm_warpspecialized.product import (
    accumulators,
    product_of,
    smem_bytes,
    stage_bytes,
    swizzle_of,
    threads_of,
    tile_of,
    vector_of,
)
from cutegen.families.gemm_warpspecialized.schedule import Spec
from cutegen.language.model import Tensor

SLICE = 4  # accumulators that the epilogue takes at a time: those of one step of 8 columns


def plan(spec: Spec) -> WarpspecializedPlan:
    """The plan of a resolved spec that passed its checks."""
    schedule, product = spec.schedule, product_of(spec)
    consumers, stages = schedule.warps.consumers, schedule.pipeline.stages
    assert consumers is not None and schedule.tiler is not None
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    statements = annotate(spec.compute, types, Dtype.f32)
    masked = tuple(mode for mode in (product.m, product.n) if schedule.predication[mode] == "mask")
    read, vector = names_read(statements), vector_of(spec)
    return WarpspecializedPlan(
        spec=spec,
        threads=threads_of(schedule),
        tile=schedule.tiler,
        statements=statements,
        pointwise=Pointwise(
            operands=tuple(
                operand(spec, t, vector, t.name in read) for t in spec.tensors if t.name in read or t in spec.outputs
            ),
            values=accumulators(spec),
            vector=vector,
            masked=masked,
            clear=bool(masked) and may_branch(statements),
            reshape=True,
            slice=SLICE,
        ),
        smem_bytes=smem_bytes(spec),
        stages=stages,
        m=product.m,
        n=product.n,
        k=product.k,
        a=_side(spec, product.a, "A", product.m),
        b=_side(spec, product.b, "B", product.n),
        consumers=consumers,
        producer_registers=schedule.warps.registers["producer"],
        consumer_registers=schedule.warps.registers["consumer"],
        stage_bytes=stage_bytes(spec),
        empty_sum=product.k not in spec.static,
        tile_order=tile_order(spec),
        largest=_largest(spec),
    )


def _side(spec: Spec, tensor: Tensor, letter: str, mode: str) -> Side:
    k_major = tensor.major == product_of(spec).k
    return Side(tensor, letter, mode, tile_of(spec.schedule, mode), k_major, swizzle_of(spec.schedule, tensor))


def tile_order(spec: Spec) -> tuple[int, int]:
    """The modes of the output by number: that along which consecutive blocks walk, then the other."""
    return raster.tile_order(spec, spec.schedule.scheduler.raster)


def _largest(spec: Spec) -> tuple[str, int] | None:
    across = spec.output.shape[tile_order(spec)[1]]
    return raster.largest_across(spec, across, tile_of(spec.schedule, across))
