"""The plan of a gemm on Blackwell's tensor cores: what inference resolved, as the numbers that the templates print."""

from __future__ import annotations

from dataclasses import replace

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.families.common import raster
from cutegen.families.common.planning import may_branch, names_read, operand
from cutegen.families.common.pointwise import Pointwise
from cutegen.families.gemm.tcgen05 import allocation
from cutegen.families.gemm.tcgen05.plan import Side, Tcgen05Plan
from cutegen.families.gemm.tcgen05.product import (
    ALIGN,
    THREADS,
    columns_of,
    product_of,
    slice_of,
    stands_anywhere,
    swizzle_of,
    vector_of,
)
from cutegen.families.gemm.tcgen05.schedule import Spec
from cutegen.families.gemm.words import tile_of
from cutegen.language.model import Tensor
from cutegen.planning.batches import batch_of
from cutegen.planning.row_copies import RowCopies

COPIED = "by way of workspaces"


def plan(spec: Spec) -> Tcgen05Plan:
    """The plan of a resolved spec that passed its checks."""
    schedule, product = spec.schedule, product_of(spec)
    assert schedule.tiler is not None
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    statements = annotate(spec.compute, types, Dtype.f32)
    read, vector = names_read(statements), vector_of(spec)
    moved = [t for t in spec.tensors if t.name in read or t in spec.outputs]
    operands = tuple(operand(spec, t, vector, t.name in read) for t in moved)
    guarded = {mode for tensor in moved for mode in tensor.shape if schedule.predication.get(mode) == "mask"}
    masked = tuple(mode for mode in (product.m, product.n) if mode in guarded)
    order = raster.tile_order(spec, schedule.scheduler.raster)
    across, batch = spec.lead.shape[order[1]], batch_of(spec.output)
    limits = [raster.largest_across(spec, across, tile_of(schedule, across))]
    limits += [raster.largest_across(spec, batch, 1)] if batch is not None else []
    padded = tuple(t for t in spec.tensors if stands_anywhere(spec, t))
    return Tcgen05Plan(
        spec=spec,
        threads=THREADS,
        tile=schedule.tiler,
        statements=statements,
        pointwise=Pointwise(
            operands=operands,
            values=tile_of(schedule, product.n),
            vector=vector,
            masked=masked,
            clear=bool(masked) and may_branch(statements),
            reshape=True,
            slice=slice_of(spec),
        ),
        smem_bytes=allocation.smem_bytes(spec),
        stages=schedule.pipeline.stages,
        m=product.m,
        n=product.n,
        k=product.k,
        batch=batch,
        a=_side(spec, product.a, "A", product.m),
        b=tuple(_side(spec, b, "B", product.n) for b in product.b),
        columns=columns_of(spec),
        stage_bytes=sum(stage.bytes for stage in allocation.operands(spec)),
        empty_sum=product.k not in spec.static,
        tile_order=order,
        largest=dict(limit for limit in limits if limit is not None),
        padded=padded,
        row_copies=RowCopies() if padded else None,
    )


def _side(spec: Spec, tensor: Tensor, letter: str, mode: str) -> Side:
    k_major = tensor.major == product_of(spec).k
    return Side(tensor, letter, mode, tile_of(spec.schedule, mode), k_major, swizzle_of(spec, tensor))


def variants(plan: Tcgen05Plan) -> tuple[Tcgen05Plan, ...]:
    """The plan alone; or with the promises that tensor maps need, and without them, where calls copy A or B."""
    if not plan.padded:
        return (plan,)
    names = [t.name for t in plan.padded]
    aligned = tuple(replace(t, align=ALIGN) if t.name in names else t for t in plan.spec.tensors)
    return replace(plan, spec=replace(plan.spec, tensors=aligned)), replace(plan, way=COPIED)
