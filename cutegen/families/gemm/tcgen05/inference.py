"""Infers what the schedule of a gemm on Blackwell's tensor cores leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cutegen.analysis.words import count
from cutegen.atoms.targets import TARGETS
from cutegen.families.common.planning import resolve_tensors
from cutegen.families.gemm.inferring import filled, infer_guards, infer_swizzle, require_whole_accesses, room_of
from cutegen.families.gemm.tcgen05 import allocation
from cutegen.families.gemm.tcgen05.product import (
    ALIGN,
    ROWS,
    TARGET,
    UNIT,
    contiguous_bytes,
    is_finished,
    is_sound,
    most_vector,
    product_of,
    slice_of,
    stands_anywhere,
    vector_of,
)
from cutegen.families.gemm.tcgen05.schedule import Copy, Spec
from cutegen.families.gemm.words import MAX_EXTENT, tile_of
from cutegen.planning.report import Report

INFERRED_FROM: Mapping[str, tuple[str, ...]] = {
    "smem.*.swizzle": ("tiler",),
    "pipeline.stages": ("tiler",),
    "copies.@.bits": ("tiler",),
}
LINE = 128  # bytes of a tile along k: of the widest swizzle
COLUMNS = 128  # of a tile: two blocks of three stages fit a multiprocessor
FEW_STAGES = 3  # with fewer a block takes all shared memory for more
STAGES = 8  # at most: more tiles on their way than hide the memory's latency gain nothing


def resolve(spec: Spec, report: Report) -> Spec:
    """The spec with every field of the schedule filled in."""
    if not spec.targets:
        spec = replace(spec, targets=(TARGET,))
        report.infer("tcgen05 needs Blackwell", "targets")
    if spec.schedule.mma.atom is None:
        spec = replace(spec, schedule=filled(spec.schedule, report, ("mma", "atom"), "tcgen05", "for Blackwell"))
    spec = _infer_tile(_infer_loads(spec, report), report)
    if not is_sound(spec):
        return resolve_tensors(spec, report, {})  # lint says why
    spec = resolve_tensors(_infer_alignment(spec, report), report, {})
    spec = _infer_stages(_infer_swizzles(spec, report), report)
    if not is_finished(spec):
        return spec
    spec = _infer_store(spec, report)
    if spec.schedule.scheduler.raster is None:
        m = product_of(spec).m
        schedule = filled(spec.schedule, report, ("scheduler", "raster"), m, "as CUTLASS numbers blocks")
        spec = replace(spec, schedule=schedule)
    tiles = {mode: tile_of(spec.schedule, mode) for mode in product_of(spec).modes[:2]}
    return infer_guards(spec, report, tiles, dict.fromkeys(tiles, "mask"), "the tile")


def _infer_loads(spec: Spec, report: Report) -> Spec:
    """Tensor maps load A and B, and calls copy those that may stand where these do not take them."""
    copies = dict(spec.schedule.copies)
    for tensor, _ in product_of(spec).sides:
        own, where = copies.get(tensor.name, Copy()), ("schedule", "copies", tensor.name)
        if own.atom is None:
            own = replace(own, atom="tma")
            report.infer("whole tiles, by one thread", *where, "atom")
        if own.misaligned is None:
            free = (tensor.align or 1) % ALIGN != 0
            own = replace(own, misaligned="workspace" if free else "refuse")
            why = f"tensor maps need {ALIGN}-byte alignment; otherwise a call copies it, so any tensor is accepted"
            why = why if free else f"{tensor.name} is promised to be aligned to {tensor.align} bytes"
            report.infer(why, *where, "misaligned")
        copies[tensor.name] = own
    return replace(spec, schedule=replace(spec.schedule, copies=copies))


def _infer_tile(spec: Spec, report: Report) -> Spec:
    """A tile of a product's rows, of 128 columns, and of a line of memory along k: 32 KiB a stage."""
    product, tiler = product_of(spec), dict(spec.schedule.tiler or {})
    if product.m not in tiler:
        tiler[product.m] = ROWS
        report.infer("one row for each lane of tensor memory", "schedule", "tiler", product.m)
    if product.n not in tiler:
        most = max(UNIT, COLUMNS // len(product.b) // UNIT * UNIT)
        size = spec.static.get(product.n, most)
        tiler[product.n] = min(most, -(-max(size, 1) // UNIT) * UNIT)
        why = "two blocks fit a multiprocessor, so that one stores while the other multiplies (not measured)"
        why = f"{product.n} is {size}" if tiler[product.n] < most else why
        report.infer(why, "schedule", "tiler", product.n)
    if product.k not in tiler:
        tiler[product.k] = LINE // product.a.dtype.bytes
        report.infer(f"{LINE} bytes, the widest swizzle", "schedule", "tiler", product.k)
    ordered = {mode: tiler[mode] for mode in product.modes}
    return replace(spec, schedule=replace(spec.schedule, tiler=ordered))


def _infer_alignment(spec: Spec, report: Report) -> Spec:
    """The alignment that tensor maps require of A and B, and the epilogue's accesses of other tensors."""
    product, output = product_of(spec), spec.output
    copy = spec.schedule.copies.get(output.name)
    bits = copy.bits if copy is not None else None
    vector = max(1, bits // output.dtype.bits) if bits else most_vector(spec, slice_of(spec))
    tensors = []
    for tensor in spec.tensors:
        mapped = tensor in (product.a, *product.b)
        free = mapped and stands_anywhere(spec, tensor)
        if tensor.align is None:
            along = vector if tensor.contiguous == output.contiguous else 1
            why, width = f"accesses of {count(along, 'element')}", along
            if free:
                why, width = "any tensor is accepted", 1
            elif mapped:
                why, width = f"tensor maps need {ALIGN}-byte alignment", ALIGN
            tensor = replace(tensor, align=min(ALIGN, width * tensor.dtype.bytes))
            report.infer(why, "tensors", tensor.name, "align")
        elif free and tensor.align > tensor.dtype.bytes:
            tensor = replace(tensor, align=tensor.dtype.bytes)
            report.infer("any tensor is accepted: misaligned ones are copied", "tensors", tensor.name, "align")
        tensors.append(tensor)
    return replace(spec, tensors=tuple(tensors))


def _infer_swizzles(spec: Spec, report: Report) -> Spec:
    """The widest swizzle that the tile of an operand fills."""
    schedule = spec.schedule
    for tensor, mode in product_of(spec).sides:
        schedule = infer_swizzle(schedule, report, tensor, contiguous_bytes(spec, tensor, mode))
    return replace(spec, schedule=schedule)


def _infer_stages(spec: Spec, report: Report) -> Spec:
    """As many stages as leave room for a second block, if that are three, else as many as fit."""
    schedule, k = spec.schedule, product_of(spec).k
    if schedule.pipeline.stages is not None:
        return spec
    half = min(
        (TARGETS[t].smem_per_sm // 2 - TARGETS[t].smem_reserved for t in spec.targets if t in TARGETS), default=0
    )

    def most(room: int) -> int:
        return next((n for n in range(STAGES, 0, -1) if allocation.smem_bytes(spec, n) <= room), 1)

    stages, why = most(half), "as many as let a second block share the multiprocessor"
    if stages < FEW_STAGES:
        stages, why = most(room_of(spec)), "as many as fit shared memory"
    tiles = -(-spec.static.get(k, MAX_EXTENT) // tile_of(schedule, k))
    if tiles < stages:
        stages, why = max(1, tiles), f"{k} has {count(tiles, 'tile')}"
    return replace(spec, schedule=filled(schedule, report, ("pipeline", "stages"), stages, why))


def _infer_store(spec: Spec, report: Report) -> Spec:
    """Threads store the outputs from registers, as many neighbours at once as sizes and alignment allow."""
    copies = dict(spec.schedule.copies)
    for tensor in spec.assigned:
        own, where = copies.get(tensor.name, Copy()), ("schedule", "copies", tensor.name)
        if own.atom is None:
            own = replace(own, atom="universal")
            report.infer("threads store what they load from tensor memory", *where, "atom")
        if own.bits is None and tensor.name == spec.output.name:
            own = replace(own, bits=most_vector(spec, slice_of(spec)) * tensor.dtype.bits)
            why = f"a thread has {slice_of(spec)} neighbours along {product_of(spec).n} at a time"
            report.infer(f"{why}, and sizes and alignment let it move these at once", *where, "bits")
        copies[tensor.name] = own
    spec = replace(spec, schedule=replace(spec.schedule, copies=copies))
    return require_whole_accesses(spec, report, spec.output, vector_of(spec))
