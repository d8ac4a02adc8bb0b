"""What the epilogue of a gemm whose warps have roles moves by tensor maps, in what pieces, through how many buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cutegen.analysis.words import count
from cutegen.atoms.copies import MBARRIER
from cutegen.atoms.targets import TARGETS
from cutegen.families.common.planning import require_divisible
from cutegen.families.gemm_warpspecialized.product import (
    ALIGN,
    GRANULE,
    PASSING_BITS,
    ROWS,
    most_vector,
    own_columns,
    passing,
    product_of,
    read_beside,
    sent_bytes,
    shared_buffers,
    smem_bytes,
    sources,
    split_of,
    stage_bytes,
    stands_anywhere,
    vector_of,
)
from cutegen.families.gemm_warpspecialized.schedule import Copy, Spec
from cutegen.language.edits import with_value
from cutegen.language.model import Tensor
from cutegen.planning.promises import promised
from cutegen.planning.report import Report

LINE = 128  # bytes of a piece along the contiguous mode, at most: of the widest swizzle
PIECES = (64, 32, 16)  # columns that are stored at a time: multiples of what one stmatrix writes
BUFFERS = (2, 4)  # of each warpgroup: at least, and at most
ENOUGH_STAGES = 4  # beside which pieces are as wide as may be


def obstacle_of(spec: Spec, tensor: Tensor) -> str | None:
    """Why a tensor of the epilogue cannot pass shared memory, to be stored or brought by a tensor map, as far as its
    own words say. What is only read passes it beside an output, in pieces as large.
    """
    copy = spec.schedule.copies.get(tensor.name, Copy())
    if not tensor.writes:
        if tensor.shape != spec.output.shape:
            return "it is the same for several elements of the output"
        if (tensor.align or ALIGN) % ALIGN and copy.misaligned != "workspace":
            return f"tensor maps take multiples of {ALIGN} bytes, and it stands at those of {tensor.align}"
        if all(obstacle_of(spec, output) for output in spec.outputs):
            return "no output passes shared memory"
    product, major, unit = product_of(spec), tensor.major or tensor.shape[-1], ALIGN // tensor.dtype.bytes
    columns = (spec.schedule.tiler or {}).get(product.n, GRANULE * split_of(spec)) // split_of(spec)
    size = spec.static.get(major) or promised(spec, major)
    if copy.atom == "universal" or (copy.bits is not None and copy.atom is None and copy.through is None):
        return "as its accesses are written"
    if product.batch is not None and major == product.batch:
        return f"it is contiguous along {major}, the batch, and tensor maps move matrices"
    if tensor.dtype.bits not in PASSING_BITS:
        return f"{' or '.join(map(str, PASSING_BITS))} bits pass shared memory"
    if columns % GRANULE:
        return f"{GRANULE} columns pass shared memory together, and a block stores {columns}"
    if (tensor.align or ALIGN) % ALIGN and copy.misaligned == "refuse":
        return f"tensor maps take multiples of {ALIGN} bytes, and it stands at those of {tensor.align}"
    if size is not None and size % unit and (copy.misaligned == "refuse" or (tensor.align or 1) % ALIGN == 0):
        return f"tensor maps move whole {ALIGN} bytes, {unit} elements, and {major} is told by {size}"
    return None


def _brought(spec: Spec) -> list[Tensor]:
    """The tensors that tensor maps bring for the epilogue, or may, outputs that pass shared memory among them."""
    return [t for t in read_beside(spec) if not obstacle_of(spec, t)]


def infer_outputs(spec: Spec, report: Report) -> Spec:
    """Outputs pass shared memory and are stored by tensor maps where they can; else they are stored from registers."""
    copies, n = dict(spec.schedule.copies), product_of(spec).n
    sure = [t for t in spec.outputs if not obstacle_of(spec, t)]
    written = [c.columns for t in sure if (c := copies.get(t.name)) and c.columns]
    fitting = _fitting_columns(spec, [*sure, *_brought(spec)])
    for tensor in spec.outputs:
        own = copies.get(tensor.name, Copy())
        where = ("schedule", "copies", tensor.name)
        if own.atom is None:
            obstacle = None if own.through is not None else obstacle_of(spec, tensor)
            own = replace(own, atom="universal" if obstacle else "tma")
            report.infer(obstacle or "whole tiles, without predicates", *where, "atom")
            if obstacle and report.inferred.pop((*where, "misaligned"), None):
                own = replace(own, misaligned=None)  # as it seemed before the tile was known
        if own.atom == "tma":
            if own.through is None:
                own = replace(own, through="smem")
                report.infer("tensor maps store from there", *where, "through")
            if own.columns is None and (written or fitting):
                own = replace(own, columns=written[0] if written else fitting[0])
                why = f"rows of at most {LINE} bytes, and whole pieces of the tile"
                if not written and len(sure) + len(_brought(spec)) > 1:
                    why += f", of which {count(ENOUGH_STAGES, 'stage')} leave room for all that pass"
                report.infer(why, *where, "columns")
        copies[tensor.name] = own
    spec = replace(spec, schedule=replace(spec.schedule, copies=copies))
    spec = _infer_sources(spec, report)
    copies = dict(spec.schedule.copies)
    lead = copies[spec.output.name]
    if lead.bits is None:
        lead = replace(lead, bits=most_vector(spec) * spec.output.dtype.bits)
        why = f"a thread has pairs of neighbours along {n}, where sizes and alignment let it move them at once"
        report.infer(why, "schedule", "copies", spec.output.name, "bits")
    spec = replace(spec, schedule=replace(spec.schedule, copies=copies | {spec.output.name: lead}))
    vector, major = vector_of(spec), spec.output.major
    assert major is not None
    what = f"accesses of {vector} elements of {spec.output.name} along {major}"
    spec = require_divisible(spec, report, major, vector, what)
    for tensor in dict.fromkeys((*passing(spec), *sources(spec))):
        assert tensor.major is not None
        if stands_anywhere(spec, tensor):
            continue  # rows of the workspace are padded
        verb = "store" if tensor.writes else "bring"
        why = f"tensor maps {verb} whole {ALIGN} bytes of {tensor.name}"
        spec = require_divisible(spec, report, tensor.major, ALIGN // tensor.dtype.bytes, why)
    return spec


def _fitting_columns(spec: Spec, moved: Sequence[Tensor]) -> list[int]:
    """How many columns of the tile may pass shared memory at a time, the best first: as many as leave room for the most
    stages of the operands, of which four are enough, beside two buffers of each warpgroup for every tensor.
    """
    width = max((t.dtype.bytes for t in moved), default=1)
    fitting = [c for c in PIECES if c * width <= LINE and own_columns(spec) % c == 0]
    consumers, stage = spec.schedule.warps.consumers or 1, stage_bytes(spec) + 2 * MBARRIER

    def stages(columns: int) -> int:
        taken = consumers * BUFFERS[0] * ROWS * columns * sum(t.dtype.bytes for t in moved)
        return min(ENOUGH_STAGES, (room_of(spec) - taken - sent_bytes(spec)) // stage)

    return sorted(fitting, key=lambda columns: (-stages(columns), -columns)) if len(moved) > 1 else fitting


def _infer_sources(spec: Spec, report: Report) -> Spec:
    """What the epilogue reads beside the product is brought by tensor maps where it can be, as outputs are stored."""
    copies, brought = dict(spec.schedule.copies), _brought(spec)
    for tensor in read_beside(spec):
        own, where = copies.get(tensor.name), ("schedule", "copies", tensor.name)
        if tensor.writes or (own is None and tensor not in brought):
            continue
        own = own or Copy()
        if own.atom is None:
            obstacle = None if own.through is not None else obstacle_of(spec, tensor)
            own = replace(own, atom="universal" if obstacle else "tma")
            report.infer(obstacle or "it is on its way while a tile is multiplied", *where, "atom")
            if obstacle and report.inferred.pop((*where, "misaligned"), None):
                own = replace(own, misaligned=None)  # as it seemed before the tile was known
        if own.atom == "tma" and own.through is None:
            own = replace(own, through="smem")
            report.infer("tensor maps bring it there", *where, "through")
        copies[tensor.name] = own
    return replace(spec, schedule=replace(spec.schedule, copies=copies))


def infer_buffers(spec: Spec, report: Report) -> Spec:
    """As many buffers as fit beside the stages: stores are under way while others are written, and loads of what is
    read next.
    """
    stages, copies = spec.schedule.pipeline.stages, dict(spec.schedule.copies)
    assert stages is not None
    buffers, most = BUFFERS
    why = "stores are under way while others are written"
    if (shared := shared_buffers(spec)) is not None:
        buffers = most = shared
        why = "they lie where what other blocks sent was, once that is added"
    while buffers < most and smem_with(spec, stages, buffers + 1) <= room_of(spec):
        buffers += 1
    for tensor in dict.fromkeys((*passing(spec), *sources(spec))):
        if copies[tensor.name].stages is None:
            number = buffers if tensor.writes else max(BUFFERS[0], buffers)
            copies[tensor.name] = replace(copies[tensor.name], stages=number)
            why = why if tensor.writes else "loads are under way while others are read"
            report.infer(why, "schedule", "copies", tensor.name, "stages")
    return replace(spec, schedule=replace(spec.schedule, copies=copies))


def room_of(spec: Spec) -> int:
    """Bytes of shared memory that a block of every target can have."""
    return min((TARGETS[target].smem_per_block for target in spec.targets if target in TARGETS), default=0)


def smem_with(spec: Spec, stages: int, buffers: int) -> int:
    """Bytes of shared memory with so many stages of operands, and buffers of the outputs that do not say how many."""
    copies = {
        name: replace(copy, stages=copy.stages or buffers) if copy.through else copy
        for name, copy in spec.schedule.copies.items()
    }
    schedule = replace(spec.schedule, copies=copies)
    return smem_bytes(replace(spec, schedule=with_value(schedule, ("pipeline", "stages"), stages)))
