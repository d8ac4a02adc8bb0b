"""The text that the templates of a row kernel print. Numbers come from the plan."""

from __future__ import annotations

from functools import partial
from typing import Any

from cutegen.atoms.targets import WARP
from cutegen.codegen.formatting import call, one_or_tuple, python_tuple
from cutegen.codegen.parts import Constant, KernelParts, Limit
from cutegen.expressions.tree import coords
from cutegen.families.common.pointwise_text import narrow_widths, width_name
from cutegen.families.rowwise import few_text as few
from cutegen.families.rowwise.across_text import aparts, extremes, results_of_cluster, scales
from cutegen.families.rowwise.ahead_text import ahead
from cutegen.families.rowwise.column_text import PATH, columns_of, counted_columns, is_double, workspaces
from cutegen.families.rowwise.flat_text import flattened, part_sizes, row_limits, row_size
from cutegen.families.rowwise.kept_text import kept
from cutegen.families.rowwise.key_text import functions as key_functions
from cutegen.families.rowwise.launch_text import (
    chooses,
    launches,
    longer_name,
    most_held,
    most_threads,
    narrowing_of,
    piece_size,
    tells_warps,
)
from cutegen.families.rowwise.operand_text import splits
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.rows import only_threads
from cutegen.families.rowwise.scan_text import functions as scan_functions
from cutegen.families.rowwise.scan_text import parameters as scan_parameters
from cutegen.families.rowwise.taken_text import taken_rows
from cutegen.families.rowwise.trees import tree_of
from cutegen.families.rowwise.walk_text import WalksText
from cutegen.families.rowwise.walks import Element, Store
from cutegen.layouts import show

DIVISOR = "cute.FastDivmodDivisorV2"
COPY = "schedule.copy"
CLUSTER = "schedule.cluster"
SIZE = "CLUSTER_SIZE: cutlass.Constexpr[int]"
SHORTER = "schedule.shorter"


def kernel_parts(plan: RowwisePlan) -> KernelParts:
    """The parts of a module of one row kernel."""
    divisors, narrowing = _divisors(plan), narrowing_of(plan)
    launched = {d: f"{DIVISOR}(tiles[{i}])" for d, i in zip(divisors, plan.tile_order, strict=False)}
    sizes = WalksText(plan).parts.dynamic.values()
    launched |= {column.workspace: f"space_{column.name}" for column in columns_of(plan)}
    return KernelParts(
        template="rowwise.py.j2",
        constants=_constants(plan),
        context=_context(plan) | narrowing.context,
        parameters=(
            *([] if plan.fewer_threads else ["tv_layout: cute.Layout"]),
            *narrowing.parameters,
            *_walking(plan),
            *([SIZE] if plan.any_cluster else []),
            *(f"{divisor}: {DIVISOR}" for divisor in divisors),
            *(f"{size}: cutlass.Int32" for size in sizes),
        ),
        launched=launched | narrowing.wide,
        narrow=launched | narrowing.narrow,
        words=launched | narrowing.words,
        workspaces=workspaces(plan),
        largest={} if plan.walked or plan.longer or plan.row not in plan.spec.modes else {plan.row: most_held(plan)},
        limits=_limits(plan),
        documentation=narrowing.documentation(COPY),
        passed={SIZE: "CLUSTER"} if plan.any_cluster else {},
    )


def _walking(plan: RowwisePlan) -> list[str]:
    """The parameters of a kernel whose blocks walk all tiles of rows."""
    spaces = [f"{column.workspace}: cute.Tensor" for column in columns_of(plan)]
    return ["row_tiles: cutlass.Int32", *spaces] if plan.persistent else []


def _axis(plan: RowwisePlan) -> int:
    return plan.flat.lead.shape.index(plan.row)


def _constants(plan: RowwisePlan) -> tuple[Constant, ...]:
    modes = ", ".join(plan.flat.lead.shape)
    most = "2**31 - 1" if plan.cluster == 1 else "(2**31 - 1) // CLUSTER"
    counted = [] if plan.most_tiles is None else [Constant("MOST_TILES", most, "", "schedule.tiler")]
    if plan.fewer_threads:
        return (*few.constants(plan), *counted)
    return (
        Constant("TILER", python_tuple(plan.tiler), f"({modes}) of a thread block", "schedule.tiler"),
        Constant("THREADS", str(plan.threads), "of a thread block", "schedule.threads_per_row"),
        Constant("THREADS_PER_ROW", str(plan.threads_per_row), "", "schedule.threads_per_row"),
        *([Constant("CLUSTER", str(plan.cluster), "blocks that share a row", CLUSTER)] if plan.cluster > 1 else []),
        Constant("VALUES", str(plan.values), "of a thread at a time", "schedule.tiler"),
        Constant("VECTOR", str(plan.vector), "elements of one access", COPY),
        *([Constant("BLOCKS", str(plan.blocks), "at most; each loops over rows", PATH)] if plan.persistent else []),
        *counted,
    )


def _limits(plan: RowwisePlan) -> tuple[Limit, ...]:
    """The number of tiles is one that 32 bits can count, and so is that of a row's places."""
    if plan.most_tiles is None:
        return row_limits(plan, most_held(plan))
    counts = []
    for i, (mode, extent) in enumerate(zip(plan.flat.lead.shape, plan.tiler, strict=True)):
        if mode != plan.row:
            several = extent > 1 and not plan.fewer_threads  # else no more than rows
            counts.append(f'-(-sizes["{mode}"] // TILER[{i}])' if several else f'sizes["{mode}"]')
    tiles = Limit("schedule.tiler", tuple(counts), 'f"at most {MOST_TILES} tiles"', "tiles <= MOST_TILES")
    return (tiles, *row_limits(plan, most_held(plan)))


def _divisors(plan: RowwisePlan) -> list[str]:
    """The names of the numbers that a block's number is divided by, in that order."""
    return [f"tiles_{plan.flat.lead.shape[i]}" for i in plan.tile_order[:-1]]


def _ahead(plan: RowwisePlan, texts: WalksText) -> dict[str, Any]:
    return ahead(plan, texts, _place(plan, texts)["tile"], _block(plan), _divisors(plan))


def _context(plan: RowwisePlan) -> dict[str, Any]:
    texts, lead = WalksText(plan), plan.flat.lead
    longer = None if plan.longer is None else WalksText(plan.longer)
    modes, axis = lead.shape, _axis(plan)
    others = [mode for mode in modes if mode != plan.row]
    count = "cutlass.Float64" if is_double(plan) else "cutlass.Float32"
    return {
        "L": lead.name,
        "axis": axis,
        "size_text": texts.size,
        "columns_text": str(plan.flat.static.get(plan.row, row_size(plan, "x"))),
        "columns_counted": " and ".join(counted_columns(plan, "columns")),
        "flattened": flattened(plan),
        "part_sizes": part_sizes(plan, texts.parts),
        "pieces": f"cute.ceil_div({texts.size}, {piece_size(plan, axis)})",
        "values_by_access": plan.narrow_values != plan.values,
        "most_threads": most_threads(plan),
        "copy_path": COPY,
        "mask_path": "schedule.predication",
        "operands": list(texts.operands.values()),
        "taken": taken_rows(texts),
        "walked_modes": list(range(len(modes))),
        "stored": [texts.operands[t.name] for t in plan.flat.assigned if t.name in texts.operands],
        "kernels": [
            _kernel(plan, texts, f"{plan.flat.kernel}_kernel"),
            *([_kernel(longer.plan, longer, longer_name(plan))] if longer else []),
        ],
        "place": [_tile_name(plan), "own_values" if plan.fewer_threads else "tv_layout"],
        "launches": launches(plan),
        "tells_warps": tells_warps(plan),
        "most_held": most_held(plan),
        "walks": texts.walks,
        "partials": texts.partials,
        "shared": texts.shared,
        "scans": [(one, scan_parameters(plan, one)) for one in scan_functions(plan)],
        "keys": key_functions(plan),
        "lanes": min(WARP, plan.threads_per_row),
        "scans_again": plan.walked or plan.longer is not None or plan.persistent,
        "splits": bool(split := [texts.operands[o.tensor.name] for o in plan.operands if o.read and splits(plan, o)]),
        "loads_each": any(o.each for o in texts.operands.values()),
        "clears": any(o.clear for o in split),
        "across": list({f.name: f for one in (texts, longer) if one for f in one.across}.values()),
        "aparts": list(dict.fromkeys(apart for one in (texts, longer) if one for apart in aparts(one.plan))),
        "scales": list(dict.fromkeys(scale for one in (texts, longer) if one for scale in scales(one.plan))),
        "extremes": extremes(plan),
        "warps": plan.warps_per_row,
        "tile_sides": python_tuple(["block_rows" if m == plan.beside else "1" for m in modes]),
        "warps_per_row": plan.warps_per_row,
        "tree": tree_of(plan),
        **results_of_cluster(plan),
        "starting": -1 if plan.persistent or plan.cluster == 1 else texts.first_across,
        "coordinate": texts.coordinate,
        "value_coordinate": (
            f"row_start[{axis}] + own_values(value_idx)"
            if plan.fewer_threads
            else f"t{lead.name}c{lead.name}[value_idx][{axis}]"
        ),
        "fit": partial(call, width=texts.width + 4 - (4 if plan.walked else 0)),
        "grid_tiles": " * ".join(f"tiles[{modes.index(m)}]" for m in others) or "1",
        "columns": columns_of(plan),
        "column_parameters": [
            *(f"{column.workspace}: cute.Tensor" for column in columns_of(plan)),
            *(f"m{column.name}: cute.Tensor" for column in columns_of(plan)),
            "rows: cutlass.Int32",
            f"row_count: {count}",
        ],
        "column_arguments": [
            *(column.workspace for column in columns_of(plan)),
            *(f"m{column.name}" for column in columns_of(plan)),
            f"grid * {plan.summed_apart}" if plan.summed_apart > 1 else "grid",
            " * ".join(f"{count}(m{lead.name}.shape[{modes.index(m)}])" for m in others),
        ],
        "columns_path": PATH,
        "column_warps": plan.column_warps,
        "column_threads": f"{plan.column_warps * WARP}, 1, 1",
        "space_layout": _space_layout(plan),
        "results_shape": few.results_shape(plan) if plan.fewer_threads else f"({plan.results_text}, {plan.rows})",
        "meetings": plan.program.meetings,
        "more_parameters": _meeting_parameters(plan),
        "turn": _meets_again(plan, texts),
        "others": others,
        "tile_shape": show(plan.tiler),
        **_place(plan, texts),
        **_masks(plan, texts),
        **kept(plan, texts, _block(plan), _divisors(plan)),
        **_ahead(plan, texts),
    }


def _kernel(plan: RowwisePlan, texts: WalksText, name: str) -> dict[str, Any]:
    """Template values that may differ between the kernels of a module."""
    reads = {name for walk in plan.program.walks for name in walk.reads}
    return {
        "name": name,
        "plan": plan,
        "chooses": chooses(plan),
        "more_parameters": [
            *(["in_warp: cutlass.Constexpr[bool]"] if chooses(plan) else []),
            *([f"{plan.values_text}: cutlass.Constexpr[int]"] if plan.values_differ else []),
        ],
        "before": texts.before,
        "walks": texts.walks,
        "partials": texts.partials,
        "shared": texts.shared,
        "loaded": [operand for name, operand in texts.operands.items() if name in reads],
        **_place(plan, texts),
    }


def _tile_name(plan: RowwisePlan) -> str:
    """The variable of what a thread's values are found by: its block's tile, or where they start."""
    return "row_start" if plan.fewer_threads else "tile"


def _meets_again(plan: RowwisePlan, texts: WalksText) -> bool:
    """Whether the warps of a block wait before the partial results of the next rows overwrite these: those that meet
    more often, or have places for two rows' results, have done so.
    """
    once = plan.persistent and plan.cluster == 1 and plan.program.meetings == 1
    return once and bool(texts.partials) and not plan.fewer_threads


def _meeting_parameters(plan: RowwisePlan) -> list[str]:
    """The parameters of a reduction over the threads of a row, besides its own values and their places."""
    turn = ["turn: cutlass.Int32"] if plan.persistent else []
    if plan.fewer_threads and plan.warps_per_row > 1 and plan.cluster == 1:
        return ["in_warp: cutlass.Constexpr[bool]", *turn]
    size = [SIZE] if plan.any_cluster else []
    return ["arrived: cute.Pointer", "rank: cutlass.Int32", *size, *turn] if plan.cluster > 1 else []


def _space_layout(plan: RowwisePlan) -> tuple[str, str]:
    """The shape and the strides with which a workspace, `space`, has the lead's modes: rows of blocks, and columns."""
    axes = [{plan.beside: 0, plan.row: 1}.get(mode) for mode in plan.flat.lead.shape]
    shape = ["1" if axis is None else f"space.shape[{axis}]" for axis in axes]
    strides = ["0" if axis is None else f"space.stride[{axis}]" for axis in axes]
    return python_tuple(shape), python_tuple(strides)


def _masks(plan: RowwisePlan, texts: WalksText) -> dict[str, Any]:
    modes, lead = plan.flat.lead.shape, plan.flat.lead.name
    checked = [i for i, mode in enumerate(modes) if mode in plan.masked]
    sides = (tuple(f"coord[{i}]" for i in checked), tuple(f"m{lead}.shape[{i}]" for i in checked))
    if plan.fewer_threads:
        checked = [i for i, mode in enumerate(modes) if mode in (plan.row, plan.beside)]
        first = tuple("column_idx" if modes[i] == plan.row else texts.row_coordinates[modes[i]] for i in checked)
        sides = (first, tuple(f"m{lead}.shape[{i}]" for i in checked))
    return {
        "masked": plan.masked,
        "all_masked": len(plan.masked) == len(modes),
        "mask_terms": [one_or_tuple(side) for side in sides if side],
        "bounded": [side.replace(f"m{lead}.shape", "m.shape") for side in map(one_or_tuple, sides)],
        "V": width_name(plan.flat),
        "narrow_widths": narrow_widths(plan.flat, plan.operands, plan.vector),
    }


def _place(plan: RowwisePlan, texts: WalksText) -> dict[str, Any]:
    """The texts of the rows of a block, and of those of a thread."""
    modes, beside, lead = plan.flat.lead.shape, plan.beside, plan.flat.lead.name
    part = "rank" if plan.cluster > 1 else "0"
    tile = [f"tile_{mode}" if mode != plan.row else ("piece" if plan.walked else part) for mode in modes]
    whole = f"({python_tuple(('None',) * len(modes))}, {tile[0] if len(modes) == 1 else python_tuple(tile)})"
    if plan.fewer_threads:
        start = few.assumed(plan, "first_value")
        whole = python_tuple([start if m == plan.row else texts.row_coordinates[m] for m in modes])
    stores = any(isinstance(step, Store | Element) for step in plan.program.rows)
    used = {coord.mode for typed in plan.statements for coord in coords(typed.value)} - {plan.row}
    in_bounds, has_row, loads_has_row = "", "", ""
    if beside is not None and beside in plan.masked:
        in_bounds = f"{texts.row_coordinates[beside]} < m{lead}.shape[{modes.index(beside)}]"
    if stores or plan.program.columns or (plan.row_tensors and not plan.ahead):
        has_row = in_bounds
    if plan.row_tensors and plan.ahead:
        loads_has_row = in_bounds
    if plan.fewer_threads:
        used |= set(texts.row_coordinates)
    used |= {m for name in plan.partial for m in plan.flat.tensor(name).modes if m in texts.row_coordinates}
    used -= {*texts.parts.modes}
    loaded = {m for name in plan.row_tensors for m in plan.flat.tensor(name).modes}
    wanted = used | (set() if plan.ahead else loaded)
    wanted |= set(texts.row_coordinates) if stores else {str(beside)} if has_row else set()
    indices = [(v, text) for m, v, text in _row_indices(plan, texts) if m in wanted]
    loaded |= {str(beside)} if loads_has_row else set()
    of_loads = [(v, text) for m, v, text in _row_indices(plan, texts) if m in loaded]
    return {
        "tile_walk": _tile_walk(plan),
        "raster": modes[plan.tile_order[0]] if plan.tile_order else "",
        "tile": whole,
        "first_value": few.first_value(plan),
        **few.sums(plan, _block(plan)),
        "first_thread": "tidx == 0" + (" and tidy == 0" if plan.fewer_threads and plan.beside else ""),
        "row_threads": only_threads(plan.flat),
        "all_indices": [(v, text) for _, v, text in _row_indices(plan, texts)],
        "own_tile": f"({python_tuple(('None',) * len(modes))}, {python_tuple(_own_tile(plan))})",
        "row_indices": indices,
        "uses_tidx": (plan.cluster > 1 and bool(texts.partials))
        or bool(plan.kept)
        or any("tidx" in text for text in (*texts.row_lines, *(text for _, text in indices))),
        "uses_bidx": bool(plan.tile_order) or plan.persistent or plan.cluster > 1,
        "block_text": _block(plan),
        "has_row": has_row,
        "load_indices": of_loads,
        "loads_have_row": loads_has_row,
        "loads_use_tidx": any("tidx" in text for _, text in of_loads),
        "row_loads": [texts.row_load(name) for name in plan.row_tensors],
    }


def _own_tile(plan: RowwisePlan) -> list[str]:
    """The coordinates of a block's tile of a workspace."""
    piece = "piece" if plan.walked else "rank" if plan.cluster > 1 else "0"
    return [{plan.beside: _block(plan), plan.row: piece}.get(mode, "0") for mode in plan.flat.lead.shape]


def _block(plan: RowwisePlan) -> str:
    """The variable that counts those who have rows of their own: thread blocks, or clusters of them."""
    return "cluster_idx" if plan.cluster > 1 else "bidx"


def _tile_walk(plan: RowwisePlan) -> list[tuple[str, str, str]]:
    """Quotient and remainder, what is divided, and by what: a block's number to its rows' tile."""
    modes = [plan.flat.lead.shape[i] for i in plan.tile_order]
    number = "row_tile" if plan.persistent else _block(plan)
    if len(modes) < 2:
        return [(f"tile_{mode}", number, "") for mode in modes]
    steps = []
    for mode, divisor in zip(modes, _divisors(plan), strict=False):
        quotient = f"tile_{modes[-1]}" if mode == modes[-2] else "rest"
        steps.append((f"{quotient}, tile_{mode}", number, divisor))
        number = "rest"
    return steps


def _row_indices(plan: RowwisePlan, texts: WalksText) -> list[tuple[str, str, str]]:
    """The coordinates of a thread's row: modes, variables and what they are."""
    found = []
    for mode, variable in texts.row_coordinates.items():
        several = mode == plan.beside and plan.rows > 1
        text = f"tile_{mode}" + f" * {plan.rows} + tidx // THREADS_PER_ROW" * several
        if plan.fewer_threads and mode == plan.beside:
            text = f"tile_{mode} * block_rows + tidy"
        divided = len(texts.row_coordinates) > 1  # what `divmod` gives is no number of CuTeDSL's types
        found.append((mode, variable, f"cutlass.Int32({text})" if divided else text))
    return found
