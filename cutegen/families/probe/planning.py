"""Inference and plan of a probe, which writes out what each (thread, value) of a layout reads.

So hardware proves what the layout does.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tensor_layouts import size

from cutegen import layouts
from cutegen.expressions.annotating import annotate
from cutegen.families.common.planning import resolve_tensors
from cutegen.families.common.pointwise import Operand, Pointwise
from cutegen.families.probe.plan import ProbePlan
from cutegen.families.probe.schedule import Spec
from cutegen.planning.report import Report
from cutegen.planning.sound import MAX_THREADS, MAX_VALUES


def resolve(spec: Spec, report: Report) -> Spec:
    """The spec with its tiler (the values of the layout, along the first mode), and with it every mode's one size."""
    assert spec.schedule.tv_layout is not None
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
            tiler[mode] = layouts.reach(schedule.tv_layout) if whole else 1
            why = "as far as the layout reaches" if whole else "the other modes hold it all"
            report.infer(why, "schedule", "tiler", mode)
    schedule = replace(schedule, tiler={mode: tiler[mode] for mode in source.shape})
    assert schedule.tv_layout is not None and schedule.tiler is not None
    threads, values = layouts.mode_sizes(schedule.tv_layout)
    wanted = {**schedule.tiler, **dict(zip(spec.output.shape, (threads, values), strict=True))}
    static = dict(spec.static)
    for mode, extent in wanted.items():
        if static.setdefault(mode, extent) != extent:
            report.say(
                "CG222",
                f"{mode} is fixed at {static[mode]}, and the probe needs {extent}",
                "static",
                mode,
                notes=(f"tv_layout has {threads} threads of {values} values, tiler {tuple(schedule.tiler.values())}",),
                help=f"write {extent}, or leave it out",
            )
        elif mode not in spec.static:
            report.infer("one tile", "static", mode)
    for mode, step in spec.divisible.items():
        if rest := wanted[mode] % step:
            report.say(
                "CG222",
                f"{mode} is promised to be a multiple of {step}, and the probe needs {wanted[mode]}",
                "divisible",
                mode,
                notes=(f"{wanted[mode]} = {wanted[mode] // step} * {step} + {rest}",),
                help=f"write {wanted[mode]}, or leave it out",
            )
    # Promises about a fixed size were checked against it, and add nothing.
    known = {mode: static[mode] for mode in spec.modes if mode in static}
    return replace(spec, schedule=schedule, static=known, divisible={})


def plan(spec: Spec) -> ProbePlan:
    """The plan of a resolved spec that passed its checks."""
    schedule = spec.schedule
    assert schedule.tv_layout is not None and schedule.tiler is not None
    source = spec.tensor(spec.compute.names()[0])
    threads, values = layouts.mode_sizes(schedule.tv_layout)
    types = {t.name: t.dtype for t in spec.tensors}
    operands = (Operand(source, 1, (), read=True, write=False), Operand(spec.output, 1, (), read=False, write=True))
    assert prod((threads, values)) == size(schedule.tv_layout)
    pointwise = Pointwise(operands, values, 1, (), False, True)
    return ProbePlan(
        spec=spec,
        threads=threads,
        tile=dict(schedule.tiler),
        statements=annotate(spec.compute, types),
        pointwise=pointwise,
        source=source,
        tv_layout=schedule.tv_layout,
        tiler=tuple(schedule.tiler[m] for m in source.shape),
        values=values,
    )


def is_sound(spec: Spec) -> bool:
    """Whether the layout has two modes, and no more threads and values than a block and a thread can have."""
    schedule = spec.schedule
    if schedule.tv_layout is None or len(layouts.modes_of(schedule.tv_layout)) != 2:
        return False
    threads, values = layouts.mode_sizes(schedule.tv_layout)
    return threads <= MAX_THREADS and values <= MAX_VALUES
