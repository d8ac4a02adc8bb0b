"""Claims about a walk that several blocks share, the accesses to its workspace, and the sizes that its grids count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from tensor_layouts import Layout

from cutegen.analysis.access import Access
from cutegen.analysis.accesses import fixed_sizes, strides_of
from cutegen.analysis.buffers import Scratch
from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import covered_once
from cutegen.analysis.words import count
from cutegen.dtypes import Dtype
from cutegen.expressions.places import joined
from cutegen.families.attention.mma_sync.merge_text import part_lines
from cutegen.families.attention.mma_sync.plan import MERGE_VECTOR, AttentionPlan
from cutegen.language.kinds import Path
from cutegen.parts.acting import value_of

PATH: Path = ("schedule", "split")
MOST_TILES, MOST_ROWS = 2**31 - 1, 2**31 - 2**12


def tiles_of(tiles: int, part: int, parts: int) -> range:
    """The tiles of one of several parts, by the statements that the kernel has."""
    values: dict[str, object] = {"tiles": tiles, "first_tile": 0, "part": part, "PARTS": parts}
    for names, text in part_lines("PARTS"):
        found, targets = value_of(text, values), names.split(", ")
        values |= dict(zip(targets, found if len(targets) > 1 else (found,), strict=True))
    first, own = values["first_tile"], values["tiles"]
    assert isinstance(first, int) and isinstance(own, int)
    return range(first, first + own)


def split_claims(plan: AttentionPlan) -> Iterator[Claim]:
    """That each tile is in one part, and that the merge stores each element of a row once."""
    name, threads = plan.o.tensor.name, plan.columns // MERGE_VECTOR
    layout = Layout((threads, MERGE_VECTOR), (MERGE_VECTOR, 1))
    what = f"the merge stores each element of a row of {name} exactly once"
    yield covered_once(what, layout, (plan.columns,), PATH, threads)
    parts, wrong = plan.parts, list[str]()
    tried = (0, 1, parts - 1, parts, parts + 1, 3 * parts + parts // 2)
    for tiles in tried:
        walked = [tile for part in range(parts) for tile in tiles_of(tiles, part, parts)]
        if walked != [*range(tiles)]:
            wrong.append(f"of {count(tiles, 'tile')} the {parts} parts walk {walked}")
    text = f"each tile along {plan.walked.walked} is walked in one part, and parts are in their order"
    shown = f"counted for {', '.join(map(str, tried))} tiles and {parts} parts"
    yield Claim("coverage", text, (*wrong, shown), not wrong, PATH)


def split_accesses(plan: AttentionPlan) -> Iterator[Access]:
    """The accesses to the workspace, by parts and by the merge, and the stores of the merge."""
    o, vector = plan.o.tensor, MERGE_VECTOR
    space = replace(o, dtype=Dtype.f32, align=vector * Dtype.f32.bytes)
    threads = plan.columns // vector
    if plan.key_warps > 1:
        rows = max(1, plan.threads // threads)
        written, width = Layout(((threads, rows), vector), ((vector, plan.given), 1)), vector
    else:
        pairs = plan.columns // 8
        written = Layout(((4, 8, plan.warps), (2, pairs)), ((2, plan.given, 16 * plan.given), (1, 8)))
        width = 2
    merged = Layout((threads, vector), (vector, 1))
    name, f32 = o.name, Dtype.f32
    yield Access(f"{name} to its workspace", name, f32, "global", "write", width, written, PATH, workspace=space)
    yield Access(f"{name} from its workspace", name, f32, "global", "read", vector, merged, PATH, workspace=space)
    yield Access(f"{name} to global memory", name, o.dtype, "global", "write", vector, merged, PATH)
    for tensor in plan.spec.outputs:
        if tensor.name != name:
            (stride,) = strides_of(tensor, (plan.row_modes[-1],), fixed_sizes(plan.spec, plan.tile))
            way, layout = f"{tensor.name} to global memory", Layout((1, 1), (stride, stride))
            yield Access(way, tensor.name, tensor.dtype, "global", "write", 1, layout, ("tensors", tensor.name))


def largest(plan: AttentionPlan, beside: Mapping[str, int] | None) -> Mapping[str, int]:
    """The largest sizes that two grids can count: of tiles of rows for each part, and of rows."""
    sizes = {mode: max(1, (beside or {}).get(mode, 1)) for mode in (*plan.row_modes, *plan.outer)}
    rows, outer = (prod(sizes[mode] for mode in modes) for modes in (plan.row_modes, plan.outer))
    tiles = MOST_TILES // plan.parts
    found = {}
    for mode in plan.row_modes:
        others = rows // sizes[mode]
        found[mode] = min(tiles // outer * plan.row_block // others, MOST_ROWS // outer // others)
    for mode in plan.outer:
        others = outer // sizes[mode]
        found[mode] = min(tiles // -(-rows // plan.row_block) // others, MOST_ROWS // rows // others)
    return found


def scratch(plan: AttentionPlan) -> Iterator[Scratch]:
    """The workspace of what the parts of a walk give for each row."""
    if plan.parts > 1:
        rows = joined((*plan.outer, *plan.row_modes))
        yield Scratch(plan.o.tensor.name, ((rows, 1),), plan.given * Dtype.f32.bytes, plan.parts)
