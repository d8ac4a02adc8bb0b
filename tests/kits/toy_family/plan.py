"""The plan of a fill, and what it is inferred from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensor_layouts import Layout

from cutegen.expressions.annotating import annotate
from cutegen.planning.plan import Plan
from cutegen.planning.report import Report
from toy_family.schedule import Spec

THREADS, ELEMENTS = 128, 512  # of a block, where nothing is said
INFERRED_FROM = {"rows": ("threads",)}


@dataclass(frozen=True, kw_only=True)
class FillPlan(Plan):
    """A block's threads are side by side, and each has `rows` elements below each other."""

    rows: int

    @property
    def tv_layout(self) -> Layout:
        """(thread, value) to the place in a tile [rows, threads], first mode fastest."""
        return Layout((self.threads, self.rows), (self.rows, 1))


def resolve(spec: Spec, report: Report) -> Spec:
    """Rows are contiguous and elements aligned to themselves; blocks have 128 threads and 512 elements or so."""
    (output,) = spec.tensors
    if output.major is None:
        output = replace(output, major=output.shape[-1])
        report.infer("the last mode", "tensors", output.name, "major")
    if output.align is None:
        output = replace(output, align=output.dtype.bytes)
        report.infer("one element at a time", "tensors", output.name, "align")
    schedule = spec.schedule
    if schedule.threads is None:
        schedule = replace(schedule, threads=THREADS)
        report.infer("four warps", "schedule", "threads")
    assert schedule.threads is not None
    if schedule.rows is None:
        schedule = replace(schedule, rows=max(1, ELEMENTS // schedule.threads))
        report.infer(f"about {ELEMENTS} elements of a block", "schedule", "rows")
    if not spec.targets:
        spec = replace(spec, targets=("sm_90a",))
        report.infer("Hopper", "targets")
    return replace(spec, tensors=(output,), schedule=schedule)


def plan(spec: Spec) -> FillPlan:
    """The plan of a resolved spec."""
    threads, rows = spec.schedule.threads, spec.schedule.rows
    assert threads is not None and rows is not None
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    tile = dict(zip(spec.output.shape, (rows, threads), strict=True))
    return FillPlan(spec=spec, threads=threads, tile=tile, statements=annotate(spec.compute, types), rows=rows)
