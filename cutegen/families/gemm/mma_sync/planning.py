"""The plan of a multistage gemm on tensor cores: what inference resolved, as the numbers that the templates print."""

from __future__ import annotations

from tensor_layouts import Layout

from cutegen.dtypes import Dtype
from cutegen.families.common.dealing import copy_layouts
from cutegen.families.common.planning import may_branch
from cutegen.families.gemm.mma_sync import product as gemm
from cutegen.families.gemm.mma_sync.plan import MmaOperand, MmaSyncPlan
from cutegen.families.gemm.mma_sync.schedule import Spec
from cutegen.families.gemm.staged.planning import epilogue, operand_fields, planned, slices_of, statements_of
from cutegen.families.gemm.staged.product import product_of
from cutegen.families.gemm.words import tile_of, vector_of
from cutegen.language.model import Tensor
from cutegen.layouts import make_layout_tv

SLICE = 32  # accumulators that the epilogue takes at a time, at most: their loads travel together
HALF = 16  # bits of what ldmatrix moves to lanes in pairs, and can transpose


def plan(spec: Spec) -> MmaSyncPlan:
    """The plan of a resolved spec that passed its checks."""
    schedule, (a, b, m, n, k) = spec.schedule, product_of(spec)
    assert schedule.mma.atom_layout is not None
    store = _layouts(spec, spec.lead, gemm.sides_of(spec))
    depth, statements = gemm.depth_of(a), statements_of(spec, Dtype.f32)
    vector = vector_of(schedule.copies[spec.lead.name], spec.lead)
    first, second = _operand(spec, a, "A", m, 0), _operand(spec, b, "B", n, gemm.operand_bytes(spec)[a.name])
    return MmaSyncPlan(
        **planned(spec),
        threads=gemm.threads_of(schedule),
        statements=statements,
        pointwise=epilogue(
            spec, statements, gemm.accumulators(spec), _slice(spec, vector, store), may_branch(statements), False
        ),
        a=first,
        b=second,
        store=tile_of(schedule, k) // depth - 1,
        smem_bytes=gemm.smem_bytes(spec),
        atoms=schedule.mma.atom_layout,
        instruction=(gemm.ROWS, gemm.COLUMNS, depth),
        tf32=a.dtype is Dtype.f32,
        staged=gemm.staged_strides(spec, gemm.sides_of(spec)),
        store_threads=store[0],
        store_values=store[1],
    )


def _layouts(spec: Spec, tensor: Tensor, tile: tuple[int, int]) -> tuple[Layout, Layout]:
    """The threads that copy a tile, and the values of one access."""
    vector = vector_of(spec.schedule.copies[tensor.name], tensor)
    found = copy_layouts(gemm.threads_of(spec.schedule), tile, vector, tensor.major == tensor.shape[-1])
    assert found is not None
    return found


def _operand(spec: Spec, tensor: Tensor, letter: str, mode: str, offset: int) -> MmaOperand:
    schedule, k = spec.schedule, product_of(spec).k
    k_major, tile = tensor.major == k, (tile_of(schedule, mode), tile_of(schedule, k))
    return MmaOperand(
        **operand_fields(spec, tensor, letter, mode, *_layouts(spec, tensor, tile)),
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
    stages, k_major = spec.schedule.pipeline.stages, tensor.major == product_of(spec).k
    assert stages is not None
    run = gemm.swizzle_of(spec.schedule, tensor) // tensor.dtype.bytes
    along, across = gemm.contiguous(spec, tensor, mode)
    blocks = along // run
    row = Layout(run, 1) if blocks == 1 else Layout((run, blocks), (1, run * across))
    other = Layout(across, run)
    first, second = (other, row) if k_major else (row, other)
    return Layout((first.shape, second.shape, stages), (first.stride, second.stride, along * across))


def _slice(spec: Spec, vector: int, store: tuple[Layout, Layout]) -> int:
    """The most accumulators up to `SLICE` that an epilogue may take at a time, or the fewest that there are."""
    tiler, _ = make_layout_tv(*store)
    _, _, m, n, _ = product_of(spec)
    rest = [tile_of(spec.schedule, mode) // covered for mode, covered in zip((m, n), tiler, strict=True)]
    whole = slices_of([vector, *rest], vector)
    return max([part for part in whole if part <= SLICE], default=whole[0])
