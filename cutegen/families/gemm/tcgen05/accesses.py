"""The accesses of a gemm's epilogue to global memory, and what a block has of shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from cutegen.analysis.access import Access
from cutegen.analysis.accesses import fixed_sizes, strides_of
from cutegen.analysis.buffers import Buffer
from cutegen.families.common.pointwise import Operand
from cutegen.families.gemm.tcgen05 import allocation
from cutegen.families.gemm.tcgen05.plan import Tcgen05Plan
from cutegen.families.gemm.tcgen05.product import accumulator_layout
from cutegen.parts.declared import Barriers, laid_out


def accesses_of(plan: Tcgen05Plan) -> tuple[Access, ...]:
    """The accesses in the order of the kernel: A and B are moved by tensor maps, and read by the tensor cores."""
    found = [_epilogue(plan, o, "read") for o in plan.pointwise.operands if o.read]
    return (*found, *(_epilogue(plan, o, "write") for o in plan.pointwise.operands if o.write))


def _epilogue(plan: Tcgen05Plan, o: Operand, kind: Literal["read", "write"]) -> Access:
    m, n = strides_of(o.tensor, (plan.m, plan.n), fixed_sizes(plan.spec, plan.tile))
    return Access(
        f"{o.tensor.name} {'from' if kind == 'read' else 'to'} global memory",
        o.tensor.name,
        o.tensor.dtype,
        "global",
        kind,
        o.vector,
        accumulator_layout(plan.tile[plan.n], (m, n)),
        ("schedule", "copies", plan.spec.output.name, "bits"),
    )


def buffers(plan: Tcgen05Plan) -> Iterator[Buffer]:
    """The parts of a block's shared memory: swizzled stages, barriers, and the address of its tensor memory."""
    depth, sides = plan.tile[plan.k], {x.tensor.name: x for x in plan.sides}
    for one, _, length in laid_out(allocation.declared(plan.spec), {"STAGES": plan.stages or 1}):
        size = length * one.bytes
        if isinstance(one, Barriers) or one.title not in sides:
            name = f"{one.name} barriers" if isinstance(one, Barriers) else one.title
            yield Buffer(name, length, length, 1, 1, size, "of a kind")
            continue
        side = sides[one.title]
        along, across = (depth, side.block) if side.k_major else (side.block, depth)
        what = f"of {side.mode}" if side.k_major else "of k"
        yield Buffer(one.title, along, along, across, length, size, what, side.swizzle)
