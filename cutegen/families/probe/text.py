"""Builds the parts of a module that are specific to a probe. Numbers come from the plan."""

from __future__ import annotations

from cutegen.codegen.formatting import WIDTH
from cutegen.codegen.kernel_expressions import KernelPrinter
from cutegen.codegen.parts import Constant, KernelParts
from cutegen.dtypes import Dtype
from cutegen.families.probe.plan import ProbePlan


def kernel_parts(plan: ProbePlan) -> KernelParts:
    """The parts of a module of one probe."""
    source, output = plan.source, plan.spec.output
    value = plan.statements[0].stored
    assert value is not None
    element = f"t{output.name}g{source.name}[value_idx]"
    target = f"m{output.name}"
    if source.dtype.is_unsigned:  # in the kernel such a tensor says it holds signed ones
        element = f"cutlass.{source.dtype.cutlass}({element})"
    if source.dtype is Dtype.bool and output.dtype is not Dtype.bool:  # and a bool tensor too
        element += " != 0"
    if output.dtype is Dtype.bool:  # which only a bool can be moved to, as the byte that it is
        target = f"cute.recast_tensor({target}, cutlass.Int8)"
    return KernelParts(
        template="probe.py.j2",
        constants=(
            Constant("THREADS", str(plan.threads), "", "schedule.tv_layout"),
            Constant("VALUES", str(plan.values), "of a thread", "schedule.tv_layout"),
        ),
        context={
            "source": source,
            "probe_element": element,
            "probe_target": target,
            "probe_value": KernelPrinter({source.name: source.argument}, frozenset(), {}, WIDTH - 8).print(value).text,
        },
    )
