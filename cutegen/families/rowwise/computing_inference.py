"""Infers how a row kernel computes: which reductions share a walk, and how precise its exponentials are."""

from __future__ import annotations

from dataclasses import replace

from cutegen.families.rowwise.rows import (
    cluster_of,
    has_exponentials,
    has_exponentials_above,
    has_squares_around,
    is_walked,
    only_sums_exponentials,
    row_of,
)
from cutegen.families.rowwise.schedule import Spec
from cutegen.planning.report import Report


def infer_online(spec: Spec, report: Report) -> Spec:
    """Sums of exponentials come with the largest values where rows are walked, which spares a walk.

    So do squares around a mean, since each part of a row has its own mean: if a block has whole rows in its shared
    memory, a further walk is as cheap.
    """
    schedule = spec.schedule
    near = schedule.keep == "smem" and cluster_of(spec) == 1
    if schedule.online is not None or not is_walked(spec):
        return spec
    if not has_exponentials_above(spec) and (near or not has_squares_around(spec)):
        return spec
    report.infer("it saves a walk over the row", "schedule", "online")
    return replace(spec, schedule=replace(schedule, online="walked"))


def infer_math(spec: Spec, report: Report) -> Spec:
    """Exponentials are fast if at most 16 bits of each element are stored, and where a row has only sums of them: those
    whose error is large are small beside the largest one, which is 1.
    """
    if spec.schedule.math is not None or not has_exponentials(spec):
        return spec
    row = row_of(spec)
    of_elements = [t for t in spec.assigned if row in t.shape]
    summed = not of_elements and only_sums_exponentials(spec)
    wide = None if summed else next((t for t in of_elements or spec.assigned if t.dtype.bits > 16), None)
    why = "stored results have at most 16 bits" if wide is None else f"{wide.name} is {wide.dtype.value}"
    why = "a row only sums them, and the largest are the most exact" if summed else why
    report.infer(why, "schedule", "math")
    return replace(spec, schedule=replace(spec.schedule, math="fast" if wide is None else "precise"))
