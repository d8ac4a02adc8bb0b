"""The picture of a probe: what each thread reads."""

from __future__ import annotations

from cutegen.analysis.accesses import accesses
from cutegen.drawing.grids import images
from cutegen.drawing.kernels import draw_threads
from cutegen.drawing.model import Figure, Subject
from cutegen.drawing.threads import partition
from cutegen.families.probe.plan import ProbePlan


def figures(plan: ProbePlan) -> tuple[Figure, ...]:
    """The picture of threads and values on the tile."""
    found = partition(plan.threads, images(plan.tv_layout), plan.tiler)
    title = f"What each thread of the probe reads of {plan.source.name}"
    figure = draw_threads(
        "threads", title, found, plan.source.shape, accesses(plan), (Subject(("schedule", "tv_layout")),)
    )
    return (figure,)
