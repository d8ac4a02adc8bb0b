"""Builds the parts of a module that are specific to a gemm on Blackwell's tensor cores. Numbers come from the plan."""

from __future__ import annotations

from typing import Any

from cutegen.codegen.parts import Constant, KernelParts, Padding
from cutegen.families.common.pointwise_text import pointwise_context
from cutegen.families.gemm.tcgen05.names import IMPORTS, own_names
from cutegen.families.gemm.tcgen05.plan import Side, Tcgen05Plan
from cutegen.families.gemm.tcgen05.product import ALIGN, LOADER, MULTIPLIER, product_of
from cutegen.families.gemm.tcgen05.roles import kernel_body

DEEPER = 4  # columns by which the epilogue is indented more than that of other kernels


def kernel_parts(plan: Tcgen05Plan) -> KernelParts:
    """The parts of a module of one gemm."""
    names = [side.tensor.name for side in plan.sides]
    parameters = [(f"tma_{name}: cute.CopyAtom", f"s{name}_layout: cute.ComposedLayout") for name in names]
    return KernelParts(
        template="gemm.py.j2",
        constants=constants_of(plan),
        context=epilogue_context(plan) | _context(plan),
        parameters=(*(text for pair in parameters for text in pair), "tiled_mma: cute.TiledMma"),
        launched={f"m{name}": f"tma_tensor_{name}" for name in names},
        largest=_largest(plan),
        padded={t.name: Padding(ALIGN, f"schedule.copies.{t.name}.misaligned") for t in plan.padded},
        row_copies=plan.row_copies,
        documentation=(
            ("schedule.mma", "Its kernel was executed on the CPU, by an emulator of PTX, and never on a GPU."),
        ),
        nvgpu=IMPORTS,
    )


def constants_of(plan: Tcgen05Plan) -> tuple[Constant, ...]:
    """The numbers that the module gives names."""
    tiler, copies = "schedule.tiler", f"schedule.copies.{plan.spec.output.name}"
    return (
        *(Constant(f"BLK_{m.upper()}", str(plan.tile[m]), "", f"{tiler}.{m}") for m in (plan.m, plan.n, plan.k)),
        Constant("STAGES", str(plan.stages), "of the pipeline, in shared memory", "schedule.pipeline.stages"),
        Constant("STAGE_BYTES", str(plan.stage_bytes), "of the loads of one stage", tiler),
        Constant("COLUMNS", str(plan.columns), "of tensor memory", f"{tiler}.{plan.n}"),
        Constant("MULTIPLIER", str(MULTIPLIER), "the warp that starts products; those before it store", "schedule.mma"),
        Constant("LOADER", str(LOADER), "the warp that starts loads", "schedule.mma"),
        Constant("THREADS", "32 * (1 + LOADER)", "", "schedule.mma"),
        Constant("VALUES", str(plan.pointwise.values), "accumulators of a thread that stores: a row", tiler),
        Constant("VECTOR", str(plan.pointwise.vector), f"elements of one access to {plan.spec.output.name}", copies),
        Constant("SLICE", str(plan.pointwise.slice), "accumulators per step of the epilogue", tiler),
    )  # fmt: skip


def epilogue_context(plan: Tcgen05Plan) -> dict[str, Any]:
    """Template variables of the epilogue."""
    return pointwise_context(
        plan,
        f"schedule.copies.{plan.spec.output.name}",
        accumulators={x.tensor.name: f"{plan.suffixed('acc', x)}.load().reshape((SLICE,))" for x in plan.b},
        deeper=DEEPER,
        modes=(plan.m, plan.n),
        taken=own_names(plan.spec.tensors),
        alone={} if plan.batch is None else {plan.batch: "l_tile"},
    )


def _context(plan: Tcgen05Plan) -> dict[str, Any]:
    along = plan.spec.lead.shape[plan.tile_order[0]]
    along_m, product = along == plan.m, product_of(plan.spec)
    places = ["m_tile", "n_tile"] if along_m else ["n_tile", "m_tile"]
    counts, extents = ["grid_m", "grid_n"], [f"BLK_{mode.upper()}" for mode in (plan.m, plan.n)]
    if plan.batch is not None:
        counts, extents = [*counts, "grid_l"], [*extents, "1"]
    return {
        "body": kernel_body(plan),
        "A": plan.a.tensor.name,
        "products": [{name: plan.suffixed(name, x) for name in ("acc", "sums", "from_columns")} for x in plan.b],
        "M": plan.m.upper(),
        "N": plan.n.upper(),
        "K": plan.k.upper(),
        "sides": [_side(plan, side) for side in plan.sides],
        "product_op": "MmaF8F6F4Op" if product.is_f8 else "MmaF16BF16Op",
        "elements": [f"cutlass.{side.tensor.dtype.cutlass}" for side in plan.sides[: 2 if product.is_f8 else 1]],
        "depth": product.depth,
        "along": along,
        "block_places": ", ".join([*places, "_" if plan.batch is None else "l_tile"]),
        "counts": ", ".join(counts),
        "extents": f"({', '.join(extents)})",
        "grid": ", ".join([*(counts[:2] if along_m else counts[1::-1]), *(counts[2:] or ["1"])]),
        "L": plan.batch.upper() if plan.batch else "",
        "matrices": _matrices(plan),
        "majornesses": [plan.a.majorness, plan.b[0].majorness],
        "repetition": f"x{plan.pointwise.slice}",
        "row_first": False,
    }


def _side(plan: Tcgen05Plan, side: Side) -> dict[str, Any]:
    """Template variables for A or B."""
    name = side.tensor.name
    return {
        "name": name,
        "letter": side.letter,
        "type": f"cutlass.{side.tensor.dtype.cutlass}",
        "kind": f"{side.majorness}_SW{side.swizzle}",
        "order": "(1, 2, 3)" if side.k_major else "(2, 1, 3)",
        "shape": f"(BLK_{side.mode.upper()}, BLK_{plan.k.upper()})",
        "path": f"schedule.smem.{name}.swizzle",
        "copy_path": f"schedule.copies.{name}",
    }


def _matrices(plan: Tcgen05Plan) -> list[str]:
    """The tensors of a kernel with a batch of which a block has one matrix; those of the epilogue that lack the batch
    are repeated.
    """
    if plan.batch is None:
        return []
    operands = [side.tensor.name for side in plan.sides if plan.has_batch(side.tensor)]
    return [*operands, *(o.tensor.name for o in plan.pointwise.operands)]


def _largest(plan: Tcgen05Plan) -> dict[str, str]:
    """The largest sizes that a grid counts, as text."""
    tile = plan.tile
    return {
        mode: f"{most // tile[mode]} * BLK_{mode.upper()}" if mode in tile else str(most)
        for mode, most in plan.largest.items()
    }
