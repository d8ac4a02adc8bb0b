"""Where a warp of an elementwise kernel accesses memory together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from tensor_layouts import Layout, compose

from cutegen import layouts
from cutegen.analysis.access import Access
from cutegen.analysis.accesses import fixed_sizes, strides_of
from cutegen.families.common.pointwise import Operand
from cutegen.families.elementwise.partitions import thread_values
from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.language.kinds import Path
from cutegen.language.taken import indices
from cutegen.layouts import pair


def accesses_of(plan: ElementwisePlan) -> tuple[Access, ...]:
    """The accesses of a kernel: loads of all operands that are read, then stores of all that are written."""
    loads = [_operand(plan, o, "read") for o in plan.pointwise.operands if o.read]
    return (*_places(plan), *loads, *(_operand(plan, o, "write") for o in plan.pointwise.operands if o.write))


def _places(plan: ElementwisePlan) -> Iterator[Access]:
    """The loads of places: one for each access to what is taken at them, or for each element of it."""
    names, vector = indices(plan.spec.tensors), plan.pointwise.vector
    for tensor in (t for t in plan.spec.tensors if t.name in names):
        strides = strides_of(tensor, plan.spec.lead.shape, counted_sizes(plan))
        layout = thread_values(plan, strides)
        if plan.spec.lead.major not in tensor.shape and vector > 1:
            threads, values = layouts.modes_of(layout)
            layout = pair(threads, compose(values, Layout(plan.pointwise.vectors, vector)))
        name, path = f"{tensor.name}, places, from global memory", ("tensors", tensor.name)
        each = Access(name, tensor.name, tensor.dtype, "global", "read", 1, layout, path, plan.threads)
        yield replace(each, narrow_because="one place at a time")


def _operand(plan: ElementwisePlan, operand: Operand, kind: Literal["read", "write"]) -> Access:
    tensor = operand.tensor  # with blocks: neighbours along their mode share an element
    if tensor.at:  # rows that are taken at places may lie anywhere
        tensor = plan.spec.by_element.tensor(tensor.name)
    strides = strides_of(tensor, plan.spec.lead.shape, counted_sizes(plan))
    name = f"{tensor.name} {'from' if kind == 'read' else 'to'} global memory"
    path: Path = ("schedule", {"inner": "tiler"}.get(plan.partition, "thread_layout"))
    layout, vector = thread_values(plan, strides), operand.vector
    return Access(name, tensor.name, tensor.dtype, "global", kind, vector, layout, path, plan.threads)


def counted_sizes(plan: ElementwisePlan) -> Mapping[str, int]:
    """The fixed sizes that no thread reaches beyond; where each thread has a tile, those that are whole tiles."""
    if plan.partition == "inner":
        return {mode: size for mode, size in plan.spec.static.items() if size % plan.tile[mode] == 0}
    return fixed_sizes(plan.spec, plan.tile)
