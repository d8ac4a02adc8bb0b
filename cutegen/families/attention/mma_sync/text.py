"""Builds the parts of a module that are specific to a contraction on tensor cores. Numbers come from the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensor_layouts import Layout

from cutegen.codegen.formatting import make_layout
from cutegen.codegen.parts import Constant, KernelParts
from cutegen.families.attention.mma_sync.mainloop import body
from cutegen.families.attention.mma_sync.plan import AttentionPlan, Operand
from cutegen.families.attention.reach_text import reach_lines
from cutegen.families.attention.row_text import RowText
from cutegen.families.attention.walking_text import (
    asked_modes,
    block_of,
    grid,
    length_lines,
    limits,
    names_of,
    size_of,
    size_texts,
    tile_constants,
)
from cutegen.families.common.dealing import swizzle_text
from cutegen.layouts import show


@dataclass(frozen=True)
class OperandText:
    """The texts of a tensor that is copied in tiles."""

    plan: Operand
    view: str  # the matrix that a block has of it
    block: str  # rows of a tile
    depth: str
    memory: str  # where its stages start
    layout: str
    op: str

    @property
    def name(self) -> str:
        return self.plan.tensor.name

    @property
    def swizzle(self) -> str:
        return swizzle_text(self.plan.swizzle)

    @property
    def depth_mode(self) -> str:
        return self.plan.depth_mode

    @property
    def row_bytes(self) -> int:
        return self.plan.swizzle


def kernel_parts(plan: AttentionPlan) -> KernelParts:
    """The parts of a module of one contraction."""
    found, spec = plan.walked, plan.spec
    names = names_of(plan)
    rows = RowText(spec, found, names, plan.masked, plan.whole)
    coordinates, _ = asked_modes(found)
    operands = [operand_text(plan, x) for x in (plan.q, plan.k, plan.v, plan.o)]
    q, k, v, o = (x.tensor.name for x in (plan.q, plan.k, plan.v, plan.o))
    tile_lines, end_lines = rows.tile(), rows.end()
    by_column = [t for t in rows.elements if found.columns in t.shape]
    by_key = [t for t in rows.elements if found.walked in t.shape]
    checks = not plan.whole
    asks_rows = any(f"at_{found.rows[0]}" in line for line in tile_lines)
    context: dict[str, Any] = {
        "body": body(plan),
        "operands": operands,
        "loaded_operands": operands[:3],
        "loads": bool(by_column or by_key),
        "sizes": [(mode, text) for mode, text in size_texts(plan).items()],
        "places": [(mode, size_of(plan, mode)) for mode in reversed(plan.outer)],
        "outer": list(plan.outer),
        "block_loads": list(length_lines(plan)),
        "reach": list(
            reach_lines(
                plan.bounds, found.rows[0], found.walked, block_of(found.rows[0]), block_of(found.walked), names.sizes
            )
        ),
        "M": found.rows[0],
        "N": found.walked,
        "E": found.columns,
        "K": k,
        "V": v,
        "O_name": o,
        "blk_m": block_of(found.rows[0]),
        "blk_n": block_of(found.walked),
        "columns": f"BLK_{found.columns.upper()}",
        "profiles": f"g{q} ({plan.q.rows},{plan.q.depth},m), g{k} ({plan.k.rows},{plan.k.depth},n), "
        f"g{v} ({plan.v.rows},{plan.v.depth},n)",
        "fragments": [
            (q, "S", "A", f"s{q}", "False"),
            (k, "S", "B", f"s{k}", "False"),
            (v, "O", "B", f"s{v}_columns", "True"),
        ],
        "acc_s": show(((2, 2), plan.rows_of_thread // 2, plan.k.rows // 8)),
        "acc_o": show(((2, 2), plan.rows_of_thread // 2, plan.v.depth // 8)),
        "carried": [
            (rows.held[one.name], 'float("-inf")' if one.function == "max" else "0.0") for one in found.of_rows
        ],
        "asks_rows": asks_rows,
        "asks_keys": found.walked in coordinates or checks,
        "checks_keys": checks,
        "asks_columns": bool(by_column) or found.columns in coordinates,
        "asks_places": found.columns in coordinates,
        "tile_loads": rows.tile_loads(),
        "tile_lines": tile_lines,
        "end_lines": end_lines,
        "ends_ask_rows": any(f"at_{found.rows[0]}" in line for line in end_lines),
        "columns_layout": columns_layout(plan.v),
        "element": f"cutlass.{plan.q.tensor.dtype.cutlass}",
        "grid": grid(plan),
    }
    parameters = [(f"s{x.name}_layout: cute.Layout", f"tiled_copy_{x.name}: cute.TiledCopy") for x in operands]
    return KernelParts(
        template="attention.py.j2",
        constants=constants_of(plan),
        context=context,
        parameters=(
            *(text for pair in parameters for text in pair),
            f"s{v}_columns_layout: cute.Layout",
            "tiled_mma: cute.TiledMma",
        ),
        limits=limits(plan),
        nvgpu=("cpasync", "warp"),
        nvgpu_path="schedule.mma",
    )


def constants_of(plan: AttentionPlan) -> tuple[Constant, ...]:
    """The numbers that the module gives names."""
    return (
        *tile_constants(plan),
        Constant("WARPS", str(plan.warps), "of a block", "schedule.mma.warps"),
        Constant("THREADS", "WARPS * 32", "", "schedule.mma.warps"),
        Constant("ROWS", str(plan.rows_of_thread), "of a thread", "schedule.mma.warps"),
        Constant("STAGES", str(plan.stages), "of each tensor that is walked", "schedule.pipeline.stages"),
        Constant("K_BLOCKS", str(plan.steps), "products of a tile of scores", "static"),
        Constant("N_BLOCKS", str(plan.outer_steps), "products that follow", f"schedule.tiler.{plan.walked.walked}"),
        Constant("SMEM_BYTES", str(plan.smem_bytes), "of shared memory", "schedule.pipeline.stages"),
        Constant("MOST_TILES", "2**31 - 1", "", "schedule.tiler"),
    )


def operand_text(plan: AttentionPlan, x: Operand) -> OperandText:
    name = x.tensor.name
    index = ", ".join("None" if mode in (x.row, x.depth_mode) else f"at_{mode}" for mode in x.tensor.shape)
    view = f"m{name}[{index}]" if len(x.tensor.shape) > 2 else f"m{name}"
    if x.tensor.shape.index(x.row) > x.tensor.shape.index(x.depth_mode):  # rows first
        view = f"cute.make_tensor({view}.iterator, cute.select({view}.layout, mode=[1, 0]))"
    shown = x.smem_layout
    if x is plan.o:
        shape, stride = shown.shape, shown.stride
        assert isinstance(shape, tuple) and isinstance(stride, tuple)
        shown = Layout(shape[:2], stride[:2])
    copied = "cpasync.CopyG2SOp(cache_mode=cute.nvgpu.LoadCacheMode.GLOBAL)"
    return OperandText(
        plan=x,
        view=view,
        block=block_of(x.row),
        depth=f"BLK_{x.depth_mode.upper()}",
        memory=f"storage + {x.offset}" if x.offset else "storage",
        layout=make_layout(shown),
        op="cute.nvgpu.CopyUniversalOp()" if x is plan.o else copied,
    )


def columns_layout(x: Operand) -> str:
    """The layout (column, row, stage) of a tensor's stages."""
    shape, stride = x.smem_layout.shape, x.smem_layout.stride
    assert isinstance(shape, tuple) and isinstance(stride, tuple)
    return make_layout(Layout((shape[1], shape[0], shape[2]), (stride[1], stride[0], stride[2])))
