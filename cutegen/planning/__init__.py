"""Turns a spec into a plan: infers everything that was left out, then every number that templates print.

Both are the family's to know; this room is its driver.
"""

from __future__ import annotations

from dataclasses import replace

from cutegen.language.cases import Cases
from cutegen.language.model import KernelSpec
from cutegen.planning.asked import family_of
from cutegen.planning.packed import with_packed
from cutegen.planning.plan import Plan
from cutegen.planning.report import Report
from cutegen.planning.targets import infer_targets
from cutegen.registry import family_of_cases


def resolve(spec: KernelSpec, report: Report) -> KernelSpec:
    """Fills in every field of a kernel that applies; reports what cannot be inferred.

    It is idempotent: the result, written out and read again, resolves to itself. What `tune` has values for is one
    schedule, and stays one. The result has the tensors of the kernel, which are views where arguments are packed.
    """
    spec = spec.by_view
    cases = () if spec.tune else family_of(spec).cases(infer_targets(spec, Report(spec.source)))
    if cases:
        family_of_cases()
        spec = replace(spec, schedule=Cases(cases))
        report.infer("by row length", "schedule")
    return with_packed(family_of(spec).resolve(spec, report), report)


def make_plan(spec: KernelSpec) -> Plan:
    """The plan of a resolved spec that passed its checks."""
    plan: Plan = family_of(spec).plan(spec.by_view)
    return plan
