"""The values that a fill's templates print."""

from __future__ import annotations

from cutegen.codegen.formatting import WIDTH
from cutegen.codegen.kernel_expressions import KernelPrinter
from cutegen.codegen.parts import Constant, KernelParts, Limit
from cutegen.codegen.statements import print_statements
from cutegen.codegen.variables import Variables
from toy_family.plan import FillPlan

_BLOCKS = '-(-sizes["{0}"] // ROWS) * -(-sizes["{1}"] // THREADS)'


def kernel_parts(plan: FillPlan) -> KernelParts:
    """The parts of a module of one fill."""
    variables = Variables(plan.spec)
    variable = {name: variables.free(name) for name in ("column", "row", "index", "across")}
    coordinates = dict(zip(plan.spec.output.shape, (variable["row"], variable["column"]), strict=True))
    scalars = {scalar.name: scalar.argument for scalar in plan.spec.scalars}
    printer = KernelPrinter(scalars, frozenset(), None, WIDTH - 12, coordinates)
    (stored,) = print_statements(plan.spec, plan.statements, printer, variables)
    return KernelParts(
        template="fill.py.j2",
        constants=(
            Constant("THREADS", str(plan.threads), "along the last mode", "schedule.threads"),
            Constant("ROWS", str(plan.rows), "of a thread", "schedule.rows"),
        ),
        limits=(
            Limit(
                "schedule.threads",
                (_BLOCKS.format(*plan.spec.output.shape),),
                'f"at most {2**31 - 1} blocks"',
                "tiles < 2**31",
            ),
        ),
        context={**variable, "lines": stored.statements, "value": stored.result},
    )
