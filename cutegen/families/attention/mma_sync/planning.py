"""Inference of what the schedule of a contraction leaves out, and the plan of one that is resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cutegen.atoms.targets import WARP
from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.places import joined, parts_of
from cutegen.families.attention.mma_sync.plan import ROWS_OF_WARP, AttentionPlan, Operand, given_numbers, shared_keys
from cutegen.families.attention.mma_sync.schedule import AttentionSchedule, Spec
from cutegen.families.attention.operands import (
    ACCESS,
    MOST_DEPTH,
    UNIT,
    extents,
    operands_of,
    rows_key,
    swizzle_of,
    with_tensors,
)
from cutegen.families.common.dealing import copy_layouts, row_layout
from cutegen.language.edits import with_value
from cutegen.language.model import Tensor
from cutegen.layouts import make_layout_tv
from cutegen.ops.contract import walked_of
from cutegen.ops.walked import Walked
from cutegen.planning.report import Report

INFERRED_FROM: Mapping[str, tuple[str, ...]] = {
    "mma.warps": ("tiler",),
    "pipeline.stages": ("tiler",),
}
ROWS, KEYS = 64, 64  # of a tile
WARPS_OF_KEYS = (4, 2)  # which share what a tile has along the walked mode
MOST_KEPT = 128  # elements of a row of the left tensor that registers hold beside the sums
FEW = 8  # places along the mode of rows, of which a tile has more modes then
SHORT = 64  # elements of a row of which two stages leave room for several blocks


def resolve(spec: Spec, report: Report) -> Spec:
    """The spec with every field filled in."""
    found = walked_of(spec)
    spec = with_tensors(spec, found, report)
    return replace(spec, schedule=_schedule(spec, found, report))


def _schedule(spec: Spec, found: Walked, report: Report) -> AttentionSchedule:
    schedule, tiler = spec.schedule, dict(spec.schedule.tiler or {})
    of_rows, rows, why_rows = rows_key(tiler, found), ROWS, "16 rows of each of four warps"
    if few := _few(spec, found):
        of_rows = of_rows if of_rows in tiler else joined(found.rows)
        rows, why_rows = ROWS_OF_WARP, few
    for mode, extent, why in (
        (of_rows, rows, why_rows),
        (found.walked, KEYS, "as wide as rows"),
    ):
        if mode not in tiler:
            tiler[mode] = extent
            report.infer(why, "schedule", "tiler", mode)
    schedule = replace(schedule, tiler={mode: tiler[mode] for mode in (of_rows, found.walked)})
    if schedule.mma.atom is None:
        report.infer("the family's own", "schedule", "mma", "atom")
        schedule = with_value(schedule, ("mma", "atom"), "mma_sync")
    if schedule.mma.warps is None:
        warps, why = max(1, min(16, tiler[of_rows] // ROWS_OF_WARP)), f"{ROWS_OF_WARP} rows of each"
        if schedule.split and warps == 1:
            m, n = tiler[of_rows], tiler[found.walked]
            warps = next((count for count in WARPS_OF_KEYS if _share(spec, found, m, n, count)), 1)
            why = f"each with a part of the {n} places of {found.walked}" if warps > 1 else why
        report.infer(why, "schedule", "mma", "warps")
        schedule = with_value(schedule, ("mma", "warps"), warps)
    if schedule.pipeline.stages is None:
        deep = max(spec.static.get(mode, MOST_DEPTH) for mode in (found.scores.mode, found.columns))
        stages, why = 2 if deep <= SHORT else 1, "shared memory leaves room for other blocks"
        if schedule.split and deep <= MOST_KEPT:
            stages, why = 2, "one tile comes while another one is multiplied"
        report.infer(why, "schedule", "pipeline", "stages")
        schedule = with_value(schedule, ("pipeline", "stages"), stages)
    if schedule.math is None:
        report.infer("factors of 16 bits hide the error", "schedule", "math")
        schedule = replace(schedule, math="fast")
    return schedule


def _share(spec: Spec, found: Walked, rows: int, keys: int, warps: int) -> bool:
    """Whether so many warps can share the elements of a tile along the walked mode."""
    lengths = [spec.static.get(mode, MOST_DEPTH) for mode in (found.scores.mode, found.columns)]
    tiles = [(rows, lengths[0]), *((keys, length) for length in lengths)]
    return keys % (UNIT * warps) == 0 and all(copies_fit(warps * WARP, *tile) for tile in tiles)


def _few(spec: Spec, found: Walked) -> str:
    """Why a tile has no more rows than a product, of all the modes that rows have; empty where that is not known."""
    size = spec.static.get(found.rows[0])
    if spec.schedule.split:
        return "few rows, of all heads that read the same, whose walk is shared"
    return f"{found.rows[0]} is {size}: few rows, of all heads that read the same" * (size is not None and size <= FEW)


# ------------------------------------------------------------------------------------------------------------ plan


def plan(spec: Spec) -> AttentionPlan:
    """The plan of a resolved spec that passed its checks."""
    found, schedule = walked_of(spec), spec.schedule
    warps, stages = schedule.mma.warps, schedule.pipeline.stages
    assert warps is not None and stages is not None
    rows, keys = extents(spec, found)
    left, right, values, output = operands_of(spec, found)
    threads = warps * WARP
    q = _operand(spec, left, found.rows[0], found.scores.mode, rows, 1, 0, threads)
    k = _operand(spec, right, found.walked, found.scores.mode, keys, stages, q.bytes, threads)
    v = _operand(spec, values, found.walked, found.columns, keys, stages, q.bytes + k.bytes, threads)
    o = _operand(spec, output, found.rows[0], found.columns, rows, 1, 0, threads)
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    return AttentionPlan(
        spec=spec,
        threads=threads,
        tile={found.rows[0]: rows, found.walked: keys, found.scores.mode: q.depth, found.columns: v.depth},
        statements=annotate(spec.compute, types, Dtype.f32),
        smem_bytes=smem_bytes(spec, found),
        walked=found,
        stages=stages,
        warps=warps,
        q=q,
        k=k,
        v=v,
        o=o,
        keeps_left=q.depth <= MOST_KEPT,
        parts=schedule.parts,
        fills=schedule.fills,
        packed=parts_of(rows_key(schedule.tiler or {}, found))[1:],
    )


def _operand(
    spec: Spec, tensor: Tensor, row: str, mode: str, rows: int, stages: int, offset: int, threads: int
) -> Operand:
    depth = spec.static[mode]
    vector = ACCESS // tensor.dtype.bytes
    layouts = copy_layouts(threads, (rows, depth), vector, last=True)
    assert layouts is not None
    swizzle = swizzle_of(depth, tensor.dtype.bytes)
    (tile_rows, tile_depth), _ = make_layout_tv(*layouts)
    run = swizzle // tensor.dtype.bytes
    return Operand(
        tensor, row, mode, rows, depth, stages, swizzle, offset, row_layout(rows, depth, run, stages),
        *layouts, (1, rows // tile_rows, depth // tile_depth),
    )  # fmt: skip


def smem_bytes(spec: Spec, found: Walked) -> int:
    """Bytes of shared memory of a block, of a schedule whose words may not fit each other."""
    rows, keys = extents(spec, found)
    depth, columns = spec.static[found.scores.mode], spec.static[found.columns]
    stages, warps = spec.schedule.pipeline.stages or 1, spec.schedule.mma.warps or 1
    stored = rows * columns * operands_of(spec, found)[3].dtype.bytes
    if spec.schedule.split:
        given = given_numbers(columns, len(found.of_rows)) * Dtype.f32.bytes
        stored = rows * given * warps if shared_keys(rows, warps) > 1 else 0
    return max((rows * depth + stages * keys * (depth + columns)) * 2, stored)


def copies_fit(threads: int, rows: int, depth: int) -> bool:
    """Whether threads copy a tile in whole rows of accesses."""
    return copy_layouts(threads, (rows, depth), ACCESS // 2, last=True) is not None
