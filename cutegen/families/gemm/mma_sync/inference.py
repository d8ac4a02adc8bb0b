"""Infers what the schedule of a multistage gemm on tensor cores leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensor_layouts import Layout

from cutegen.atoms.targets import TARGETS
from cutegen.dtypes import Dtype
from cutegen.families.common.planning import resolve_tensors
from cutegen.families.gemm.inferring import filled, infer_swizzle, infer_walk, room_of
from cutegen.families.gemm.mma_sync.product import (
    PAIR,
    ROWS,
    contiguous,
    is_finished,
    is_plain,
    is_sound,
    smem_bytes,
    staged_bytes,
    warps_of,
    widest_vector,
)
from cutegen.families.gemm.mma_sync.schedule import Copy, MmaSyncSchedule, Spec
from cutegen.families.gemm.staged.guards import infer_predication
from cutegen.families.gemm.staged.product import LEAST_STAGES, product_of
from cutegen.families.gemm.words import tile_of
from cutegen.language.edits import with_value
from cutegen.language.model import Tensor
from cutegen.planning.promises import aligned_elements, whole_accesses
from cutegen.planning.report import Report

INFERRED_FROM: Mapping[str, tuple[str, ...]] = {
    "mma.atom_layout": ("tiler",),
    "tiler": ("mma.atom_layout",),
    "smem.*.swizzle": ("tiler",),
    "copies.*.atom": ("copies.*.bits",),
    "copies.*.bits": ("tiler", "mma.atom_layout"),
    "pipeline.stages": ("tiler", "smem.*.swizzle"),
}
WIDE = (128, 256)  # of a tile along m and n, where shared memory holds three stages of it
NARROW = (128, 128)  # where it does not
SMALL = (64, 64)  # where operands travel through registers
LEAST_ASYNC = 32  # bits of one cp.async
LINE = 128  # bytes of a tile along k: a line of memory, and of the widest swizzle
SIDE = 64  # rows and columns of a warp, whose 128 accumulators a thread's registers hold
LEAST_WARPS = 4  # of a block, two of which share a multiprocessor: two for each of its four parts
MOST_STAGES = 4
BAND, WHY_BANDS = 8, "concurrent blocks have about as many rows as columns"  # tiles, which share A and B in L2


def resolve(spec: Spec, report: Report) -> Spec:
    """The spec with every field of the schedule filled in."""
    spec = resolve_tensors(spec, report, {})
    schedule = infer_walk(_infer_mma(spec, spec.schedule, report), report, product_of(spec).m, BAND, WHY_BANDS)
    spec = replace(spec, schedule=_infer_tiler(spec, schedule, report))
    if not is_sound(spec):
        return spec  # lint says why
    spec = replace(spec, schedule=_infer_warps(spec, spec.schedule, report))
    if not is_sound(spec):
        return spec
    schedule, (a, b, m, n, _) = spec.schedule, product_of(spec)
    for tensor, mode in ((a, m), (b, n)):
        schedule = infer_swizzle(schedule, report, tensor, contiguous(spec, tensor, mode)[0] * tensor.dtype.bytes)
    ordered = {t.name: schedule.smem[t.name] for t in (a, b) if t.name in schedule.smem}
    spec = replace(spec, schedule=replace(schedule, smem={**ordered, **schedule.smem}))
    spec = replace(spec, schedule=_infer_copies(spec, spec.schedule, report))
    spec = replace(spec, schedule=_infer_stages(spec, spec.schedule, report))
    return infer_predication(spec, report) if is_finished(spec) else spec


def _infer_mma(spec: Spec, schedule: MmaSyncSchedule, report: Report) -> MmaSyncSchedule:
    if schedule.mma.atom is None:
        schedule = filled(schedule, report, ("mma", "atom"), "mma_sync", "the family's own")
    if schedule.mma.operands is None and product_of(spec).a.dtype is Dtype.f32:
        schedule = filled(schedule, report, ("mma", "operands"), "tf32", "the f32 bits that tensor cores multiply")
    return schedule


def _infer_tiler(spec: Spec, schedule: MmaSyncSchedule, report: Report) -> MmaSyncSchedule:
    """The schedule with a tile of 64 x 64 elements for each of eight warps, or what shared memory holds."""
    product, given = product_of(spec), dict(schedule.tiler or {})
    line, deep = LINE // product.a.dtype.bytes, f"{LINE} bytes, the widest swizzle"
    single = any(_is_copied_singly(spec, x) for x in product.operands)
    if single:
        line, deep = line // 2, f"{LINE // 2} bytes, as far as registers hold a thread's part"
    depth = given.get(product.k, line) * product.a.dtype.bytes
    stages, m, n = schedule.pipeline.stages or LEAST_STAGES + 1, product.m, product.n
    sides, why = WIDE, f"{SIDE} x {SIDE} elements of each of eight warps"
    for others in (NARROW, SMALL):
        tile = given.get(m, sides[0]), given.get(n, sides[1])
        if stages * sum(tile) * depth > room_of(spec):
            sides, why = others, f"as much as shared memory has {'three' if stages == 3 else stages} stages of"
        elif staged_bytes(spec, tile) > room_of(spec):
            sides, why = others, "as much as shared memory holds the sums of"
    if single:
        sides, why = SMALL, "element-wise copies through registers leave space in them"
    if schedule.mma.atom_layout is not None and is_plain(schedule.mma.atom_layout):
        along_m, along_n = warps_of(schedule)
        sides, why = (SIDE * along_m, SIDE * along_n), f"{SIDE} x {SIDE} elements of each warp"
    for mode, extent, unit in zip(product.sides, sides, (ROWS, PAIR), strict=True):
        size = spec.static.get(mode, extent)
        if mode not in given:
            fitting = unit if size < extent else extent
            while fitting < min(size, extent):
                fitting *= 2
            given[mode] = fitting
            report.infer(why if fitting == extent else f"{mode} is {size}", "schedule", "tiler", mode)
    if product.k not in given:
        given[product.k] = line
        report.infer(deep, "schedule", "tiler", product.k)
    return replace(schedule, tiler={mode: given[mode] for mode in (product.m, product.n, product.k)})


def _is_copied_singly(spec: Spec, tensor: Tensor) -> bool:
    """Whether accesses to an operand are of less than the 4 bytes that cp.async moves at least."""
    given = spec.schedule.copies.get(tensor.name, Copy()).bits
    widest = min(aligned_elements(tensor), whole_accesses(spec, tensor.major)) * tensor.dtype.bits
    return (given or widest) < LEAST_ASYNC


def _infer_warps(spec: Spec, schedule: MmaSyncSchedule, report: Report) -> MmaSyncSchedule:
    """The schedule with warps of about 64 x 64 elements each, as many as keep a multiprocessor busy.

    They are powers of two along both modes: so threads copy whole rows of most tiles.
    """
    if schedule.mma.atom_layout is not None:
        return schedule
    product = product_of(spec)
    units = [tile_of(schedule, mode) // unit for mode, unit in zip(product.sides, (ROWS, PAIR), strict=True)]
    counts = [_sharing(own, SIDE // unit) for own, unit in zip(units, (ROWS, PAIR), strict=True)]
    least = LEAST_WARPS if _two_blocks(spec, schedule) else 2 * LEAST_WARPS
    while counts[0] * counts[1] < least:
        longest = sorted((1, 0), key=lambda side: -(units[side] // counts[side]))
        side = next((side for side in longest if units[side] % (2 * counts[side]) == 0), None)
        if side is None:
            break
        counts[side] *= 2
    m, n = (tile_of(schedule, mode) // count for mode, count in zip(product.sides, counts, strict=True))
    warps = Layout((*counts, 1), (1, counts[0], 0))
    return filled(schedule, report, ("mma", "atom_layout"), warps, f"{m} x {n} elements of each warp")


def _sharing(units: int, each: int) -> int:
    """How many warps, a power of two, share `units` evenly, so that each has `each` of them at most if that can be."""
    count = 1
    while units // count > each and units % (2 * count) == 0:
        count *= 2
    return count


def _two_blocks(spec: Spec, schedule: MmaSyncSchedule) -> bool:
    """Whether two blocks with three stages each fit a multiprocessor of every target."""
    product = product_of(spec)
    rows = sum(tile_of(schedule, mode) for mode in product.sides)
    stages = (LEAST_STAGES + 1) * rows * tile_of(schedule, product.k) * product.a.dtype.bytes
    known = [TARGETS[name] for name in spec.targets if name in TARGETS]
    return all(2 * (stages + target.smem_reserved) <= target.smem_per_sm for target in known)


def _infer_copies(spec: Spec, schedule: MmaSyncSchedule, report: Report) -> MmaSyncSchedule:
    """The schedule with the widest accesses that alignment and sizes allow."""
    a, b, m, n, k = product_of(spec)
    copies = dict(schedule.copies)
    for tensor, tile in ((a, (m, k)), (b, (n, k)), (spec.lead, (m, n))):
        copy, where = copies.get(tensor.name, Copy()), ("schedule", "copies", tensor.name)
        if copy.bits is None:
            extents = tile_of(schedule, tile[0]), tile_of(schedule, tile[1])
            vector = widest_vector(spec, tensor, extents)
            if not vector:
                continue  # lint says why
            copy = replace(copy, bits=vector * tensor.dtype.bits)
            report.infer(f"alignment, and what {tensor.major} is a multiple of", *where, "bits")
        if copy.atom is None:
            copy = _infer_atom(tensor, copy, tensor is spec.lead, report)
        copies[tensor.name] = copy
    return replace(schedule, copies={t.name: copies[t.name] for t in spec.tensors if t.name in copies})


def _infer_atom(tensor: Tensor, copy: Copy, stored: bool, report: Report) -> Copy:
    """A copy with its atom: cp.async where that moves as many bytes at once."""
    where = ("schedule", "copies", tensor.name, "atom")
    if stored:
        report.infer("registers to global memory", *where)
        return replace(copy, atom="universal")
    if copy.bits in (32, 64, 128):
        report.infer("asynchronous", *where)
        return replace(copy, atom="cp_async")
    report.infer(f"cp.async moves 4, 8 or 16 bytes, not {(copy.bits or 0) // 8}", *where)
    return replace(copy, atom="universal")


def _infer_stages(spec: Spec, schedule: MmaSyncSchedule, report: Report) -> MmaSyncSchedule:
    """The schedule with as many stages as shared memory holds, up to four."""
    if schedule.pipeline.stages is not None:
        return schedule
    k = product_of(spec).k
    stages, why = MOST_STAGES, "three tiles in flight while one is used"
    tiles = -(-spec.static[k] // tile_of(schedule, k)) if k in spec.static else stages
    if tiles + 1 < stages:
        stages, why = max(LEAST_STAGES, tiles + 1), f"{k} has {tiles} tile{'s' * (tiles != 1)}"

    def fits(count: int) -> bool:
        return smem_bytes(replace(spec, schedule=with_value(schedule, ("pipeline", "stages"), count))) <= room_of(spec)

    while stages > LEAST_STAGES and not fits(stages):
        stages, why = stages - 1, "as many as the shared memory of every target holds"
    return filled(schedule, report, ("pipeline", "stages"), stages, why)
