"""Text that all modules of contractions have: sizes, names, limits, constants."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.codegen.parts import Constant, Limit
from cutegen.expressions.parsing import coords
from cutegen.expressions.tree import lengths
from cutegen.families.attention.operands import operands_of
from cutegen.families.attention.plan import WalkingPlan
from cutegen.families.attention.row_printers import Names
from cutegen.ops.walked import Walked


def block_of(mode: str) -> str:
    """The constant for a tile's extent along a mode."""
    return f"BLK_{mode.upper()}"


def names_of(plan: WalkingPlan) -> Names:
    """The variables of the kernel for places, columns and sizes."""
    found = plan.walked
    return Names(
        places={mode: f"at_{mode}" for mode in (*plan.outer, found.rows[0])},
        columns={found.walked: "key_places", found.columns: "out_places"},
        offsets={found.walked: "key_columns", found.columns: "out_columns"},
        sizes={mode: f"size_{mode}" for mode in plan.spec.lead.shape},
    )


def size_of(plan: WalkingPlan, mode: str) -> str:
    """The size of a mode, of a tensor that has it."""
    if mode in plan.spec.static:
        return str(plan.spec.static[mode])
    tensor = next(t for t in plan.spec.tensors if mode in t.shape)
    return f"m{tensor.name}.shape[{tensor.shape.index(mode)}]"


def length_lines(plan: WalkingPlan) -> Iterator[str]:
    """The statement that makes the size of the walked mode the length at a block's place."""
    if plan.lengths is not None:
        mode, of, used = plan.lengths
        yield f"# Of {mode} only so many exist for this place along {of}: what lies behind is no part of a result"
        yield f"size_{mode} = cutlass.max(cutlass.min(m{used}[at_{of}], {size_of(plan, mode)}), 0)"


def size_texts(plan: WalkingPlan) -> dict[str, str]:
    """The sizes that the kernel asks for: of rows, of the walked mode, and those that statements name."""
    found = plan.walked
    _, asked = asked_modes(found)
    modes = dict.fromkeys((found.rows[0], found.walked, *(mode for mode in plan.spec.lead.shape if mode in asked)))
    factors = {tensor.name for tensor in operands_of(plan.spec, found)[:3]}
    if any(found.columns in t.shape for t in plan.spec.inputs if t.name not in factors):
        modes |= {found.columns: None}
    return {mode: size_of(plan, mode) for mode in modes}


def tile_constants(plan: WalkingPlan) -> Iterator[Constant]:
    """The extents of tiles."""
    found = plan.walked
    rows, keys = found.rows[0], found.walked
    yield Constant(block_of(rows), str(plan.row_block), "rows of a tile", f"schedule.tiler.{rows}")
    yield Constant(block_of(keys), str(plan.key_block), "that are multiplied at a time", f"schedule.tiler.{keys}")
    yield Constant(block_of(found.scores.mode), str(plan.depth), "", "static")
    if found.columns != found.scores.mode:
        yield Constant(block_of(found.columns), str(plan.columns), "", "static")


def grid(plan: WalkingPlan) -> str:
    """The number of blocks."""
    rows = plan.walked.rows[0]
    counts = [f"cute.ceil_div({size_of(plan, rows)}, {block_of(rows)})"]
    return " * ".join([*counts, *(size_of(plan, mode) for mode in plan.outer)])


def limits(plan: WalkingPlan) -> tuple[Limit, ...]:
    """The limit of a number of tiles that 32 bits count."""
    rows = plan.walked.rows[0]
    factors = (f'-(-sizes["{rows}"] // {block_of(rows)})', *(f'sizes["{mode}"]' for mode in plan.outer))
    return (Limit("schedule.tiler", factors, 'f"at most {MOST_TILES} tiles"', "tiles <= MOST_TILES"),)


def asked_modes(found: Walked) -> tuple[set[str], set[str]]:
    """The modes whose coordinates, and whose sizes, statements ask for."""
    values = [typed.value for typed in (*found.elements, *found.ends)] + [one.value for one in found.carried]
    return (
        {coord.mode for value in values for coord in coords(value)},
        {length.mode for value in values for length in lengths(value)},
    )
