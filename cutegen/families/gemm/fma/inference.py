"""Infers what the schedule of a gemm on the CUDA cores leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from cutegen.atoms.targets import TARGETS
from cutegen.families.common.planning import resolve_tensors
from cutegen.families.gemm.fma import threads
from cutegen.families.gemm.fma.threads import SHALLOW, SIDE, infer_columns, infer_mma
from cutegen.families.gemm.fma.tiler import infer_tiler
from cutegen.families.gemm.fma.workspace import infer_workspaces
from cutegen.families.gemm.inferring import filled, infer_walk
from cutegen.families.gemm.staged import copies, shared_memory
from cutegen.families.gemm.staged.copies import infer_copies
from cutegen.families.gemm.staged.guards import infer_predication
from cutegen.families.gemm.staged.product import LEAST_STAGES, STAGES, is_finished, is_sound, product_of
from cutegen.families.gemm.staged.schedule import GemmSchedule, Spec
from cutegen.families.gemm.staged.shared_memory import infer_padding, smem_bytes
from cutegen.families.gemm.words import tile_of
from cutegen.language.edits import with_value
from cutegen.planning.report import Report

INFERRED_FROM: Mapping[str, tuple[str, ...]] = {
    **threads.INFERRED_FROM,
    **copies.INFERRED_FROM,
    **shared_memory.INFERRED_FROM,
    "pipeline.store": ("workspace.*.major",),
}
LONG = SIDE * SIDE * 32  # multiply-adds of a tile: 4096 cycles of a multiprocessor that does 128 in each


def resolve(spec: Spec, report: Report) -> Spec:
    """The spec with every field of the schedule filled in."""
    spec = resolve_tensors(spec, report, {})
    schedule = infer_tiler(spec, _infer_scheduler(spec, spec.schedule, report), report)
    schedule = infer_columns(spec, schedule, report)
    schedule = replace(schedule, mma=infer_mma(spec, schedule, report))
    schedule = infer_padding(spec, schedule, report)
    if schedule.pipeline.stages is None:
        schedule = _infer_stages(spec, schedule, report)
    if not is_sound(replace(spec, schedule=schedule)):
        return replace(spec, schedule=schedule)  # lint says why
    schedule = replace(schedule, copies=infer_copies(spec, schedule, report))
    spec = replace(spec, schedule=_infer_store(spec, schedule, report))
    if not is_finished(spec):
        return spec
    spec = infer_predication(spec, report)
    return replace(spec, schedule=infer_workspaces(spec, report))  # k's promised divisor is known by now


def _infer_scheduler(spec: Spec, schedule: GemmSchedule, report: Report) -> GemmSchedule:
    """The schedule with a walk of tiles that has no bands.

    On the CUDA cores DRAM keeps up with a plain raster along m. At worst all blocks that run together share a tile of
    B, and each reads a tile of A of its own: m * k elements for m * n * k multiply-adds, which are 2 * n / (bytes of an
    element) operations a byte. That is 64 for the inferred tile in f32, above what the GPUs of most targets are
    balanced for (`atoms.gpus`); with fewer rows more blocks share.
    """
    return infer_walk(schedule, report, product_of(spec).m, 1, "a plain raster: DRAM keeps up with the CUDA cores")


def _infer_stages(spec: Spec, schedule: GemmSchedule, report: Report) -> GemmSchedule:
    """The schedule with three stages, or two where a third one gains nothing or finds no room.

    On an H200 4096 cubed of f32 in tiles of 256 x 128 x 16 takes 0.5 % less with two if B is k-major, and 0.6 % more if
    A is; 8192 cubed takes 0.5 and 0.1 % less.
    """
    *_, m, n, k = product_of(spec)
    sides, depth = [tile_of(schedule, mode) for mode in (m, n)], tile_of(schedule, k)
    tiles = -(-spec.static[k] // depth) if k in spec.static else STAGES
    stages, why = STAGES, "two tiles in flight while one is used"
    if tiles + 1 < STAGES:  # all tiles can be on their way before the first one is used
        stages, why = LEAST_STAGES, f"{k} has {tiles} tile{'s' * (tiles != 1)}"
    elif min(sides) >= SIDE and prod(sides) * depth >= LONG:
        stages, why = LEAST_STAGES, "multiplying a tile takes longer than loading the next"
    elif not _fit(spec, schedule, STAGES):
        stages, why = LEAST_STAGES, f"{STAGES} do not fit the shared memory of every target"
    return filled(schedule, report, ("pipeline", "stages"), stages, why)


def _fit(spec: Spec, schedule: GemmSchedule, stages: int) -> bool:
    """Whether so many stages fit the shared memory that a block has on each target."""
    bytes_ = smem_bytes(replace(spec, schedule=with_value(schedule, ("pipeline", "stages"), stages)))[1]
    return all(bytes_ <= TARGETS[name].smem_per_block for name in spec.targets if name in TARGETS)


def _infer_store(spec: Spec, schedule: GemmSchedule, report: Report) -> GemmSchedule:
    """The schedule with the step of a tile before which operands that travel through registers are stored.

    It is the last step, or two steps earlier if the tile is shallow. Measured on an H200: earlier takes 2 % off a tile
    8 deep, since reads of the next tile do not queue behind the stores. Of one 16 deep it makes the compiler load
    fragments ahead until registers are short, and costs 5 % or more.
    """
    a, b, *_, k = product_of(spec)
    if schedule.pipeline.store is not None or all(schedule.copies[x.name].atom != "universal" for x in (a, b)):
        return schedule
    depth = tile_of(schedule, k)
    store, why = depth - 1, "as late as the barrier allows"
    if depth <= SHALLOW:
        store, why = max(0, depth - 3), "before the barrier, so that reads after it do not queue"
    return filled(schedule, report, ("pipeline", "store"), store, why)
