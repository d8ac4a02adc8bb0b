"""The plan, and what it is inferred from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.language.model import Tensor
from cutegen.parts.declared import bytes_of
from cutegen.planning.plan import Plan
from cutegen.planning.report import Report
from toy_roles import memory
from toy_roles.op import names
from toy_roles.schedule import Spec


@dataclass(frozen=True, kw_only=True)
class BestPlan(Plan):
    """A block takes `ROWS` rows of A, and all of B: `steps` tiles along N and along K."""

    y: Tensor
    a: Tensor
    b: Tensor
    columns: int
    steps: tuple[int, int]


def resolve(spec: Spec, report: Report) -> Spec:
    """Rows are contiguous and aligned as tensor maps want them; a product takes 64 rows of B, of four stages."""
    for tensor in spec.tensors:
        if tensor.major is None:
            tensor = replace(tensor, major=tensor.shape[-1])
            report.infer("the last mode", "tensors", tensor.name, "major")
        if tensor.align is None:
            tensor = replace(tensor, align=tensor.dtype.bytes if tensor.writes else 16)
            report.infer("as its copies want it", "tensors", tensor.name, "align")
        spec = replace(spec, tensors=tuple(tensor if t.name == tensor.name else t for t in spec.tensors))
    for field, value in (("columns", 64), ("stages", 4)):
        if getattr(spec.schedule, field) is None:
            spec = replace(spec, schedule=replace(spec.schedule, **{field: value}))
            report.infer("enough to hide loads", "schedule", field)
    if not spec.targets:
        spec = replace(spec, targets=("sm_90a",))
        report.infer("wgmma needs Hopper", "targets")
    return spec


def plan(spec: Spec) -> BestPlan:
    """The plan of a resolved spec."""
    columns, stages = spec.schedule.columns, spec.schedule.stages
    assert columns is not None and stages is not None
    y, a, b = (spec.tensor(name) for name in names(spec.compute))
    n, k = (spec.static[mode] for mode in b.shape)
    return BestPlan(
        spec=spec,
        threads=memory.THREADS,
        tile={a.shape[0]: memory.ROWS, b.shape[0]: n, a.shape[1]: k},
        statements=annotate(spec.compute, {t.name: t.dtype for t in spec.tensors}, Dtype.f32),
        smem_bytes=bytes_of(memory.declared(a, b, columns), {"STAGES": stages}),
        stages=stages,
        y=y,
        a=a,
        b=b,
        columns=columns,
        steps=(n // columns, k // memory.DEPTH),
    )
