"""The alignment of tensors of a warp-specialised gemm, and whether tensor maps can move those of its epilogue."""

from __future__ import annotations

from dataclasses import replace

from cutegen.analysis.words import count
from cutegen.families.gemm.wgmma.product import ALIGN, GRANULE, PASSING_BITS, product_of, split_of
from cutegen.families.gemm.wgmma.schedule import Copy, Spec
from cutegen.language.model import Tensor
from cutegen.planning.promises import known_divisor, promised
from cutegen.planning.report import Report


def infer_alignment(spec: Spec, report: Report) -> Spec:
    """Infers each tensor's alignment: what tensor maps require where they move it, else what the epilogue's accesses
    require. With a workspace for misaligned tensors the size of an element suffices.
    """
    product, output, copies = product_of(spec), spec.output, dict(spec.schedule.copies)
    copy, paired = spec.schedule.copies.get(output.name), known_divisor(spec, product.n) % 2 == 0
    bits = copy.bits if copy is not None else None
    vector = max(1, bits // output.dtype.bits) if bits else 2 if paired else 1
    vector = vector if output.major in (None, product.n) else 1
    tensors = []
    for tensor in spec.tensors:
        mapped = tensor in (*product.a, *product.b) or not obstacle_of(spec, tensor)
        own = copies.get(tensor.name, Copy())
        if mapped and own.misaligned is None:
            free = (tensor.align or 1) % ALIGN and product.segments is None
            own = replace(own, misaligned="workspace" if free else "refuse")
            why = f"{tensor.name} is promised to be aligned to {tensor.align} bytes"
            if product.segments is not None:
                why = "kernels with segments copy no tensor to a workspace"
            if own.misaligned == "workspace":
                why = f"tensor maps need {ALIGN}-byte alignment; otherwise a call copies it, so any tensor is accepted"
            report.infer(why, "schedule", "copies", tensor.name, "misaligned")
            copies[tensor.name] = own
        if tensor.align is None:
            along = vector if tensor.contiguous == output.contiguous else 1
            why, width = f"accesses of {count(along, 'element')}", along
            if mapped and own.misaligned == "workspace":
                why, width = "any tensor is accepted", 1
            elif mapped:
                why, width = f"tensor maps need {ALIGN}-byte alignment", ALIGN
            tensor = replace(tensor, align=min(ALIGN, width * tensor.dtype.bytes))
            report.infer(why, "tensors", tensor.name, "align")
        elif mapped and own.misaligned == "workspace" and tensor.align > tensor.dtype.bytes:
            tensor = replace(tensor, align=tensor.dtype.bytes)
            report.infer("any tensor is accepted: misaligned ones are copied", "tensors", tensor.name, "align")
        tensors.append(tensor)
    return replace(spec, tensors=tuple(tensors), schedule=replace(spec.schedule, copies=copies))


def obstacle_of(spec: Spec, tensor: Tensor) -> str | None:
    """Why a tensor of the epilogue cannot go through shared memory, to be stored or brought by a tensor map, as far as
    its own words say. What is only read passes it beside an output, in pieces as large.
    """
    copy = spec.schedule.copies.get(tensor.name, Copy())
    if not tensor.writes:
        if tensor.shape != spec.output.shape:
            return "it is the same for several elements of the output"
        if (tensor.align or ALIGN) % ALIGN and copy.misaligned != "workspace":
            return f"tensor maps need {ALIGN}-byte alignment, and it is aligned to {tensor.align}"
        if all(obstacle_of(spec, output) for output in spec.assigned):
            return "no output goes through shared memory"
    product, major, unit = product_of(spec), tensor.contiguous, ALIGN // tensor.dtype.bytes
    columns = (spec.schedule.tiler or {}).get(product.n, GRANULE * split_of(spec)) // split_of(spec)
    size = spec.static.get(major) or promised(spec, major)
    if copy.atom == "universal" or (copy.bits is not None and copy.atom is None and copy.through is None):
        return "its accesses are written"
    if product.batch is not None and major == product.batch:
        return f"it is contiguous along {major}, the batch, and tensor maps move matrices"
    if product.segments is not None and major == product.segments.mode:
        return f"it is contiguous along {major}, whose segments end anywhere"
    if tensor.dtype.bits not in PASSING_BITS:
        return f"{' or '.join(map(str, PASSING_BITS))} bits go through shared memory"
    if columns % GRANULE:
        return f"{GRANULE} columns go through shared memory together, and a block stores {columns}"
    if (tensor.align or ALIGN) % ALIGN and copy.misaligned == "refuse":
        return f"tensor maps need {ALIGN}-byte alignment, and it is aligned to {tensor.align}"
    if size is not None and size % unit and (copy.misaligned == "refuse" or (tensor.align or 1) % ALIGN == 0):
        return f"tensor maps move whole {ALIGN} bytes, {unit} elements, and {size} determines {major}"
    return None
