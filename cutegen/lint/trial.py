"""Help that works: a value is suggested only after planning and every rule have accepted it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tensor_layouts import Layout

from cutegen.language.diagnostics import Diagnostic
from cutegen.language.layouts import format_layout
from cutegen.language.model import Copy, ElementwiseSchedule, GemmSchedule, KernelSpec, Mma, Path, Scheduler, Workspace
from cutegen.lint.rule import Candidate
from cutegen.planning import layouts, resolve
from cutegen.planning.report import Report


def first_that_works(code: str, candidates: Iterable[Candidate]) -> str | None:
    """The text of the first candidate without any error; else of the first that breaks other rules than `code`."""
    second = None
    for text, spec in candidates:
        resolved, found = try_out(spec)
        errors = {d.code for d in found if d.severity == "error"}
        if code in {d.code for d in found}:
            continue
        if not errors:
            return text(resolved)
        if second is None and not any(c.startswith("CG22") for c in errors):
            second = text(resolved)
    return second


def try_out(spec: KernelSpec) -> tuple[KernelSpec, list[Diagnostic]]:
    """A candidate as planning completes it, and what is said about it; nothing about speed."""
    from cutegen.lint import check  # the rules ask for trials, and trials for the rules

    report = Report(spec.source)
    resolved = resolve(spec, report)
    if not report.failed:
        check(resolved, report, advise=False)
    return resolved, report.diagnostics


def as_written(spec: KernelSpec) -> KernelSpec:
    """A resolved spec without what planning filled in, so that a changed value is inferred around anew."""
    match spec.schedule:
        case ElementwiseSchedule():
            return replace(spec, schedule=_elementwise(spec, spec.schedule))
        case GemmSchedule():
            return replace(spec, schedule=_gemm(spec, spec.schedule))
    return spec


def is_written(spec: KernelSpec, *path: str | int) -> bool:
    return path in spec.source.values


def _kept(spec: KernelSpec, values: Mapping[str, Any], *path: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if is_written(spec, *path, key)}


def _copy(spec: KernelSpec, copy: Copy, *path: str) -> Copy:
    fields = ("atom", "bits", "thread_layout", "value_layout", "evict_priority")
    return Copy(**_kept(spec, {name: getattr(copy, name) for name in fields}, *path))


def _scheduler(spec: KernelSpec, scheduler: Scheduler) -> Scheduler:
    fields = {"raster": scheduler.raster, "swizzle": scheduler.swizzle}
    return Scheduler(**_kept(spec, fields, "schedule", "scheduler"))


def _elementwise(spec: KernelSpec, schedule: ElementwiseSchedule) -> ElementwiseSchedule:
    fields = {name: getattr(schedule, name) for name in ("partition", "threads", "thread_layout", "value_layout")}
    return ElementwiseSchedule(
        **_kept(spec, fields, "schedule"),
        tiler=_kept(spec, schedule.tiler or {}, "schedule", "tiler") or None,
        copy=_copy(spec, schedule.copy, "schedule", "copy"),
        predication=_kept(spec, schedule.predication, "schedule", "predication"),
        scheduler=_scheduler(spec, schedule.scheduler),
    )


def _gemm(spec: KernelSpec, schedule: GemmSchedule) -> GemmSchedule:
    mma = {name: getattr(schedule.mma, name) for name in ("atom", "thread_layout", "accumulator")}
    return GemmSchedule(
        tiler=_kept(spec, schedule.tiler or {}, "schedule", "tiler") or None,
        mma=Mma(
            **_kept(spec, mma, "schedule", "mma"),
            permutation=_kept(spec, schedule.mma.permutation, "schedule", "mma", "permutation"),
        ),
        copies={
            name: _copy(spec, copy, "schedule", "copies", name)
            for name, copy in schedule.copies.items()
            if is_written(spec, "schedule", "copies", name)
        },
        workspace={
            name: space if is_written(spec, "schedule", "workspace", name, "thread_layout") else Workspace(space.major)
            for name, space in schedule.workspace.items()
        },
        smem_pad={
            name: pad for name, pad in schedule.smem_pad.items() if is_written(spec, "schedule", "smem", name, "pad")
        },
        smem_layout={
            name: layout
            for name, layout in schedule.smem_layout.items()
            if is_written(spec, "schedule", "smem", name, "layout")
        },
        stages=schedule.stages if is_written(spec, "schedule", "pipeline", "stages") else None,
        store=schedule.store if is_written(spec, "schedule", "pipeline", "store") else None,
        predication=_kept(spec, schedule.predication, "schedule", "predication"),
        scheduler=_scheduler(spec, schedule.scheduler),
    )


# ------------------------------------------------------------------------------------------------- changed specs


def changed(spec: KernelSpec, **fields: Any) -> KernelSpec:
    """As written, with other fields of the schedule."""
    spec = as_written(spec)
    return replace(spec, schedule=replace(spec.schedule, **fields))


def changed_mma(spec: KernelSpec, **fields: Any) -> KernelSpec:
    spec = as_written(spec)
    assert isinstance(spec.schedule, GemmSchedule)
    return replace(spec, schedule=replace(spec.schedule, mma=replace(spec.schedule.mma, **fields)))


def changed_copy(spec: KernelSpec, tensor: str | None = None, **fields: Any) -> KernelSpec:
    """With another copy of `tensor`; of all tensors in an elementwise kernel."""
    spec = as_written(spec)
    if isinstance(spec.schedule, ElementwiseSchedule):
        return replace(spec, schedule=replace(spec.schedule, copy=replace(spec.schedule.copy, **fields)))
    assert isinstance(spec.schedule, GemmSchedule) and tensor is not None
    copies = dict(spec.schedule.copies)
    copies[tensor] = replace(copies.get(tensor, Copy()), **fields)
    return replace(spec, schedule=replace(spec.schedule, copies=copies))


def changed_tiler(spec: KernelSpec, **extents: int) -> KernelSpec:
    written = as_written(spec)
    tiler = getattr(written.schedule, "tiler", None) or {}
    return replace(written, schedule=replace(written.schedule, tiler={**tiler, **extents}))


def written(text: str) -> Callable[[KernelSpec], str]:
    """A candidate's text that does not depend on what is inferred."""
    return lambda _: text


def say_layout(name: str, layout: Layout) -> str:
    return f"write `{name}: {format_layout(layout)}`"


def first_written(spec: KernelSpec, *paths: Path) -> Path:
    """The first of the places that was written; the last where none was."""
    return next((path for path in paths if is_written(spec, *path)), paths[-1])


def shrunk(extents: Sequence[int], limit: int) -> tuple[int, ...]:
    """Divisors of the extents with a product of at most `limit`: the largest extent gives way first."""
    result = list(extents)
    total = layouts.product(result)
    while total > limit:
        i = max(range(len(result)), key=lambda j: result[j])
        # A prime beyond any trial division gives way at once.
        factor = next((d for d in range(2, 1000) if result[i] % d == 0), result[i])
        result[i] //= factor
        total = layouts.product(result)
    return tuple(result)
