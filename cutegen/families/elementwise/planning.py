"""The plan of an elementwise kernel: what inference resolved, as the numbers that templates print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tensor_layouts import size

from cutegen import layouts
from cutegen.expressions.annotating import annotate
from cutegen.expressions.parsing import Coord, Local, Name, Typed, walk
from cutegen.families.common.planning import may_branch, names_read, operand
from cutegen.families.common.pointwise import Operand, Pointwise
from cutegen.families.elementwise.grid import most_tiles
from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.families.elementwise.schedule import Spec
from cutegen.families.elementwise.tiles import (
    along_major,
    block_tile,
    major_index,
    shares,
    tile_order,
    value_order,
    vector_of,
)
from cutegen.layouts import make_layout_tv
from cutegen.planning.conversions import converted_names


def plan(spec: Spec) -> ElementwisePlan:
    """The plan of a resolved spec that passed its checks."""
    schedule, output, vector = spec.schedule, spec.lead, vector_of(spec)
    assert schedule.partition is not None
    masked = tuple(m for m in output.shape if schedule.predication[m] == "mask")
    tile = block_tile(spec)
    tiler = tuple(tile.values())
    tv_layout = None
    thread_layout, value_layout = layouts.alike(schedule.thread_layout, schedule.value_layout)
    order = tile_order(spec)
    check_threads = guard_tiles = False
    run = None
    match schedule.partition:
        case "inner":
            assert schedule.threads is not None
            threads, values = schedule.threads, prod(tiler)
            value_layout = layouts.walk(tiler, value_order(spec))
            first = next((i for i, extent in enumerate(tiler) if extent > 1), 0)
            if first == major_index(spec) or values == 1:
                value_layout = None
            check_threads = output.shape[order[-1]] not in masked
            # A mode with one tile by its fixed size has stride 0 there: its coordinate never leaves the bounds.
            slowest = output.shape[order[-1]]
            guard_tiles = not check_threads and spec.static.get(slowest, tile[slowest] + 1) <= tile[slowest]
        case "inner_outer":
            assert schedule.thread_layout is not None
            threads = int(size(schedule.thread_layout))
            values = prod(shares(spec, schedule))
            run = along_major(spec, vector, 1) if vector > 1 else None
        case _:
            assert schedule.thread_layout is not None and schedule.value_layout is not None
            threads, values = int(size(schedule.thread_layout)), int(size(schedule.value_layout))
            tv_layout = make_layout_tv(schedule.thread_layout, schedule.value_layout)[1]
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    statements = annotate(spec.compute, types)
    pointwise = make_pointwise(spec, statements, values, vector, masked)
    return ElementwisePlan(
        spec=spec,
        threads=threads,
        tile=tile,
        statements=statements,
        pointwise=pointwise,
        partition=schedule.partition,
        tiler=tiler,
        thread_layout=thread_layout,
        value_layout=value_layout,
        tv_layout=tv_layout,
        run=run,
        tile_order=order,
        check_threads=check_threads,
        guard_tiles=guard_tiles,
        most_tiles=most_tiles(spec, tile, threads),
    )


def _cached(spec: Spec, o: Operand) -> Operand:
    """An operand with the priority of the L1 cache, unless it broadcasts and so is touched again."""
    assert spec.schedule.copy.evict_priority is not None
    return o if o.broadcast else replace(o, evict_priority=spec.schedule.copy.evict_priority)


def make_pointwise(
    spec: Spec, statements: Sequence[Typed], values: int, vector: int, masked: tuple[str, ...]
) -> Pointwise:
    """The operands of an elementwise kernel, in the spec's order."""
    read = names_read(statements)
    converted = converted_names(statements)
    operands = tuple(
        replace(_cached(spec, operand(spec, t, vector, t.name in read)), converted=t.name in converted)
        for t in spec.tensors
    )
    # A tensor that only has places is loaded one place at a time
    operands = tuple(o if o.read or o.write else replace(o, vector=1) for o in operands)
    tile = block_tile(spec)
    several = {o.tensor.name: [b for b in o.tensor.blocks if b.size < tile.get(b.of, 1)] for o in operands}
    profiles = {(o.tensor.major, o.broadcast, o.vector, *several[o.tensor.name]) for o in operands}
    reshape = len(profiles) > 1 or not all(_has_profile(typed, operands) for typed in statements)
    clear = bool(masked) and may_branch(statements)
    return Pointwise(operands, values, vector, masked, clear, reshape)


def _has_profile(typed: Typed, operands: Sequence[Operand]) -> bool:
    """Whether what a statement computes has the profile of operands that it is computed from.

    Coordinates are listed one by one, as is a number that is spread over all elements where there is no operand.
    """
    nodes = list(walk(typed.value))
    if any(isinstance(node, Coord) for node in nodes):
        return False
    if typed.stored is None:
        return any(operand.read for operand in operands)
    return any(isinstance(node, Name | Local) for node in nodes)
