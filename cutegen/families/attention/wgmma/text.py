"""Builds the parts of a module that are specific to a contraction by warpgroups. Numbers come from the plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cutegen.codegen.parts import Constant, KernelParts
from cutegen.expressions.tree import Literal_
from cutegen.families.attention.plan import suffix_of
from cutegen.families.attention.reach_text import cut_lines, is_cut, reach_lines
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
    shared_out,
    shared_out_constants,
    size_of,
    size_texts,
    sums_of,
    tile_constants,
    tile_places,
)
from cutegen.families.attention.wgmma.plan import ROWS, MappedOperand, WarpgroupAttentionPlan
from cutegen.families.attention.wgmma.roles import body, thread_of
from cutegen.families.attention.wgmma.words import VECTOR, start_of_tile

LEAST = "2.0**-126"
CUT_PARTS = {(True, False): "part == 0", (False, True): "part == 1", (True, False, True): "part != 1"}


@dataclass(frozen=True)
class OperandText:
    """The texts of a tensor that is copied by a tensor map: rows first, or the values' columns first, as products take
    them.
    """

    plan: MappedOperand
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
        own = ["0", "None"] if self.columns_first else ["None", "0"]
        return f"({', '.join(own + ['None'] * len(self.plan.around))})"

    @property
    def around(self) -> int:
        """Modes of its tiles that are walked around the one along its rows' mode."""
        return len(self.plan.around)

    @property
    def columns(self) -> OperandText:
        """The same tensor, of which products take columns first."""
        return replace(self, columns_first=True)

    @property
    def store_atom(self) -> str:
        """The copy from registers to its tile in shared memory."""
        of_16_bits = self.plan.tensor.dtype.bytes == 2
        return "warp.StMatrix8x8x16bOp(False, 4)" if of_16_bits else "cute.nvgpu.CopyUniversalOp()"

    @property
    def profile(self) -> str:
        """Its tiles in a comment: the extents of one, and the mode that counts them."""
        of_block = self.copies == "CONSUMERS"
        extents = (ROWS if of_block else self.plan.rows, self.plan.depth)
        one, other = reversed(extents) if self.columns_first else extents
        return f"g{self.name} ({one},{other},{'m' if of_block else 'n'})"

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
        named = [self.plan.tensor.shape[mode] for mode in self.plan.order[2:]]
        places = ["None" if mode in self.plan.around else f"at_{mode}" for mode in named]
        return f"tma_tensor_{self.name}" + (f"[{', '.join(['None', 'None', *places])}]" if places else "")


def kernel_parts(plan: WarpgroupAttentionPlan) -> KernelParts:
    """The parts of a module of one contraction."""
    found, spec = plan.walked, plan.spec
    names = names_of(plan)
    vectors = [x.name for x in plan.vectors]
    rows = RowText(spec, found, names, plan.masked, plan.whole, plan.bounds, frozenset(vectors), deferred=plan.by_turns)
    operands = [
        *(OperandText(x, "CONSUMERS") for x in plan.lefts),
        *(OperandText(x, "STAGES", columns_first=x not in plan.rights_of_pairs) for x in plan.rights),
        *(OperandText(x, "CONSUMERS", stored=True) for x in plan.outputs),
    ]
    loaded = operands[: len(plan.loaded)]
    first_lines, tile_lines = rows.tile(), rows.tile(follows=True)
    cut_first, cut_scores = rows.cut_scores(), rows.cut_scores(follows=True)
    bounds = plan.bounds if plan.folds else ()
    cut = is_cut(bounds, found.walked, block_of(found.walked), names.sizes, plan.whole)
    cut = cut if cut_first or any("is_cut" in line for line in first_lines) else None
    cut_part = CUT_PARTS.get(plan.parts)
    end_lines, tile_loads = rows.end(), rows.tile_loads()
    coordinates, _ = asked_modes(found)
    by_column = {mode for mode in found.every_columns if any(mode in t.shape for t in rows.elements)}
    by_key = [t for t in rows.elements if found.walked in t.shape and t.name not in vectors]
    asks_keys = any("key_places" in line and not line.startswith(" ") for line in tile_lines)
    asks_keys = asks_keys or (not plan.by_turns and not plan.whole)
    row_places = [f"at_{mode}" for mode in plan.row_modes]
    m, n = found.rows[0], found.walked
    context: dict[str, Any] = {
        "body": body(plan),
        "operands": operands,
        "loaded": loaded,
        "stored": [
            (x, plan.sum_products[x.plan.depth], suffix_of(number)) for number, x in enumerate(operands[len(loaded) :])
        ],
        "loads": bool(by_column or by_key),
        "sizes": [(mode, text) for mode, text in size_texts(plan).items()],
        "places": [(mode, size_of(plan, mode)) for mode in reversed(plan.outer)],
        "length_lines": list(length_lines(plan)),
        "outer": list(plan.outer),
        **shared_out(plan),
        "reach": [
            *reach_lines(plan.bounds, m, n, block_of(m), block_of(n), names.sizes, bool(bounds)),
            *around_lines(plan),
        ],
        "tile_places": list(tile_places(plan)),
        "checks_keys": not plan.by_turns and not plan.whole,
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
        **(_of_one_pair(plan) if plan.by_turns else {}),
        "pairs": [pair.suffix for pair in plan.pairs],
        "outers": [(x.suffix, block_of(x.values.depth_mode), x.values.tensor.name) for x in plan.outers],
        "both_ways": [x for x in loaded if x.plan in plan.read_both_ways],
        "sum_products": [(name, block_of(_mode_of(plan, depth))) for depth, name in plan.sum_products.items()],
        "blk_m": block_of(m),
        "blk_n": block_of(n),
        "profiles": ", ".join(x.profile for x in loaded),
        "carried": [
            (rows.held[one.name], 'float("-inf")' if one.function == "max" else "0.0") for one in found.of_rows
        ],
        "grows": rows.grows,
        "factor_lines": _factor_lines(plan, rows),
        "asks_rows": any(name in line for name in row_places for line in first_lines),
        "asks_keys": asks_keys,
        "threads": {one.suffix: thread_of(plan.sum_products[one.values.depth]) for one in plan.outers},
        "asked_columns": list(columns_asked(plan, by_column | coordinates)),
        "asked_places": [
            (f"out_places{suffix_of(number)}", f"out_columns{suffix_of(number)}")
            for number, mode in enumerate(found.every_columns)
            if mode in coordinates
        ],
        "stored_sums": [
            (x.tensor.name, suffix_of(number), sums_of(plan, x.tensor.name)) for number, x in enumerate(plan.outputs)
        ],
        "tile_loads": tile_loads,
        "vectors": [(x.name, rows.fetched(x), rows.vector(x)) for x in plan.vectors],
        "rest_start": start_of_tile(plan),
        "unwritten": [_unwritten(x, plan) for x in loaded if x.plan in plan.zeroed],
        "vector": VECTOR,
        "vector_lines": [
            f"{rows.inputs[name]} = at_columns(s{name}[None, {VECTOR}], key_columns).load()" for name in vectors
        ],
        "tile_lines": tile_lines,
        "end_lines": end_lines,
        "ends_ask_rows": any(f"at_{m}" in line for line in end_lines),
        "element": f"cutlass.{plan.lefts[0].tensor.dtype.cutlass}",
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
        parameters=(
            *(text for one in parameters for text in one),
            *(f"s{x.tensor.name}_columns_layout: cute.ComposedLayout" for x in plan.read_both_ways),
            "mma_S: cute.TiledMma",
            *(f"{name}: cute.TiledMma" for name in plan.sum_products.values()),
        ),
        limits=limits(plan),
        nvgpu=("OperandMajorMode", "cpasync", "warp", "warpgroup"),
        nvgpu_path="schedule.mma",
    )


def _of_one_pair(plan: WarpgroupAttentionPlan) -> dict[str, Any]:
    """The context of the templates for tiles that come by turns."""
    return {
        "Q": plan.q.tensor.name,
        "V": plan.v.tensor.name,
        "D": plan.walked.scores.mode,
        "columns": block_of(plan.walked.columns),
    }


def _unwritten(x: OperandText, plan: WarpgroupAttentionPlan) -> tuple[str, str, str]:
    """A tensor of which rows may not exist: its name, the elements of a row, and the index of element `place`."""
    columns = block_of(x.plan.depth_mode)
    row, column = f"place // {columns}", f"place % {columns}"
    places = (column, row) if x.columns_first else (row, column)
    return x.name, columns, ", ".join([*places, "0" if plan.by_turns else "stage"])


def _mode_of(plan: WarpgroupAttentionPlan, depth: int) -> str:
    """A mode of the columns of sums that has so many."""
    return next(one.values.depth_mode for one in plan.outers if one.values.depth == depth)


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
    own = [(x.tensor.name, x.bytes) for x in plan.loaded]
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
