"""Its accesses to memory, what is proved of a plan, and the parts of shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from tensor_layouts import Layout

from cutegen.analysis.access import Access
from cutegen.analysis.buffers import Buffer
from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import covered_once
from cutegen.families.common.ordering import ordered
from cutegen.parts.declared import Buffer as Declared
from cutegen.parts.declared import laid_out
from toy_roles import memory
from toy_roles.order import counts, run_of
from toy_roles.plan import BestPlan

# (thread, value) to the row of a block's: the four lanes of a row have it together, and one of them stores it
ROWS_OF_THREADS = Layout(((4, 8, 4), 2), ((0, 1, 16), 8))
STORED = Layout(((8, 4), 2), ((1, 16), 8))


def accesses(plan: BestPlan) -> tuple[Access, ...]:
    """Of the output: A and B are moved by tensor maps."""
    name, y = f"{plan.y.name} to global memory", plan.y
    return (Access(name, y.name, y.dtype, "global", "write", 1, ROWS_OF_THREADS, ("op",)),)


def claims(plan: BestPlan) -> Iterator[Claim]:
    """That rows are covered and in bounds, and that warps may come in any order."""
    m, name = plan.a.shape[0], plan.y.name
    yield covered_once(f"every element of {name} that a block has is stored once", STORED, (memory.ROWS,), ("op",), 32)
    text = f"{name}, {m}: a row is stored only if it is below {m}"
    yield Claim("bounds", text, ("one row at a time",), True, ("tensors", name))
    over = f"tiles along {plan.b.shape[0]} x {plan.b.shape[1]}"
    where = ("schedule", "stages")
    yield ordered(counts(plan), lambda sizes: run_of(plan, sizes), lambda sizes: f"{over}, {sizes}", over, where)


def buffers(plan: BestPlan) -> Iterator[Buffer]:
    """Where everything lies that is declared."""
    for one, _, length in laid_out(memory.declared(plan.a, plan.b, plan.columns), {"STAGES": plan.stages or 1}):
        if isinstance(one, Declared):
            depth, name = memory.DEPTH, one.cells[0]
            rows = one.bytes // depth // plan.a.dtype.bytes
            yield Buffer(name, depth, depth, rows, length, length * one.bytes, "of rows", 128)
        else:
            yield Buffer(f"{one.name} barriers", length, length, 1, 1, length * one.bytes, "of a kind")
