"""The text of a walk that several blocks share: which tiles each has, what it gives, and the kernel that merges it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from cutegen.codegen.parts import Workspace, WorkspaceMode, Workspaces
from cutegen.dtypes import Dtype
from cutegen.expressions.places import joined
from cutegen.families.attention.mma_sync.filling import ENOUGH, FEWEST, RESIDENT
from cutegen.families.attention.mma_sync.plan import MERGE_VECTOR, AttentionPlan
from cutegen.families.attention.row_text import RowText
from cutegen.families.attention.tile_text import MINUS_INFINITY, RELATIVE_TO_ZERO
from cutegen.families.attention.walking_text import block_of, length_lines, names_of, rows_block, size_of
from cutegen.language.model import Tensor
from cutegen.ops.walked import Carried

PATH = "schedule.split"


def space_name(plan: AttentionPlan) -> str:
    """The parameter of the workspace."""
    return f"workspace_{plan.o.tensor.name}"


def parts_text(plan: AttentionPlan) -> str:
    """The number of parts: a constant, or what the kernel finds in the workspace."""
    return "parts" if plan.fills else "PARTS"


def merged_parts(plan: AttentionPlan) -> str:
    """The number of parts outside of the kernel."""
    return f"{space_name(plan)}.shape[0]" if plan.fills else "PARTS"


def part_lines(parts: str) -> Iterator[tuple[str, str]]:
    """Variables and their values, in this order: the tiles of one of several parts, of all that are walked."""
    yield "share, longer", f"tiles // {parts}, tiles % {parts}"
    yield "first_tile", "first_tile + part * share + cutlass.min(part, longer)"
    yield "tiles", "share + cutlass.Int32(part < longer)"


def workspaces(plan: AttentionPlan) -> Workspaces | None:
    """The workspace of what the parts of a walk give; None where a block walks all of it."""
    if plan.parts == 1:
        return None
    given = [plan.q.tensor.argument, plan.k.tensor.argument][: 1 + plan.fills]
    rows = joined((*plan.outer, *plan.row_modes))
    space = Workspace(
        path=PATH,
        parameter=space_name(plan),
        memory=f"_part_space({', '.join(given)})",
        fake=(
            "cutlass.Float32",
            ("(", ["cute.sym_int()" if plan.fills else str(plan.parts), "cute.sym_int()", str(plan.given)], ")"),
            ("(", ["cute.sym_int64(divisibility=4)", "cute.sym_int64(divisibility=4)", "1"], ")"),
            "assumed_align=16",
        ),
        documentation="Each call first writes what each part of a walk gives to a workspace.",
        dtype=Dtype.f32,
        modes=(WorkspaceMode(1 if plan.fills else plan.parts), WorkspaceMode(rows), WorkspaceMode(plan.given)),
        major=2,
    )
    return Workspaces(PATH, "part_space.j2", (space,))


def given_lines(plan: AttentionPlan, rows: RowText) -> tuple[list[str], list[str]]:
    """The statements on one row at the end of a part, and the variables that it then gives behind the sums."""
    lines, given = list[str](), list[str]()
    for one in plan.walked.of_rows:
        held = f"{rows.held[one.name]}[row]"
        if one.function == "sum":
            variable = rows.variables.free(f"{one.name}_given")
            lines.append(f"{variable} = quad_sum({held})")
            held = variable
        given.append(held)
    return lines, given


def merged_rows(plan: AttentionPlan) -> RowText:
    """The printer of rows of which a thread has several columns, and all that is carried."""
    return RowText(plan.spec, plan.walked, names_of(plan), plan.masked, plan.whole, shared=False)


def merge_lines(plan: AttentionPlan, rows: RowText) -> Iterator[str]:
    """The statements that add what one part gives, `own` and behind it in `given`, to what is merged so far."""
    fast = ", fastmath=True" if plan.spec.schedule.fast_math else ""
    columns, walked = block_of(plan.walked.columns), plan.walked
    grown = {one.name: _growths(one, rows) for one in walked.of_rows if one.function == "max"}
    for number, one in enumerate(walked.of_rows):
        held, given = f"carried[{number}]", f"given[{columns} + {number}]"
        if one.function == "max":
            above, (before, own) = rows.above[one.name], grown[one.name]
            yield f"largest = cute.arch.fmax({given}, {held}, nan=True)"
            yield RELATIVE_TO_ZERO
            yield f"{above} = cutlass.Float32(0.0) if largest == {MINUS_INFINITY} else largest"
            yield f"{before} = cute.math.exp({held} - {above}{fast})"
            yield f"{own} = cute.math.exp({given} - {above}{fast})"
            yield f"{held} = largest"
        else:
            yield f"{held} = {_added(held, given, one, grown)}"
    for one in walked.outer:
        yield f"merged.store({_added('merged.load()', 'own.load()', one, grown)})"


def _growths(one: Carried, rows: RowText) -> tuple[str, str]:
    return rows.variables.free(f"{one.name}_grown"), rows.variables.free(f"{one.name}_own")


def _added(held: str, given: str, one: Carried, grown: Mapping[str, tuple[str, str]]) -> str:
    """The sum of what was merged and what is given, each relative to the same maximum."""
    if one.above is None:
        return f"{held} + {given}"
    before, own = grown[one.above]
    return f"{held} * {before} + {given} * {own}"


def of_warps(plan: AttentionPlan) -> dict[str, Any]:
    """The context of the templates for warps that share the elements of a tile, or its rows."""
    if plan.key_warps == 1:
        return {"key_warps": 1, "thread": "tidx", "keys": block_of(plan.walked.walked), "row_warps": "WARPS"}
    return {"key_warps": plan.key_warps, "thread": "lane", "keys": "KEYS", "row_warps": "1"}


def context_of(plan: AttentionPlan, main: RowText) -> dict[str, Any]:
    """The context of the templates for parts and for the kernel that merges them."""
    if plan.parts == 1:
        return {"parts": 1}
    rows, spec, found = merged_rows(plan), plan.spec, plan.walked
    lines, ends = list(merge_lines(plan, rows)), rows.end()
    given, variables = given_lines(plan, main)
    modes = [*plan.row_modes, *reversed(plan.outer)]
    names = {f"size_{mode}": mode for mode in spec.lead.shape}
    sized = [mode for name, mode in names.items() if any(name in line for line in ends) or mode in plan.row_modes]
    places = ["place = bidx"]
    for mode in [*reversed(plan.row_modes), *reversed(plan.outer)]:
        size = f"size_{mode}" if mode in sized else size_of(plan, mode)
        places.append(f"at_{mode}, place = place % {size}, place // {size}")
    if found.walked in sized:
        places += length_lines(plan)
    texts = [*lines, *ends, *places, *(size_of(plan, mode) for mode in modes + sized)]
    tensors = [t.name for t in spec.tensors if any(_names(text, f"m{t.name}") for text in texts) or t in spec.outputs]
    scalars = [s for s in spec.scalars if any(_names(text, s.name) for text in texts)]
    space, output = space_name(plan), plan.o.tensor
    parameters = [
        *(f"m{name}: cute.Tensor" for name in tensors),
        f"{space}: cute.Tensor",
        *(f"{s.name}: cutlass.{s.dtype.cutlass}" for s in scalars),
    ]
    return {
        "parts": plan.parts,
        "part_lines": [f"{targets} = {text}" for targets, text in part_lines(parts_text(plan))],
        "parts_text": parts_text(plan),
        "merged_parts": merged_parts(plan),
        **_space(plan),
        "given_lines": given,
        "given_values": variables,
        "merge_parameters": parameters,
        "merge_arguments": [parameter.split(":")[0] for parameter in parameters],
        "merge_vector": MERGE_VECTOR,
        "merge_sizes": [(mode, size_of(plan, mode)) for mode in sized],
        "merge_places": places,
        "merge_lines": lines,
        "merge_end_lines": ends,
        "merged_row": ", ".join("None" if mode == found.columns else f"at_{mode}" for mode in output.shape),
        "merge_grid": [size_of(plan, mode) for mode in (*plan.outer, *plan.row_modes)],
        "merge_threads": f"{plan.columns // MERGE_VECTOR}, 1, 1",
    }


def _space(plan: AttentionPlan) -> dict[str, Any]:
    """The context of the host's function that makes the workspace."""
    left, right, found = plan.q.tensor, plan.k.tensor, plan.walked
    static = plan.spec.static

    def size(mode: str, tensor: Tensor) -> str:
        return str(static[mode]) if mode in static else f"{tensor.argument}.shape[{tensor.shape.index(mode)}]"

    rows = " * ".join(size(mode, left) for mode in plan.row_modes)
    blocks = [f"-(-{rows} // {rows_block(plan)})", *(size(mode, left) for mode in plan.outer)]
    return {
        "fills": plan.fills,
        "fewest": FEWEST,
        "enough": ENOUGH,
        "resident": RESIDENT,
        "space_parameters": [left.argument, right.argument],
        "space_blocks": " * ".join(blocks),
        "space_keys": size(found.walked, right),
    }


def _names(text: str, name: str) -> bool:
    """Whether a text has a name as a word."""
    return re.search(rf"\b{re.escape(name)}\b", text) is not None
