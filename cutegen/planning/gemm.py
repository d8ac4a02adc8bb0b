"""Gemm on the CUDA cores: inference of what was left out.

The shape of the kernel is the multistage SIMT gemm of CUTLASS: both operands travel through shared memory that is
m- resp. n-major, `stages` tiles deep; a thread multiplies outer products of fragments it reads from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import prod

from tensor_layouts import Layout, size

from cutegen.language.dtypes import Dtype
from cutegen.language.layouts import make_layout_tv
from cutegen.language.model import Copy, CopyAtomName, GemmSchedule, KernelSpec, Mma, Predicate, Tensor
from cutegen.planning import layouts
from cutegen.planning.common import (
    aligned_elements,
    default_predication,
    require_divisible,
    resolve_tensors,
    whole_accesses,
)
from cutegen.planning.report import Report
from cutegen.planning.sound import MAX_THREADS, MAX_VALUES, deals_out, is_finished, is_sound
from cutegen.planning.targets import BANK_BYTES, BANKS, SECTOR

THREADS_SIDE = 16  # 16 x 16 threads
STAGES, LEAST_STAGES = 3, 2
FRAGMENT_BYTES = 16  # of neighbours that a thread owns along m and n: one access, also of the output


def names(spec: KernelSpec) -> tuple[Tensor, Tensor, str, str, str]:
    """The operands A [m, k] and B [n, k], and the names of m, n and k."""
    product = spec.compute.matmul
    assert product is not None
    a, b = spec.tensor(product.a), spec.tensor(product.b)
    return a, b, a.shape[0], b.shape[0], a.shape[1]


def resolve(spec: KernelSpec, report: Report) -> KernelSpec:
    """The same kernel with every field of the schedule filled in."""
    spec = resolve_tensors(spec, report, {})
    assert isinstance(spec.schedule, GemmSchedule)
    schedule = _infer_tiler(spec, spec.schedule, report)
    schedule = replace(schedule, mma=_infer_mma(spec, schedule, report))
    schedule = replace(schedule, smem_pad=_infer_padding(spec, schedule, report))
    if schedule.stages is None:
        schedule = _infer_stages(spec, schedule, report)
    if not is_sound(replace(spec, schedule=schedule)):
        return replace(spec, schedule=schedule)  # lint says why
    spec = replace(spec, schedule=replace(schedule, copies=_infer_copies(spec, schedule, report)))
    return _infer_predication(spec, report) if is_finished(spec) else spec


def _infer_stages(spec: KernelSpec, schedule: GemmSchedule, report: Report) -> GemmSchedule:
    k = names(spec)[4]
    tiles = -(-spec.static[k] // tile_of(schedule, k)) if k in spec.static else STAGES
    stages, why = STAGES, "two tiles in flight while one is used"
    if tiles < STAGES:
        stages, why = LEAST_STAGES, f"{k} has {tiles} tile{'s' * (tiles != 1)}"
    report.infer(why, "schedule", "pipeline", "stages")
    return replace(schedule, stages=stages)


def tile_of(schedule: GemmSchedule, mode: str) -> int:
    assert schedule.tiler is not None
    return schedule.tiler[mode]


def _infer_tiler(spec: KernelSpec, schedule: GemmSchedule, report: Report) -> GemmSchedule:
    a, _, m, n, k = names(spec)
    given = dict(schedule.tiler or {})
    # k rows of a tile are copied 16 bytes at a time by 256 threads, which takes 16 rows of a 2-byte type.
    for mode, extent in ((m, 128), (n, 128), (k, 16 if a.dtype.bytes == 2 else 8)):
        if mode not in given:
            given[mode] = extent
            report.infer("the CUTLASS example's tile", "schedule", "tiler", mode)
    return replace(schedule, tiler={mode: given[mode] for mode in (m, n, k)})


def _infer_mma(spec: KernelSpec, schedule: GemmSchedule, report: Report) -> Mma:
    mma, (a, b, m, n, k) = schedule.mma, names(spec)
    if mma.atom is None:
        mma = replace(mma, atom="fma")
        report.infer("the CUDA cores' multiply-add", "schedule", "mma", "atom")
    if mma.thread_layout is None:
        side = THREADS_SIDE
        column = spec.output.major == m
        mma = replace(mma, thread_layout=Layout((side, side, 1), (1, side, 0) if column else (side, 1, 0)))
        report.infer(
            f"{side} x {side} threads, neighbours along {spec.output.major}, where {spec.output.name} is contiguous",
            *("schedule", "mma", "thread_layout"),
        )
    if mma.accumulator is None:
        accumulator = Dtype.f64 if a.dtype is Dtype.f64 else Dtype.f32
        mma = replace(mma, accumulator=accumulator)
        report.infer(f"products of {a.dtype.value}", "schedule", "mma", "accumulator")
    assert mma.thread_layout is not None
    sides = layouts.mode_sizes(mma.thread_layout)
    permutation = dict(mma.permutation)
    for mode, threads, operand in zip((m, n), sides, (a, b), strict=False):
        if mode not in permutation:
            widest = max(operand.dtype.bytes, spec.output.dtype.bytes if mode == spec.output.major else 1)
            run = FRAGMENT_BYTES // widest
            while run > 1 and tile_of(schedule, mode) % (threads * run):
                run //= 2
            permutation[mode] = Layout((threads, run), (run, 1))
            report.infer(f"{run} neighbours a thread, read as one vector", "schedule", "mma", "permutation", mode)
    return replace(mma, permutation={mode: permutation[mode] for mode in (m, n, k) if mode in permutation})


def _infer_padding(spec: KernelSpec, schedule: GemmSchedule, report: Report) -> dict[str, int]:
    a, b, m, n, k = names(spec)
    padding = dict(schedule.smem_pad)
    for tensor, mode in ((a, m), (b, n)):
        if tensor.name in padding:
            continue
        padding[tensor.name], why = 0, "written and read along rows"
        if tensor.major == k:
            sound = is_sound(replace(spec, schedule=schedule))
            padding[tensor.name] = (
                _spreading_pad(spec, schedule, tensor, mode, k) if sound else 16 // tensor.dtype.bytes
            )
            why = "written across rows, which padding spreads over the banks"
        report.infer(f"{tensor.name} is {tensor.major}-major: {why}", "schedule", "smem", tensor.name, "pad")
    return {tensor.name: padding[tensor.name] for tensor in (a, b)}


def _spreading_pad(spec: KernelSpec, schedule: GemmSchedule, tensor: Tensor, mode: str, k: str) -> int:
    """The least padding, in elements, with which threads along k write to most banks and fragments are read whole."""
    block, width, side = tile_of(schedule, mode), tensor.dtype.bytes, int(mode != names(spec)[2])
    whole = min(FRAGMENT_BYTES // width, layouts.unit_stride_run(fragment(schedule, mode, side)[1]))
    given = schedule.copies.get(tensor.name, Copy()).thread_layout
    layout = given or _k_major_threads(block, tile_of(schedule, k), threads_of(schedule), width)
    if layout is None or len(layouts.modes_of(layout)) != 2:
        return whole
    lanes = BANKS * BANK_BYTES // max(width, BANK_BYTES)  # that shared memory serves at once
    along = min(layouts.mode_sizes(layout)[1], lanes)

    def ways(pad: int) -> int:
        """Words that a bank has to deliver, one after the other."""
        places = {
            (row + deep * (block + pad)) * width // BANK_BYTES for row in range(lanes // along) for deep in range(along)
        }
        return max(Counter(word % BANKS for word in places).values())

    return min(range(0, BANKS * BANK_BYTES // width, whole), key=lambda pad: (ways(pad), pad))


def _infer_copies(spec: KernelSpec, schedule: GemmSchedule, report: Report) -> Mapping[str, Copy]:
    a, b, m, n, _k = names(spec)
    copies = dict(schedule.copies)
    for tensor, mode in ((a, m), (b, n)):
        copies[tensor.name] = _infer_operand_copy(spec, schedule, tensor, mode, copies.get(tensor.name, Copy()), report)
    output = spec.output
    copy = copies.get(output.name, Copy())
    if copy.atom is None:
        copy = replace(copy, atom="universal")
        report.infer("registers to global memory", "schedule", "copies", output.name, "atom")
    if copy.bits is None:
        copy = replace(copy, bits=epilogue_run(spec, schedule) * output.dtype.bits)
        report.infer(
            f"neighbours that a thread owns along {output.major}, and the alignment",
            *("schedule", "copies", output.name, "bits"),
        )
    copies[output.name] = copy
    return {t.name: copies[t.name] for t in spec.tensors if t.name in copies}


def threads_of(schedule: GemmSchedule) -> int:
    assert schedule.mma.thread_layout is not None
    return int(size(schedule.mma.thread_layout))


def _infer_operand_copy(
    spec: KernelSpec, schedule: GemmSchedule, tensor: Tensor, mode: str, copy: Copy, report: Report
) -> Copy:
    k = names(spec)[4]
    where = ("schedule", "copies", tensor.name)
    block, depth, threads = tile_of(schedule, mode), tile_of(schedule, k), threads_of(schedule)
    given = copy
    layout = value = None
    vector = 1
    if tensor.major == k:
        # Shared memory is m-major, so that a vector along k has no contiguous destination: one element at a time.
        layout = _k_major_threads(block, depth, threads, tensor.dtype.bytes)
        value = Layout((1, 1))
    else:
        widest = min(aligned_elements(tensor), whole_accesses(spec, mode))
        widest = widest if given.bits is None else max(1, given.bits // tensor.dtype.bits)
        if given.thread_layout is not None:
            along = layouts.mode_sizes(given.thread_layout)[0]
            vector = next((v for v in _halves(widest) if block % (along * v) == 0), 1)
            value = Layout((vector, 1))
        else:
            vector = next((v for v in _halves(widest) if _threads_along(block // v, block % v, depth, threads)), 0)
            layout = _threads_along(block // vector, 0, depth, threads) if vector else None
            value = Layout((vector, 1)) if vector else None
    if given.value_layout is not None and given.thread_layout is None:
        taken = (*layouts.mode_sizes(given.value_layout), 1)[:2]
        if block % taken[0] == 0 and depth % taken[1] == 0:
            rest = block // taken[0], depth // taken[1]
            along_k = tensor.major == k
            width = tensor.dtype.bytes
            found = _k_major_threads(*rest, threads, width) if along_k else _threads_along(rest[0], 0, rest[1], threads)
            layout = layout if found is None else found
    if copy.value_layout is None and value is not None:
        copy = replace(copy, value_layout=value)
        report.infer("one access", *where, "value_layout")
    if copy.thread_layout is None and layout is not None:
        copy = replace(copy, thread_layout=layout)
        report.infer(f"{threads} threads, neighbours along {tensor.major}", *where, "thread_layout")
    if copy.thread_layout is None or copy.value_layout is None:
        return copy  # lint says so
    if copy.bits is None:
        run = copy_run(copy) if tensor.major != k else 1
        bits = min(run, aligned_elements(tensor), whole_accesses(spec, mode)) * tensor.dtype.bits
        copy = replace(copy, bits=bits)
        report.infer("the contiguous run of a thread, and the alignment", *where, "bits")
    if copy.atom is None:
        width = copy.bits or 0
        atom: CopyAtomName = "cp_async" if width in (32, 64, 128) else "universal"
        copy = replace(copy, atom=atom)
        why = "asynchronous" if atom == "cp_async" else f"cp.async moves 4, 8 or 16 bytes, not {width // 8}"
        report.infer(why, *where, "atom")
    return copy


def copy_run(copy: Copy) -> int:
    """Elements along m (n) that a thread copies in a row, first in its order of values."""
    threads, values = copy.thread_layout, copy.value_layout
    if threads is None or values is None or {len(layouts.modes_of(x)) for x in (threads, values)} != {2}:
        return 1
    if not deals_out(threads, MAX_THREADS) or not deals_out(values, MAX_VALUES):
        return 1
    tiler, tv = make_layout_tv(threads, values)
    return layouts.run_along([layouts.coordinates(v, tiler) for v in layouts.offsets(layouts.modes_of(tv)[1])], 0)


def _halves(value: int) -> list[int]:
    result = []
    while value:
        result.append(value)
        value //= 2
    return result


def _threads_along(pieces: int, left: int, depth: int, threads: int) -> Layout | None:
    """Threads along m first: as many as divide its `pieces` (nothing may be `left`) and leave rows that divide k."""
    for along in (d for d in range(min(pieces, threads), 0, -1) if left == 0 and pieces % d == 0):
        if threads % along == 0 and depth % (threads // along) == 0:
            return Layout((along, threads // along), (1, along))
    return None


def _k_major_threads(block: int, depth: int, threads: int, width: int) -> Layout | None:
    """Threads along k first, so that neighbours read neighbours: a sector, or what comes next to it."""
    divisors = [d for d in range(1, min(depth, threads) + 1) if depth % d == 0]
    for along in sorted(divisors, key=lambda d: (d * width > SECTOR, abs(SECTOR - d * width))):
        if threads % along == 0 and block % (threads // along) == 0:
            return Layout((threads // along, along), (along, 1))
    return None


# ---------------------------------------------------------------------------------------------- fragments of C


def fragment(schedule: GemmSchedule, mode: str, side: int) -> tuple[tuple[int, ...], list[int]]:
    """A thread's share of the tile along m (`side` 0) or n (1): its profile, and thread 0's coordinates in order.

    The tiled mma walks positions t + threads * v of the permutation, and repeats it over the tile.
    """
    assert schedule.mma.thread_layout is not None
    threads = layouts.mode_sizes(schedule.mma.thread_layout)[side]
    block = tile_of(schedule, mode)
    permutation = schedule.mma.permutation.get(mode, Layout(threads))
    image = layouts.offsets(permutation)
    own, repeats = len(image) // threads, block // len(image)
    coordinates = [r * len(image) + image[v * threads] for r in range(repeats) for v in range(own)]
    profile = tuple(extent for extent in (own, repeats) if extent > 1) or (1,)
    return profile, coordinates


def epilogue_run(spec: KernelSpec, schedule: GemmSchedule) -> int:
    """Elements of the output that a thread may store at once: its neighbours along the contiguous mode."""
    _, _, m, n, _ = names(spec)
    output = spec.output
    side = 0 if output.major == m else 1
    threads = layouts.mode_sizes(schedule.mma.thread_layout)[side] if schedule.mma.thread_layout else 0
    mode = (m, n)[side]
    permutation = schedule.mma.permutation.get(mode)
    length = int(size(permutation)) if permutation is not None else threads
    if not threads or length % threads or tile_of(schedule, mode) % length:
        return 1
    run = layouts.unit_stride_run(fragment(schedule, mode, side)[1])
    return min(run, aligned_elements(output), whole_accesses(spec, output.major))


def epilogue_vector(spec: KernelSpec) -> int:
    assert isinstance(spec.schedule, GemmSchedule)
    bits = spec.schedule.copies[spec.output.name].bits
    assert bits is not None
    return max(1, bits // spec.output.dtype.bits)


def operand_vector(copy: Copy, tensor: Tensor) -> int:
    assert copy.bits is not None
    return max(1, copy.bits // tensor.dtype.bits)


def smem_bytes(spec: KernelSpec) -> tuple[dict[str, int], int]:
    """Shared memory of A's and B's buffers, and in all with 16-byte alignment."""
    assert isinstance(spec.schedule, GemmSchedule)
    schedule, (a, b, m, n, k) = spec.schedule, names(spec)
    assert schedule.stages is not None
    buffers = {}
    for tensor, mode in ((a, m), (b, n)):
        stride = tile_of(schedule, mode) + schedule.smem_pad[tensor.name]
        # The last column has no padding behind it, but the allocation is rounded up to it all the same.
        elements = stride * (tile_of(schedule, k) * schedule.stages - 1) + tile_of(schedule, mode)
        buffers[tensor.name] = elements * tensor.dtype.bytes
    return buffers, sum(-(-b // 16) * 16 for b in buffers.values())


def _infer_predication(spec: KernelSpec, report: Report) -> KernelSpec:
    assert isinstance(spec.schedule, GemmSchedule)
    schedule, (a, b, m, n, k) = spec.schedule, names(spec)
    predication: dict[str, Predicate] = dict(schedule.predication)
    for tensor, mode in ((a, m), (b, n)):
        vector = operand_vector(schedule.copies[tensor.name], tensor)
        if tensor.major != k:
            why = f"accesses of {vector} elements of {tensor.name} along {mode}"
            spec = require_divisible(spec, report, mode, vector, why)
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


def thread_values(spec: KernelSpec) -> int:
    """Accumulators of a thread."""
    assert isinstance(spec.schedule, GemmSchedule)
    _, _, m, n, _ = names(spec)
    return prod(len(fragment(spec.schedule, mode, side)[1]) for side, mode in enumerate((m, n)))
