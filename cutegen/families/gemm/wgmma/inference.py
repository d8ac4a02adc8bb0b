"""Infers what the schedule of a warp-specialised gemm leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from cutegen.analysis.words import count
from cutegen.families.common.planning import resolve_tensors
from cutegen.families.gemm.inferring import filled, infer_guards, infer_swizzle, room_of
from cutegen.families.gemm.wgmma.alignment_inference import infer_alignment
from cutegen.families.gemm.wgmma.blocks import infer_cluster, infer_scheduler
from cutegen.families.gemm.wgmma.epilogue_inference import (
    BUFFERS,
    infer_buffers,
    infer_epilogue,
    smem_with,
)
from cutegen.families.gemm.wgmma.product import (
    COLUMNS,
    GRANULE,
    MOST_COLUMNS,
    ROWS,
    TARGET,
    accumulators,
    box_unit,
    cluster_of,
    contiguous_bytes,
    exchanged,
    is_finished,
    is_sound,
    lacked,
    product_of,
    shared_buffers,
    split_of,
)
from cutegen.families.gemm.wgmma.scales import block_sums, is_scaled, step_of
from cutegen.families.gemm.wgmma.schedule import Copy, Roles, Spec
from cutegen.families.gemm.words import MAX_EXTENT, tile_of
from cutegen.language.edits import with_value
from cutegen.language.model import Tensor
from cutegen.planning.report import Report

INFERRED_FROM: Mapping[str, tuple[str, ...]] = {
    "warps.consumers": ("tiler.M", "warps.roles"),
    "tiler": ("warps.consumers", "warps.roles", "mma.rows"),
    "smem.*.swizzle": ("tiler",),
    "pipeline.stages": ("tiler",),
    "mma.in_flight": ("pipeline.stages",),
    "warps.registers": ("warps.consumers", "tiler"),
    "cluster": ("tiler.M",),
    "copies.*.multicast": ("cluster",),
    "copies.*.box": ("tiler", "cluster", "copies.*.multicast", "predication"),
    "copies.*.columns": ("tiler",),
    "copies.*.stages": ("tiler", "pipeline.stages"),
}
W = TypeVar("W")
LINE = 128  # bytes of a tile along k: of the widest swizzle
FEWER_COLUMNS = 192  # with three warpgroups, whose threads start with 128 registers, and of two that take turns
SEGMENT_COLUMNS = 128  # of tiles of 128 rows of a segment, which share loads of A: see `_infer_tile`
FEW_STAGES = 2  # of which one is waited for: the other is free as soon as it has been multiplied
BOXES = (64, 32, 16, 8)  # rows of one load where a tile may end beyond the tensor
FEW_IN_BOX, SOME_IN_BOX = 16, 32  # the most of rows of the output, of which there may be few
LOADS_DECIDE = 128  # columns of a tile whose products take less time than its loads in boxes of 16 rows
STAGES = 8  # at most: more tiles on their way than hide the memory's latency gain nothing
FEW_COLUMNS, MORE_STAGES = 64, 16  # of a product whose rows are columns of the output: memory is what it waits for
REGISTERS = {1: (56, 240), 2: (40, 232), 3: (32, 160)}  # of producers and consumers, by how many of these there are
SCALED_COLUMNS = 128  # of a tile whose products of each block are scaled: each has two accumulators
MANY = 128  # accumulators of a thread, beyond which two warpgroups take what producers can do without
MOST_REGISTERS = (24, 240)


def resolve(spec: Spec, report: Report) -> Spec:
    """The spec with every field of the schedule filled in."""
    if not spec.targets:
        spec = replace(spec, targets=(TARGET,))
        report.infer("wgmma needs Hopper", "targets")
    spec = _infer_rows(_infer_atom(spec, report), report)
    spec = resolve_tensors(infer_alignment(spec, report), report, {})
    spec = _infer_tile(spec, report)
    if not is_sound(spec):
        return spec  # lint says why
    spec = _infer_registers(_infer_swizzles(spec, report), report)
    spec = _infer_loads(infer_cluster(spec, report), report)
    spec = infer_epilogue(infer_scheduler(spec, report), report)
    spec = _infer_in_flight(infer_buffers(_infer_stages(spec, report), report), report)
    return _infer_boxes(_infer_predication(spec, report), report) if is_finished(spec) else spec


def _infer_atom(spec: Spec, report: Report) -> Spec:
    if spec.schedule.mma.atom is not None:
        return spec
    return replace(spec, schedule=filled(spec.schedule, report, ("mma", "atom"), "wgmma", "the family's own"))


def _infer_rows(spec: Spec, report: Report) -> Spec:
    """A product has its 64 rows along M, unless M is known to be less."""
    if spec.schedule.mma.rows is not None:
        return spec
    m, n = spec.output.shape[-2:]
    few = spec.static.get(m, ROWS) < ROWS <= spec.static.get(n, ROWS)
    few = few and spec.segments is None and not is_scaled(spec)
    why = (
        f"{m} is less than the {ROWS} rows of one product" if few else "A has the rows of a product, and B its columns"
    )
    return replace(spec, schedule=filled(spec.schedule, report, ("mma", "rows"), n if few else m, why))


def _infer_tile(spec: Spec, report: Report) -> Spec:
    """A tile of two warpgroups' rows, of 256 columns, and of a line of memory along k: 192 KiB in four stages.

    Two warpgroups that take turns have whole tiles, whose accumulators leave room for fewer columns. Of rows that are
    cut into segments tiles of 128 x 128 are 1.18 times as fast as the better of torch and quack in the geometric mean,
    0.96 at worst; of 128 x 192 1.16 and 0.94, of 64 x 256 1.19 and 0.94, of 128 x 256 with all warpgroups 1.16 and 0.95
    (17 layers of 8 to 256 experts with 8 to 4096 rows each, H200).
    """
    product, schedule = product_of(spec), spec.schedule
    tiler, warps = dict(schedule.tiler or {}), schedule.warps
    consumers, rows = warps.consumers, tiler.get(product.m)
    few = exchanged(spec)  # columns of the product: what is loaded are the rows, so that many blocks load at once
    if warps.roles is None:
        roles: Roles = "cooperative"
        why = "each warpgroup has a part of the rows, for large tiles"
        if product.segments is not None and consumers in (None, 2):
            roles, why = (
                "pingpong",
                "one warpgroup stores a tile, which at the end of a segment takes longer, while the other multiplies",
            )
        warps = replace(warps, roles=roles)
        report.infer(why, "schedule", "warps", "roles")
    pingpong = warps.roles == "pingpong"
    if pingpong and warps.turns is None:
        warps = replace(warps, turns="products")
        report.infer("epilogues may overlap", "schedule", "warps", "turns")
    if consumers is None:
        needed = rows if rows is not None else ROWS if few else spec.static.get(product.m, 2 * ROWS)
        consumers = 2 if pingpong else min(2, max(1, -(-needed // ROWS)))
        consumers = 3 if rows == 3 * ROWS and not pingpong else consumers
        why = "two take turns" if pingpong else f"{ROWS} rows of the tile each, and two where there are more"
        report.infer(why, "schedule", "warps", "consumers")
    if rows is None:
        tiler[product.m] = 2 * ROWS if pingpong else ROWS * consumers
        why = "twice the rows of a product" if pingpong else f"{ROWS} rows of each consumer warpgroup"
        report.infer(why, "schedule", "tiler", product.m)
    if product.n not in tiler:
        crowded = tiler[product.m] > ROWS if pingpong else consumers > 2
        most = FEWER_COLUMNS if crowded else MOST_COLUMNS
        if product.segments is not None and pingpong and crowded and len(product.b) == 1:
            most = SEGMENT_COLUMNS
        most = min(most, SCALED_COLUMNS) if is_scaled(spec) else most
        if not pingpong and tiler[product.m] * len(product.a) // consumers > ROWS:
            most = max(COLUMNS, MOST_COLUMNS * ROWS * consumers // (tiler[product.m] * len(product.a)))
        most = max(COLUMNS, most // len(product.b) // COLUMNS * COLUMNS)
        most = most // GRANULE * GRANULE or most
        columns = spec.static.get(product.n, FEW_COLUMNS if few else most)
        unit = split_of(spec) * (GRANULE if columns > COLUMNS else COLUMNS)
        tiler[product.n] = min(most // unit * unit or most, -(-columns // unit) * unit)
        whose = f", of {len(product.b)} products" * (len(product.b) > 1)
        full = most * len(product.b) == MOST_COLUMNS
        whose = " of sums and of products of a block" if is_scaled(spec) else whose
        why = f"as many columns as one wgmma has{whose}" if full else f"as registers hold accumulators{whose}"
        why = "the fastest tiles of segments have as many" if most == SEGMENT_COLUMNS and product.segments else why
        report.infer(why, "schedule", "tiler", product.n)
    if product.k not in tiler:
        lines = 2 if few else 1
        tiler[product.k] = line = lines * LINE // product.dtype.bytes
        why = f"{LINE} bytes, the widest swizzle" + ", twice: rows that are read once" * few
        if (step := step_of(spec, line)) < line:
            tiler[product.k], why = step, "a step that divides the blocks of scales"
        report.infer(why, "schedule", "tiler", product.k)
    ordered = {mode: tiler[mode] for mode in (product.m, product.n, product.k)}
    return replace(spec, schedule=replace(schedule, tiler=ordered, warps=replace(warps, consumers=consumers)))


def _infer_swizzles(spec: Spec, report: Report) -> Spec:
    """The widest swizzle that the tile of an operand fills."""
    schedule, product = spec.schedule, product_of(spec)
    for tensor, mode in product.sides:
        like = schedule.smem.get(tensor.name) or _first_of(schedule.smem, product.stacked, tensor)
        schedule = replace(schedule, smem={**schedule.smem, **({tensor.name: like} if like else {})})
        schedule = infer_swizzle(schedule, report, tensor, contiguous_bytes(spec, tensor, mode))
    return replace(spec, schedule=schedule)


def _first_of(words: Mapping[str, W], stacked: Sequence[Tensor], tensor: Tensor) -> W | None:
    """The first entry of `words` for any of the `stacked` operands, which are multiplied as one; None if there is no
    such entry, or if `tensor` is not one of them.
    """
    return next((words[t.name] for t in stacked if tensor in stacked and t.name in words), None)


def _infer_registers(spec: Spec, report: Report) -> Spec:
    consumers = spec.schedule.warps.consumers
    assert consumers is not None
    registers = dict(spec.schedule.warps.registers)
    budgets = REGISTERS.get(consumers, REGISTERS[3])
    if consumers == 2 and accumulators(spec) + block_sums(spec) > MANY:
        budgets = MOST_REGISTERS
    for role, budget in zip(("producer", "consumer"), budgets, strict=True):
        if role not in registers:
            registers[role] = budget
            why = "a thread that only starts loads needs few" if role == "producer" else "the remaining registers"
            report.infer(why, "schedule", "warps", "registers", role)
    ordered = {role: registers[role] for role in ("producer", "consumer")}
    return replace(spec, schedule=with_value(spec.schedule, ("warps", "registers"), ordered))


def _infer_loads(spec: Spec, report: Report) -> Spec:
    """A load of A or B serves all blocks of the cluster that multiply it."""
    copies, product = dict(spec.schedule.copies), product_of(spec)
    for tensor, _ in product.sides:
        own, blocks = copies.get(tensor.name, Copy()), spec.schedule.cluster.get(lacked(spec, tensor), 1)
        if own.atom is None:
            own = replace(own, atom="tma")
            report.infer("whole tiles, by one thread", "schedule", "copies", tensor.name, "atom")
        if own.multicast is None:
            like = _first_of(copies, product.stacked, tensor)
            shared = blocks > 1 and own.box is None
            own = replace(own, multicast=(like and like.multicast) or ("cluster" if shared else "none"))
            why = f"for {blocks} blocks of the cluster" if shared else "no other block of the cluster multiplies it"
            why = "each block loads it in boxes" if blocks > 1 and not shared else why
            report.infer(why, "schedule", "copies", tensor.name, "multicast")
        copies[tensor.name] = own
    return replace(spec, schedule=replace(spec.schedule, copies=copies))


def _infer_stages(spec: Spec, report: Report) -> Spec:
    schedule, k = spec.schedule, product_of(spec).k
    if schedule.pipeline.stages is not None:
        return spec
    stages, why = STAGES, "loads are in flight while a tile is multiplied"
    if exchanged(spec):
        stages = MORE_STAGES
    tiles = -(-spec.static.get(k, MAX_EXTENT) // (tile_of(schedule, k) * split_of(spec)))
    if tiles < stages and schedule.scheduler.kind == "grid":  # else loads of the next tile follow
        whose = "a block has" if split_of(spec) > 1 else f"{k} has"
        stages, why = max(1, tiles), f"{whose} {count(tiles, 'tile')}"
    while stages > 1 and smem_with(spec, stages, shared_buffers(spec) or BUFFERS[0], BUFFERS[0]) > room_of(spec):
        stages, why = stages - 1, "as many as fit shared memory"
    return replace(spec, schedule=filled(schedule, report, ("pipeline", "stages"), stages, why))


def _infer_in_flight(spec: Spec, report: Report) -> Spec:
    """Products of one tile are under way while the next one is waited for, unless that is what takes the time."""
    if spec.schedule.mma.in_flight is not None:
        return spec
    in_flight, why = 1, "it keeps the tensor cores busy during the wait for the next tile"
    if is_scaled(spec):
        in_flight, why = 0, "the products of each block are scaled once they are done"
    elif spec.schedule.pipeline.stages == 1:
        in_flight, why = 0, "the only stage is free once it has been multiplied"
    elif spec.schedule.pipeline.stages == FEW_STAGES:
        in_flight, why = 0, "of two stages, the multiplied one is reloaded at once"
    return replace(spec, schedule=filled(spec.schedule, report, ("mma", "in_flight"), in_flight, why))


def _infer_boxes(spec: Spec, report: Report) -> Spec:
    """An operand that a block loads for itself, and whose tiles may reach beyond the tensor, is loaded in boxes of few
    rows, so that outside boxes are skipped.

    The hardware fills rows outside with zeros, which takes about five clocks a row, and each load takes about fifty.
    With 128 columns, exchanged, a product of 4 x 4096 x 14336 took 104 us in whole tiles and 49 us in boxes of 16 rows
    (H100). Tiles of 128 x 96, exchanged, are 4 to 20 % faster in boxes of 32 rows than of 16 from 40 rows of the output
    on, those of 128 x 128 up to 5 %, and wider ones as fast; blocks of 64 rows, which wait for memory, are up to 15 %
    slower. Where rows are rows of the output, tiles of 128 x 96 are 3 to 22 % faster in boxes of 32 than of 64 for 72,
    200 and 1032 rows, as fast for multiples of 64, and up to 18 % slower in boxes of 16 (H200, 149 shapes). Where rows
    are cut into segments, whole tiles are faster: 7 % for both operands with 64 to 256 segments (H200).
    """
    copies, product = dict(spec.schedule.copies), product_of(spec)
    if product.segments is not None:
        return spec
    for tensor, mode in product.sides:
        own = copies[tensor.name]
        if own.box is None and spec.schedule.predication.get(mode) == "mask" and own.multicast == "none":
            like, block = _first_of(copies, product.stacked, tensor), tile_of(spec.schedule, mode)
            fitting = [rows for rows in BOXES if block % rows == 0 and rows % box_unit(spec, tensor) == 0]
            most = _most_in_box(spec, mode)
            box = (like and like.box) or next((rows for rows in fitting if rows <= most), min(fitting, default=None))
            if box is not None:
                copies[tensor.name] = replace(own, box=box)
                report.infer("boxes beyond the tensor's end are left out", "schedule", "copies", tensor.name, "box")
    return replace(spec, schedule=replace(spec.schedule, copies=copies))


def _most_in_box(spec: Spec, mode: str) -> int:
    """The rows of a box of an operand along one of the output's modes, where its tile has a multiple of them."""
    product = product_of(spec)
    if mode == product.m:  # weights where rows are exchanged, of which most have whole tiles
        return ROWS if exchanged(spec) else SOME_IN_BOX
    if not exchanged(spec):
        return ROWS
    columns = tile_of(spec.schedule, mode) * len(product.stacked)
    return SOME_IN_BOX if tile_of(spec.schedule, product.m) > ROWS and columns <= LOADS_DECIDE else FEW_IN_BOX


def _infer_predication(spec: Spec, report: Report) -> Spec:
    """A mode is masked unless its size is whole tiles of a cluster."""
    sides = zip(product_of(spec).modes, cluster_of(spec), strict=False)
    tiles = {mode: tile_of(spec.schedule, mode) * blocks for mode, blocks in sides}
    if (segments := spec.segments) is not None and segments.mode not in spec.schedule.predication:
        why = "a segment may end inside of a tile"
        spec = replace(spec, schedule=filled(spec.schedule, report, ("predication", segments.mode), "mask", why))
    return infer_guards(spec, report, tiles, dict.fromkeys(tiles, "mask"), "the tile of a cluster")
