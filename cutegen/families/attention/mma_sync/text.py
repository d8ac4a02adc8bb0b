"""Builds the parts of a module that are specific to a contraction on tensor cores. Numbers come from the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensor_layouts import Layout

from cutegen.codegen.formatting import make_layout
from cutegen.codegen.parts import Constant, KernelParts
from cutegen.families.attention.mma_sync.mainloop import body
from cutegen.families.attention.mma_sync.merge_text import (
    PATH,
    context_of,
    merged_parts,
    of_warps,
    space_name,
    workspaces,
)
from cutegen.families.attention.mma_sync.plan import AttentionPlan, Operand
from cutegen.families.attention.reach_text import reach_lines
from cutegen.families.attention.row_text import RowText
from cutegen.families.attention.walking_text import (
    asked_modes,
    block_of,
    grid,
    limits,
    names_of,
    row_lines,
    rows_alike,
    rows_block,
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
    stored = [plan.o] if plan.parts == 1 else []
    operands = [operand_text(plan, x) for x in (plan.q, plan.k, plan.v, *stored)]
    q, k, v, o = (x.tensor.name for x in (plan.q, plan.k, plan.v, plan.o))
    tile_lines, end_lines = rows.tile(), rows.end()
    by_column = [t for t in rows.elements if found.columns in t.shape]
    by_key = [t for t in rows.elements if found.walked in t.shape]
    checks = not plan.whole
    row_places = [f"at_{mode}" for mode in plan.row_modes]
    asks_rows = any(name in line for name in row_places for line in tile_lines)
    tiled = [x for x in operands if not plan.packed or x.plan not in (plan.q, plan.o)]
    context: dict[str, Any] = {
        "body": body(plan),
        "operands": operands,
        "loaded_operands": operands[:3],
        "loads": bool(by_column or by_key),
        "sizes": [(mode, text) for mode, text in size_texts(plan).items()],
        "places": [(mode, size_of(plan, mode)) for mode in reversed(plan.outer)],
        "outer": list(plan.outer),
        "block_loads": [],
        "reach": list(
            reach_lines(
                plan.bounds,
                plan.rows_mode,
                found.walked,
                rows_block(plan),
                block_of(found.walked),
                names.sizes,
                rows_alike(plan),
            )
        ),
        "M": found.rows[0],
        "Q": q,
        "packs": bool(plan.packed),
        "row_names": ", ".join(plan.row_modes),
        "row_size": " * ".join(f"size_{mode}" for mode in plan.row_modes),
        "row_lines": row_lines(plan),
        "packed_places": row_lines(plan)[1:],
        "q_row": row_of(plan.q),
        "o_row": row_of(plan.o),
        "q_depth": block_of(plan.q.depth_mode),
        "tiled_operands": tiled,
        "N": found.walked,
        "E": found.columns,
        "K": k,
        "V": v,
        "O_name": o,
        "blk_m": rows_block(plan),
        "blk_n": block_of(found.walked),
        "columns": f"BLK_{found.columns.upper()}",
        "profiles": ", ".join(
            f"g{x.name} ({x.plan.rows},{x.plan.depth},{'m' if x.plan is plan.q else 'n'})"
            for x in tiled
            if x.plan is not plan.o
        ),
        "fragments": [
            (q, "S", "A", f"s{q}", "False"),
            (k, "S", "B", f"s{k}" if plan.key_warps == 1 else "own_keys", "False"),
            (v, "O", "B", f"s{v}_columns" if plan.key_warps == 1 else "own_values", "True"),
        ],
        "acc_s": show(((2, 2), plan.rows_of_thread // 2, plan.keys_of_warp // 8)),
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
        "ends_ask_rows": any(name in line for name in row_places for line in end_lines),
        "columns_layout": columns_layout(plan.v),
        "element": f"cutlass.{plan.q.tensor.dtype.cutlass}",
        "grid": grid(plan) + (f" * {merged_parts(plan)}" if plan.parts > 1 else ""),
        **context_of(plan, rows),
        **of_warps(plan),
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
            *([f"{space_name(plan)}: cute.Tensor"] if plan.parts > 1 else []),
        ),
        limits=limits(plan, plan.parts),
        workspaces=workspaces(plan),
        nvgpu=("cpasync", "warp"),
        nvgpu_path="schedule.mma",
    )


def constants_of(plan: AttentionPlan) -> tuple[Constant, ...]:
    """The numbers that the module gives names."""
    return (
        *tile_constants(plan),
        Constant("WARPS", str(plan.warps), "of a block", "schedule.mma.warps"),
        *(
            [Constant("KEYS", f"{block_of(plan.walked.walked)} // WARPS", "of a warp", "schedule.mma.warps")]
            * (plan.key_warps > 1)
        ),
        Constant("THREADS", "WARPS * 32", "", "schedule.mma.warps"),
        Constant("ROWS", str(plan.rows_of_thread), "of a thread", "schedule.mma.warps"),
        Constant("STAGES", str(plan.stages), "of each tensor that is walked", "schedule.pipeline.stages"),
        Constant("K_BLOCKS", str(plan.steps), "products of a tile of scores", "static"),
        Constant("N_BLOCKS", str(plan.outer_steps), "products that follow", f"schedule.tiler.{plan.walked.walked}"),
        Constant("SMEM_BYTES", str(plan.smem_bytes), "of shared memory", "schedule.pipeline.stages"),
        *parts_constants(plan),
        *([Constant("MOST_ROWS", "2**31 - 2**12", "", "schedule.tiler")] if plan.packed or plan.parts > 1 else []),
        Constant("MOST_TILES", "2**31 - 1", "", "schedule.tiler"),
    )


def parts_constants(plan: AttentionPlan) -> tuple[Constant, ...]:
    """The numbers of a walk that several blocks share."""
    if plan.parts == 1:
        return ()
    return (
        Constant("PARTS", str(plan.parts), "of a walk" + ", at most" * plan.fills, PATH),
        Constant("GIVEN", str(plan.given), "numbers that a part gives for a row", PATH),
    )


def row_of(x: Operand) -> str:
    """The index of one row of a tensor."""
    return ", ".join("None" if mode == x.depth_mode else f"at_{mode}" for mode in x.tensor.shape)


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
        block=rows_block(plan) if x.row == plan.rows_mode else block_of(x.row),
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
