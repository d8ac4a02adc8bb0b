"""Builds the parts of a multistage gemm's plan that do not depend on what multiplies: CUDA cores or tensor cores."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tensor_layouts import Layout, size

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.parsing import Typed
from cutegen.families.common.planning import names_read, operand
from cutegen.families.common.pointwise import Pointwise
from cutegen.families.gemm.staged.product import product_of
from cutegen.families.gemm.staged.tile_walk import is_plane, largest_across, most_tiles, tile_of_batch, tile_order
from cutegen.families.gemm.words import tile_of, vector_of
from cutegen.language.model import KernelSpec, Tensor
from cutegen.language.taken import indices
from cutegen.layouts import make_layout_tv
from cutegen.planning.batches import batch_of

Spec = KernelSpec[Any]


def statements_of(spec: Spec, accumulator: Dtype) -> tuple[Typed, ...]:
    """The statements of a spec with the types of their values."""
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    return annotate(spec.compute, types, accumulator)


def planned(spec: Spec) -> dict[str, Any]:
    """The fields of `MultistagePlan` that follow from the spec alone."""
    schedule, (_, _, m, n, k) = spec.schedule, product_of(spec)
    plane = is_plane(spec)
    return {
        "spec": spec,
        "tile": tile_of_batch(spec, schedule.tiler),
        "m": m,
        "n": n,
        "k": k,
        "batch": batch_of(spec.lead),
        "stages": schedule.pipeline.stages,
        "k_tiles": -(-spec.static[k] // schedule.tiler[k]) if k in spec.static else None,
        "residue": schedule.predication[k] == "residue_first",
        "tile_order": tile_order(spec),
        "swizzle": schedule.scheduler.swizzle,
        "largest": largest_across(spec) if plane else None,
        "most_tiles": None if plane else most_tiles(spec),
    }


def operand_fields(
    spec: Spec, tensor: Tensor, letter: str, mode: str, threads: Layout, values: Layout
) -> dict[str, Any]:
    """The fields of `StagedOperand` of A or B, whose tile the layouts of threads and values deal out."""
    schedule, k = spec.schedule, product_of(spec).k
    copy, masked = schedule.copies[tensor.name], schedule.predication[mode] == "mask"
    vector, (tiler, _) = vector_of(copy, tensor), make_layout_tv(threads, values)
    block, depth = tile_of(schedule, mode), tile_of(schedule, k)
    return {
        "tensor": tensor,
        "letter": letter,
        "mode": mode,
        "block": block,
        "atom": copy.atom,
        "vector": vector,
        "thread_layout": threads,
        "value_layout": values,
        "copies": (int(size(values)) // vector, block // tiler[0], depth // tiler[1]),
        "masked": masked,
        "gathered": bool(spec.tensor(tensor.name).at),
        "zero_fill": copy.atom == "universal" and (masked or schedule.predication[k] == "residue_first"),
    }


def epilogue(
    spec: Spec, statements: Sequence[Typed], values: int, slice: int, clear: bool, times_one: bool
) -> Pointwise:
    """The pointwise part, of `values` accumulators of a thread; registers are cleared where a mode is masked and
    `clear` says that it matters.
    """
    read, vector = names_read(statements), vector_of(spec.schedule.copies[spec.lead.name], spec.lead)
    masked = tuple(mode for mode in product_of(spec).sides if spec.schedule.predication[mode] == "mask")
    moved = [t for t in spec.tensors if t.name in read or t in spec.outputs]
    places = indices(moved)
    moved = [t for t in spec.tensors if t in moved or t.name in places]
    return Pointwise(
        operands=tuple(operand(spec, t, vector, t.name in read) for t in moved),
        values=values,
        vector=vector,
        masked=masked,
        clear=bool(masked) and clear,
        reshape=True,
        slice=slice,
        times_one=times_one,
    )


def slices_of(extents: Sequence[int], vector: int) -> list[int]:
    """How many accumulators an epilogue may take at a time, ascending: whole accesses, which are a part of a mode with
    all before it. CuTe divides a layout by nothing else.
    """
    before = [prod(extents[:i]) for i in range(len(extents))]
    parts = {b * d for b, extent in zip(before, extents, strict=True) for d in range(1, extent + 1) if extent % d == 0}
    return [part for part in sorted(parts) if part % vector == 0]
