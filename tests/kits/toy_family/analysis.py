"""A fill's accesses to memory, what is proved of its plan, and its picture."""

from __future__ import annotations

from collections.abc import Iterator

from tensor_layouts import compose

from cutegen import layouts
from cutegen.analysis.access import Access
from cutegen.analysis.accesses import fixed_sizes, strides_of
from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import covered_once
from cutegen.drawing.grids import images
from cutegen.drawing.kernels import draw_threads
from cutegen.drawing.model import Figure, Subject
from cutegen.drawing.threads import partition
from toy_family.plan import FillPlan


def accesses(plan: FillPlan) -> tuple[Access, ...]:
    """Of the matrix, which is written an element at a time."""
    output = plan.spec.output
    tile = layouts.plane(tuple(plan.tile.values()), strides_of(output, output.shape, fixed_sizes(plan.spec, plan.tile)))
    threads, values = (compose(tile, mode) for mode in layouts.modes_of(plan.tv_layout))
    name, where = f"{output.name} to global memory", ("schedule", "rows")
    return (Access(name, output.name, output.dtype, "global", "write", 1, layouts.pair(threads, values), where),)


def claims(plan: FillPlan) -> Iterator[Claim]:
    """That a tile is covered, and that nothing is written outside of the matrix."""
    what, shape = f"every element of a tile of {plan.spec.output.name} is written once", tuple(plan.tile.values())
    yield covered_once(what, plan.tv_layout, shape, ("schedule", "rows"), plan.threads)
    text = "an element is written only if its coordinates are in bounds"
    yield Claim("bounds", text, ("one element at a time",), True, ("tensors", plan.spec.output.name))


def figures(plan: FillPlan) -> tuple[Figure, ...]:
    """Which thread has which elements of a tile."""
    found = partition(plan.threads, images(plan.tv_layout), tuple(plan.tile.values()))
    subjects = (Subject(("schedule", "threads")), Subject(("schedule", "rows")))
    return (draw_threads("threads", "Rows of the threads", found, tuple(plan.tile), accesses(plan), subjects),)
