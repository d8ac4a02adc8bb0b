"""The targets of a spec that names none."""

from __future__ import annotations

from dataclasses import replace

from cutegen.atoms.targets import DEFAULT_TARGETS, F8_TARGETS
from cutegen.language.model import KernelSpec
from cutegen.planning.conversions import f8_conversion, multiplies_f8
from cutegen.planning.report import Report


def infer_targets(spec: KernelSpec, report: Report) -> KernelSpec:
    """The spec with the architectures that its kernel is for, those that it names or the usual ones."""
    if spec.targets:
        return spec
    targets, why = DEFAULT_TARGETS, "cp.async from Ampere on, and Hopper"
    if multiplies_f8(spec):
        targets, why = F8_TARGETS, "products of 8-bit floats from Ada on, and Hopper"
    elif f8_conversion(spec):
        targets, why = F8_TARGETS, "conversions of 8-bit floats from Ada on, and Hopper"
    report.infer(why, "targets")
    return replace(spec, targets=targets)
