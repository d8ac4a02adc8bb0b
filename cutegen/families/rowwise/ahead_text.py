"""Text of loads that are in flight before their rows' turn, in blocks that walk many rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutegen.codegen.formatting import python_tuple
from cutegen.families.common.pointwise_text import width_name
from cutegen.families.rowwise.operand_text import OperandText
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.walk_text import WalksText


@dataclass(frozen=True)
class LoaderText:
    """A function that starts loads: of the rows of a tile, or of what is the same for all rows."""

    name: str
    what: str
    operands: list[OperandText]
    parameters: list[str]
    tile: str
    first: list[str]  # its arguments before the walk
    next: list[str]  # and in it; empty if it is called once
    walks: bool  # whether it gets the number of the tile


def ahead(plan: RowwisePlan, texts: WalksText, tile: str, block: str, divisors: list[str]) -> dict[str, Any]:
    """Template values for loads ahead. `tile` is the text of a block's tile of rows, `block` the variable that counts
    blocks or clusters, and `divisors` name the divisors that turn the number of a tile into its coordinates.
    """
    any_tile = _tile_of_first_rows(plan, "0")
    own_part = _tile_of_first_rows(plan, "rank") if plan.cluster > 1 else any_tile
    if plan.fewer_threads:
        any_tile, own_part = python_tuple(["0"] * len(plan.flat.lead.shape)), tile
    loaders = []
    if plan.ahead:
        rows, fixed = texts.ahead, texts.fixed
        if rows:
            what = "Starts the loads of this thread's values of a tile of rows."
            parameters, arguments = _passed(plan, rows, divisors)
            told = ["row_tile: cutlass.Int32", *parameters]
            of_first, of_next = [block, *arguments], ["next_tile", *arguments]
            loaders.append(LoaderText("load_rows", what, rows, told, tile, of_first, of_next, True))
        if fixed:
            what = "Starts the loads of the values that all rows share."
            parameters, arguments = _passed(plan, fixed, [])
            loaders.append(LoaderText("load_columns", what, fixed, parameters, own_part, arguments, [], False))
    row_parameters, row_arguments = _of_rows(plan, texts, divisors)
    return {
        "loaders": loaders,
        "first_tile": any_tile,
        "unsigned": any(o.element for f in loaders for o in f.operands),
        "writes_row_values": any(plan.flat.tensor(name).writes for name in plan.row_tensors),
        "next_values": ", ".join(f"next_{texts.row_variables[name]}" for name in plan.row_tensors),
        "row_value_parameters": ["row_tile: cutlass.Int32", *row_parameters],
        "row_value_arguments": row_arguments,
    }


def _tile_of_first_rows(plan: RowwisePlan, part: str) -> str:
    """The text of a tile of the first rows: of their part of that number."""
    modes = plan.flat.lead.shape
    at = [part if mode == plan.row else "0" for mode in modes]
    return f"({python_tuple(('None',) * len(modes))}, {part if len(modes) == 1 else python_tuple(at)})"


def _passed(plan: RowwisePlan, operands: list[OperandText], divisors: list[str]) -> tuple[list[str], list[str]]:
    """The parameters and arguments of a function that loads these operands."""
    lead = plan.flat.lead.name
    tensors = [o.tensor.name for o in operands]
    if plan.masked and lead not in tensors:
        tensors = [lead, *tensors]
    parameters = [f"m{name}: cute.Tensor" for name in tensors]
    arguments = [f"m{name}" for name in tensors]
    for o in operands:
        parameters += [f"copy_{o.tensor.name}: cute.CopyAtom", f"t{lead}r{o.tensor.name}: cute.Tensor"]
        arguments += [f"copy_{o.tensor.name}", f"t{lead}r{o.tensor.name}"]
    own = "own_values" if plan.fewer_threads else "tv_layout"
    parameters, arguments = [*parameters, f"{own}: cute.Layout"], [*arguments, own]
    if plan.cluster > 1:
        parameters, arguments = [*parameters, "rank: cutlass.Int32"], [*arguments, "rank"]
    if plan.flat.schedule.narrows:
        width = width_name(plan.flat)
        parameters, arguments = [*parameters, f"{width}: cutlass.Constexpr[int]"], [*arguments, width]
    return [*parameters, *(f"{d}: cute.FastDivmodDivisorV2" for d in divisors)], [*arguments, *divisors]


def _of_rows(plan: RowwisePlan, texts: WalksText, divisors: list[str]) -> tuple[list[str], list[str]]:
    """The same of the function that loads what is the same along a row."""
    lead = plan.flat.lead.name
    tensors = list(plan.row_tensors)
    if plan.beside in plan.masked and lead not in tensors:
        tensors = [lead, *tensors]
    parameters = [f"m{name}: cute.Tensor" for name in tensors]
    return (
        [*parameters, *(f"{d}: cute.FastDivmodDivisorV2" for d in divisors)],
        [*(f"m{name}" for name in tensors), *divisors],
    )
