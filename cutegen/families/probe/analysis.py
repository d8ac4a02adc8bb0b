"""A probe's accesses to memory, and what is proved of its plan."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from cutegen import layouts
from cutegen.algebra.composition import composed_at_run_time
from cutegen.analysis.access import Access
from cutegen.analysis.accesses import fixed_sizes, strides_of
from cutegen.analysis.claim import Claim
from cutegen.analysis.words import count
from cutegen.families.probe.plan import ProbePlan
from cutegen.language.kinds import Path


def accesses_of(plan: ProbePlan) -> tuple[Access, ...]:
    """The accesses to the tensor that a probe reads by the layout, and to the one that it writes."""
    tile = layouts.plane(plan.tiler, strides_of(plan.source, plan.source.shape, fixed_sizes(plan.spec, plan.tile)))
    threads, values = layouts.modes_of(composed_at_run_time(tile, plan.tv_layout))
    out = plan.spec.output
    shape = layouts.mode_sizes(plan.tv_layout)
    written = layouts.plane(shape, strides_of(out, out.shape, fixed_sizes(plan.spec, plan.tile)))
    where: Path = ("schedule", "tv_layout")
    return (
        Access(
            f"{plan.source.name} from global memory",
            plan.source.name,
            plan.source.dtype,
            "global",
            "read",
            1,
            layouts.pair(threads, values),
            where,
        ),
        Access(f"{out.name} to global memory", out.name, out.dtype, "global", "write", 1, written, where),
    )


def claims(plan: ProbePlan) -> Iterator[Claim]:
    """The claims that a probe reads inside of the tile, and that every thread writes elements of its own."""
    spec, tile = plan.spec, prod(plan.tiler)
    reach = max(layouts.offsets(plan.tv_layout)) + 1
    made_of = f"{count(plan.threads, 'thread')} * {count(plan.values, 'value')}"
    text = "every (thread, value) reads inside the tile, and writes an element of its own"
    because = (f"the layout reaches {reach} of {count(tile, 'element')}", made_of)
    sizes = tuple(tuple(spec.static[mode] for mode in tensor.shape) for tensor in (plan.source, spec.output))
    made = (plan.threads, plan.values)
    holds = reach <= tile and sizes == (plan.tiler, made) and made == layouts.mode_sizes(plan.tv_layout)
    yield Claim("bounds", text, because, holds, ("schedule", "tv_layout"))
