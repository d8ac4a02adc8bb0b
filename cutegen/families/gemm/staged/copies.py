"""How a gemm's tensors move, where that was left out: copies, and the threads that make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensor_layouts import Layout

from cutegen import layouts
from cutegen.atoms.copies import CopyAtomName
from cutegen.atoms.targets import SECTOR
from cutegen.dtypes import Dtype
from cutegen.families.gemm.staged.product import column_of, copy_run, epilogue_run, product_of, threads_of, whole_rows
from cutegen.families.gemm.staged.schedule import Copy, GemmSchedule, Spec
from cutegen.families.gemm.words import tile_of
from cutegen.language.model import Tensor
from cutegen.planning.promises import aligned_elements, known_divisor
from cutegen.planning.report import Report

_TILED = ("tiler", "mma.thread_layout", "workspace.*.major")  # what has an operand's tile dealt out to the threads
INFERRED_FROM: Mapping[str, tuple[str, ...]] = {
    "copies.*.atom": ("workspace.*.major", "smem.*.pad"),
    "copies.*.bits": (*_TILED, "smem.*.pad", "copies.*.thread_layout", "copies.*.value_layout"),
    "copies.@.bits": ("mma.permutation",),
    "copies.*.thread_layout": (*_TILED, "smem.*.pad", "copies.*.bits"),
    "copies.*.value_layout": (*_TILED, "smem.*.pad", "copies.*.thread_layout", "copies.*.bits"),
}


def infer_copies(spec: Spec, schedule: GemmSchedule, report: Report) -> Mapping[str, Copy]:
    a, b, m, n, _k = product_of(spec)
    copies = dict(schedule.copies)
    for tensor, mode in ((a, m), (b, n)):
        copies[tensor.name] = _infer_operand_copy(spec, schedule, tensor, mode, copies.get(tensor.name, Copy()), report)
    output = spec.lead
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


def _infer_operand_copy(
    spec: Spec, schedule: GemmSchedule, tensor: Tensor, mode: str, copy: Copy, report: Report
) -> Copy:
    k = product_of(spec).k
    where = ("schedule", "copies", tensor.name)
    block, depth, threads = tile_of(schedule, mode), tile_of(schedule, k), threads_of(schedule)
    given = copy
    layout = value = None
    vector = 1
    if tensor.major == k:
        vector, layout = operand_along_k(spec, schedule, tensor, mode, given)
        value = Layout((1, vector))
    else:
        widest = min(aligned_elements(tensor), whole_rows(spec, tensor))
        widest = min(widest, _aligned_columns(schedule, tensor, mode))
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
        if tensor.major == k:
            run, why = (
                min(copy_run(copy, 1), _promised_along_k(spec, schedule, tensor, copy)),
                f", and what {k} is a multiple of",
            )
        else:
            run, why = min(copy_run(copy, 0), whole_rows(spec, tensor)), ", and the alignment"
            starts, widest = _aligned_columns(schedule, tensor, mode), aligned_elements(tensor)
            if run <= starts < widest or starts < min(run, widest):
                run, why = min(run, starts), f", and columns of shared memory that start at multiples of {starts}"
        copy = replace(copy, bits=min(run, aligned_elements(tensor)) * tensor.dtype.bits)
        report.infer(f"the contiguous run of a thread{why}", *where, "bits")
    if copy.atom is None:
        width = copy.bits or 0
        atom: CopyAtomName = "universal"
        if tensor.major == k and width > tensor.dtype.bits:
            why = f"neighbours along {k} are not neighbours in shared memory: registers lie between"
        elif width in (32, 64, 128):
            atom, why = "cp_async", "asynchronous"
        else:
            why = f"cp.async moves 4, 8 or 16 bytes, not {width // 8}"
        copy = replace(copy, atom=atom)
        report.infer(why, *where, "atom")
    return copy


def _promised_along_k(spec: Spec, schedule: GemmSchedule, tensor: Tensor, copy: Copy) -> int:
    """The widest access along k, in elements, that needs no further promise about its size."""
    if copy.atom == "cp_async":
        return 1  # shared memory is m-major: it takes neighbours along k one by one
    a, b, m, n, k = product_of(spec)
    own, other = (m, n) if tensor.name == a.name else (n, m)
    extent, across = tile_of(schedule, own), tile_of(schedule, other)
    # Columns in the order of threads: cp.async would meet more bank conflicts there
    moved = [x.name for x in (a, b) if column_of(schedule, x.name) is not None]
    favoured = tensor.name in moved if moved else spec.lead.major != own
    narrow = extent < across or extent == across and not favoured
    if a.major == b.major == k and a.dtype is Dtype.f32 and narrow:
        return 1  # the wider side takes the registers that there are
    promised = known_divisor(spec, product_of(spec).k)
    return promised & -promised


def _aligned_columns(schedule: GemmSchedule, tensor: Tensor, mode: str) -> int:
    """The widest access, in elements, that all columns of a tensor's shared memory are aligned to."""
    smem = schedule.smem.get(tensor.name)
    column = tile_of(schedule, mode) + (0 if smem is None or smem.pad is None else smem.pad)
    return column & -column


def operand_along_k(
    spec: Spec, schedule: GemmSchedule, tensor: Tensor, mode: str, given: Copy
) -> tuple[int, Layout | None]:
    """The elements of one access to a k-major operand, and the threads that deal its tile out with such accesses."""
    block, depth, threads = tile_of(schedule, mode), tile_of(schedule, product_of(spec).k), threads_of(schedule)
    widest = min(aligned_elements(tensor), _promised_along_k(spec, schedule, tensor, given))
    if given.bits is not None and given.atom != "cp_async":
        widest = max(1, given.bits // tensor.dtype.bits)
    for vector in _halves(widest):
        if given.thread_layout is not None:
            if depth % (layouts.mode_sizes(given.thread_layout)[-1] * vector) == 0:
                return vector, None
        elif depth % vector == 0:
            layout = _k_major_threads(block, depth // vector, threads, vector * tensor.dtype.bytes)
            if layout is not None:
                return vector, layout
    return 1, None


def _halves(value: int) -> list[int]:
    result = []
    while value:
        result.append(value)
        value //= 2
    return result


def _threads_along(pieces: int, left: int, depth: int, threads: int) -> Layout | None:
    """A layout of threads along m first: as many as divide its `pieces`, and leave rows that divide k.

    None if anything is `left`, or if there is no such layout.
    """
    for along in (d for d in range(min(pieces, threads), 0, -1) if left == 0 and pieces % d == 0):
        if threads % along == 0 and depth % (threads // along) == 0:
            return Layout((along, threads // along), (1, along))
    return None


def _k_major_threads(block: int, depth: int, threads: int, width: int) -> Layout | None:
    """A layout of threads along k first, so that neighbours read neighbours: a sector, or what comes next to it."""
    divisors = [d for d in range(1, min(depth, threads) + 1) if depth % d == 0]
    for along in sorted(divisors, key=lambda d: (d * width > SECTOR, abs(SECTOR - d * width))):
        if threads % along == 0 and block % (threads // along) == 0:
            return Layout((threads // along, along), (along, 1))
    return None
