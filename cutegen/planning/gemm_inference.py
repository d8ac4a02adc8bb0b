"""Gemm on the CUDA cores: inference of what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensor_layouts import Layout

from cutegen.language.dtypes import Dtype
from cutegen.language.model import Copy, GemmSchedule, KernelSpec, Mma, Predicate, Tensor
from cutegen.planning import layouts
from cutegen.planning.common import (
    aligned_elements,
    default_predication,
    known_divisor,
    require_divisible,
    resolve_tensors,
    whole_accesses,
)
from cutegen.planning.gemm import epilogue_vector, names, operand_vector, tile_of
from cutegen.planning.gemm_copies import FRAGMENT_BYTES, infer_copies, infer_padding
from cutegen.planning.report import Report
from cutegen.planning.sound import is_finished, is_sound
from cutegen.planning.targets import BANK_BYTES, BANKS, MAX_VECTOR_BITS, WARP

THREADS_SIDE = 16  # 16 x 16 threads
FEW = (16, 8)  # threads along m and n that have two blocks on a multiprocessor with 8 x 16 elements each
SHALLOW = 8  # depth along k of a tile whose code for one is small
ACROSS = 8  # elements of a thread along one side of the output, in the inferred tiles that are not wide
LANES = (8, 4)  # of a warp along the sides of the output
ROW = 16  # lanes along the output's contiguous mode where it is written an element at a time
WIDE = 256  # extent of a tile where 128 is not enough
STAGES, LEAST_STAGES = 3, 2
_TILE = "8 x 8 elements a thread, and two blocks on a multiprocessor"


def resolve(spec: KernelSpec, report: Report) -> KernelSpec:
    """The same kernel with every field of the schedule filled in."""
    spec = resolve_tensors(spec, report, {})
    assert isinstance(spec.schedule, GemmSchedule)
    schedule = _infer_tiler(spec, _infer_scheduler(spec, spec.schedule, report), report)
    schedule = _infer_columns(spec, schedule, report)
    schedule = replace(schedule, mma=_infer_mma(spec, schedule, report))
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
    if schedule.mma.thread_layout is None and _few_fit(spec, schedule, {**extents, k: SHALLOW, **given}):
        extents[k] = SHALLOW
        why = dict.fromkeys((m, n, k), "8 x 16 elements a thread, two blocks, and code for a tile that the cache holds")
    elif wide is not None and spec.static.get(wide, WIDE) >= WIDE:
        extents[wide], why[wide] = WIDE, "16 x 8 elements a thread: operands along the summed mode cost more to copy"
    for mode, extent in extents.items():
        if mode not in given:
            given[mode] = extent
            report.infer(why[mode], "schedule", "tiler", mode)
    return replace(schedule, tiler={mode: given[mode] for mode in (m, n, k)})


def _crowded(spec: KernelSpec, schedule: GemmSchedule) -> bool:
    """Whether a wide tile's registers do not suffice: bands of tiles need some, and so do tiles of two operands."""
    a, b, *_, k = names(spec)
    travelling = [x for x in (a, b) if x.major == k and _more_than_one(schedule, x)]
    return (schedule.scheduler.swizzle or 1) > 1 or len(travelling) == 2


def _more_than_one(schedule: GemmSchedule, tensor: Tensor) -> bool:
    """Whether the spec asks for accesses of several elements."""
    copy = schedule.copies.get(tensor.name, Copy())
    return copy.atom == "universal" or (copy.bits or 0) > tensor.dtype.bits


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


def _few_fit(spec: KernelSpec, schedule: GemmSchedule, tiler: Mapping[str, int]) -> bool:
    """Whether threads of 8 x 16 elements are few enough for two blocks, whose code for a tile the cache holds twice.

    That is for two k-major operands of f32, one of which travels through registers. On an H200 8192 cubed takes 3 %
    less than with one block of 256 x 128 x 16, which waits for its own barrier and for instructions. With both operands
    in registers, or with none k-major, the compiler loads fragments far ahead, and then finds no registers for them.
    """
    a, b, m, n, k = names(spec)
    if not (a.major == b.major == k and a.dtype is Dtype.f32):
        return False
    if (tiler[m], tiler[n]) != (128, 128) or tiler[k] > SHALLOW or all(_more_than_one(schedule, x) for x in (a, b)):
        return False
    multiple = known_divisor(spec, k)
    vectors = min(multiple & -multiple, aligned_elements(a), aligned_elements(b)) > 1
    plain = (schedule.scheduler.swizzle or 1) == 1 and schedule.predication.get(k) != "none"
    # Where both are copied an element at a time, their addresses leave registers for nothing else
    return vectors or plain and not _written_singly(spec, schedule)


def _infer_mma(spec: KernelSpec, schedule: GemmSchedule, report: Report) -> Mma:
    mma, (a, _, m, n, k) = schedule.mma, names(spec)
    if mma.atom is None:
        mma = replace(mma, atom="fma")
        report.infer("the CUDA cores' multiply-add", "schedule", "mma", "atom")
    if mma.thread_layout is None:
        layout, why = _threads(spec, schedule)
        mma = replace(mma, thread_layout=layout)
        report.infer(why, "schedule", "mma", "thread_layout")
    if mma.accumulator is None:
        accumulator = Dtype.f64 if a.dtype is Dtype.f64 else Dtype.f32
        mma = replace(mma, accumulator=accumulator)
        report.infer(f"products of {a.dtype.value}", "schedule", "mma", "accumulator")
    assert mma.thread_layout is not None
    sides = layouts.mode_sizes(mma.thread_layout)
    permutation = dict(mma.permutation)
    for side, (mode, threads) in enumerate(zip((m, n), sides, strict=False)):
        if mode not in permutation:
            run, why = _run(spec, schedule, mma.thread_layout, side)
            while run > 1 and tile_of(schedule, mode) % (threads * run):
                run //= 2
            permutation[mode] = Layout((threads, run), (run, 1)) if run > 1 else Layout(threads)
            neighbours = f"{run} neighbours a thread" if run > 1 else "no two neighbours of one thread"
            report.infer(f"{neighbours}, {why}", "schedule", "mma", "permutation", mode)
    return replace(mma, permutation={mode: permutation[mode] for mode in (m, n, k) if mode in permutation})


def _infer_columns(spec: KernelSpec, schedule: GemmSchedule, report: Report) -> GemmSchedule:
    """A column of shared memory in the order of threads, if a thread's neighbours there need not be the output's.

    Where the output is written an element at a time, neighbours in it should belong to neighbouring threads, and where
    an operand is copied to shared memory an element at a time, its place there is free. On an H200 8191 x 4097 x 1000
    takes 4 % less so.
    """
    operands, modes = names(spec)[:2], names(spec)[2:4]
    side = modes.index(str(spec.output.major))
    tensor, mode, mma = operands[side], modes[side], schedule.mma
    asked = tensor.name in schedule.smem_layout or mode in mma.permutation or mma.thread_layout is not None
    assert schedule.tiler is not None
    if asked or not _few_fit(spec, schedule, schedule.tiler) or not _written_singly(spec, schedule):
        return schedule
    threads, run = FEW[side], FRAGMENT_BYTES // tensor.dtype.bytes
    rest = tile_of(schedule, mode) // (threads * run)
    column = Layout((threads, run, rest), (run, 1, threads * run))
    report.infer(
        f"a thread reads {run} as one vector, and neighbours in {spec.output.name} are other threads'",
        "schedule",
        "smem",
        tensor.name,
        "layout",
    )
    return replace(schedule, smem_layout={**schedule.smem_layout, tensor.name: column})


def _run(spec: KernelSpec, schedule: GemmSchedule, threads: Layout, side: int) -> tuple[int, str]:
    """Neighbours that a thread has along m (`side` 0) or n (1), and why.

    They are read from shared memory at once, and along the output's contiguous mode they are also written at once.
    """
    operands, modes = names(spec)[:2], names(spec)[2:4]
    bytes_ = operands[side].dtype.bytes
    run, why = FRAGMENT_BYTES // bytes_, "read as one vector"
    if modes[side] != spec.output.major:
        return run, why
    if operands[side].name in schedule.smem_layout:
        return 1, f"so that neighbours of {spec.output.name} are written together"
    if _written_singly(spec, schedule):
        across = tile_of(schedule, modes[1 - side]) // layouts.mode_sizes(threads)[1 - side]
        if across < 2 * ACROSS:
            return run, why
        # Measured with f32 of 8191 x 4097 x 1000 on an H200: 2 % faster with 16 elements across, 4 % slower with 8
        return run // 2, f"so that a store takes fewer sectors, with {across} elements a thread along {modes[1 - side]}"
    lanes = sum(lane < WARP for lane in layouts.offsets(layouts.modes_of(threads)[side]))
    stored = FRAGMENT_BYTES // spec.output.dtype.bytes
    spread = lanes * stored * bytes_  # of the reads from shared memory: no two in one bank
    if stored < run or run < stored and spread <= BANKS * BANK_BYTES:
        return stored, "written as one vector"
    return run, why


def _written_singly(spec: KernelSpec, schedule: GemmSchedule) -> bool:
    """Whether the output is written an element at a time."""
    output = spec.output
    written = schedule.copies.get(output.name, Copy()).bits or MAX_VECTOR_BITS
    return min(written // output.dtype.bits, aligned_elements(output), whole_accesses(spec, output.major)) <= 1


def _threads(spec: KernelSpec, schedule: GemmSchedule) -> tuple[Layout, str]:
    """Threads along m and n, neighbours along the output's contiguous mode, and why they are arranged so.

    A warp of 8 x 4 reads 12 different fragments where one of 2 x 16 reads 18. The 8 are along the longer side of the
    tile, or along m where threads are few.
    """
    a, b, m, n, _ = names(spec)
    assert schedule.tiler is not None
    along, other = (m, n) if spec.output.major == m else (n, m)
    few = _few_fit(spec, schedule, schedule.tiler)
    sides = dict(zip((m, n), FEW if few else (THREADS_SIDE, THREADS_SIDE), strict=True))
    if _written_singly(spec, schedule):
        row = min(ROW, sides[along])
        lanes = {along: row, other: WARP // row}
        why = f"{row} lanes along {along}, where {spec.output.name} is written an element at a time"
        if (a.major, b.major) == (m, n):  # pairs leave the compiler too few registers here
            modes = {along: Layout(row, 1), other: Layout(sides[other], row)}
            return Layout((modes[m].shape, modes[n].shape, 1), (modes[m].stride, modes[n].stride, 0)), why
    else:
        longer = m if few else along if tile_of(schedule, along) > tile_of(schedule, other) else other
        lanes = {mode: LANES[mode != longer] for mode in (along, other)}
        why = f"a warp of {lanes[along]} along {along} and {lanes[other]} along {other} shares most of what it reads"
    modes, threads = {}, WARP
    for mode, (shape, stride) in zip((along, other), _interleaved(lanes[along], lanes[other]), strict=True):
        warps = sides[mode] // lanes[mode]  # along it
        modes[mode] = Layout((*shape, warps), (*stride, threads)) if warps > 1 else Layout(shape, stride)
        threads *= warps
    return Layout((modes[m].shape, modes[n].shape, 1), (modes[m].stride, modes[n].stride, 0)), why


def _interleaved(along: int, other: int) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Shape and strides of a warp's lanes along two modes: neighbours in pairs along the first, pairs along the other.

    Every second pair of lanes then has the same place along one mode, and every pair of pairs along the other, and so
    shared memory serves both halves of a quarter of the warp's 16-byte reads together (`analysis.memory`).
    """
    return ((2, along // 2), (1, 2 * other)), ((other,), (2,))


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
    if tiles + 1 < STAGES:  # all tiles can be on their way before the first one is used
        stages, why = LEAST_STAGES, f"{k} has {tiles} tile{'s' * (tiles != 1)}"
    report.infer(why, "schedule", "pipeline", "stages")
    return replace(schedule, stages=stages)


def _infer_store(spec: KernelSpec, schedule: GemmSchedule, report: Report) -> GemmSchedule:
    """Where operands travel through registers: before the last step of a tile, or two earlier if the tile is shallow.

    Measured on an H200: earlier takes 2 % off a tile 8 deep, since reads of the next tile do not queue behind the
    stores. Of one 16 deep it makes the compiler load fragments ahead until registers are short, which costs 5 %.
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
