"""Where a warp of a row kernel accesses memory together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from cutegen.analysis.accesses import Access, fixed_sizes, strides_of
from cutegen.analysis.proof import Scratch
from cutegen.families.common.pointwise import Operand
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.rows import thread_values


def accesses_of(plan: RowwisePlan) -> tuple[Access, ...]:
    """The accesses to the tensors along the rows: loads of all that are read, then stores of all that are written."""
    loads = [_operand(plan, o, "read") for o in plan.operands if o.read]
    return (*loads, *(_operand(plan, o, "write") for o in plan.operands if o.write))


def _operand(plan: RowwisePlan, operand: Operand, kind: Literal["read", "write"]) -> Access:
    tensor = operand.tensor
    strides = strides_of(tensor, plan.spec.lead.shape, fixed_sizes(plan.spec, plan.tile))
    name = f"{tensor.name} {'from' if kind == 'read' else 'to'} global memory"
    path = ("schedule", "threads_per_row")
    layout = thread_values(plan.spec, strides)
    return Access(name, tensor.name, tensor.dtype, "global", kind, operand.vector, layout, path, plan.threads)


def scratch(plan: RowwisePlan) -> Iterator[Scratch]:
    """What each block has of the outputs that are reduced over the rows, for each of the rows that it has at a time."""
    for column in plan.program.columns:
        rounded = ((plan.row, plan.tile[plan.row]),)
        yield Scratch(column.tensor, rounded, column.dtype.bytes, (plan.blocks or 1) * plan.rows)
