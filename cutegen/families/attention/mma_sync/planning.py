"""Inference of what the schedule of a contraction leaves out, and the plan of one that is resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cutegen.atoms.targets import WARP
from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.places import joined, parts_of
from cutegen.families.attention.mma_sync.plan import (
    ROWS_OF_WARP,
    AttentionPlan,
    CopiedOperand,
)
from cutegen.families.attention.mma_sync.room import (
    bytes_loaded,
    bytes_stored,
    copies_fit,
    placed,
    smem_bytes,
)
from cutegen.families.attention.mma_sync.schedule import AttentionSchedule, Spec
from cutegen.families.attention.mma_sync.several import MOST_ROWS, of_several
from cutegen.families.attention.operands import (
    ACCESS,
    MOST_DEPTH,
    UNIT,
    extents,
    more_than_one,
    moved_in_tiles,
    multiplied,
    rows_key,
    stored_with_columns,
    swizzle_of,
    with_tensors,
)
from cutegen.families.attention.plan import comes_by_turns, products_of
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
    plain = more_than_one(found, spec.outputs) is None
    rows, keys, stages, why = _plain(spec, found) if plain else of_several(spec, found)
    of_rows = rows_key(tiler, found)
    if plain and of_rows not in tiler and _few(spec, found):
        of_rows = joined(found.rows)
    for mode, extent, reason in ((of_rows, rows, "rows"), (found.walked, keys, "keys")):
        if mode not in tiler:
            tiler[mode] = extent
            report.infer(why[reason], "schedule", "tiler", mode)
    schedule = replace(schedule, tiler={mode: tiler[mode] for mode in (of_rows, found.walked)})
    if schedule.mma.atom is None:
        report.infer("the family's own", "schedule", "mma", "atom")
        schedule = with_value(schedule, ("mma", "atom"), "mma_sync")
    if schedule.mma.warps is None:
        of_warp = ROWS_OF_WARP if plain or tiler[of_rows] < MOST_ROWS else 2 * ROWS_OF_WARP
        warps, of_each = max(1, min(16, tiler[of_rows] // of_warp)), f"{of_warp} rows of each"
        if schedule.split and warps == 1:
            m, n = tiler[of_rows], tiler[found.walked]
            warps = next((count for count in WARPS_OF_KEYS if _share(spec, found, m, n, count)), 1)
            of_each = f"each with a part of the {n} places of {found.walked}" if warps > 1 else of_each
        report.infer(of_each, "schedule", "mma", "warps")
        schedule = with_value(schedule, ("mma", "warps"), warps)
    if schedule.pipeline.stages is None:
        report.infer(why["stages"], "schedule", "pipeline", "stages")
        schedule = with_value(schedule, ("pipeline", "stages"), stages)
    if schedule.math is None:
        report.infer("factors of 16 bits hide the error", "schedule", "math")
        schedule = replace(schedule, math="fast")
    return schedule


def _plain(spec: Spec, found: Walked) -> tuple[int, int, int, Mapping[str, str]]:
    """Rows, walked elements and stages of one product of two tensors and one with what is computed of it, and why."""
    deep = max(spec.static.get(mode, MOST_DEPTH) for mode in found.depths)
    few = _few(spec, found)
    stages, of_stages = 2 if deep <= SHORT else 1, "shared memory leaves room for other blocks"
    if spec.schedule.split and deep <= MOST_KEPT:
        stages, of_stages = 2, "one tile comes while another one is multiplied"
    why = {"rows": few or "16 rows of each of four warps", "keys": "as wide as rows", "stages": of_stages}
    return ROWS_OF_WARP if few else ROWS, KEYS, stages, why


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
    threads, tile, modes = warps * WARP, extents(spec, found), moved_in_tiles(spec, found)
    operands: dict[str, CopiedOperand] = {}
    lefts, rights = multiplied(found)
    starts, _ = placed(bytes_loaded(spec, found))
    for name in (*lefts, *rights):
        row = found.rows[0] if name in lefts else found.walked
        of_stages = 1 if name in lefts else stages
        rows = tile[name not in lefts]
        start = starts[len(operands)]
        operands[name] = _operand(spec, spec.tensor(name), row, modes[name], rows, of_stages, start, threads)
    starts, _ = placed(bytes_stored(spec, found))
    storing = WARP if schedule.parts > 1 else threads  # a second kernel stores what parts give: no tile is copied
    outputs = [
        _operand(spec, tensor, found.rows[0], column, tile[0], 1, start, storing)
        for (tensor, column), start in zip(stored_with_columns(spec, found), starts, strict=True)
    ]
    pairs, outers = products_of(found, operands)
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    return AttentionPlan(
        spec=spec,
        threads=threads,
        tile={found.rows[0]: tile[0], found.walked: tile[1], **{mode: spec.static[mode] for mode in found.depths}},
        statements=annotate(spec.compute, types, Dtype.f32),
        smem_bytes=smem_bytes(spec, found),
        walked=found,
        stages=stages,
        warps=warps,
        lefts=tuple(operands[name] for name in lefts),
        rights=tuple(operands[name] for name in rights),
        outputs=tuple(outputs),
        pairs=pairs,
        outers=outers,
        keeps_left=comes_by_turns(found) and pairs[0].left.depth <= MOST_KEPT,
        parts=schedule.parts,
        fills=schedule.fills,
        packed=parts_of(rows_key(schedule.tiler or {}, found))[1:],
    )


def _operand(
    spec: Spec, tensor: Tensor, row: str, mode: str, rows: int, stages: int, offset: int, threads: int
) -> CopiedOperand:
    depth = spec.static[mode]
    vector = ACCESS // tensor.dtype.bytes
    layouts = copy_layouts(threads, (rows, depth), vector, last=True)
    assert layouts is not None
    swizzle = swizzle_of(depth, tensor.dtype.bytes)
    (tile_rows, tile_depth), _ = make_layout_tv(*layouts)
    run = swizzle // tensor.dtype.bytes
    return CopiedOperand(
        tensor, row, mode, rows, depth, swizzle, stages, offset, row_layout(rows, depth, run, stages),
        *layouts, (1, rows // tile_rows, depth // tile_depth),
    )  # fmt: skip
