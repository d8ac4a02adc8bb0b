"""The plan of a warp-specialised gemm: what inference resolved, as the numbers that the templates print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.families.common import raster
from cutegen.families.common.planning import may_branch, names_read, operand
from cutegen.families.common.pointwise import WORD, Operand, Pointwise
from cutegen.families.gemm.wgmma import allocation
from cutegen.families.gemm.wgmma.plan import Passing, Side, WarpspecializedPlan, is_by_columns, is_held
from cutegen.families.gemm.wgmma.product import (
    ALIGN,
    BESIDE,
    GRANULE,
    ROWS,
    accumulators,
    cluster_of,
    groups_of,
    in_turn,
    passing,
    piece_columns,
    piece_swizzle,
    product_of,
    shared_by,
    shares_buffers,
    source_buffers,
    sources,
    split_of,
    stands_anywhere,
    swizzle_of,
    threads_of,
    vector_of,
)
from cutegen.families.gemm.wgmma.scales import chunk_of, is_scaled, scales_of
from cutegen.families.gemm.wgmma.schedule import Spec
from cutegen.families.gemm.words import tile_of
from cutegen.language.model import Tensor
from cutegen.planning.row_copies import RowCopies

SLICE = 4  # accumulators that the epilogue takes at a time: those of one step of 8 columns
PASSING_SLICE = GRANULE // 2  # the same on the way through shared memory: those of what one stmatrix writes


def plan(spec: Spec) -> WarpspecializedPlan:
    """The plan of a resolved spec that passed its checks."""
    schedule, product = spec.schedule, product_of(spec)
    warps, walk, stages = schedule.warps, schedule.scheduler, schedule.pipeline.stages
    assert (
        warps.consumers is not None
        and schedule.mma.in_flight is not None
        and schedule.tiler is not None
        and walk.swizzle is not None
    )
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    statements = annotate(spec.compute, types, Dtype.f32)
    read, vector, through, brought = names_read(statements), vector_of(spec), passing(spec), sources(spec)
    moved = (t for t in spec.tensors if t.name in read or t in spec.outputs)
    operands = tuple(_operand(spec, t, vector, t.name in read) for t in moved)
    kept = [o.tensor for o in operands if is_held(o, product.n) or (through and is_by_columns(o, product.m, product.n))]
    loaded = [o.tensor for o in operands if o.read and o.tensor not in (*brought, *kept)]
    direct = [*loaded, *(o.tensor for o in operands if o.write and o.tensor not in through)]
    guarded = {mode for tensor in direct for mode in tensor.shape if schedule.predication.get(mode) == "mask"}
    masked = tuple(mode for mode in (product.m, product.n) if mode in guarded)
    held = any(is_held(o, product.n) for o in operands)
    return WarpspecializedPlan(
        spec=spec,
        threads=threads_of(schedule),
        tile=schedule.tiler,
        statements=statements,
        pointwise=Pointwise(
            operands=operands,
            values=accumulators(spec) // len(product.stacked) // split_of(spec),
            vector=vector,
            masked=masked,
            clear=bool(masked) and may_branch(statements),
            forgets=bool(masked) and _crowded(spec, [o for o in operands if o.tensor in loaded]),
            reshape=True,
            slice=PASSING_SLICE if through else SLICE,
        ),
        smem_bytes=allocation.smem_bytes(spec),
        stages=stages,
        m=product.m,
        n=product.n,
        k=product.k,
        batch=product.batch,
        segments=product.segments,
        a=_side(spec, product.a, "A", product.m),
        b=_side(spec, product.b, "B", product.n),
        consumers=warps.consumers,
        pingpong=warps.roles == "pingpong",
        in_turn=in_turn(spec),
        cluster=cluster_of(spec),
        split=split_of(spec),
        passing=tuple(_passing(spec, tensor) for tensor in through),
        sources=tuple(_passing(spec, tensor) for tensor in brought),
        columns=piece_columns(spec),
        buffers=max((schedule.copies[t.name].stages or 0 for t in through), default=0),
        source_buffers=source_buffers(spec),
        shares_buffers=shares_buffers(spec),
        persistent=walk.kind == "persistent",
        blocks=walk.blocks,
        dependent=walk.launch == "dependent",
        band=walk.swizzle,
        producer_registers=warps.registers["producer"],
        consumer_registers=warps.registers["consumer"],
        in_flight=schedule.mma.in_flight,
        stage_bytes=sum(stage.bytes for stage in allocation.operands(spec)),
        empty_sum=_may_be_empty(spec),
        padded=tuple(t for t in spec.tensors if stands_anywhere(spec, t)),
        row_copies=RowCopies() if any(stands_anywhere(spec, t) for t in spec.tensors) else None,
        rows_masked=held and schedule.predication[product.m] == "mask",
        tile_order=tile_order(spec),
        scale_a=scales_of(spec)[0],
        scale_b=scales_of(spec)[1],
        chunk=chunk_of(spec) if is_scaled(spec) else 0,
    )


def _crowded(spec: Spec, loaded: Sequence[Operand]) -> bool:
    """Whether a thread's registers do not hold its accumulators beside all that the epilogue loads of a tile.

    A masked load leaves a register as it was, so that it is live around the loop over tiles unless it is cleared.
    """
    product, budget = product_of(spec), spec.schedule.warps.registers["consumer"]
    values = accumulators(spec) // len(product.stacked) // split_of(spec)
    rows = 2 * tile_of(spec.schedule, product.m) // (ROWS * groups_of(spec.schedule))
    words = sum(values // (rows if product.m in o.broadcast else 1) * o.tensor.dtype.bits // WORD for o in loaded)
    return accumulators(spec) + BESIDE + words > budget


def _operand(spec: Spec, tensor: Tensor, vector: int, read: bool) -> Operand:
    """How a thread accesses a tensor: one that a call copies where it does not stand so is seen at 16 bytes."""
    found = operand(spec, tensor, vector, read)
    if stands_anywhere(spec, tensor) and tensor.major == spec.lead.major:
        found = replace(found, vector=min(vector, ALIGN // tensor.dtype.bytes))
    return found


def _side(spec: Spec, tensors: tuple[Tensor, ...], letter: str, mode: str) -> Side:
    tensor = tensors[0]
    k_major = tensor.major == product_of(spec).k
    block, swizzle = tile_of(spec.schedule, mode), swizzle_of(spec.schedule, tensor)
    copy = spec.schedule.copies.get(tensor.name)
    box = None if copy is None else copy.box
    return Side(tensors, letter, mode, block, k_major, swizzle, shared_by(spec, tensor), box)


def _may_be_empty(spec: Spec) -> bool:
    """Whether a block may have nothing to sum: no tile along k, or fewer than blocks of the cluster along it."""
    k = product_of(spec).k
    return k not in spec.static or -(-spec.static[k] // tile_of(spec.schedule, k)) < split_of(spec)


def _passing(spec: Spec, tensor: Tensor) -> Passing:
    n = product_of(spec).n
    swizzle = piece_swizzle(tensor, n, piece_columns(spec))
    assert swizzle is not None
    return Passing(tensor, tensor.major == n, swizzle)


def tile_order(spec: Spec) -> tuple[int, int]:
    """The modes of the output by number: that along which consecutive clusters walk, then the other."""
    return raster.tile_order(spec, spec.schedule.scheduler.raster)
