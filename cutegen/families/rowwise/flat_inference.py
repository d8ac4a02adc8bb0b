"""Inference about the modes that a row is made of: their promises, and the alignment of tensors with some of them."""

from __future__ import annotations

from dataclasses import replace

from cutegen.expressions.places import joined
from cutegen.families.rowwise.flat import is_partial, parts_of
from cutegen.families.rowwise.schedule import Spec
from cutegen.planning.promises import promised
from cutegen.planning.report import Report


def element_by_element(spec: Spec, report: Report) -> Spec:
    """The spec whose tensors with some of a row's modes may stand at any element, unless it says where they do."""
    tensors = []
    for tensor in spec.tensors:
        if is_partial(spec, tensor) and ("tensors", tensor.name, "align") in report.inferred:
            report.infer("it is read element by element", "tensors", tensor.name, "align")
            tensor = replace(tensor, align=tensor.dtype.bytes)
        tensors.append(tensor)
    return replace(spec, tensors=tuple(tensors))


def tell_promises(spec: Spec, found: Spec, report: Report) -> None:
    """Reports what a mode of a row must be a multiple of, so that the row is one of what its accesses need."""
    parts = parts_of(spec)
    for part in parts if len(parts) > 1 else ():
        given, needed = spec.divisible.get(part, 1), found.divisible.get(part, 1)
        if needed == given:
            continue
        row = joined(parts)
        why = report.inferred.get(("divisible", row), f"what the schedule needs of {row}")
        if promised(spec, part) is None:
            report.infer(why, "divisible", part)
            continue
        message = f"{part} is a multiple of {given}, and the schedule needs one of {needed}"
        help = f"write `{part}: {needed}`, or leave out what asks for it"
        report.say("CG224", message, "divisible", part, notes=(why,), help=help)
