"""Builds the parts of a module that are specific to an elementwise kernel. Numbers come from the plan."""

from __future__ import annotations

from typing import Any

from tensor_layouts import Layout

from cutegen.codegen.formatting import python_tuple
from cutegen.codegen.parts import Constant, KernelParts, Limit
from cutegen.families.common.narrowing_text import Narrowing
from cutegen.families.common.pointwise_text import pointwise_context
from cutegen.families.elementwise.grid import grid_text, tiles_text
from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.families.elementwise.variants import variants
from cutegen.layouts import show

DIVISOR = "cute.FastDivmodDivisorV2"


def kernel_parts(plan: ElementwisePlan) -> KernelParts:
    """The parts of a module of one elementwise kernel."""
    divisors = _divisors(plan)
    layout = ["tv_layout: cute.Layout"] if plan.partition == "thread_value" else []
    narrowing = narrowing_of(plan)
    launched = {d: f"{DIVISOR}(tiles[{i}])" for d, i in zip(divisors, plan.tile_order, strict=False)}
    return KernelParts(
        template="elementwise.py.j2",
        constants=_constants(plan),
        context=pointwise_context(plan, "schedule.copy", guard_tiles=plan.guard_tiles)
        | _context(plan)
        | narrowing.context,
        parameters=(*layout, *narrowing.parameters, *(f"{divisor}: {DIVISOR}" for divisor in divisors)),
        launched=launched | narrowing.wide,
        narrow=launched | narrowing.narrow,
        limits=_limits(plan),
        documentation=narrowing.documentation("schedule.copy"),
    )


def narrowing_of(plan: ElementwisePlan) -> Narrowing:
    """The kernel's launches."""
    point = plan.pointwise
    narrow = variants(plan)[-1].tv_layout
    layout = None if narrow == plan.tv_layout else narrow
    return Narrowing(plan.spec, point.operands, point.vector, str(plan.spec.lead.major), "schedule.partition", layout)


def _constants(plan: ElementwisePlan) -> tuple[Constant, ...]:
    what = "of a thread" if plan.partition == "inner" else "of a thread block"
    match plan.partition:
        case "inner":
            threads, values = "schedule.threads", "schedule.tiler"
        case "inner_outer":
            threads, values = "schedule.thread_layout", "schedule.tiler"
        case "thread_value":
            threads, values = "schedule.thread_layout", "schedule.value_layout"
    modes = ", ".join(plan.spec.lead.shape)
    most = "2**31 - 1 - THREADS" if plan.partition == "inner" else "2**31 - 1"
    counted = [Constant("MOST_TILES", most, "", _tile_path(plan))] if plan.most_tiles is not None else []
    return (
        Constant("TILER", python_tuple(plan.tiler), f"({modes}) {what}", _tile_path(plan)),
        Constant("THREADS", str(plan.threads), "of a thread block", threads),
        Constant("VALUES", str(plan.pointwise.values), "of a thread", values),
        Constant("VECTOR", str(plan.pointwise.vector), "elements of one access", "schedule.copy"),
        *counted,
    )


def _tile_path(plan: ElementwisePlan) -> str:
    """The key that makes the tile; a thread-value partition has no tiler of its own, as both layouts make its tile."""
    return "schedule.partition" if plan.partition == "thread_value" else "schedule.tiler"


def _context(plan: ElementwisePlan) -> dict[str, Any]:
    def thread_values(tile: str) -> str:
        """The text of what a thread owns of a tile: its own tile for inner, else its part of the block's."""
        match plan.partition:
            case "thread_value":
                return f"cute.composition({tile}, tv_layout)[tidx, None]"
            case "inner_outer":
                return f"cute.local_partition({tile}, thr_layout, tidx)"
        return tile if plan.value_layout is None else f"cute.composition({tile}, val_layout)"

    share = "This thread's values of it"
    runs: dict[str, Any] = {"run": None}
    if plan.partition == "inner_outer" and plan.thread_layout is not None:
        share = f"Of every {show(plan.thread_layout.shape)} {'elements' if plan.run is None else 'runs'} of it one"
        if plan.run is not None:
            runs = _runs(plan.thread_layout, plan.run, plan.tiler)
    return {
        "rank": len(plan.tiler),
        "grid": grid_text(plan),
        "tile_path": _tile_path(plan),
        "share_path": "schedule.thread_layout" if plan.partition == "inner_outer" else "schedule.partition",
        "tile_names": ", ".join(f"g{o.tensor.name}" for o in plan.pointwise.operands),
        "value_profiles": _profiles(plan),
        "nones": python_tuple(("None",) * len(plan.tiler)),
        **_walk(plan),
        "partition_template": f"elementwise/partition_{'inner' if plan.partition == 'inner' else 'block'}.j2",
        "share": share,
        **runs,
        "thread_values": thread_values,
    }


def _divisors(plan: ElementwisePlan) -> list[str]:
    """The names of the numbers that a tile's number is divided by, in that order."""
    return [f"tiles_{plan.spec.lead.shape[i]}" for i in plan.tile_order[:-1]]


def _runs(threads: Layout, run: tuple[int, ...], tiler: tuple[int, ...]) -> dict[str, Any]:
    """The texts of a tile that is dealt out in runs: its shape, and the layout of its coordinates' threads.

    All coordinates of a run have one thread.
    """
    shape, stride = ((x,) if isinstance(x, int) else tuple(x) for x in (threads.shape, threads.stride))
    return {
        "run": python_tuple(["VECTOR" if extent > 1 else "1" for extent in run]),
        "tile_in_runs": (run, *(extent // own for extent, own in zip(tiler, run, strict=True))),
        "run_layout": Layout((1, *shape), (0, *stride)),
    }


def _walk(plan: ElementwisePlan) -> dict[str, Any]:
    """The texts that turn the number of a tile, a block's or a thread's, into its coordinate."""
    modes = [plan.spec.lead.shape[i] for i in plan.tile_order]
    last = f"tile_{modes[-1]}"
    number = "bidx * THREADS + tidx" if plan.partition == "inner" else "bidx"
    steps = []  # quotient and remainder, what is divided, and by what
    for mode, divisor in zip(modes, _divisors(plan), strict=False):
        quotient = last if mode == modes[-2] else "rest"
        steps.append((f"{quotient}, tile_{mode}", number, divisor))
        number = "rest"
    alone = len(modes) == 1
    return {
        "walkers": "Threads" if plan.partition == "inner" else "Blocks",
        "raster": modes[0],
        "tile_walk": steps,
        "tile_coordinate": number if alone else python_tuple([f"tile_{mode}" for mode in plan.spec.lead.shape]),
        "slowest": modes[-1],
        "slowest_tile": number if alone else last,
    }


def _profiles(plan: ElementwisePlan) -> str:
    """The shapes of a thread's fragments as text such as `tDgS, tDgD: ((8,4))`; operands of one width share a shape."""
    widths: dict[int, list[str]] = {}
    for o in plan.pointwise.operands:
        widths.setdefault(o.vector, []).append(f"t{plan.spec.output.name}g{o.tensor.name}")
    values = plan.pointwise.values
    return "; ".join(f"{', '.join(names)}: {show(((v, values // v),))}" for v, names in widths.items())


def _limits(plan: ElementwisePlan) -> tuple[Limit, ...]:
    """Limits on the number of tiles: what 32 bits can count, and whole blocks where the plan demands it."""
    found = []
    if plan.most_tiles is not None:
        wanted = 'f"at most {MOST_TILES} tiles"'
        found.append(Limit(_tile_path(plan), tiles_text(plan), wanted, "tiles <= MOST_TILES"))
    if plan.check_threads:  # no mask on the slowest mode
        wanted = 'f"a multiple of {THREADS} tiles"'
        found.append(Limit("schedule.predication", tiles_text(plan, down=True), wanted, "tiles % THREADS == 0"))
    return tuple(found)
