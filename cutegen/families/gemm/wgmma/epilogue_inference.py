"""Infers which tensors of the epilogue of a warp-specialised gemm move by tensor maps, in what pieces, through how many
buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cutegen.analysis.words import count
from cutegen.families.common.planning import require_divisible
from cutegen.families.gemm.inferring import require_whole_accesses, room_of
from cutegen.families.gemm.wgmma.alignment_inference import infer_alignment, obstacle_of
from cutegen.families.gemm.wgmma.allocation import smem_bytes
from cutegen.families.gemm.wgmma.product import (
    ALIGN,
    MOST_BUFFERS,
    in_turn,
    most_vector,
    own_columns,
    passing,
    pieces,
    product_of,
    read_beside,
    shared_buffers,
    sources,
    stands_anywhere,
    vector_of,
)
from cutegen.families.gemm.wgmma.schedule import Copy, Spec
from cutegen.language.edits import with_value
from cutegen.language.model import Tensor
from cutegen.planning.report import Report

LINE = 128  # bytes of a piece along the contiguous mode, at most: of the widest swizzle
PIECES = (64, 32, 16)  # columns that are stored at a time: multiples of what one stmatrix writes
BUFFERS = (2, MOST_BUFFERS)  # of each warpgroup: at least, and at most
ENOUGH_STAGES = 4  # beside which pieces are as wide as may be, and one more where warpgroups also store in turn for it
FEW_STAGES = 3  # of the operands, below which what is read had better not take shared memory


def infer_epilogue(spec: Spec, report: Report) -> Spec:
    """Outputs go through shared memory and are stored by tensor maps where they can, and what is read of as many
    elements comes by them; all else is stored from registers, and loaded to them.
    """
    spec, columns = _infer_ways(spec, report)
    copies, n = dict(spec.schedule.copies), product_of(spec).n
    for tensor in passing(spec):
        own = copies[tensor.name]
        if own.columns is None and columns is not None:
            copies[tensor.name] = replace(own, columns=columns)
            why = f"rows of at most {LINE} bytes, and whole pieces of the tile"
            if len(passing(spec)) + len(sources(spec)) > 1:
                why += ", with buffers for all of them beside the most stages"
            report.infer(why, "schedule", "copies", tensor.name, "columns")
    spec = replace(spec, schedule=replace(spec.schedule, copies=copies))
    lead = copies[spec.output.name]
    if lead.bits is None:
        lead = replace(lead, bits=most_vector(spec) * spec.output.dtype.bits)
        why = f"a thread has pairs of neighbours along {n}, where sizes and alignment let it move them at once"
        report.infer(why, "schedule", "copies", spec.output.name, "bits")
    spec = replace(spec, schedule=replace(spec.schedule, copies=copies | {spec.output.name: lead}))
    spec = require_whole_accesses(spec, report, spec.output, vector_of(spec))
    for tensor in dict.fromkeys((*passing(spec), *sources(spec))):
        assert tensor.major is not None
        if stands_anywhere(spec, tensor):
            continue  # rows of the workspace are padded
        verb = "store" if tensor.writes else "bring"
        why = f"tensor maps {verb} whole {ALIGN} bytes of {tensor.name}"
        spec = require_divisible(spec, report, tensor.major, ALIGN // tensor.dtype.bytes, why)
    return spec


def _infer_ways(spec: Spec, report: Report) -> tuple[Spec, int | None]:
    """Which tensors of the epilogue tensor maps move, and how many columns at a time; None where no number fits."""
    stored = [t for t in spec.assigned if not obstacle_of(spec, t)]
    brought = [t for t in read_beside(spec) if not obstacle_of(spec, t)]
    columns, stages = _pieces(spec, stored, brought)
    # What nobody said the way of, and an output's own, which passes in any case
    free = [t for t in brought if not t.writes and not _is_written(spec, t)]
    others, more = _pieces(spec, stored, [t for t in brought if t not in free])
    if free and stages < min(FEW_STAGES, more):
        why = f"its buffers would leave {count(stages, 'stage')} of the operands, not {more}"
        spec = _loaded(spec, free, why, report)
        columns = others
    copies = dict(spec.schedule.copies)
    for tensor in dict.fromkeys((*spec.assigned, *read_beside(spec))):
        own, where = copies.get(tensor.name), ("schedule", "copies", tensor.name)
        if own is None and not tensor.writes and tensor not in brought:
            continue  # it has no copy of its own
        own, obstacle = own or Copy(), obstacle_of(spec, tensor)
        if own.atom is None:
            obstacle = None if own.through is not None else obstacle
            own = replace(own, atom="universal" if obstacle else "tma")
            why = "whole tiles, without predicates" if tensor.writes else "it is in flight while a tile is multiplied"
            report.infer(obstacle or why, *where, "atom")
            if obstacle and report.inferred.pop((*where, "misaligned"), None):
                own = replace(own, misaligned=None)  # as it seemed before the tile was known
        if own.atom == "tma" and own.through is None:
            own = replace(own, through="smem")
            report.infer(f"tensor maps {'store from' if tensor.writes else 'bring it'} there", *where, "through")
        copies[tensor.name] = own
    return replace(spec, schedule=replace(spec.schedule, copies=copies)), columns


def _is_written(spec: Spec, tensor: Tensor) -> bool:
    """Whether the spec says how a tensor is to come."""
    copy = spec.schedule.copies.get(tensor.name, Copy())
    return copy.atom is not None or copy.through is not None or copy.stages is not None


def _loaded(spec: Spec, tensors: Sequence[Tensor], why: str, report: Report) -> Spec:
    """The spec with tensors that are loaded to registers, and stand as that needs it."""
    copies, names = dict(spec.schedule.copies), [tensor.name for tensor in tensors]
    for name in names:
        report.inferred.pop(("schedule", "copies", name, "misaligned"), None)
        copies[name] = Copy(atom="universal")
    anew = [n for n in names if report.inferred.pop(("tensors", n, "align"), None)]
    stand = tuple(replace(t, align=None) if t.name in anew else t for t in spec.tensors)
    spec = infer_alignment(replace(spec, tensors=stand, schedule=replace(spec.schedule, copies=copies)), report)
    for name in names:
        report.infer(why, "schedule", "copies", name, "atom")
    return spec


def _pieces(spec: Spec, stored: Sequence[Tensor], brought: Sequence[Tensor]) -> tuple[int | None, int]:
    """How many columns of the tile had better go through shared memory at a time of tensors that are stored from there
    and brought there, None where no number fits, and how many stages that leaves of the operands, of as many as are
    enough.
    """
    copies, moved = dict(spec.schedule.copies), [*stored, *brought]
    width = max((t.dtype.bytes for t in moved), default=1)
    written = [c.columns for t in stored if (c := copies.get(t.name)) and c.columns]
    fitting = written[:1] or [c for c in PIECES if c * width <= LINE and own_columns(spec) % c == 0]
    enough = ENOUGH_STAGES + (in_turn(spec) or spec.segments is not None)

    def stages(columns: int) -> int:
        trial = dict(copies)
        for tensor in moved:
            own = replace(trial.get(tensor.name, Copy()), atom="tma", through="smem")
            trial[tensor.name] = replace(own, columns=columns) if tensor.writes else own
        made = replace(spec, schedule=replace(spec.schedule, copies=trial))
        buffers = shared_buffers(made) or BUFFERS[0]
        return next((n for n in range(enough, 0, -1) if smem_with(made, n, buffers, BUFFERS[0]) <= room_of(spec)), 0)

    if not fitting:
        return None, enough
    several = len(moved) > 1 or spec.segments is not None
    best = max(fitting, key=lambda columns: (stages(columns), columns)) if several else fitting[0]
    return best, stages(best)


def infer_buffers(spec: Spec, report: Report) -> Spec:
    """As many buffers as fit beside the stages: stores are in flight while others are written, and loads of what is
    read next.
    """
    stages, copies = spec.schedule.pipeline.stages, dict(spec.schedule.copies)
    assert stages is not None
    (buffers, most), read = BUFFERS, BUFFERS[0]
    why = "stores are in flight while others are written"
    if (shared := shared_buffers(spec)) is not None:
        buffers = most = shared
        why = "they reuse the memory of received sums, once these are added"
    elif in_turn(spec):
        most = min(most, pieces(spec))
        buffers = min(buffers, most)
    while buffers < most and smem_with(spec, stages, buffers + 1, read) <= room_of(spec):
        buffers += 1
    while read < BUFFERS[1] and smem_with(spec, stages, buffers, read + 1) <= room_of(spec):
        read += 1
    reads = "loads are in flight while others are read"
    beside = [t for t in sources(spec) if not t.writes]
    for tensors, number, because in ((passing(spec), buffers, why), (beside, read, reads)):
        written = [copies[t.name].stages for t in tensors if copies[t.name].stages is not None]
        for tensor in tensors:
            if copies[tensor.name].stages is None:
                copies[tensor.name] = replace(copies[tensor.name], stages=written[0] if written else number)
                report.infer(because, "schedule", "copies", tensor.name, "stages")
    return replace(spec, schedule=replace(spec.schedule, copies=copies))


def smem_with(spec: Spec, stages: int, buffers: int, read: int) -> int:
    """Bytes of shared memory with so many stages of operands, buffers of outputs and buffers of what is read, where the
    spec does not say how many.
    """
    copies = dict(spec.schedule.copies)
    for tensor in dict.fromkeys((*passing(spec), *sources(spec))):
        own = copies[tensor.name]
        copies[tensor.name] = replace(own, stages=own.stages or (buffers if tensor.writes else read))
    schedule = replace(spec.schedule, copies=copies)
    return smem_bytes(replace(spec, schedule=with_value(schedule, ("pipeline", "stages"), stages)))
