"""Gemm on the CUDA cores: inference of what was left out."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from cutegen.language.model import GemmSchedule, KernelSpec, Predicate
from cutegen.planning.common import (
    default_predication,
    require_divisible,
    resolve_tensors,
)
from cutegen.planning.gemm import LEAST_STAGES, STAGES, epilogue_vector, names, operand_vector, smem_bytes, tile_of
from cutegen.planning.gemm_copies import infer_copies, infer_padding
from cutegen.planning.gemm_threads import SHALLOW, SIDE, infer_columns, infer_mma
from cutegen.planning.gemm_tiler import infer_tiler
from cutegen.planning.gemm_workspace import infer_workspaces
from cutegen.planning.report import Report
from cutegen.planning.sound import is_finished, is_sound
from cutegen.planning.targets import TARGETS

LONG = SIDE * SIDE * 32  # multiply-adds of a tile: 4096 cycles of a multiprocessor that does 128 in each


def resolve(spec: KernelSpec, report: Report) -> KernelSpec:
    """The same kernel with every field of the schedule filled in."""
    spec = resolve_tensors(spec, report, {})
    assert isinstance(spec.schedule, GemmSchedule)
    schedule = infer_tiler(spec, _infer_scheduler(spec, spec.schedule, report), report)
    schedule = infer_columns(spec, schedule, report)
    schedule = replace(schedule, mma=infer_mma(spec, schedule, report))
    schedule = replace(schedule, smem_pad=infer_padding(spec, schedule, report))
    if schedule.stages is None:
        schedule = _infer_stages(spec, schedule, report)
    if not is_sound(replace(spec, schedule=schedule)):
        return replace(spec, schedule=schedule)  # lint says why
    schedule = replace(schedule, copies=infer_copies(spec, schedule, report))
    spec = replace(spec, schedule=_infer_store(spec, schedule, report))
    if not is_finished(spec):
        return spec
    spec = _infer_predication(spec, report)
    return replace(spec, schedule=infer_workspaces(spec, report))  # k's promised divisor is known by now


def _infer_scheduler(spec: KernelSpec, schedule: GemmSchedule, report: Report) -> GemmSchedule:
    """No bands: on the CUDA cores DRAM keeps up with a plain raster along m.

    At worst all blocks that run together share a tile of B, and each reads a tile of A of its own: m * k elements for
    m * n * k multiply-adds, which are 2 * n / (bytes of an element) operations a byte. That is 64 for the inferred tile
    in f32, above what the GPUs of most targets are balanced for (`analysis.gpus`); with fewer rows more blocks share.
    """
    scheduler, m = schedule.scheduler, names(spec)[2]
    if scheduler.raster is None:
        scheduler = replace(scheduler, raster=m)
        report.infer("as CUTLASS numbers blocks", "schedule", "scheduler", "raster")
    if scheduler.swizzle is None:
        scheduler = replace(scheduler, swizzle=1)
        report.infer("a plain raster: DRAM keeps up with the CUDA cores", "schedule", "scheduler", "swizzle")
    return replace(schedule, scheduler=scheduler)


def _infer_stages(spec: KernelSpec, schedule: GemmSchedule, report: Report) -> GemmSchedule:
    """Three, or two where a third one gains nothing or finds no room.

    On an H200 4096 cubed of f32 in tiles of 256 x 128 x 16 takes 0.5 % less with two if B is k-major, and 0.6 % more if
    A is; 8192 cubed takes 0.5 and 0.1 % less.
    """
    *_, m, n, k = names(spec)
    sides, depth = [tile_of(schedule, mode) for mode in (m, n)], tile_of(schedule, k)
    tiles = -(-spec.static[k] // depth) if k in spec.static else STAGES
    stages, why = STAGES, "two tiles in flight while one is used"
    if tiles + 1 < STAGES:  # all tiles can be on their way before the first one is used
        stages, why = LEAST_STAGES, f"{k} has {tiles} tile{'s' * (tiles != 1)}"
    elif min(sides) >= SIDE and prod(sides) * depth >= LONG:
        stages, why = LEAST_STAGES, "a tile takes longer to multiply than the next one to arrive"
    elif not _fit(spec, schedule, STAGES):
        stages, why = LEAST_STAGES, f"{STAGES} do not fit the shared memory of every target"
    report.infer(why, "schedule", "pipeline", "stages")
    return replace(schedule, stages=stages)


def _fit(spec: KernelSpec, schedule: GemmSchedule, stages: int) -> bool:
    """Whether so many stages fit the shared memory that a block has on each target."""
    bytes_ = smem_bytes(replace(spec, schedule=replace(schedule, stages=stages)))[1]
    return all(bytes_ <= TARGETS[name].smem_per_block for name in spec.targets if name in TARGETS)


def _infer_store(spec: KernelSpec, schedule: GemmSchedule, report: Report) -> GemmSchedule:
    """Where operands travel through registers: before the last step of a tile, or two earlier if the tile is shallow.

    Measured on an H200: earlier takes 2 % off a tile 8 deep, since reads of the next tile do not queue behind the
    stores. Of one 16 deep it makes the compiler load fragments ahead until registers are short, and costs 5 % or more.
    """
    a, b, *_, k = names(spec)
    if schedule.store is not None or all(schedule.copies[x.name].atom != "universal" for x in (a, b)):
        return schedule
    depth = tile_of(schedule, k)
    store, why = depth - 1, "as late as the barrier lets it"
    if depth <= SHALLOW:
        store, why = max(0, depth - 3), "ahead of the barrier, so that reads behind it need not queue"
    report.infer(why, "schedule", "pipeline", "store")
    return replace(schedule, store=store)


def _infer_predication(spec: KernelSpec, report: Report) -> KernelSpec:
    assert isinstance(spec.schedule, GemmSchedule)
    schedule, (a, b, m, n, k) = spec.schedule, names(spec)
    predication: dict[str, Predicate] = dict(schedule.predication)
    for tensor in (a, b):
        if tensor.name in schedule.workspace:
            continue  # whose rows are padded
        vector = operand_vector(schedule.copies[tensor.name], tensor)
        assert tensor.major is not None
        why = f"accesses of {vector} elements of {tensor.name} along {tensor.major}"
        spec = require_divisible(spec, report, tensor.major, vector, why)
    vector, major = epilogue_vector(spec), spec.output.major
    assert major is not None
    why = f"accesses of {vector} elements of {spec.output.name} along {major}"
    spec = require_divisible(spec, report, major, vector, why)
    for mode in (m, n, k):
        tile = tile_of(schedule, mode)
        if mode not in predication:
            masked: Predicate = "residue_first" if mode == k else "mask"
            predication[mode] = default_predication(spec, report, mode, tile, masked)
        if predication[mode] == "none":
            why = f"predication of {mode} is none and its tile is {tile}"
            spec = require_divisible(spec, report, mode, tile, why)
    ordered = {mode: predication[mode] for mode in (m, n, k)}
    return replace(spec, schedule=replace(schedule, predication=ordered))
