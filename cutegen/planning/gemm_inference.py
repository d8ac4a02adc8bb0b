"""Gemm on the CUDA cores: inference of what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from cutegen.language.dtypes import Dtype
from cutegen.language.model import GemmSchedule, KernelSpec, Predicate
from cutegen.planning.common import (
    default_predication,
    known_divisor,
    require_divisible,
    resolve_tensors,
)
from cutegen.planning.gemm import epilogue_vector, names, operand_vector, tile_of
from cutegen.planning.gemm_copies import infer_copies, infer_padding
from cutegen.planning.gemm_threads import SHALLOW, few_fit, infer_columns, infer_mma, more_than_one
from cutegen.planning.report import Report
from cutegen.planning.sound import is_finished, is_sound
from cutegen.planning.targets import TARGETS

WIDE = 256  # extent of a tile where 128 is not enough
DEEP = 32  # along k, where operands are copied as they are: half as many barriers as with 16
STAGES, LEAST_STAGES = 3, 2
LONG = 128 * 128 * 16  # multiply-adds of a tile that take longer than the next one takes to arrive
_TILE = "8 x 8 elements a thread, and two blocks on a multiprocessor"


def resolve(spec: KernelSpec, report: Report) -> KernelSpec:
    """The same kernel with every field of the schedule filled in."""
    spec = resolve_tensors(spec, report, {})
    assert isinstance(spec.schedule, GemmSchedule)
    schedule = _infer_tiler(spec, _infer_scheduler(spec, spec.schedule, report), report)
    schedule = infer_columns(spec, schedule, report)
    schedule = replace(schedule, mma=infer_mma(spec, schedule, report))
    schedule = replace(schedule, smem_pad=infer_padding(spec, schedule, report))
    if schedule.stages is None:
        schedule = _infer_stages(spec, schedule, report)
    if not is_sound(replace(spec, schedule=schedule)):
        return replace(spec, schedule=schedule)  # lint says why
    schedule = replace(schedule, copies=infer_copies(spec, schedule, report))
    spec = replace(spec, schedule=_infer_store(spec, schedule, report))
    return _infer_predication(spec, report) if is_finished(spec) else spec


def _infer_tiler(spec: KernelSpec, schedule: GemmSchedule, report: Report) -> GemmSchedule:
    a, b, m, n, k = names(spec)
    given = dict(schedule.tiler or {})
    # One row of threads' loads from shared memory for 64 multiply-adds each; two blocks fit a multiprocessor
    extents, why = {m: 128, n: 128, k: 8 if a.dtype is Dtype.f64 else 16}, dict.fromkeys((m, n, k), _TILE)
    wide = _wide_mode(spec) if schedule.mma.thread_layout is None and not _crowded(spec, schedule) else None
    if schedule.mma.thread_layout is None and few_fit(spec, schedule, {**extents, k: SHALLOW, **given}):
        extents[k] = SHALLOW
        why = dict.fromkeys((m, n, k), "8 x 16 elements a thread, two blocks, and code for a tile that the cache holds")
    elif wide is not None and spec.static.get(wide, WIDE) >= WIDE:
        extents[wide], why[wide] = WIDE, "16 x 8 elements a thread: operands along the summed mode cost more to copy"
    elif _deep_fits(spec, schedule, {**extents, **given}):
        extents[k], why[k] = DEEP, f"{_TILE}; barriers half as often as in a tile {extents[k]} deep"
    for mode, extent in extents.items():
        if mode not in given:
            given[mode] = extent
            report.infer(why[mode], "schedule", "tiler", mode)
    return replace(schedule, tiler={mode: given[mode] for mode in (m, n, k)})


def _deep_fits(spec: KernelSpec, schedule: GemmSchedule, tiler: Mapping[str, int]) -> bool:
    """Whether a tile of f32 is `DEEP`: if no operand is k-major, and two blocks fit a multiprocessor all the same.

    On an H200 4096 and 8192 cubed take 1 % less than with 16. Where an operand is k-major they take 1 to 20 % more.
    """
    a, b, m, n, k = names(spec)
    if a.dtype is not Dtype.f32 or k in (a.major, b.major) or schedule.mma.thread_layout is not None:
        return False
    if (tiler[m], tiler[n]) != (128, 128):
        return False
    exact = k in spec.static or schedule.predication.get(k) == "none"
    if exact and known_divisor(spec, k) % DEEP:
        return False
    bytes_ = (tiler[m] + tiler[n]) * DEEP * a.dtype.bytes * (schedule.stages or LEAST_STAGES)
    targets = [TARGETS[name] for name in spec.targets]
    return all(2 * (bytes_ + target.smem_reserved) <= target.smem_per_sm for target in targets)


def _crowded(spec: KernelSpec, schedule: GemmSchedule) -> bool:
    """Whether a wide tile's registers do not suffice: bands of tiles need some, and so do tiles of two operands."""
    a, b, *_, k = names(spec)
    travelling = [x for x in (a, b) if x.major == k and more_than_one(schedule, x)]
    return (schedule.scheduler.swizzle or 1) > 1 or len(travelling) == 2


def _wide_mode(spec: KernelSpec) -> str | None:
    """The mode along which a tile of f32 is twice as long, if an operand is k-major; found by measurement.

    That of the operand which is not k-major; if both are, the one along which the output is not contiguous.
    """
    a, b, m, n, k = names(spec)
    if a.dtype is not Dtype.f32 or k not in (a.major, b.major):
        return None
    if a.major == b.major == k:
        return m if spec.output.major == n else n
    return n if a.major == k else m


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
    k = names(spec)[4]
    tiles = -(-spec.static[k] // tile_of(schedule, k)) if k in spec.static else STAGES
    stages, why = STAGES, "two tiles in flight while one is used"
    if prod((schedule.tiler or {}).values()) >= LONG:
        stages, why = LEAST_STAGES, "a tile takes longer to multiply than the next one to arrive"
    elif tiles + 1 < STAGES:  # all tiles can be on their way before the first one is used
        stages, why = LEAST_STAGES, f"{k} has {tiles} tile{'s' * (tiles != 1)}"
    report.infer(why, "schedule", "pipeline", "stages")
    return replace(schedule, stages=stages)


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
