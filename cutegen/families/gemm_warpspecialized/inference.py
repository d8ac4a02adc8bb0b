"""What was left out of the schedule of a gemm whose warps have roles, and how it is inferred."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cutegen.analysis.words import count
from cutegen.atoms.targets import TARGETS
from cutegen.families.common.planning import default_predication, require_divisible, resolve_tensors
from cutegen.families.gemm_warpspecialized.product import (
    ALIGN,
    COLUMNS,
    MOST_COLUMNS,
    ROWS,
    contiguous_bytes,
    is_finished,
    is_sound,
    most_vector,
    product_of,
    smem_bytes,
    tile_of,
    vector_of,
)
from cutegen.families.gemm_warpspecialized.schedule import SWIZZLES, Copy, Predicate, SharedMemory, Spec
from cutegen.language.edits import with_value
from cutegen.planning.promises import known_divisor
from cutegen.planning.report import Report

INFERRED_FROM: Mapping[str, tuple[str, ...]] = {
    "warps.consumers": ("tiler.M",),
    "tiler": ("warps.consumers",),
    "smem.*.swizzle": ("tiler",),
    "pipeline.stages": ("tiler",),
    "warps.registers": ("warps.consumers",),
}
TARGET = "sm_90a"
LINE = 128  # bytes of a tile along k: of the widest swizzle
FEWER_COLUMNS = 192  # with three warpgroups, whose threads start with 128 registers
STAGES = 4  # at most: more tiles on their way than hide the memory's latency gain nothing
REGISTERS = {1: (56, 240), 2: (40, 232), 3: (32, 160)}  # of producers and consumers, by how many of these there are


def resolve(spec: Spec, report: Report) -> Spec:
    """The spec with every field of the schedule filled in."""
    if not spec.targets:
        spec = replace(spec, targets=(TARGET,))
        report.infer("wgmma is Hopper's", "targets")
    spec = resolve_tensors(_infer_alignment(spec, report), report, {})
    spec = _infer_atom(spec, report)
    spec = _infer_tile(spec, report)
    if not is_sound(spec):
        return spec  # lint says why
    spec = _infer_registers(_infer_swizzles(spec, report), report)
    spec = _infer_stages(spec, report)
    if not is_finished(spec):
        return spec
    spec = _infer_scheduler(spec, report)
    return _infer_epilogue(spec, report)


def _infer_alignment(spec: Spec, report: Report) -> Spec:
    """A and B stand as tensor maps take them, all else as the epilogue's accesses need it."""
    product, output = product_of(spec), spec.output
    copy, paired = spec.schedule.copies.get(output.name), known_divisor(spec, product.n) % 2 == 0
    bits = copy.bits if copy is not None else None
    vector = max(1, bits // output.dtype.bits) if bits else 2 if paired else 1
    vector = vector if output.major in (None, product.n) else 1
    tensors = []
    for tensor in spec.tensors:
        if tensor.align is None:
            mapped = tensor in (product.a, product.b)
            why = (
                f"tensor maps take multiples of {ALIGN} bytes" if mapped else f"accesses of {count(vector, 'element')}"
            )
            tensor = replace(tensor, align=ALIGN if mapped else min(ALIGN, vector * tensor.dtype.bytes))
            report.infer(why, "tensors", tensor.name, "align")
        tensors.append(tensor)
    return replace(spec, tensors=tuple(tensors))


def _infer_atom(spec: Spec, report: Report) -> Spec:
    if spec.schedule.mma.atom is None:
        report.infer("the family's own", "schedule", "mma", "atom")
        return replace(spec, schedule=with_value(spec.schedule, ("mma", "atom"), "wgmma"))
    return spec


def _infer_tile(spec: Spec, report: Report) -> Spec:
    """A tile of two warpgroups' rows, of 256 columns, and of a line of memory along k: 192 KiB in four stages."""
    product, schedule = product_of(spec), spec.schedule
    tiler, consumers = dict(schedule.tiler or {}), schedule.warps.consumers
    if product.m not in tiler:
        rows = spec.static.get(product.m, 2 * ROWS)
        tiler[product.m] = ROWS * (consumers or min(2, -(-rows // ROWS)))
        report.infer(f"{ROWS} rows of each warpgroup that multiplies", "schedule", "tiler", product.m)
    if product.n not in tiler:
        most = MOST_COLUMNS if tiler[product.m] <= 2 * ROWS else FEWER_COLUMNS
        columns = spec.static.get(product.n, most)
        tiler[product.n] = min(most, -(-columns // COLUMNS) * COLUMNS)
        why = "as many columns as one wgmma has" if most == MOST_COLUMNS else "accumulators of a third warpgroup"
        report.infer(why, "schedule", "tiler", product.n)
    if product.k not in tiler:
        tiler[product.k] = LINE // product.a.dtype.bytes
        report.infer(f"{LINE} bytes, the widest swizzle", "schedule", "tiler", product.k)
    if consumers is None:
        consumers = max(1, tiler[product.m] // ROWS)
        report.infer(f"{ROWS} rows of the tile each", "schedule", "warps", "consumers")
    ordered = {mode: tiler[mode] for mode in (product.m, product.n, product.k)}
    warps = replace(schedule.warps, consumers=consumers)
    return replace(spec, schedule=replace(schedule, tiler=ordered, warps=warps))


def _infer_swizzles(spec: Spec, report: Report) -> Spec:
    """The widest swizzle that the tile of an operand fills."""
    found = dict(spec.schedule.smem)
    for tensor, mode in product_of(spec).sides:
        own = found.get(tensor.name, SharedMemory())
        if own.swizzle is None:
            extent = contiguous_bytes(spec, tensor, mode)
            fitting = next((width for width in SWIZZLES if extent % width == 0), None)
            if fitting is None:
                continue  # lint says why
            own = replace(own, swizzle=fitting)
            report.infer(
                f"the widest of which {extent} bytes are a multiple", "schedule", "smem", tensor.name, "swizzle"
            )
        found[tensor.name] = own
    return replace(spec, schedule=replace(spec.schedule, smem=found))


def _infer_registers(spec: Spec, report: Report) -> Spec:
    consumers = spec.schedule.warps.consumers
    assert consumers is not None
    registers = dict(spec.schedule.warps.registers)
    for role, budget in zip(("producer", "consumer"), REGISTERS.get(consumers, REGISTERS[3]), strict=True):
        if role not in registers:
            registers[role] = budget
            why = "a thread that only starts loads needs few" if role == "producer" else "what those leave"
            report.infer(why, "schedule", "warps", "registers", role)
    ordered = {role: registers[role] for role in ("producer", "consumer")}
    return replace(spec, schedule=with_value(spec.schedule, ("warps", "registers"), ordered))


def _infer_stages(spec: Spec, report: Report) -> Spec:
    schedule, k = spec.schedule, product_of(spec).k
    if schedule.pipeline.stages is not None:
        return spec
    stages, why = STAGES, "loads are under way while a tile is multiplied"
    if k in spec.static and (tiles := -(-spec.static[k] // tile_of(schedule, k))) < stages:
        stages, why = max(1, tiles), f"{k} has {tiles} tile{'s' * (tiles != 1)}"
    room = min(TARGETS[target].smem_per_block for target in spec.targets if target in TARGETS)
    while stages > 1 and _smem(spec, stages) > room:
        stages, why = stages - 1, "as many as fit shared memory"
    report.infer(why, "schedule", "pipeline", "stages")
    return replace(spec, schedule=with_value(schedule, ("pipeline", "stages"), stages))


def _smem(spec: Spec, stages: int) -> int:
    return smem_bytes(replace(spec, schedule=with_value(spec.schedule, ("pipeline", "stages"), stages)))


def _infer_scheduler(spec: Spec, report: Report) -> Spec:
    if spec.schedule.scheduler.raster is not None:
        return spec
    report.infer("as CUTLASS numbers blocks", "schedule", "scheduler", "raster")
    return replace(spec, schedule=with_value(spec.schedule, ("scheduler", "raster"), product_of(spec).m))


def _infer_epilogue(spec: Spec, report: Report) -> Spec:
    product, output = product_of(spec), spec.output
    copy = spec.schedule.copies.get(output.name, Copy())
    if copy.bits is None:
        copy = replace(copy, bits=most_vector(spec) * output.dtype.bits)
        why = f"a thread has pairs of neighbours along {product.n}, where sizes and alignment let it store them at once"
        report.infer(why, "schedule", "copies", output.name, "bits")
    spec = replace(spec, schedule=replace(spec.schedule, copies={output.name: copy}))
    vector, major = vector_of(spec), output.major
    assert major is not None
    spec = require_divisible(
        spec, report, major, vector, f"accesses of {vector} elements of {output.name} along {major}"
    )
    predication: dict[str, Predicate] = dict(spec.schedule.predication)
    for mode in (product.m, product.n):
        tile = tile_of(spec.schedule, mode)
        if mode not in predication:
            predication[mode] = "none" if default_predication(spec, report, mode, tile) else "mask"
        if predication[mode] == "none":
            spec = require_divisible(spec, report, mode, tile, f"predication of {mode} is none and its tile is {tile}")
    ordered = {mode: predication[mode] for mode in (product.m, product.n)}
    return replace(spec, schedule=replace(spec.schedule, predication=ordered))
