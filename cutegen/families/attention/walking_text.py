"""Text that all modules of contractions have: sizes, names, limits, constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cutegen.codegen.parts import Constant, Limit
from cutegen.expressions.parsing import coords
from cutegen.expressions.places import joined
from cutegen.expressions.tree import lengths
from cutegen.families.attention.operands import moved_in_tiles
from cutegen.families.attention.plan import Moved, WalkingPlan, suffix_of
from cutegen.families.attention.row_printers import Names
from cutegen.ops.walked import Walked


def block_of(mode: str) -> str:
    """The constant for a tile's extent along a mode."""
    return f"BLK_{mode.upper()}"


def rows_block(plan: WalkingPlan[Moved]) -> str:
    """The constant for the rows of a tile."""
    return "BLK_ROWS" if plan.packed else block_of(plan.rows_mode)


def names_of(plan: WalkingPlan[Moved]) -> Names:
    """The variables of the kernel for places, columns and sizes."""
    found = plan.walked
    of_columns = {mode: suffix_of(number) for number, mode in enumerate(found.every_columns)}
    return Names(
        places={mode: f"at_{mode}" for mode in (*plan.outer, *found.around, *plan.row_modes)},
        columns={found.walked: "key_places"} | {mode: f"out_places{suffix}" for mode, suffix in of_columns.items()},
        offsets={found.walked: "key_columns"} | {mode: f"out_columns{suffix}" for mode, suffix in of_columns.items()},
        sizes={mode: f"size_{mode}" for mode in plan.spec.lead.shape},
        rows=plan.row_modes,
    )


def row_lines(plan: WalkingPlan[Moved]) -> list[str]:
    """The statements that find the places of row `row` of a thread."""
    place = f"row_tile * {rows_block(plan)} + rows[row]"
    if not plan.packed:
        return [f"at_{plan.rows_mode} = {place}"]
    lines = [f"row_place = {place}"]
    for number, mode in enumerate(plan.row_modes):
        behind = _product([f"size_{other}" for other in plan.row_modes[number + 1 :]])
        divided = f"row_place // {behind}" if behind else "row_place"
        lines.append(f"at_{mode} = {divided}" + f" % size_{mode}" * (number > 0))
    return lines


def rows_alike(plan: WalkingPlan[Moved]) -> str:
    """How many rows next to each other are alike in the mode that varies least; empty: one."""
    return _product([f"size_{mode}" for mode in plan.packed])


def _product(factors: Sequence[str]) -> str:
    return f"({' * '.join(factors)})" if len(factors) > 1 else "".join(factors)


def size_of(plan: WalkingPlan[Moved], mode: str) -> str:
    """The size of a mode, of a tensor that has it."""
    if mode in plan.spec.static:
        return str(plan.spec.static[mode])
    tensor = next(t for t in plan.spec.tensors if mode in t.shape)
    return f"m{tensor.name}.shape[{tensor.shape.index(mode)}]"


def length_lines(plan: WalkingPlan[Moved]) -> Iterator[str]:
    """The statement that makes the size of the walked mode the length at a block's place."""
    if plan.lengths is not None:
        mode, of, used = plan.lengths
        yield f"# Of {mode} only so many exist for this place along {of}: what lies behind is no part of a result"
        yield f"size_{mode} = cutlass.max(cutlass.min(m{used}[at_{of}], {size_of(plan, mode)}), 0)"


def size_texts(plan: WalkingPlan[Moved]) -> dict[str, str]:
    """The sizes that the kernel asks for: of rows, of the walked mode, and those that statements name."""
    found = plan.walked
    _, asked = asked_modes(found)
    named = (mode for mode in plan.spec.lead.shape if mode in asked)
    modes = dict.fromkeys((*plan.row_modes, found.walked, *found.around, *named))
    moved = moved_in_tiles(plan.spec, found)
    for columns in found.every_columns:
        if any(columns in t.shape for t in plan.spec.inputs if t.name not in moved):
            modes |= {columns: None}
    return {mode: size_of(plan, mode) for mode in modes}


def tile_constants(plan: WalkingPlan[Moved]) -> Iterator[Constant]:
    """The extents of tiles."""
    found = plan.walked
    rows, keys = joined(plan.row_modes), found.walked
    yield Constant(rows_block(plan), str(plan.row_block), "rows of a tile", f"schedule.tiler.{rows}")
    yield Constant(
        block_of(keys), str(plan.key_block), f"of {keys} that are multiplied at a time", f"schedule.tiler.{keys}"
    )
    for mode in found.depths:
        yield Constant(block_of(mode), str(plan.tile[mode]), "", "static")


def grid(plan: WalkingPlan[Moved]) -> list[str]:
    """The factors of the number of blocks."""
    rows = " * ".join(size_of(plan, mode) for mode in plan.row_modes)
    return [f"cute.ceil_div({rows}, {rows_block(plan)})", *(size_of(plan, mode) for mode in plan.outer)]


def limits(plan: WalkingPlan[Moved], parts: int = 1) -> tuple[Limit, ...]:
    """The limit of a number of tiles that 32 bits count, and of rows where all of them are counted."""
    rows = [f'sizes["{mode}"]' for mode in plan.row_modes]
    outer = [f'sizes["{mode}"]' for mode in plan.outer]
    factors = (f"-(-{' * '.join(rows)} // {rows_block(plan)})", *outer, *["PARTS"] * (parts > 1))
    tiles = Limit("schedule.tiler", factors, 'f"at most {MOST_TILES} tiles"', "tiles <= MOST_TILES")
    if parts == 1 and not plan.packed:
        return (tiles,)
    every = Limit("schedule.tiler", (*rows, *outer), 'f"at most {MOST_ROWS} rows"', "tiles <= MOST_ROWS")
    return tiles, every


def asked_modes(found: Walked) -> tuple[set[str], set[str]]:
    """The modes whose coordinates, and whose sizes, statements ask for."""
    values = [typed.value for typed in (*found.elements, *found.ends)] + [one.value for one in found.carried]
    return (
        {coord.mode for value in values for coord in coords(value)},
        {length.mode for value in values for length in lengths(value)},
    )


TOGETHER = 16  # places of the outer modes whose tiles of rows are taken by turns


def shared_out(plan: WalkingPlan[Moved]) -> dict[str, Any]:
    """The context of the template for blocks that take the tiles of several places together."""
    return {
        "all_places": " * ".join(size_of(plan, mode) for mode in plan.outer),
        "first_rows_first": not any(bound.last and bound.row > 0 for bound in plan.bounds),
    }


def shared_out_constants(plan: WalkingPlan[Moved]) -> Iterator[Constant]:
    """The number of places whose tiles are taken together."""
    if plan.shares_out:
        yield Constant("TOGETHER", str(TOGETHER), "whose tiles are taken by turns", "schedule.tiler")


def start_of(plan: WalkingPlan[Moved]) -> str:
    """Where a tile starts along the walked mode."""
    place = "first_tile + tile % tiles" if plan.walked.around else "first_tile + tile"
    return f"({place}) * {block_of(plan.walked.walked)}"


def tile_places(plan: WalkingPlan[Moved]) -> Iterator[str]:
    """The statements that find where a tile starts along the walked mode, and its places along those around it."""
    found = plan.walked
    yield f"start = {start_of(plan)}"
    for number, mode in enumerate(found.around):
        before = " * ".join(["tiles", *(f"size_{other}" for other in found.around[:number])])
        place = f"tile // ({before})" if number else f"tile // {before}"
        yield f"at_{mode} = {place}" + f" % size_{mode}" * (len(found.around) > 1)


def around_lines(plan: WalkingPlan[Moved]) -> Iterator[str]:
    """The statements that find how many tiles are walked in all, where other modes are walked around theirs."""
    found = plan.walked
    if found.around:
        yield f"# All of these tiles for each place of {', '.join(found.around)}"
        size = f"size_{found.walked}" if plan.lengths is None else size_of(plan, found.walked)  # not that which exists
        yield f"every_tile = cute.ceil_div({size}, {block_of(found.walked)})"
        yield " * ".join(["rounds = tiles", *(f"size_{mode}" for mode in found.around)])


def walked_tiles(plan: WalkingPlan[Moved]) -> str:
    """The number of tiles that are walked."""
    return "rounds" if plan.walked.around else "tiles"


def walked_tile(plan: WalkingPlan[Moved]) -> str:
    """Which of all tiles of the tensors that are walked comes in a round."""
    return "tile // tiles * every_tile + first_tile + tile % tiles" if plan.walked.around else "first_tile + tile"


def sums_of(plan: WalkingPlan[Moved], output: str) -> str:
    """The suffix of the sums that an output with columns follows from."""
    outer = plan.walked.outer_of(output)
    return next(one.suffix for one in plan.outers if outer is not None and one.name == outer.name)


def columns_asked(plan: WalkingPlan[Moved], asked: set[str]) -> Iterator[tuple[str, str, str, str]]:
    """The modes of columns whose coordinates are asked for: the suffix of the variables of each, the mode, its extent,
    and the suffix of sums that have it.
    """
    found = plan.walked
    for number, mode in enumerate(found.every_columns):
        if mode in asked:
            one = next(one for one in plan.outers if one.values.depth_mode == mode)
            yield suffix_of(number), mode, block_of(mode), one.suffix
