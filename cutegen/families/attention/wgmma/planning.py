"""Inference of what the schedule of a contraction by warpgroups leaves out, and the plan of one that is resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.tree import Compute
from cutegen.families.attention.operands import UNIT, extents, more_than_one, operands_of, swizzle_of, with_tensors
from cutegen.families.attention.wgmma.allocation import smem_bytes
from cutegen.families.attention.wgmma.plan import ROWS, WARPGROUP, Operand, WarpgroupAttentionPlan
from cutegen.families.attention.wgmma.schedule import Spec, WarpgroupAttentionSchedule
from cutegen.language.edits import with_value
from cutegen.language.model import Tensor
from cutegen.ops.contract import walked_in, walked_of
from cutegen.ops.folding import folded
from cutegen.ops.reach import bounds
from cutegen.ops.walked import Walked
from cutegen.planning.report import Report

INFERRED_FROM: Mapping[str, tuple[str, ...]] = {"pipeline.stages": ("tiler",)}
STAGES = 2
TILES = {64: (192, 128), 96: (192, 112), 128: (128, 128), 192: (128, 112), 256: (128, 80)}
"""Rows and walked elements of a tile, for rows of at most so many elements: the fastest ones measured on an H200."""
FEW = 128  # rows of a tile that leave registers for more than what is multiplied


def unmeant(schedule: WarpgroupAttentionSchedule, tensors: Mapping[str, Tensor], compute: Compute) -> str | None:
    """Why single warps multiply: statements have more than one product of two tensors, or along the walk. Or both ends
    of the walk are bound, and statements take longer than products do.

    In the latter case what counts is how few elements are computed in vain, and warps have smaller tiles. On an H200,
    with a softcap, slopes and documents, they took 0.56 to 0.84 of the time (windows of 128 to 1024 of 1024 to 16384
    elements).
    """
    found = walked_in(compute, tensors)
    if (several := more_than_one(found, [t for t in tensors.values() if t.writes])) is not None:
        return f"warpgroups have no registers for {several}"
    every = tuple(bounds(found))
    ends = {bound.last for bound in every}
    if len(ends) < 2 or (schedule.math != "precise" and folded(found, every, [*tensors]) is not None):
        return None
    return f"both ends of the walk along {found.walked} are bound, and smaller tiles compute less in vain"


def resolve(spec: Spec, report: Report) -> Spec:
    """The spec with every field filled in."""
    found = walked_of(spec)
    spec = with_tensors(spec, found, report)
    return replace(spec, schedule=_schedule(spec, found, report))


def _schedule(spec: Spec, found: Walked, report: Report) -> WarpgroupAttentionSchedule:
    schedule, tiler = spec.schedule, dict(spec.schedule.tiler or {})
    rows, keys, why = _tile(spec, found)
    for mode, extent in ((found.rows[0], rows), (found.walked, keys)):
        if mode not in tiler:
            tiler[mode] = extent
            report.infer(why, "schedule", "tiler", mode)
    schedule = replace(schedule, tiler={mode: tiler[mode] for mode in (found.rows[0], found.walked)})
    if schedule.mma.atom is None:
        report.infer("the family's own", "schedule", "mma", "atom")
        schedule = with_value(schedule, ("mma", "atom"), "wgmma")
    if schedule.pipeline.stages is None:
        report.infer("one is multiplied while the next one comes", "schedule", "pipeline", "stages")
        schedule = with_value(schedule, ("pipeline", "stages"), STAGES)
    if schedule.math is None:
        report.infer("factors of 16 bits hide the error", "schedule", "math")
        schedule = replace(schedule, math="fast")
    return schedule


def _tile(spec: Spec, found: Walked) -> tuple[int, int, str]:
    """Rows and walked elements of a tile, and why."""
    deep = max(spec.static.get(mode, max(TILES)) for mode in (found.scores.mode, found.columns))
    rows, keys = next((tile for most, tile in TILES.items() if deep <= most), TILES[max(TILES)])
    why = f"the fastest for rows of {deep}"
    factors = {tensor.name for tensor in operands_of(spec, found)[:3]}
    read = [tensor for tensor in spec.inputs if tensor.name not in factors and tensor.shape]
    if read:
        rows, why = min(rows, FEW), "registers are left for what statements read"
        keys -= UNIT * any(found.walked in tensor.shape for tensor in read)
    size = spec.static.get(found.rows[0], rows)
    return min(rows, -(-size // ROWS) * ROWS), min(keys, -(-spec.static.get(found.walked, keys) // UNIT) * UNIT), why


# ------------------------------------------------------------------------------------------------------------ plan


def plan(spec: Spec) -> WarpgroupAttentionPlan:
    """The plan of a resolved spec that passed its checks."""
    found, schedule = walked_of(spec), spec.schedule
    stages = schedule.pipeline.stages
    assert stages is not None
    rows, keys = extents(spec, found)
    left, right, values, output = operands_of(spec, found)
    q = _operand(spec, left, found.rows[0], found.scores.mode, ROWS)
    k = _operand(spec, right, found.walked, found.scores.mode, keys)
    v = _operand(spec, values, found.walked, found.columns, keys)
    o = _operand(spec, output, found.rows[0], found.columns, ROWS)
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    return WarpgroupAttentionPlan(
        spec=spec,
        threads=WARPGROUP * (1 + rows // ROWS),
        tile={found.rows[0]: rows, found.walked: keys, found.scores.mode: q.depth, found.columns: v.depth},
        statements=annotate(spec.compute, types, Dtype.f32),
        smem_bytes=smem_bytes(spec),
        walked=found,
        stages=stages,
        q=q,
        k=k,
        v=v,
        o=o,
    )


def _operand(spec: Spec, tensor: Tensor, row: str, mode: str, rows: int) -> Operand:
    depth = spec.static[mode]
    return Operand(tensor, row, mode, rows, depth, swizzle_of(depth, tensor.dtype.bytes))
