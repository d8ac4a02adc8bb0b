"""Builds the parts of a module that are specific to a warp-specialised gemm. Numbers come from the plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from cutegen.codegen.formatting import WIDTH, Item
from cutegen.codegen.parts import Constant, KernelParts, Limit, Padding, case_parameter
from cutegen.families.gemm.wgmma import allocation
from cutegen.families.gemm.wgmma.block_text import (
    counted,
    grid,
    most_clusters,
    most_tiles,
    own_columns,
    places,
    walkers,
)
from cutegen.families.gemm.wgmma.blocks import MULTIPROCESSORS
from cutegen.families.gemm.wgmma.epilogue_text import (
    epilogue_context,
    has_tile_mma,
    layout_call,
    may_have_tile_mma,
    parts_names,
    passing_text,
    source_text,
    type_text,
)
from cutegen.families.gemm.wgmma.fields import kind, literals, more_locals, told, with_formulas
from cutegen.families.gemm.wgmma.names import source_name, stack_name
from cutegen.families.gemm.wgmma.opening import tile_counts
from cutegen.families.gemm.wgmma.plan import Side, WarpspecializedPlan
from cutegen.families.gemm.wgmma.product import ALIGN, DEPTH_BYTES
from cutegen.families.gemm.wgmma.roles import kernel_body
from cutegen.families.gemm.wgmma.scales_text import scales_context
from cutegen.families.gemm.wgmma.segments_text import seen_by_segments, segments_context
from cutegen.families.gemm.wgmma.walk_text import divisors, walk_context
from cutegen.language.model import Tensor
from cutegen.parts.declared import Buffer


def kernel_parts(plan: WarpspecializedPlan) -> KernelParts:
    """The parts of a module of one gemm."""
    parameters, moved = [], (*plan.passing, *plan.sources)
    for side in plan.sides:
        parameters += [f"tma_{tensor.name}: cute.CopyAtom" for tensor in side.tensors]
        parameters += [f"s{stack_name(plan.spec, side.tensors)}_layout: cute.ComposedLayout"]
    for x in plan.passing:
        name = x.tensor.name
        parameters += [f"tma_{name}: cute.CopyAtom", f"tma_tensor_{name}: cute.Tensor"]
        parameters += [f"s{name}_layout: cute.ComposedLayout"]
    for x in plan.sources:
        name = source_name(x.tensor)
        parameters += [f"tma_{name}: cute.CopyAtom"]
        parameters += [f"tma_tensor_{name}: cute.Tensor"] * (name != x.tensor.name)
        parameters += [f"s{name}_layout: cute.ComposedLayout"]
    parameters += ["tiled_mma: cute.TiledMma", *["tile_mma: cute.TiledMma"] * may_have_tile_mma(plan)]
    parameters += ["part_mma: cute.TiledMma"] * bool(plan.passing)
    parameters += [f"{name}: cutlass.Int32" for name in tile_counts(plan) if plan.segments is None or name != "tiles_m"]
    parameters += [f"{name}: cute.FastDivmodDivisorV2" for name in divisors(plan)]
    case = case_parameter(plan.spec)
    cases = [] if plan.fields is None else [f"{case}: cutlass.Constexpr"]
    return KernelParts(
        template="gemm.py.j2",
        constants=(*constants_of(plan), *(one for one in literals(plan) if plan.varies(one.name))),
        context=epilogue_context(plan) | _context(plan),
        parameters=(*parameters, *cases),
        leading=tuple(f"m{t.name}" for side in plan.sides for t in side.tensors if plan.any_rows),
        launched={f"m{t.name}": f"tma_tensor_{t.name}" for t in _brought(plan)} | divisors(plan),
        limits=_limits(plan),
        padded={t.name: Padding(ALIGN, f"schedule.copies.{t.name}.misaligned") for t in plan.padded},
        row_copies=plan.row_copies,
        passed=dict.fromkeys(cases, case),
        multiprocessors=MULTIPROCESSORS if plan.persistent and plan.blocks is None else None,
        nvgpu=("OperandMajorMode", "cpasync", *["warp"] * any(x.matrices for x in moved), "warpgroup"),
    )


def _brought(plan: WarpspecializedPlan) -> Iterator[Tensor]:
    """The tensors that the kernel sees as tensor maps do: it accesses them in no other way."""
    yield from (t for side in plan.sides for t in side.tensors)
    yield from (x.tensor for x in plan.sources if not x.tensor.writes)


def _limits(plan: WarpspecializedPlan) -> tuple[Limit, ...]:
    """That 32 bits count the tiles of clusters, and a step of all clusters beyond them.

    Of a batch they count those of one matrix first, so that 64 bits count those of all.
    """
    if not counted(plan):
        return ()
    counts = []
    for mode, letter in ((plan.m, "M"), (plan.n, "N")):
        extent = _times(f"BLK_{mode.upper()}", f"CLUSTER_{letter}", plan)
        counts.append(f'-(-sizes["{mode}"] // ({extent}))' if "*" in extent else f'-(-sizes["{mode}"] // {extent})')
    if plan.segments is not None:  # each of which may end in a tile
        counts[0] = f'({counts[0]} + sizes["{plan.segments.of}"])'
    of_batch = [(*counts, f'sizes["{plan.batch}"]')] if plan.batch is not None else []
    wanted, holds = 'f"at most {MOST_TILES} tiles"', "tiles <= MOST_TILES"
    return tuple(Limit("schedule.tiler", factors, wanted, holds) for factors in (tuple(counts), *of_batch))


def constants_of(plan: WarpspecializedPlan) -> tuple[Constant, ...]:
    """The numbers that the module gives names: where cases share functions, with the formulas that they follow from."""
    found = _constants(plan)
    return found if plan.fields is None else tuple(with_formulas(plan, found))


def _constants(plan: WarpspecializedPlan) -> tuple[Constant, ...]:
    blocks, tiler = {mode: f"BLK_{mode.upper()}" for mode in (plan.m, plan.n, plan.k)}, "schedule.tiler"
    source = f"schedule.copies.{plan.sources[0].tensor.name}" if plan.sources else ""
    rows = f"rows of the product: columns of {plan.spec.output.name} where EXCHANGED" if plan.any_rows else ""
    copies, walk, own = f"schedule.copies.{plan.spec.output.name}", "schedule.scheduler", own_columns(plan)
    return (
        Constant(blocks[plan.m], str(plan.tile[plan.m]), rows, f"{tiler}.{plan.m}"),
        *(Constant(blocks[m], str(plan.tile[m]), "", f"{tiler}.{m}") for m in (plan.n, plan.k)),
        Constant("STAGES", str(plan.stages), "of the pipeline, in shared memory", "schedule.pipeline.stages"),
        *([Constant("PRODUCTS", str(plan.products), "with one left operand", "compute")] if plan.products > 1 else []),
        Constant("CONSUMERS", str(plan.consumers), "consumer warpgroups", "schedule.warps.consumers"),
        Constant("THREADS", "128 * (1 + CONSUMERS)", "", "schedule.warps.consumers"),
        *told(plan),
        *(
            (
                Constant("CLUSTER_M", str(plan.cluster[0]), "blocks of a cluster", "schedule.cluster"),
                Constant("CLUSTER_N", str(plan.cluster[1]), "", "schedule.cluster"),
            )
            if prod(plan.cluster) > 1 or plan.any_peers
            else ()
        ),
        *(
            (
                Constant("CLUSTER_K", str(plan.split), "blocks that split the sum of a tile", "schedule.cluster"),
                Constant(own, f"{blocks[plan.n]} // CLUSTER_K", "of a tile, stored by one of them", "schedule.cluster"),
            )
            if plan.split > 1 or plan.any_split
            else ()
        ),
        *([Constant("MOST_TILES", most_tiles(plan), "", tiler)] if counted(plan) else []),
        *walkers(plan),
        *([Constant("BAND", str(plan.band), "tiles", f"{walk}.swizzle")] if plan.band > 1 else []),
        Constant("STAGE_BYTES", str(plan.stage_bytes), "of the loads of one stage", tiler),
        *_boxes(plan),
        *(
            [Constant("SENT_BYTES", str(plan.sent_bytes), "received from the other blocks", tiler)]
            if plan.split > 1 or plan.any_split
            else ()
        ),
        Constant("VALUES", str(plan.pointwise.values), f"{_values(plan)} of a thread{_each(plan)}", tiler),
        Constant("VECTOR", str(plan.pointwise.vector), f"elements of one access to {plan.spec.output.name}", copies),
        Constant("SLICE", str(plan.pointwise.slice), "accumulators per step of the epilogue", "schedule.mma"),
        *(
            (
                Constant("COLUMNS", str(plan.columns), "in one store of a warpgroup", copies),
                Constant("PARTS", str(plan.parts), "slices of the epilogue in these columns", copies),
                Constant("PIECES", "VALUES // SLICE // PARTS", "stores of a warpgroup for its part of a tile", copies),
                Constant("BUFFERS", str(plan.buffers), f"of {_storing(plan)} for stores", copies),
            )
            if plan.passing
            else ()
        ),
        *(
            (
                Constant("SOURCES", str(plan.source_buffers), "buffers of each tensor that the epilogue reads", source),
                Constant("SOURCE_BYTES", str(plan.source_bytes), "of the loads of one buffer", source),
            )
            if plan.sources
            else ()
        ),
    )


def _boxes(plan: WarpspecializedPlan) -> Iterator[Constant]:
    """Of operands that are loaded in boxes the rows and the bytes of one; where the functions serve others, too, those
    of the whole tile.
    """
    for side in (side for side in plan.sides if side.box is not None or plan.any_peers):
        name, path = stack_name(plan.spec, side.tensors), f"schedule.copies.{side.tensor.name}.box"
        path = path if side.box is not None else "schedule.tiler"
        box, width = side.box or side.block, len(side.tensors) * side.tensor.dtype.bytes
        yield Constant(f"BOX_{name}", str(box), f"elements along {side.mode} of one load of {name}", path)
        yield Constant(f"BOX_BYTES_{name}", str(box * width * plan.tile[plan.k]), "", path)


def with_fields(
    plan: WarpspecializedPlan, names: frozenset[str] | None, told: frozenset[str]
) -> WarpspecializedPlan | None:
    """The plan of a kernel whose functions take these constants as fields of a parameter; names None: all that they may
    take. None if a scalar has such a name. By those of `told` they tell it from kernels of other forms.
    """
    plan = replace(plan, told=told)
    constants = (*constants_of(plan), *literals(plan))
    if not {*more_locals(plan), *(one.name for one in constants)}.isdisjoint(s.name for s in plan.spec.scalars):
        return None
    fields = [one.name for one in constants] if names is None else [plan.by_role.get(name, name) for name in names]
    return replace(plan, fields=frozenset(fields))


def _context(plan: WarpspecializedPlan) -> dict[str, Any]:
    blocks = {mode: f"BLK_{mode.upper()}" for mode in (plan.m, plan.n, plan.k)}
    clustered = prod(plan.cluster) > 1
    passing, sources = [passing_text(plan, x) for x in plan.passing], [source_text(plan, x) for x in plan.sources]
    shape = f"{'CLUSTER_M, CLUSTER_N' if clustered else '1, 1'}, {'CLUSTER_K' if plan.split > 1 else '1'}"
    cluster = f"[{shape}]" if plan.cluster_size > 1 else "None"
    named = "cluster" if plan.any_split or plan.any_peers else cluster
    options = [*[f"cluster={named}"] * (named != "None"), *["use_pdl=True"] * plan.dependent]
    tiles, batched = " * ".join(tile_counts(plan)), plan.batch is not None
    extents = [_times(blocks[plan.m], "CLUSTER_M", plan), _times(blocks[plan.n], "CLUSTER_N", plan), *["1"] * batched]
    walk = walk_context(plan)
    tiles = f"(tiles_m + m{plan.segments.ends}.shape[0]) * tiles_n" if plan.segments is not None else tiles
    return (
        walk
        | segments_context(plan)
        | scales_context(plan)
        | {
            "body": kernel_body(plan, walk["finders"]),
            "A": stack_name(plan.spec, plan.a.tensors),
            "B": stack_name(plan.spec, plan.b.tensors),
            "M": plan.m.upper(),
            "N": plan.n.upper(),
            "K": plan.k.upper(),
            "sides": list(map(partial(_side, plan, blocks), plan.sides, allocation.operands(plan.spec))),
            "passing": passing,
            "sources": sources,
            "mapped": [
                *(t.name for x in plan.sides for t in x.tensors),
                *(x.tensor.name for x in plan.passing),
                *(x["stem"] for x in sources),
            ],
            "mmas": list(_mmas(plan, blocks)),
            "has_tile_mma": has_tile_mma(plan),
            "may_have_tile_mma": may_have_tile_mma(plan),
            "numbered_along_x": clustered and not plan.persistent,
            "thr_tile": "thr_tile" if may_have_tile_mma(plan) else "thr_mma",
            "acc_shape": f"({', '.join(_stacked(x, blocks) for x in plan.sides)})",
            "parts": _products(plan, blocks),
            "product_op": _product_op(plan),
            "depth": DEPTH_BYTES // plan.a.tensor.dtype.bytes,
            "clustered": clustered or (plan.any_peers and plan.persistent),
            "place_names": places(plan),
            "count_names": "_, _, clusters" if plan.persistent else "clusters, _, _",
            "own_n": own_columns(plan),
            "own_sums": f"({'PRODUCTS * ' * (plan.products > 1)}VALUES,)" if plan.split > 1 else "",
            "takes_more": plan.split > 1 and plan.persistent,
            "copies": {
                one.variable: one.copies for one in (*allocation.outputs(plan.spec), *allocation.brought(plan.spec))
            },
            "cluster_tile": f"({', '.join(extents)})",
            "reached": _reached(plan, extents) if plan.beyond else "",
            "counts": ", ".join(tile_counts(plan)),
            "clusters": [tiles, *([most_clusters(plan)] if plan.persistent else [])],
            "coordinates_of_tile": "m_tile, n_tile, l_tile" if batched else "m_tile, n_tile",
            "every_tile": _every(batched),
            "lasting": f", and one matrix of {plan.batch} after the other" if batched else "",
            "seen": list(_seen(plan)),
            "L": plan.batch.upper() if plan.batch else "",
            "grid": grid(plan),
            "cluster": cluster,
            "launch_options": options,
            "row_first": False,
            "exchanged": plan.exchanged,
            "epilogue_width": WIDTH - 8,
        }
    )


def _reached(plan: WarpspecializedPlan, extents: list[str]) -> str:
    """The shape that outputs are seen with, where tiles reach beyond fixed sizes: what a cluster has of these."""
    modes = (plan.m, plan.n, plan.batch)[: len(extents)]
    shape = f"m{plan.spec.output.name}.shape"
    return f"({', '.join(x if modes[i] in plan.beyond else f'{shape}[{i}]' for i, x in enumerate(extents))})"


def _every(batched: bool) -> str:
    """The coordinate of all tiles of matrices, of a batch or alone."""
    return "(None, None, None)" if batched else "(None, None)"


def _seen(plan: WarpspecializedPlan) -> Iterator[tuple[str, str]]:
    """The tensors of a kernel with a batch, with the order in which it sees their modes: that of the batch last."""
    if plan.segments is not None:
        yield from seen_by_segments(plan)
    if plan.batch is None:
        return
    for tensor in (t for side in plan.sides for t in side.tensors if plan.has_batch(t)):
        yield tensor.name, "[1, 2, 0]"
    for scale in (scale for scale in (plan.scale_a, plan.scale_b) if scale and plan.has_batch(scale.tensor)):
        yield scale.tensor.name, "[1, 2, 0]" if scale.along else "[1, 0]"
    for operand in plan.pointwise.operands:  # which have all modes of the output
        yield operand.tensor.name, "[2, 1, 0]" if plan.exchanged else "[1, 2, 0]"


def _product_op(plan: WarpspecializedPlan) -> tuple[str, list[str]]:
    """The name of CuTe's operation that multiplies operands of these types, and its types of A and B."""
    a, b = type_text(plan.a.tensor), type_text(plan.b.tensor)
    return ("MmaF8Op", [a, b]) if plan.a.tensor.dtype.is_f8 else ("MmaF16BF16Op", [a])


def _stacked(side: Side, blocks: dict[str, str]) -> str:
    """The extent of an operand's tile in shared memory along its mode of the output."""
    return f"PRODUCTS * {blocks[side.mode]}" if len(side.tensors) > 1 else blocks[side.mode]


def _mmas(plan: WarpspecializedPlan, blocks: dict[str, str]) -> Iterator[dict[str, str]]:
    """The tiled products by name: that which is made, and those by which threads find their places."""
    depth, columns = DEPTH_BYTES // plan.a.tensor.dtype.bytes, _stacked(plan.b, blocks)
    columns = columns if plan.varies(blocks[plan.b.mode]) else str(plan.b.extent)
    groups = "(1, 1, 1)" if plan.pingpong and not plan.any_turns else f"({plan.sharing}, 1, 1)"
    says = f"A warpgroup multiplies (64, {depth}) by ({depth}, {columns}), from shared memory"
    yield {"name": "tiled_mma", "columns": _stacked(plan.b, blocks), "groups": f", {groups}", "says": says}
    if has_tile_mma(plan):
        says = "The accumulators of one product, as they lie in its tile"
        if plan.split > 1:
            says = "The results that a block stores, as they lie in its part of the tile"
        yield {"name": "tile_mma", "columns": own_columns(plan), "groups": f", {groups}", "says": says}
    if plan.passing:
        says = "The accumulators of 16 columns, for the copy to shared memory"
        yield {"name": "part_mma", "columns": "16", "groups": "", "says": says}


def _products(plan: WarpspecializedPlan, blocks: dict[str, str]) -> list[dict[str, Item]]:
    """The accumulators of several products: their variable, and what takes them from all; none of one product."""
    if plan.products == 1:
        return []
    if plan.split > 1:
        names = enumerate(parts_names(plan).values())
        return [{"name": name, "of": ("cute.local_tile(", ["own", "(VALUES,)", f"({i},)"], ")")} for i, name in names]
    rows = plan.number("ROW_BLOCKS", plan.row_blocks)
    tiler, along = f"({blocks[plan.n]} // 2, {rows}, 1)", "0, {}, 0" if plan.exchanged else "{}, 0, 0"
    return [
        {"name": name, "of": ("cute.local_tile(", ["acc", tiler, f"({along.format(number)})"], ")")}
        for number, name in enumerate(parts_names(plan).values())
    ]


def _storing(plan: WarpspecializedPlan) -> str:
    return "the warpgroup that stores" if plan.in_turn else "each warpgroup"


def _values(plan: WarpspecializedPlan) -> str:
    return "results" if plan.split > 1 or plan.any_split else "accumulators"


def _each(plan: WarpspecializedPlan) -> str:
    return " for each product" if plan.products > 1 else ""


def _times(block: str, cluster: str, plan: WarpspecializedPlan) -> str:
    return f"{block} * {cluster}" if prod(plan.cluster) > 1 or plan.any_peers else block


def _side(plan: WarpspecializedPlan, blocks: dict[str, str], side: Side, stages: Buffer) -> dict[str, Any]:
    """Template variables for A or B."""
    is_a, name = side.letter == "A", stack_name(plan.spec, side.tensors)
    extent = blocks[side.mode] if side.box is None else f"BOX_{name}"
    box, order = f"({extent}, {blocks[plan.k]})", (0, 1, 2) if side.k_major else (1, 0, 2)
    atom = kind(plan, name, side.k_major, side.swizzle)
    shares = side.shared_by > 1
    return {
        "name": name,
        "type": type_text(side.tensor),
        "loads": [{"name": t.name, "path": f"schedule.copies.{t.name}"} for t in side.tensors],
        "box": box,
        "shape": f"({_stacked(side, blocks)}, {blocks[plan.k]}, {stages.copies})",
        "order": str(order),
        "atom": atom,
        "stage": layout_call(atom, side.tensor, box, str(order[:2])),
        "path": f"schedule.smem.{side.tensor.name}.swizzle",
        "load": f"cpasync.CopyBulkTensorTileG2S{'Multicast' * shares}Op()",
        "multicast": [f"num_multicast={'CLUSTER_N' if is_a else 'CLUSTER_M'}"] * shares,
    }
