"""The probe: what each (thread, value) of a thread-value layout reads, written out so that hardware proves a layout."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tensor_layouts import Layout, size

from cutegen.language.expressions import annotate
from cutegen.language.model import KernelSpec, ProbeSchedule
from cutegen.planning import layouts
from cutegen.planning.common import resolve_tensors
from cutegen.planning.plan import Operand, Pointwise, ProbePlan
from cutegen.planning.report import Report
from cutegen.planning.sound import is_sound


def resolve(spec: KernelSpec, report: Report) -> KernelSpec:
    """The tiler (the values of the layout, along the first mode) and with it every mode's one size."""
    assert isinstance(spec.schedule, ProbeSchedule) and spec.schedule.tv_layout is not None
    source, schedule = spec.tensor(spec.compute.names()[0]), spec.schedule
    # A probe writes single elements: no alignment beyond the element's is of use.
    tensors = []
    for tensor in spec.tensors:
        if tensor.align is None:
            tensor = replace(tensor, align=tensor.dtype.bytes)
            report.infer("one element at a time", "tensors", tensor.name, "align")
        tensors.append(tensor)
    default = {source.name: source.shape[0], spec.output.name: spec.output.shape[-1]}
    spec = resolve_tensors(replace(spec, tensors=tuple(tensors)), report, default)
    if not is_sound(spec):
        return spec  # lint says why
    tiler = dict(schedule.tiler or {})
    for i, mode in enumerate(source.shape):
        if mode not in tiler:
            whole = i == 0 and schedule.tiler is None
            tiler[mode] = reach(schedule.tv_layout) if whole else 1
            why = "as far as the layout reaches" if whole else "the other modes hold it all"
            report.infer(why, "schedule", "tiler", mode)
    schedule = replace(schedule, tiler={mode: tiler[mode] for mode in source.shape})
    assert schedule.tv_layout is not None and schedule.tiler is not None
    threads, values = layouts.mode_sizes(schedule.tv_layout)
    wanted = {**schedule.tiler, **dict(zip(spec.output.shape, (threads, values), strict=True))}
    static = dict(spec.static)
    for mode, extent in wanted.items():
        if static.setdefault(mode, extent) != extent:
            report.error(
                "CG222",
                f"{mode} is fixed at {static[mode]}, and the probe needs {extent}",
                "static",
                mode,
                notes=(f"tv_layout has {threads} threads of {values} values, tiler {tuple(schedule.tiler.values())}",),
                help=f"write {extent}, or leave it out",
            )
        elif mode not in spec.static:
            report.infer("one tile", "static", mode)
    return replace(spec, schedule=schedule, static={mode: static[mode] for mode in spec.modes if mode in static})


def reach(layout: Layout) -> int:
    """One more than the farthest place that a layout maps to."""
    return 1 + sum((extent - 1) * stride for extent, stride in layouts.leaves(layout))


def plan(spec: KernelSpec) -> ProbePlan:
    """The plan of a resolved spec that passed its checks."""
    assert isinstance(spec.schedule, ProbeSchedule)
    schedule = spec.schedule
    assert schedule.tv_layout is not None and schedule.tiler is not None
    source = spec.tensor(spec.compute.names()[0])
    threads, values = layouts.mode_sizes(schedule.tv_layout)
    types = {t.name: t.dtype for t in spec.tensors}
    operands = (Operand(source, 1, (), read=True, write=False), Operand(spec.output, 1, (), read=False, write=True))
    assert prod((threads, values)) == size(schedule.tv_layout)
    pointwise = Pointwise(operands, values, 1, annotate(spec.compute, types), (), False, True)
    return ProbePlan(
        spec=spec,
        threads=threads,
        tile=dict(schedule.tiler),
        pointwise=pointwise,
        source=source,
        tv_layout=schedule.tv_layout,
        tiler=tuple(schedule.tiler[m] for m in source.shape),
        values=values,
    )
