"""Builds the parts of a module that are specific to a contraction by warpgroups. Numbers come from the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutegen.codegen.parts import Constant, KernelParts
from cutegen.expressions.tree import Literal_
from cutegen.families.attention.reach_text import cut_lines, is_cut, reach_lines
from cutegen.families.attention.row_text import RowText
from cutegen.families.attention.walking_text import (
    asked_modes,
    block_of,
    grid,
    length_lines,
    limits,
    names_of,
    row_lines,
    shared_out,
    shared_out_constants,
    size_of,
    size_texts,
    tile_constants,
)
from cutegen.families.attention.wgmma.plan import ROWS, Operand, WarpgroupAttentionPlan
from cutegen.families.attention.wgmma.roles import body

LEAST = "2.0**-126"
CUT_PARTS = {(True, False): "part == 0", (False, True): "part == 1", (True, False, True): "part != 1"}


@dataclass(frozen=True)
class OperandText:
    """The texts of a tensor that is copied by a tensor map: rows first, or the values' columns first, as products take
    them.
    """

    plan: Operand
    copies: str  # how many tiles shared memory has of it
    columns_first: bool = False
    stored: bool = False

    @property
    def name(self) -> str:
        return self.plan.tensor.name

    @property
    def element(self) -> str:
        return f"cutlass.{self.plan.tensor.dtype.cutlass}"

    @property
    def kind(self) -> str:
        return f"{'MN' if self.columns_first else 'K'}_SW{self.plan.swizzle}"

    @property
    def extents(self) -> tuple[str, str]:
        """Of a load or a store."""
        rows = block_of(self.plan.row) if self.copies == "STAGES" else str(ROWS)
        along = block_of(self.plan.depth_mode)
        return (along, rows) if self.columns_first else (rows, along)

    @property
    def box(self) -> str:
        return f"({', '.join(self.extents)})"

    @property
    def staged(self) -> str:
        return f"({', '.join(self.extents)}, {self.copies})"

    @property
    def order(self) -> str:
        return "(1, 0)" if self.columns_first else "(0, 1)"

    @property
    def staged_order(self) -> str:
        return f"{self.order[:-1]}, 2)"

    @property
    def tiles(self) -> str:
        """The index of all tiles of a block's matrix."""
        return "(0, None)" if self.columns_first else "(None, 0)"

    @property
    def direction(self) -> str:
        return "S2G" if self.stored else "G2S"

    @property
    def modes(self) -> str:
        """The tensor's modes as its map has them."""
        first, second, *rest = self.plan.order
        order = (second, first, *rest) if self.columns_first else (first, second, *rest)
        return f"({', '.join(map(str, order))})"

    @property
    def view(self) -> str:
        """The matrix that a block has of it."""
        places = [f"at_{self.plan.tensor.shape[mode]}" for mode in self.plan.order[2:]]
        return f"tma_tensor_{self.name}" + (f"[{', '.join(['None', 'None', *places])}]" if places else "")


def kernel_parts(plan: WarpgroupAttentionPlan) -> KernelParts:
    """The parts of a module of one contraction."""
    found, spec = plan.walked, plan.spec
    names = names_of(plan)
    rows = RowText(spec, found, names, plan.masked, plan.whole, plan.bounds, deferred=True)
    operands = [
        OperandText(plan.q, "CONSUMERS"),
        OperandText(plan.k, "STAGES"),
        OperandText(plan.v, "STAGES", columns_first=True),
        OperandText(plan.o, "CONSUMERS", stored=True),
    ]
    first_lines, tile_lines = rows.tile(), rows.tile(follows=True)
    cut_first, cut_scores = rows.cut_scores(), rows.cut_scores(follows=True)
    bounds = plan.bounds if plan.folds else ()
    cut = is_cut(bounds, found.walked, block_of(found.walked), names.sizes, plan.whole)
    cut = cut if cut_first or any("is_cut" in line for line in first_lines) else None
    cut_part = CUT_PARTS.get(plan.parts)
    end_lines, tile_loads = rows.end(), rows.tile_loads()
    coordinates, _ = asked_modes(found)
    by_column = [t for t in rows.elements if found.columns in t.shape]
    by_key = [t for t in rows.elements if found.walked in t.shape]
    asks_keys = any("key_places" in line and not line.startswith(" ") for line in tile_lines)
    q, k, v, o = (x.tensor.name for x in (plan.q, plan.k, plan.v, plan.o))
    m, n = found.rows[0], found.walked
    context: dict[str, Any] = {
        "body": body(plan),
        "operands": operands,
        "stored": operands[3],
        "loads": bool(by_column or by_key),
        "sizes": [(mode, text) for mode, text in size_texts(plan).items()],
        "places": [(mode, size_of(plan, mode)) for mode in reversed(plan.outer)],
        "length_lines": list(length_lines(plan)),
        "outer": list(plan.outer),
        **shared_out(plan),
        "reach": list(reach_lines(plan.bounds, m, n, block_of(m), block_of(n), names.sizes, bool(bounds))),
        "cuts": list(cut_lines(bounds, n, block_of(n), names.sizes)),
        "is_cut": cut,
        "cut_part": cut_part,
        "first_lines": first_lines,
        "cut_first": cut_first,
        "cut_scores": cut_scores,
        "cuts_ask_rows": any(f"at_{m}" in line for line in cut_first),
        "asks_start": bool(cut_part) or asks_keys or bool(by_key),
        "row_lines": row_lines(plan),
        "M": m,
        "N": n,
        "D": found.scores.mode,
        "E": found.columns,
        "Q": q,
        "V": v,
        "O_name": o,
        "store_atom": "warp.StMatrix8x8x16bOp(False, 4)"
        if plan.o.tensor.dtype.bytes == 2
        else "cute.nvgpu.CopyUniversalOp()",
        "blk_m": block_of(m),
        "blk_n": block_of(n),
        "columns": block_of(found.columns),
        "profiles": f"g{q} ({ROWS},{plan.depth},m), g{k} ({plan.key_block},{plan.depth},n), "
        f"g{v} ({plan.columns},{plan.key_block},n)",
        "carried": [
            (rows.held[one.name], 'float("-inf")' if one.function == "max" else "0.0") for one in found.of_rows
        ],
        "grows": rows.grows,
        "factor_lines": _factor_lines(plan, rows),
        "asks_rows": any(f"at_{m}" in line for line in first_lines),
        "asks_keys": asks_keys,
        "asks_columns": bool(by_column) or found.columns in coordinates,
        "asked_places": [("out_places", "out_columns")] if found.columns in coordinates else [],
        "stored_sums": [(o, "", "")],
        "tile_loads": tile_loads,
        "tile_lines": tile_lines,
        "end_lines": end_lines,
        "ends_ask_rows": any(f"at_{m}" in line for line in end_lines),
        "element": f"cutlass.{plan.q.tensor.dtype.cutlass}",
        "grid": grid(plan),
    }
    parameters = [
        (f"tma_{x.name}: cute.CopyAtom", f"tma_tensor_{x.name}: cute.Tensor", f"s{x.name}_layout: cute.ComposedLayout")
        for x in operands
    ]
    return KernelParts(
        template="attention.py.j2",
        constants=constants_of(plan),
        context=context,
        parameters=(*(text for one in parameters for text in one), "mma_S: cute.TiledMma", "mma_O: cute.TiledMma"),
        limits=limits(plan),
        nvgpu=("OperandMajorMode", "cpasync", "warp", "warpgroup"),
        nvgpu_path="schedule.mma",
    )


def _factor_lines(plan: WarpgroupAttentionPlan, rows: RowText) -> list[str]:
    """The statements that find what scores are multiplied by where their exponentials are computed."""
    if rows.folded is None:
        return []
    lines = rows.row_printer([0]).run(rows.folded.factor, "factor")
    if isinstance(rows.folded.factor, Literal_):
        lines = [f"factor = cutlass.Float32({rows.folded.factor.value!r})"]
    lines += [
        "magnitude = cute.arch.fmax(factor, -factor)",
        "# At least 2^-126, since 0 times minus infinity would be NaN",
        f"steep = cute.arch.fmax(magnitude, {LEAST}) * {LOG2_E}",
    ]
    return lines


LOG2_E = "1.4426950408889634"


def constants_of(plan: WarpgroupAttentionPlan) -> tuple[Constant, ...]:
    """The numbers that the module gives names."""
    found = plan.walked
    own = [(x.tensor.name, x.bytes) for x in (plan.q, plan.k, plan.v)]
    return (
        *tile_constants(plan),
        Constant("CONSUMERS", str(plan.consumers), "warpgroups that multiply", f"schedule.tiler.{found.rows[0]}"),
        Constant("THREADS", "128 * (1 + CONSUMERS)", "", f"schedule.tiler.{found.rows[0]}"),
        Constant("ROWS", "2", "of a thread", "schedule.mma"),
        Constant("STAGES", str(plan.stages), "of each tensor that is walked", "schedule.pipeline.stages"),
        *(Constant(f"{name}_BYTES", str(size), "of a load", "schedule.tiler") for name, size in own),
        *shared_out_constants(plan),
        Constant("MOST_TILES", "2**31 - 1", "", "schedule.tiler"),
    )
