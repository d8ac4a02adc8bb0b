"""From a spec to a plan: inference of everything that was left out, then every number that templates print.

`resolve` is idempotent: what it returns, written out and read again, resolves to itself.
"""

from __future__ import annotations

from cutegen.language.model import KernelSpec
from cutegen.planning import elementwise_inference, elementwise_plan, gemm_inference, gemm_plan, probe
from cutegen.planning.plan import Plan
from cutegen.planning.report import Report

_RESOLVE = {"elementwise": elementwise_inference.resolve, "gemm": gemm_inference.resolve, "probe": probe.resolve}


def resolve(spec: KernelSpec, report: Report) -> KernelSpec:
    """The same kernel with every field that applies filled in; what cannot be inferred is reported."""
    return _RESOLVE[spec.op](spec, report)


def make_plan(spec: KernelSpec) -> Plan:
    """The plan of a resolved spec that passed its checks."""
    match spec.op:
        case "elementwise":
            return elementwise_plan.plan(spec)
        case "gemm":
            return gemm_plan.plan(spec)
    return probe.plan(spec)
