"""Inference of what the schedule of a contraction by warpgroups leaves out, and the plan of one that is resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.tree import Compute
from cutegen.families.attention.operands import (
    UNIT,
    extents,
    is_fixed,
    least_room,
    moved_in_tiles,
    multiplied,
    stored_with_columns,
    swizzle_of,
    with_tensors,
)
from cutegen.families.attention.plan import comes_by_turns, products_of
from cutegen.families.attention.wgmma.allocation import OTHERS, most_rows, registers_of, smem_bytes
from cutegen.families.attention.wgmma.plan import REGISTERS, ROWS, WARPGROUP, MappedOperand, WarpgroupAttentionPlan
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
KEYS_OF_ONE_SUM = {32: 96, 64: 80, 96: 64, 128: 96, 192: 64, 256: 48}
KEYS_OF_SUMS = {32: 80, 64: 64, 96: 48, 128: 80, 192: 48, 256: 48}
"""Walked elements of a tile of 128 rows with several products, and one sum along the walked mode or more: the fastest
of those measured on an H200, for gradients of causal attention with rows of at most so many elements.
"""
FEW = 128  # rows of a tile that leave registers for more than what is multiplied


def unmeant(schedule: WarpgroupAttentionSchedule, tensors: Mapping[str, Tensor], compute: Compute) -> str | None:
    """Why single warps multiply: both ends of the walk are bound, and statements of one product of two tensors take
    longer than products do.

    What counts then is how few elements are computed in vain, and warps have smaller tiles. On an H200, with a softcap,
    slopes and documents, they took 0.78 to 1.01 of the time with windows of 256 and 1024 of 1024 and 4096 elements, and
    0.80 and 1.27 of 16384.
    """
    found = walked_in(compute, tensors)
    every = tuple(bounds(found))
    ends = {bound.last for bound in every}
    folds = schedule.math != "precise" and folded(found, every, [*tensors]) is not None
    if len(ends) < 2 or folds or not comes_by_turns(found):
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
    if not comes_by_turns(found):
        return _tile_of_several(spec, found)
    deep = max(spec.static.get(mode, max(TILES)) for mode in (found.scores.mode, found.columns))
    rows, keys = next((tile for most, tile in TILES.items() if deep <= most), TILES[max(TILES)])
    why = f"the fastest for rows of {deep}"
    moved = moved_in_tiles(spec, found)
    read = [tensor for tensor in spec.inputs if tensor.name not in moved and tensor.shape]
    if read:
        rows, why = min(rows, FEW), "registers are left for what statements read"
        keys -= UNIT * any(found.walked in tensor.shape for tensor in read)
    return min(rows, most_rows(spec, found)), min(keys, -(-spec.static.get(found.walked, keys) // UNIT) * UNIT), why


def _tile_of_several(spec: Spec, found: Walked) -> tuple[int, int, str]:
    """The same where there are several products: the fastest, or the largest below that registers and shared memory
    hold.
    """
    stages, rows = spec.schedule.pipeline.stages or STAGES, min(2 * ROWS, most_rows(spec, found))
    if not is_fixed(spec, found):
        return rows, UNIT, "the smallest"
    deep = max(spec.static[mode] for mode in found.depths)
    fastest = KEYS_OF_ONE_SUM if len(found.outer) == 1 else KEYS_OF_SUMS
    most = next(keys for length, keys in fastest.items() if deep <= length)
    for keys in range(most, 0, -UNIT):
        schedule = replace(spec.schedule, tiler={found.rows[0]: rows, found.walked: keys})
        trial = replace(spec, schedule=with_value(schedule, ("pipeline", "stages"), stages))
        held = registers_of(trial) + OTHERS <= REGISTERS[rows // ROWS][1]
        if held and smem_bytes(trial) <= least_room(trial)[1]:
            why = f"the fastest for rows of {deep}" if keys == most else "the largest that registers and memory hold"
            return rows, keys, why
    return rows, UNIT, "the smallest"


# ------------------------------------------------------------------------------------------------------------ plan


def plan(spec: Spec) -> WarpgroupAttentionPlan:
    """The plan of a resolved spec that passed its checks."""
    found, schedule = walked_of(spec), spec.schedule
    stages = schedule.pipeline.stages
    assert stages is not None
    rows, keys = extents(spec, found)
    depths, (lefts, rights) = moved_in_tiles(spec, found), multiplied(found)
    around = found.around
    operands = {x: _operand(spec, spec.tensor(x), found.rows[0], depths[x], ROWS) for x in lefts}
    operands |= {x: _operand(spec, spec.tensor(x), found.walked, depths[x], keys, around) for x in rights}
    pairs, outers = products_of(found, operands)
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    return WarpgroupAttentionPlan(
        spec=spec,
        threads=WARPGROUP * (1 + rows // ROWS),
        tile={found.rows[0]: rows, found.walked: keys, **{mode: spec.static[mode] for mode in found.depths}},
        statements=annotate(spec.compute, types, Dtype.f32),
        smem_bytes=smem_bytes(spec),
        walked=found,
        stages=stages,
        lefts=tuple(operands[name] for name in lefts),
        rights=tuple(operands[name] for name in rights),
        outputs=tuple(
            _operand(spec, tensor, found.rows[0], column, ROWS) for tensor, column in stored_with_columns(spec, found)
        ),
        pairs=pairs,
        outers=outers,
    )


def _operand(spec: Spec, tensor: Tensor, row: str, mode: str, rows: int, around: tuple[str, ...] = ()) -> MappedOperand:
    depth = spec.static[mode]
    return MappedOperand(tensor, row, mode, rows, depth, swizzle_of(depth, tensor.dtype.bytes), around)
