"""The tile of a thread block of a gemm on the CUDA cores, where it was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cutegen.atoms.targets import MAX_VECTOR_BITS, TARGETS
from cutegen.dtypes import Dtype
from cutegen.families.gemm.fma.threads import SHALLOW, SIDE, few_fit, more_than_one
from cutegen.families.gemm.staged.product import LEAST_STAGES, product_of, whole_rows
from cutegen.families.gemm.staged.schedule import Copy, GemmSchedule, Spec
from cutegen.families.gemm.staged.shared_memory import smem_bytes
from cutegen.language.edits import with_value
from cutegen.language.model import Tensor
from cutegen.planning.promises import aligned_elements, known_divisor
from cutegen.planning.report import Report

WIDE = 256  # extent along m or n where `SIDE` is not enough
DEEP = 32  # along k, where operands are copied as they are: half as many barriers as with 16
DEEP_TARGETS = ("sm_80", "sm_90a")  # for sm_100a and sm_103a the compiler spills then; the rest lack shared memory
_TILE = "8 x 8 elements a thread, and two blocks on a multiprocessor"


def infer_tiler(spec: Spec, schedule: GemmSchedule, report: Report) -> GemmSchedule:
    """The schedule with the extents of a tile along m, n and k, in elements; what the spec gives stays as it is."""
    a, b, m, n, k = product_of(spec)
    given = dict(schedule.tiler or {})
    # One row of threads' loads from shared memory for 64 multiply-adds each; two blocks fit a multiprocessor
    extents, why = {m: SIDE, n: SIDE, k: 8 if a.dtype is Dtype.f64 else 16}, dict.fromkeys((m, n, k), _TILE)
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


def _deep_fits(spec: Spec, schedule: GemmSchedule, tiler: Mapping[str, int]) -> bool:
    """Whether a tile of f32 may be `DEEP` along k, with `tiler` along m and n, and keep two blocks on a multiprocessor.

    On an H200 4096 and 8192 cubed take 1 % less so. It takes all of a thread's registers, hence only for the schedule
    that was measured: 16-byte cp.async of both operands, neither of them k-major, no bands, and no matrix that the
    epilogue reads. Where an operand is k-major, the same two sizes take 1 to 20 % more.
    """
    a, b, m, n, k = product_of(spec)
    bands = (schedule.scheduler.swizzle or 1) > 1
    if bands or schedule.mma.thread_layout is not None or (tiler[m], tiler[n]) != (SIDE, SIDE):
        return False
    if any(spec.static.get(mode, SIDE) < SIDE for mode in (m, n)):
        return False
    divisor = known_divisor(spec, k)
    exact = k in spec.static or schedule.predication.get(k) == "none" or divisor % tiler[k] == 0
    if exact and divisor % DEEP:  # a part of the last tile would be multiplied for nothing, or needs another promise
        return False
    others = [x for x in spec.tensors if x.name not in (a.name, b.name) and x.name in spec.compute.names()]
    if any(len(x.shape) > 1 for x in others) or not all(_copied_as_rows(spec, schedule, x) for x in (a, b)):
        return False
    stages = schedule.pipeline.stages or LEAST_STAGES
    deep = with_value(replace(schedule, tiler={**tiler, k: DEEP}), ("pipeline", "stages"), stages)
    bytes_ = smem_bytes(replace(spec, schedule=deep))[1]
    return all(
        name in DEEP_TARGETS and 2 * (bytes_ + TARGETS[name].smem_reserved) <= TARGETS[name].smem_per_sm
        for name in spec.targets
    )


def _copied_as_rows(spec: Spec, schedule: GemmSchedule, operand: Tensor) -> bool:
    """Whether an operand of f32 that is not k-major is copied past the registers, in vectors of 16 bytes."""
    if operand.dtype is not Dtype.f32 or operand.major == product_of(spec).k:
        return False
    copy = schedule.copies.get(operand.name, Copy())
    vector = MAX_VECTOR_BITS // operand.dtype.bits
    possible = min(aligned_elements(operand), whole_rows(spec, operand))
    return copy.atom in (None, "cp_async") and copy.bits in (None, MAX_VECTOR_BITS) and possible >= vector


def _crowded(spec: Spec, schedule: GemmSchedule) -> bool:
    """Whether a wide tile's registers do not suffice: bands of tiles need some, and so do tiles of two operands."""
    a, b, *_, k = product_of(spec)
    travelling = [x for x in (a, b) if x.major == k and more_than_one(schedule, x)]
    return (schedule.scheduler.swizzle or 1) > 1 or len(travelling) == 2


def _wide_mode(spec: Spec) -> str | None:
    """The mode along which a tile of f32 is twice as long, if an operand is k-major; found by measurement.

    It is that of the operand which is not k-major; if both are, the one along which the output is not contiguous.
    """
    a, b, m, n, k = product_of(spec)
    if a.dtype is not Dtype.f32 or k not in (a.major, b.major):
        return None
    if a.major == b.major == k:
        return m if spec.output.major == n else n
    return n if a.major == k else m
