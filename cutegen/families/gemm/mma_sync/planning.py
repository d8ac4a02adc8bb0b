"""The plan of a multistage gemm on tensor cores: what inference resolved, as the numbers that the templates print."""

from __future__ import annotations

from math import prod

from tensor_layouts import Layout

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.families.common.planning import may_branch, names_read, operand
from cutegen.families.common.pointwise import Pointwise
from cutegen.families.gemm.mma_sync import product as gemm
from cutegen.families.gemm.mma_sync.plan import MmaOperand, MmaSyncPlan
from cutegen.families.gemm.mma_sync.schedule import Spec
from cutegen.families.gemm.staged.tile_walk import is_plane, largest_across, most_tiles, tile_of_batch, tile_order
from cutegen.language.model import Tensor
from cutegen.layouts import make_layout_tv
from cutegen.planning.batches import batch_of

SLICE = 32  # accumulators that the epilogue takes at a time, at most: their loads travel together
HALF = 16  # bits of what ldmatrix moves to lanes in pairs, and can transpose


def plan(spec: Spec) -> MmaSyncPlan:
    """The plan of a resolved spec that passed its checks."""
    schedule, (a, b, m, n, k) = spec.schedule, gemm.product_of(spec)
    assert schedule.pipeline.stages is not None and schedule.mma.atom_layout is not None and schedule.tiler is not None
    swizzle, tile = schedule.scheduler.swizzle, schedule.tiler
    assert swizzle is not None
    masked = tuple(mode for mode in (m, n) if schedule.predication[mode] == "mask")
    store = _layouts(spec, spec.output, (tile[m], tile[n]))
    depth = gemm.depth_of(a)
    first, second = _operand(spec, a, "A", m, 0), _operand(spec, b, "B", n, gemm.operand_bytes(spec)[a.name])
    return MmaSyncPlan(
        spec=spec,
        threads=gemm.threads_of(schedule),
        tile=tile_of_batch(spec, tile),
        statements=annotate(spec.compute, _types(spec), Dtype.f32),
        pointwise=_epilogue(spec, masked, store),
        m=m,
        n=n,
        k=k,
        batch=batch_of(spec.output),
        a=first,
        b=second,
        stages=schedule.pipeline.stages,
        store=tile[k] // depth - 1,
        k_tiles=-(-spec.static[k] // tile[k]) if k in spec.static else None,
        residue=schedule.predication[k] == "residue_first",
        tile_order=tile_order(spec),
        swizzle=swizzle,
        largest=largest_across(spec) if is_plane(spec) else None,
        most_tiles=None if is_plane(spec) else most_tiles(spec),
        smem_bytes=gemm.smem_bytes(spec),
        atoms=schedule.mma.atom_layout,
        instruction=(gemm.ROWS, gemm.COLUMNS, depth),
        tf32=a.dtype is Dtype.f32,
        staged=gemm.staged_strides(spec),
        store_threads=store[0],
        store_values=store[1],
    )


def _types(spec: Spec) -> dict[str, Dtype]:
    return {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}


def _layouts(spec: Spec, tensor: Tensor, tile: tuple[int, int]) -> tuple[Layout, Layout]:
    """The threads that copy a tile, and the values of one access."""
    vector = gemm.vector_of(spec.schedule.copies[tensor.name], tensor)
    found = gemm.copy_layouts(gemm.threads_of(spec.schedule), tile, vector, tensor.major == tensor.shape[-1])
    assert found is not None
    return found


def _operand(spec: Spec, tensor: Tensor, letter: str, mode: str, offset: int) -> MmaOperand:
    schedule, k = spec.schedule, gemm.product_of(spec).k
    copy, masked = schedule.copies[tensor.name], schedule.predication[mode] == "mask"
    assert copy.atom is not None
    block, depth = gemm.tile_of(schedule, mode), gemm.tile_of(schedule, k)
    threads, values = _layouts(spec, tensor, (block, depth))
    tiler, _ = make_layout_tv(threads, values)
    k_major = tensor.major == k
    return MmaOperand(
        tensor=tensor,
        letter=letter,
        mode=mode,
        block=block,
        atom=copy.atom,
        vector=gemm.vector_of(copy, tensor),
        thread_layout=threads,
        value_layout=values,
        copies=(1, block // tiler[0], depth // tiler[1]),
        masked=masked,
        zero_fill=copy.atom == "universal" and (masked or schedule.predication[k] == "residue_first"),
        workspace=None,
        k_major=k_major,
        swizzle=gemm.swizzle_of(schedule, tensor),
        smem_layout=smem_layout(spec, tensor, mode),
        matrices=k_major or tensor.dtype.bits == HALF,
        offset=offset,
    )


def smem_layout(spec: Spec, tensor: Tensor, mode: str) -> Layout:
    """(m or n, k, stage) -> element of an operand's shared memory, before runs of 16 bytes exchange their places.

    Rows are one swizzle long; what is longer stands in blocks of such rows, one behind the other.
    """
    stages, k_major = spec.schedule.pipeline.stages, tensor.major == gemm.product_of(spec).k
    assert stages is not None
    run = gemm.swizzle_of(spec.schedule, tensor) // tensor.dtype.bytes
    along, across = gemm.contiguous(spec, tensor, mode)
    blocks = along // run
    row = Layout(run, 1) if blocks == 1 else Layout((run, blocks), (1, run * across))
    other = Layout(across, run)
    first, second = (other, row) if k_major else (row, other)
    return Layout((first.shape, second.shape, stages), (first.stride, second.stride, along * across))


def _epilogue(spec: Spec, masked: tuple[str, ...], store: tuple[Layout, Layout]) -> Pointwise:
    statements = annotate(spec.compute, _types(spec), Dtype.f32)
    read, vector = names_read(statements), gemm.vector_of(spec.schedule.copies[spec.output.name], spec.output)
    values = gemm.accumulators(spec)
    return Pointwise(
        operands=tuple(
            operand(spec, t, vector, t.name in read) for t in spec.tensors if t.name in read or t in spec.outputs
        ),
        values=values,
        vector=vector,
        masked=masked,
        clear=bool(masked) and may_branch(statements),
        reshape=True,
        slice=_slice(spec, vector, store),
    )


def _slice(spec: Spec, vector: int, store: tuple[Layout, Layout]) -> int:
    """The most accumulators up to `SLICE` that are whole accesses, and a part of a mode with all before it.

    CuTe divides a layout by nothing else.
    """
    tiler, _ = make_layout_tv(*store)
    _, _, m, n, _ = gemm.product_of(spec)
    rest = [gemm.tile_of(spec.schedule, mode) // covered for mode, covered in zip((m, n), tiler, strict=True)]
    extents = [vector, *rest]
    before = [prod(extents[:i]) for i in range(len(extents))]
    parts = {x * d for x, extent in zip(before, extents, strict=True) for d in range(1, extent + 1) if extent % d == 0}
    whole = [part for part in sorted(parts) if part % vector == 0]
    return max([part for part in whole if part <= SLICE], default=whole[0])
