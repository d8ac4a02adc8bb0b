"""Which thread of a gemm on the CUDA cores has which part of a tile, where that was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensor_layouts import Layout

from cutegen import layouts
from cutegen.atoms.targets import BANK_BYTES, BANKS, MAX_VECTOR_BITS, WARP
from cutegen.dtypes import Dtype
from cutegen.families.gemm.staged.product import FRAGMENT_BYTES, column_of, product_of
from cutegen.families.gemm.staged.schedule import Copy, GemmSchedule, Mma, Spec
from cutegen.families.gemm.words import tile_of
from cutegen.language.edits import with_value
from cutegen.language.model import Tensor
from cutegen.planning.promises import aligned_elements, known_divisor, whole_accesses
from cutegen.planning.report import Report

SIDE = 128  # extent of a tile along m and n
THREADS_SIDE = 16  # 16 x 16 threads
FEW = (16, 8)  # threads along m and n that have two blocks on a multiprocessor with 8 x 16 elements each
SHALLOW = 8  # depth along k of a tile whose code for one is small
ACROSS = 8  # elements of a thread along one side of the output, in the inferred tiles that are not wide
LANES = (8, 4)  # of a warp along the sides of the output
ROW = 16  # lanes along the output's contiguous mode where it is written an element at a time

INFERRED_FROM: Mapping[str, tuple[str, ...]] = {"mma.permutation": ("tiler", "mma.thread_layout")}


def infer_mma(spec: Spec, schedule: GemmSchedule, report: Report) -> Mma:
    mma, (a, _, m, n, k) = schedule.mma, product_of(spec)
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
    if len(sides) < 2:
        return mma  # lint says why
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


def infer_columns(spec: Spec, schedule: GemmSchedule, report: Report) -> GemmSchedule:
    """A column of shared memory in the order of threads, if a thread's neighbours there need not be the output's.

    Where the output is written an element at a time, neighbours in it should belong to neighbouring threads, and where
    an operand is copied to shared memory an element at a time, its place there is free. On an H200 8191 x 4097 x 1000
    takes 4 % less so.
    """
    operands, modes = product_of(spec).operands, product_of(spec).sides
    side = modes.index(str(spec.output.major))
    tensor, mode, mma = operands[side], modes[side], schedule.mma
    asked = column_of(schedule, tensor.name) is not None or mode in mma.permutation or mma.thread_layout is not None
    assert schedule.tiler is not None
    if asked or not few_fit(spec, schedule, schedule.tiler) or not _written_singly(spec, schedule):
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
    return with_value(schedule, ("smem", tensor.name, "layout"), column)


def few_fit(spec: Spec, schedule: GemmSchedule, tiler: Mapping[str, int]) -> bool:
    """Whether threads of 8 x 16 elements are few enough for two blocks, whose code for a tile the cache holds twice.

    That is for two k-major operands of f32, one of which travels through registers. On an H200 4096 and 8192 cubed take
    1.5 % less than with one block of 256 x 128 x 16, which waits for its own barrier and for instructions. With both
    operands in registers, or with none k-major, the compiler loads fragments far ahead, and then is short of registers.
    """
    a, b, m, n, k = product_of(spec)
    if not (a.major == b.major == k and a.dtype is Dtype.f32):
        return False
    if (tiler[m], tiler[n]) != (SIDE, SIDE) or tiler[k] > SHALLOW or all(more_than_one(schedule, x) for x in (a, b)):
        return False
    multiple = known_divisor(spec, k)
    vectors = min(multiple & -multiple, aligned_elements(a), aligned_elements(b)) > 1
    plain = (schedule.scheduler.swizzle or 1) == 1 and schedule.predication.get(k) != "none"
    # Where both are copied an element at a time, their addresses leave registers for nothing else
    return vectors or plain and not _written_singly(spec, schedule)


def more_than_one(schedule: GemmSchedule, tensor: Tensor) -> bool:
    """Whether the spec asks for accesses of several elements."""
    copy = schedule.copies.get(tensor.name, Copy())
    return copy.atom == "universal" or (copy.bits or 0) > tensor.dtype.bits


def _run(spec: Spec, schedule: GemmSchedule, threads: Layout, side: int) -> tuple[int, str]:
    """Neighbours that a thread has along m (`side` 0) or n (1), and why.

    They are read from shared memory at once, and along the output's contiguous mode they are also written at once.
    """
    operands, modes = product_of(spec).operands, product_of(spec).sides
    bytes_ = operands[side].dtype.bytes
    run, why = FRAGMENT_BYTES // bytes_, "read as one vector"
    if modes[side] != spec.output.major:
        return run, why
    if column_of(schedule, operands[side].name) is not None:
        return 1, f"so that neighbours of {spec.output.name} are written together"
    if _written_singly(spec, schedule):
        across = tile_of(schedule, modes[1 - side]) // layouts.mode_sizes(threads)[1 - side]
        if across < 2 * ACROSS:
            return run, why
        # Measured with f32 of 8191 x 4097 x 1000 on an H200: 2 % faster with 16 elements across, 4 % slower with 8
        return run // 2, f"so that a store takes fewer sectors, with {across} elements a thread along {modes[1 - side]}"
    half = WARP // 2  # whose 16-byte reads are served together
    lanes = layouts.count_below(layouts.modes_of(threads)[side], half)
    stored = FRAGMENT_BYTES // spec.output.dtype.bytes
    spread = lanes * stored * bytes_  # of the reads from shared memory: no two in one bank
    if stored < run or run < stored and spread <= BANKS * BANK_BYTES:
        return stored, "written as one vector"
    return run, why


def _written_singly(spec: Spec, schedule: GemmSchedule) -> bool:
    """Whether the output is written an element at a time."""
    output = spec.output
    written = schedule.copies.get(output.name, Copy()).bits or MAX_VECTOR_BITS
    return min(written // output.dtype.bits, aligned_elements(output), whole_accesses(spec, output.major)) <= 1


def _threads(spec: Spec, schedule: GemmSchedule) -> tuple[Layout, str]:
    """Threads along m and n, neighbours along the output's contiguous mode, and why they are arranged so.

    A warp of 8 x 4 reads 12 different fragments where one of 2 x 16 reads 18. The 8 are along the longer side of the
    tile, or along m where threads are few.
    """
    a, b, m, n, _ = product_of(spec)
    assert schedule.tiler is not None
    along, other = (m, n) if spec.output.major == m else (n, m)
    few = few_fit(spec, schedule, schedule.tiler)
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
    """Shape and strides of a warp's lanes along two modes, dealt out in pairs.

    Lanes whose numbers differ in the last bit agree along the second mode, those that differ in the bit before it along
    the first, and so shared memory serves two quarters of the warp's 16-byte reads together (`analysis.memory`).
    """
    return ((2, along // 2), (1, 2 * other)), ((other,), (2,))
