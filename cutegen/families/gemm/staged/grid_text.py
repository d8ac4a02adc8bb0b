"""Text about the tiles of a multistage gemm in its module: their sizes, the order of blocks, and limits of the grid."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from cutegen.codegen.parts import Constant, KernelParts, Limit
from cutegen.families.common.pointwise_text import pointwise_context
from cutegen.families.gemm.staged.load_text import LoadText
from cutegen.families.gemm.staged.plan import MultistagePlan
from cutegen.families.gemm.staged.predicate_text import predicate_text


def kernel_parts(
    plan: MultistagePlan,
    template: str,
    threads_path: str,
    multiplying: list[str],
    context: dict[str, Any],
    loads: Sequence[LoadText],
    sums: str,
    *,
    of_tile: tuple[Constant, ...] = (),
    nvgpu: tuple[str, ...] = (),
    taken: Collection[str] = (),
) -> KernelParts:
    """The parts of a module of one gemm, whose number of threads `threads_path` decides on.

    `multiplying` are the kernel's parameters that say how it multiplies, `of_tile` constants of a tile, `sums` a slice
    of the accumulators, and `taken` names that the kernel has besides.
    """
    epilogue = pointwise_context(
        plan,
        copy_path(plan),
        accumulators={plan.b.tensor.name: sums},
        modes=(plan.m, plan.n),
        alone={} if plan.batch is None else {plan.batch: "l_tile"},
        taken=taken,
    )
    return KernelParts(
        template=template,
        constants=constants(plan, threads_path, of_tile),
        context=epilogue | context | tile_context(plan) | {"loads": loads, "predicates": predicate_text(loads)},
        parameters=parameters(plan, multiplying),
        launched=launched(plan),
        largest=largest_text(plan),
        limits=limits(plan),
        nvgpu=(*["cpasync"] * plan.uses_cp_async, *nvgpu),
    )


def copy_path(plan: MultistagePlan) -> str:
    """The key of the epilogue's copies: all tensors of the epilogue move as the output does."""
    return f"schedule.copies.{plan.spec.lead.name}"


def parameters(plan: MultistagePlan, products: list[str]) -> tuple[str, ...]:
    """Those of the kernel: how A and B are copied, `products`, and the size along k if it is passed."""
    names = [x.tensor.name for x in (plan.a, plan.b)]
    copies = [x for n in names for x in (f"s{n}_layout: cute.Layout", f"tiled_copy_{n}: cute.TiledCopy")]
    return (*copies, *products, *["k_size: cutlass.Int32"] * plan.told_size)


def launched(plan: MultistagePlan) -> dict[str, str]:
    """Launch arguments, by parameter, that are not variables of the same name: the size along k, where it is passed."""
    return {"k_size": f"cutlass.Int32(m{plan.a.tensor.name}.shape[1])"} if plan.told_size else {}


def constants(plan: MultistagePlan, threads_path: str, more: tuple[Constant, ...]) -> tuple[Constant, ...]:
    """Of tiles, stages, `more`, and a thread's part of the epilogue."""
    point, tiler = plan.pointwise, "schedule.tiler"
    vector = f"elements of one access to {plan.spec.lead.name}"
    return (
        *tile_constants(plan),
        Constant("STAGES", str(plan.stages), "of the pipeline, in shared memory", "schedule.pipeline.stages"),
        *more,
        Constant("THREADS", str(plan.threads), "", threads_path),
        Constant("VALUES", str(point.values), "accumulators per thread", tiler),
        Constant("VECTOR", str(point.vector), vector, copy_path(plan)),
        Constant("SLICE", str(point.slice), "accumulators per step of the epilogue", "schedule.mma"),
    )


def tile_constants(plan: MultistagePlan) -> tuple[Constant, ...]:
    """The extents of a tile, and how blocks walk tiles in bands."""
    output, tiler = plan.spec.lead, "schedule.tiler"
    blocks = {mode: f"BLK_{mode.upper()}" for mode in (plan.m, plan.n, plan.k)}
    width = Constant(
        "SWIZZLE",
        str(plan.swizzle),
        f"tiles of {output.shape[plan.tile_order[1]]} in a band",
        "schedule.scheduler.swizzle",
    )
    return (
        *(Constant(blocks[m], str(plan.tile[m]), "", f"{tiler}.{m}") for m in (plan.m, plan.n, plan.k)),
        Constant("TILER", f"({blocks[plan.m]}, {blocks[plan.n]}, {blocks[plan.k]})", "of a thread block", tiler),
        *([width] if plan.swizzle > 1 else []),
        *([Constant("MOST_TILES", "2**31 - 1", "", width.path)] if plan.most_tiles is not None else []),
    )


def tile_context(plan: MultistagePlan) -> dict[str, Any]:
    """The names of tensors and modes, the extents of a tile, and the texts of `_blocks`."""
    return {
        "A": plan.a.tensor.name,
        "B": plan.b.tensor.name,
        "M": plan.m.upper(),
        "N": plan.n.upper(),
        "K": plan.k.upper(),
        "blk_m": plan.tile[plan.m],
        "blk_n": plan.tile[plan.n],
        "blk_k": plan.tile[plan.k],
        **_blocks(plan),
    }


def _blocks(plan: MultistagePlan) -> dict[str, Any]:
    """The texts that turn a block's index into the coordinate of its tile, and those of the grid."""
    grid = {plan.m: "grid_m", plan.n: "grid_n"}
    along, across = (plan.spec.lead.shape[i] for i in plan.tile_order)
    number = {along: "bidx", across: "bidy"}
    if plan.swizzle > 1:
        number = {along: "place // width", across: "band * SWIZZLE + place % width"}
    elif plan.batch is not None:
        number = {along: f"bidx % {grid[along]}", across: f"bidx // {grid[along]}"}
    counts, extents = ["grid_m", "grid_n"], [f"BLK_{mode.upper()}" for mode in (plan.m, plan.n)]
    if plan.batch is not None:
        counts, extents = [*counts, "grid_l"], [*extents, "1"]
    plane = plan.swizzle == 1 and plan.batch is None
    return {
        "along": along,
        "across": across,
        "grid_along": grid[along],
        "grid_across": grid[across],
        "block_coordinate": ", ".join(number[mode] for mode in (plan.m, plan.n)),
        "grid": f"{grid[along]}, {grid[across]}, 1" if plane else f"{' * '.join(counts)}, 1, 1",
        "counts": ", ".join(counts),
        "extents": f"({', '.join(extents)})",
        "L": plan.batch.upper() if plan.batch else "",
        "matrices": _matrices(plan),
    }


def _matrices(plan: MultistagePlan) -> list[str]:
    """The tensors of a kernel with a batch, of which a block has one matrix; the epilogue repeats tensors that lack the
    batch.
    """
    if plan.batch is None:
        return []
    operands = [x.tensor.name for x in (plan.a, plan.b) if plan.has_batch(x.tensor)]
    return [*operands, *(o.tensor.name for o in plan.pointwise.operands)]


def largest_text(plan: MultistagePlan) -> dict[str, str]:
    """The largest sizes that the grids can count, by mode, as text."""
    found = {}
    if plan.largest is not None:
        mode, most = plan.largest
        found[mode] = _product(most, plan.tile[mode], f"BLK_{mode.upper()}")
    limited = [x for x in plan.workspaces if x.largest is not None]
    for x in sorted(limited, key=lambda x: x.largest or 0)[:1]:  # both have the same k
        found[x.k] = _product(x.largest or 0, x.tile[1], f"SPACE_{x.tensor.name}[1]")
    return found


def _product(number: int, factor: int, name: str) -> str:
    """A multiple of a constant, as a product with the constant's name."""
    return f"{number // factor} * {name}"


def limits(plan: MultistagePlan) -> tuple[Limit, ...]:
    """Limits on the number of tiles where a single number counts them; none elsewhere."""
    if plan.most_tiles is None:
        return ()
    wanted, matrix = 'f"at most {MOST_TILES} tiles"', _tiles(plan)
    # Of a batch those of a matrix first, so that 64 bits count all
    counts = [matrix] if plan.batch is None else [matrix, (*matrix, f'sizes["{plan.batch}"]')]
    return tuple(Limit("schedule.scheduler.swizzle", factors, wanted, "tiles <= MOST_TILES") for factors in counts)


def _tiles(plan: MultistagePlan) -> tuple[str, ...]:
    """Factors of the number of tiles of a matrix in bands, the last one filled up."""
    counts = []
    across = plan.spec.lead.shape[plan.tile_order[1]]
    for i, mode in enumerate((plan.m, plan.n)):
        size, extent, bands = f'sizes["{mode}"]', f"TILER[{i}]", mode == across and plan.swizzle > 1
        if bands:
            counts += [f"-(-{size} // ({extent} * SWIZZLE))", "SWIZZLE"]
        else:
            counts.append(f"-(-{size} // {extent})" if plan.tile[mode] > 1 else size)
    return tuple(counts)
