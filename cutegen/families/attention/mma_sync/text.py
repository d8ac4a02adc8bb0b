"""Builds the parts of a module that are specific to a contraction on tensor cores. Numbers come from the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tensor_layouts import Layout

from cutegen.codegen.formatting import make_layout
from cutegen.codegen.parts import Constant, KernelParts
from cutegen.families.attention.mma_sync.mainloop import body, reading_columns, steps_of
from cutegen.families.attention.mma_sync.merge_text import (
    PATH,
    context_of,
    merged_parts,
    of_warps,
    space_name,
    workspaces,
)
from cutegen.families.attention.mma_sync.plan import AttentionPlan, CopiedOperand
from cutegen.families.attention.plan import Outer, Pair, suffix_of
from cutegen.families.attention.reach_text import reach_lines
from cutegen.families.attention.row_text import RowText
from cutegen.families.attention.walking_text import (
    around_lines,
    asked_modes,
    block_of,
    columns_asked,
    grid,
    length_lines,
    limits,
    names_of,
    row_lines,
    rows_alike,
    rows_block,
    shared_out,
    shared_out_constants,
    size_of,
    size_texts,
    sums_of,
    tile_constants,
    tile_places,
)
from cutegen.families.common.dealing import swizzle_text
from cutegen.layouts import show


@dataclass(frozen=True)
class OperandText:
    """The texts of a tensor that is copied in tiles."""

    plan: CopiedOperand
    view: (
        str | tuple[str, list[str], str]
    )  # the matrix that a block has of it, as text or as a call of several arguments
    block: str  # rows of a tile
    depth: str
    memory: str  # where its stages start
    layout: str
    of_row: str  # the index of one of its rows
    coordinate: str  # of its tiles
    around: int  # modes of its tiles that are walked around the one along its rows' mode
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
    operands = [operand_text(plan, x) for x in (*plan.loaded, *(plan.outputs if plan.parts == 1 else ()))]
    loaded = len(plan.loaded)
    tile_lines, end_lines = rows.tile(), rows.end()
    asked_columns = {mode for mode in found.every_columns if any(mode in t.shape for t in rows.elements)}
    by_key = [t for t in rows.elements if found.walked in t.shape]
    checks = not plan.whole
    row_places = [f"at_{mode}" for mode in plan.row_modes]
    asks_rows = any(name in line for name in row_places for line in tile_lines)
    tiled = [x for x in operands if not plan.packed or x.plan in plan.rights]
    context: dict[str, Any] = {
        "body": body(plan),
        "operands": operands,
        "loaded_operands": operands[:loaded],
        "loads": bool(asked_columns or by_key),
        "sizes": [(mode, text) for mode, text in size_texts(plan).items()],
        "places": [(mode, size_of(plan, mode)) for mode in reversed(plan.outer)],
        "outer": list(plan.outer),
        **shared_out(plan),
        "block_loads": list(length_lines(plan)),
        "reach": [
            *reach_lines(
                plan.bounds,
                plan.rows_mode,
                found.walked,
                rows_block(plan),
                block_of(found.walked),
                names.sizes,
                alike=rows_alike(plan),
            ),
            *around_lines(plan),
        ],
        "tile_places": list(tile_places(plan)),
        "M": found.rows[0],
        "packs": bool(plan.packed),
        "row_names": ", ".join(plan.row_modes),
        "row_size": " * ".join(f"size_{mode}" for mode in plan.row_modes),
        "row_lines": row_lines(plan),
        "packed_places": row_lines(plan)[1:],
        "tiled_operands": tiled,
        "N": found.walked,
        "outputs": operands[loaded:],
        "stored_sums": [
            (x.tensor.name, suffix_of(number), sums_of(plan, x.tensor.name)) for number, x in enumerate(plan.outputs)
        ],
        "blk_m": rows_block(plan),
        "blk_n": block_of(found.walked),
        "first_right": plan.rights[0].tensor.name,
        "profiles": ", ".join(
            f"g{x.name} ({x.plan.rows},{x.plan.depth},{'m' if x.plan in plan.lefts else 'n'})"
            for x in tiled
            if x.plan in plan.loaded
        ),
        "fragments": [fragment for pair in plan.pairs for fragment in _of_rows(plan, pair)]
        + [*dict.fromkeys(_of_columns(plan, one) for one in plan.outers)],
        "sums": ", ".join(
            [
                *(f"acc_S{x.suffix} {show(_extents_of_sums(plan, plan.keys_of_warp))}" for x in plan.pairs),
                *(f"acc_O{x.suffix} {show(_extents_of_sums(plan, x.values.depth))}" for x in plan.outers),
            ]
        ),
        "pairs": [pair.suffix for pair in plan.pairs],
        "outers": [(x.suffix, block_of(x.values.depth_mode), x.values.tensor.name) for x in plan.outers],
        "reused": _reused([x.name for x in operands[loaded:]]),
        "transposed": _transposed([*dict.fromkeys(x.values.tensor.name for x in plan.outers)]),
        "by_columns": [
            *dict.fromkeys((x.values.tensor.name, x.values.depth_mode, columns_layout(x.values)) for x in plan.outers)
        ],
        "carried": [
            (rows.held[one.name], 'float("-inf")' if one.function == "max" else "0.0") for one in found.of_rows
        ],
        "asks_rows": asks_rows,
        "asks_keys": found.walked in coordinates or checks,
        "checks_keys": checks,
        "asked_columns": list(columns_asked(plan, asked_columns | coordinates)),
        "asked_places": [
            (f"out_places{suffix_of(number)}", f"out_columns{suffix_of(number)}")
            for number, mode in enumerate(found.every_columns)
            if mode in coordinates
        ],
        "tile_loads": rows.tile_loads(),
        "vectors": [],
        "vector_lines": [],
        "tile_lines": tile_lines,
        "end_lines": end_lines,
        "ends_ask_rows": any(name in line for name in row_places for line in end_lines),
        "element": f"cutlass.{plan.lefts[0].tensor.dtype.cutlass}",
        "grid": [*grid(plan), *([merged_parts(plan)] if plan.parts > 1 else [])],
        **(_of_one_pair(plan) if plan.packed or plan.parts > 1 else {}),
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
            *dict.fromkeys(f"s{x.values.tensor.name}_columns_layout: cute.Layout" for x in plan.outers),
            "tiled_mma: cute.TiledMma",
            *([f"{space_name(plan)}: cute.Tensor"] if plan.parts > 1 else []),
        ),
        limits=limits(plan, plan.parts),
        workspaces=workspaces(plan),
        nvgpu=("cpasync", "warp"),
        nvgpu_path="schedule.mma",
    )


def _reused(names: Sequence[str]) -> str:
    """Words of a comment on the end of the stages: the tiles of outputs take their memory, if any do."""
    if not names:
        return ""
    tiles, reuse = ("tile", "reuses") if len(names) == 1 else ("tiles", "reuse")
    return f"; at the end the {tiles} of {' and '.join(names)} {reuse} their memory"


def _transposed(names: Sequence[str]) -> str:
    """Which stages products along the walk read, for a comment."""
    read = "the second product reads it" if len(names) == 1 else "the second products read them"
    return f"{' and '.join(names)} transposed, as {read}"


def _of_one_pair(plan: AttentionPlan) -> dict[str, Any]:
    """The context of the templates for rows of several modes, and for parts of a walk."""
    return {
        "Q": plan.q.tensor.name,
        "K": plan.k.tensor.name,
        "V": plan.v.tensor.name,
        "O_name": plan.o.tensor.name,
        "q_row": row_of(plan.q),
        "q_depth": block_of(plan.q.depth_mode),
        "columns": block_of(plan.walked.columns),
    }


def _of_rows(plan: AttentionPlan, pair: Pair[CopiedOperand]) -> Iterator[tuple[str, str, str, str, str, str]]:
    """The fragments of two tensors: the tensor, the product, its side, the memory they are of, whether it is read
    transposed, and the copy that reads it.
    """
    for side, x in (("A", pair.left), ("B", pair.right)):
        name = x.tensor.name
        memory = "own_keys" if side == "B" and plan.key_warps > 1 else f"s{name}"
        yield name, "S", side, memory, "False", f"read_{name}"


def _of_columns(plan: AttentionPlan, one: Outer[CopiedOperand]) -> tuple[str, str, str, str, str, str]:
    """The same for the columns of a tensor."""
    name = one.values.tensor.name
    memory = f"s{name}_columns" if plan.key_warps == 1 else "own_values"
    return name, "O", "B", memory, "True", reading_columns(plan, one)


def _extents_of_sums(plan: AttentionPlan, columns: int) -> tuple[tuple[int, int], int, int]:
    """The extents of a thread's sums for a block's rows of so many columns."""
    return (2, 2), plan.rows_of_thread // 2, columns // 8


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
        Constant("K_BLOCKS", str(plan.pairs[0].steps), "steps of the first product", "static"),
        *(
            Constant(steps_of(pair), str(pair.steps), f"steps of the product of {pair.left.tensor.name}", "static")
            for pair in plan.pairs[1:]
        ),
        Constant(
            "N_BLOCKS", str(plan.outer_steps), "steps of the second product", f"schedule.tiler.{plan.walked.walked}"
        ),
        Constant("SMEM_BYTES", str(plan.smem_bytes), "of shared memory", "schedule.pipeline.stages"),
        *parts_constants(plan),
        *([Constant("MOST_ROWS", "2**31 - 2**12", "", "schedule.tiler")] if plan.packed or plan.parts > 1 else []),
        *shared_out_constants(plan),
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


def row_of(x: CopiedOperand) -> str:
    """The index of one row of a tensor."""
    return ", ".join("None" if mode == x.depth_mode else f"at_{mode}" for mode in x.tensor.shape)


def operand_text(plan: AttentionPlan, x: CopiedOperand) -> OperandText:
    name = x.tensor.name
    order = (x.row, x.depth_mode, *(plan.walked.around if x in plan.rights else ()))
    index = ", ".join("None" if mode in order else f"at_{mode}" for mode in x.tensor.shape)
    view = f"m{name}[{index}]" if len(x.tensor.shape) > len(order) else f"m{name}"
    kept = [mode for mode in x.tensor.shape if mode in order]
    places = [kept.index(mode) for mode in order]
    text: str | tuple[str, list[str], str] = view
    if places != sorted(places):  # rows first, then along them
        made = [f"{view}.iterator", f"cute.select({view}.layout, mode={places})"]
        text = ("cute.make_tensor(", made, ")")
    coordinate = ", ".join(["None", "0", *["None"] * (len(order) - 2)])
    shown = x.smem_layout
    if x in plan.outputs:
        shape, stride = shown.shape, shown.stride
        assert isinstance(shape, tuple) and isinstance(stride, tuple)
        shown = Layout(shape[:2], stride[:2])
    copied = "cpasync.CopyG2SOp(cache_mode=cute.nvgpu.LoadCacheMode.GLOBAL)"
    return OperandText(
        plan=x,
        view=text,
        block=rows_block(plan) if x.row == plan.rows_mode else block_of(x.row),
        depth=f"BLK_{x.depth_mode.upper()}",
        memory=f"storage + {x.offset}" if x.offset else "storage",
        layout=make_layout(shown),
        of_row=row_of(x),
        coordinate=coordinate,
        around=len(order) - 2,
        op="cute.nvgpu.CopyUniversalOp()" if x in plan.outputs else copied,
    )


def columns_layout(x: CopiedOperand) -> str:
    """The layout (column, row, stage) of a tensor's stages."""
    shape, stride = x.smem_layout.shape, x.smem_layout.stride
    assert isinstance(shape, tuple) and isinstance(stride, tuple)
    return make_layout(Layout((shape[1], shape[0], shape[2]), (stride[1], stride[0], stride[2])))
