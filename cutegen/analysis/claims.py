"""What is proved of a plan for every size it takes: each element exactly once, and no access out of bounds.

Nothing is taken from how the plan was made: every claim is checked by counting through the layouts that the kernel is
printed with. It is the plan that is proved, not the printed text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from tensor_layouts import Layout, size

from cutegen.analysis.last_block import astray, small_sizes
from cutegen.analysis.partitions import epilogue_layout, thread_values, tiled_copy, workspace_values
from cutegen.analysis.words import count
from cutegen.language.layouts import make_layout_tv
from cutegen.language.model import Path
from cutegen.planning import layouts
from cutegen.planning.common import known_divisor
from cutegen.planning.plan import ElementwisePlan, GemmOperand, GemmPlan, Plan, ProbePlan

_SHOWN = 3  # threads that go wrong


@dataclass(frozen=True)
class Claim:
    """One thing that holds, or does not, with the arithmetic that shows it. `path` is what in the spec decides it."""

    kind: Literal["coverage", "bounds"]
    text: str
    because: tuple[str, ...]
    holds: bool
    path: Path


def claims(plan: Plan) -> tuple[Claim, ...]:
    """Coverage first, then the bounds of every mode."""
    match plan:
        case GemmPlan():
            return (*_gemm_coverage(plan), *_gemm_bounds(plan))
        case ElementwisePlan():
            return (*_coverage(plan), *_bounds(plan))
        case ProbePlan():
            return _probe(plan)
    raise TypeError(f"nothing is claimed of a {type(plan).__name__}")


def compact(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a tile's elements numbered 0, 1, ..., first mode fastest."""
    return tuple(prod(shape[:i]) for i in range(len(shape)))


def _sides(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _once(
    what: str, layout: Layout, shape: Sequence[int], path: Path, threads: int, wrong: Iterable[str] = ()
) -> Claim:
    """Whether (thread, value) meets each element of a tile of that shape exactly once, for as many `threads` as run.

    `wrong` is what else does not fit, in words.
    """
    counted, values = layouts.mode_sizes(layout)
    elements = prod(shape)
    missing, twice = layouts.coverage(layout, elements)
    because = [
        f"{count(counted, 'thread')} * {count(values, 'value')} = {counted * values}, and {_sides(shape)} = {elements}"
    ]
    found = [] if counted == threads else [f"{count(threads, 'thread')} run{'s' * (threads == 1)}"]
    for label, places in (("never met", missing), ("met twice or outside", twice)):
        if places:
            found.append(f"{label}: {', '.join(str(layouts.coordinates(p, shape)) for p in places)}")
    found += wrong
    return Claim("coverage", what, (*because, *found), not found, path)


# ------------------------------------------------------------------------------------------------- elementwise


def _coverage(plan: ElementwisePlan) -> Iterator[Claim]:
    modes = ", ".join(plan.spec.output.shape)
    layout = thread_values(plan, compact(plan.tiler))
    if plan.partition == "inner":
        what = f"every thread has each element of its tile ({modes}) once, and a tile of its own"
        yield _once(what, _alone(layout), plan.tiler, ("schedule", "tiler"), 1, _miscounted(plan, layout))
    else:
        what = f"the threads of a block have each element of its tile ({modes}) exactly once"
        wrong = (*_miscounted(plan, layout), *_other_partition(plan))
        yield _once(what, layout, plan.tiler, ("schedule", "thread_layout"), plan.threads, wrong)


def _alone(layout: Layout) -> Layout:
    """(thread, value) of the first thread only."""
    own = layouts.modes_of(layout)[1]
    return Layout((1, own.shape), (0, own.stride))


def _miscounted(plan: Plan, layout: Layout) -> Iterator[str]:
    """The kernel's own count of a thread's values is that of the layout, in whole accesses."""
    values = layouts.mode_sizes(layout)[1]
    if plan.pointwise.values != values:
        yield f"the kernel stores {count(plan.pointwise.values, 'value')}"
    if values % plan.pointwise.vector:
        yield f"{count(values, 'value')}: no whole number of accesses of {plan.pointwise.vector}"


def _other_partition(plan: ElementwisePlan) -> Iterator[str]:
    """The kernel is printed with the two layouts, and makes the third one of them."""
    if plan.partition == "thread_value":
        assert plan.thread_layout is not None and plan.value_layout is not None and plan.tv_layout is not None
        tiler, layout = make_layout_tv(plan.thread_layout, plan.value_layout)
        if tiler != plan.tiler or layouts.offsets(layout) != layouts.offsets(plan.tv_layout):
            yield f"thread_layout and value_layout make {layout} of a tile ({_sides(tiler)})"
    elif plan.partition == "inner_outer":
        assert plan.thread_layout is not None
        run, vector = plan.run or (1,) * len(plan.tiler), plan.pointwise.vector
        for side, own, extent in zip(layouts.mode_sizes(plan.thread_layout), run, plan.tiler, strict=True):
            if extent % (side * own):
                each = f" with {count(own, 'element')} each" if own > 1 else ""
                yield f"{extent} is no multiple of {count(side, 'thread')}{each}"
        if prod(run) != 1 and prod(run) != vector:
            yield f"the threads deal out {count(prod(run), 'element')} at a time, and an access has {vector}"


def _bounds(plan: ElementwisePlan) -> Iterator[Claim]:
    output, vector = plan.spec.output, plan.pointwise.vector
    layout = thread_values(plan, compact(plan.tiler))
    if plan.partition == "inner":  # all threads alike: their tiles start at multiples of the tile
        layout = _alone(layout)
    runs = _runs(layout, plan.tiler, output.shape.index(str(output.major)), vector) and _share_predicates(plan)
    for mode, tile in zip(output.shape, plan.tiler, strict=True):
        width = vector if mode == output.major else 1
        yield _mode(plan, "", mode, tile, mode in plan.pointwise.masked, width, runs)
    if plan.partition == "inner":
        yield _surplus(plan)


def _share_predicates(plan: Plan) -> bool:
    """Whether each access of every operand lies within the values that one predicate covers, along the same mode."""
    point, major = plan.pointwise, plan.spec.output.major
    return all(o.vector == 1 or (o.tensor.major == major and point.vector % o.vector == 0) for o in point.operands)


def _surplus(plan: ElementwisePlan) -> Claim:
    """That the threads of the last block that have no tile make no access."""
    mode = plan.spec.output.shape[plan.tile_order[-1]]
    tile, path = plan.tile[mode], ("schedule", "predication", mode)
    text, told = "threads beyond the last tile make no access", f"their coordinate is not below {mode}"
    if mode not in plan.pointwise.masked:
        because = f"the host takes whole blocks of {count(plan.threads, 'tile')} only"
        return Claim("bounds", text, (because,), plan.check_threads, path)
    one = plan.spec.static.get(mode, tile + 1) <= tile
    because = f"{mode} has one tile, which a thread's number is compared with" if one else told
    sizes = small_sizes(plan)
    wrong = tuple(itertools.islice(itertools.chain.from_iterable(astray(plan, given) for given in sizes), _SHOWN))
    walked = f"the last block's threads were walked through for {count(len(sizes), 'set')} of sizes"
    return Claim("bounds", text, (because, walked, *wrong), not wrong, path)


def _runs(layout: Layout, shape: Sequence[int], axis: int, vector: int) -> bool:
    """Whether every access of `vector` values is a run along `axis` that starts at a multiple of `vector`."""
    if vector == 1:
        return True
    step = compact(shape)[axis]
    threads, values = (layouts.offsets(mode) for mode in layouts.modes_of(layout))
    if len(values) % vector:
        return False
    starts = values[::vector]
    if any(values[i * vector + j] != start + j * step for i, start in enumerate(starts) for j in range(vector)):
        return False
    return all(layouts.coordinates(t + v, shape)[axis] % vector == 0 for t in threads for v in starts)


def _mode(
    plan: Plan, name: str, mode: str, tile: int, masked: bool, vector: int, runs: bool, padded: int | None = None
) -> Claim:
    """That accesses of `vector` elements along a mode stay in bounds, given that they are aligned `runs`.

    `padded` is what the rows of a workspace are padded to, where that is what is accessed.
    """
    known, path = known_divisor(plan.spec, mode), ("schedule", "predication", mode)
    strange = () if runs else ("not every access is an aligned run along one mode, behind one predicate",)
    if not masked:
        because = (f"the host takes multiples of {known} only, and the tile has {tile}", *strange)
        return Claim("bounds", f"{name}{mode}: no predicate is needed", because, runs and known % tile == 0, path)
    if vector == 1:
        text = f"{name}{mode}: an access is made only if its coordinate is below {mode}"
        return Claim("bounds", text, ("one element along it at a time", *strange), runs, path)
    size = mode
    if padded is not None:
        known, size = padded, f"{mode} of the workspace"
    text = f"{name}{mode}: an access of {vector} is made only if its first coordinate is below {size}"
    because = (
        f"tiles of {tile} and accesses both start at multiples of {vector}",
        f"{size} is a multiple of {known}, so that it never ends inside an access",
        *strange,
    )
    return Claim("bounds", text, because, runs and tile % vector == 0 and known % vector == 0, path)


# --------------------------------------------------------------------------------------------------------- gemm


def _gemm_coverage(plan: GemmPlan) -> Iterator[Claim]:
    for space in plan.workspaces:
        name = space.tensor.name
        for what, written in (("read", False), ("written", True)):
            text = f"each element of a tile ({space.mode}, {space.k}) of {name}'s workspace is {what} exactly once"
            layout = workspace_values(space, compact(space.tile), written)
            yield _once(text, layout, space.tile, ("schedule", "workspace", name), space.threads)
    depth = plan.tile[plan.k]
    for x in (plan.a, plan.b):
        shape = (plan.tile[x.mode], depth)
        what = f"the copies of {x.tensor.name} move each element of its tile ({x.mode}, {plan.k}) exactly once"
        layout, path = tiled_copy(x, shape, compact(shape)), ("schedule", "copies", x.tensor.name)
        yield _once(what, layout, shape, path, plan.threads, _other_copies(x, shape))
    shape = (plan.tile[plan.m], plan.tile[plan.n])
    layout = epilogue_layout(plan, compact(shape))
    what = f"the accumulators of a block are each element of its tile ({plan.m}, {plan.n}) exactly once"
    yield _once(what, layout, shape, ("schedule", "mma"), plan.threads, _miscounted(plan, layout))


def _other_copies(x: GemmOperand, shape: Sequence[int]) -> Iterator[str]:
    """The kernel has a predicate for each access of a thread, and columns of shared memory of their own."""
    tiler, _ = make_layout_tv(x.thread_layout, x.value_layout)
    values = int(size(x.value_layout))
    counted = (values // x.vector, *(extent // covered for extent, covered in zip(shape, tiler, strict=True)))
    if counted != x.copies or values % x.vector:
        yield f"({_sides(x.copies)}) accesses of {x.vector} are made"
    if x.smem_stride < shape[0]:
        yield f"columns of shared memory start every {count(x.smem_stride, 'element')}"


def _workspace_bounds(plan: GemmPlan) -> Iterator[Claim]:
    """Of the kernels that fill workspaces: predicates compare the first coordinates of accesses with both sizes."""
    for x in plan.workspaces:
        name, path = x.tensor.name, ("schedule", "workspace", x.tensor.name)
        for what, along, vector in (("read", x.k, x.read), ("written", x.mode, x.write)):
            layout = workspace_values(x, compact(x.tile), what == "written")
            runs = _runs(layout, x.tile, (x.mode, x.k).index(along), vector)
            known = known_divisor(plan.spec, x.k) if what == "read" else x.write
            size = x.k if what == "read" else f"{x.mode} of the workspace"
            text = f"{name}'s workspace, {what}: an access is made only if its first coordinates are below both sizes"
            because = (
                f"tiles of {x.tile[along == x.k]} and accesses both start at multiples of {vector}",
                f"{size} is a multiple of {known}, so that it never ends inside an access",
            )
            strange = () if runs else ("not every access is an aligned run along one mode, behind one predicate",)
            yield Claim("bounds", text, (*because, *strange), runs and known % vector == 0, path)


def _gemm_bounds(plan: GemmPlan) -> Iterator[Claim]:
    yield from _workspace_bounds(plan)
    output, vector = plan.spec.output, plan.pointwise.vector
    shape = (plan.tile[plan.m], plan.tile[plan.n])
    layout = epilogue_layout(plan, compact(shape))
    runs = _runs(layout, shape, (plan.m, plan.n).index(str(output.major)), vector) and _share_predicates(plan)
    for mode, x in ((plan.m, plan.a), (plan.n, plan.b)):
        masked = mode in plan.pointwise.masked
        width = vector if mode == output.major else 1
        yield _mode(plan, f"{output.name}, ", mode, plan.tile[mode], masked, width, runs)
        width = x.vector if mode == x.tensor.major else 1
        runs_of_x, padded = _aligned_runs(plan, x), None if x.workspace is None else x.workspace.write
        yield _mode(plan, f"{x.tensor.name}, ", mode, plan.tile[mode], x.masked, width, runs_of_x, padded)
    yield _summed(plan)


def _aligned_runs(plan: GemmPlan, x: GemmOperand) -> bool:
    """Whether every access to an operand is an aligned run along the mode in which it is contiguous."""
    shape = (plan.tile[x.mode], plan.tile[plan.k])
    return _runs(tiled_copy(x, shape, compact(shape)), shape, int(x.tensor.major == plan.k), x.vector)


def _summed(plan: GemmPlan) -> Claim:
    k, depth, path = plan.k, plan.tile[plan.k], ("schedule", "predication", plan.k)
    if not plan.residue:
        known = known_divisor(plan.spec, k)
        because: tuple[str, ...] = (f"the host takes multiples of {known} only, and the tile has {depth}",)
        return Claim("bounds", f"{k}: no predicate is needed", because, known % depth == 0, path)
    because = (
        f"the first tile starts at {k} - {depth} * ceil({k} / {depth}), above -{depth}, and the last one ends at {k}",
    )
    along = max(x.vector if x.tensor.major == k else 1 for x in (plan.a, plan.b))
    known = known_divisor(plan.spec, k)
    if along > 1:
        because += (f"accesses of {along} and {k} are multiples of {along}: the sign of their first k decides",)
    else:
        because += ("an access is within one k, whose sign decides",)
    whole = depth % along == 0 and known % along == 0
    text = f"{k}: only the first tile is incomplete, and what it copies is not below 0"
    return Claim("bounds", text, because, whole and all(_aligned_runs(plan, x) for x in (plan.a, plan.b)), path)


# -------------------------------------------------------------------------------------------------------- probe


def _probe(plan: ProbePlan) -> tuple[Claim, ...]:
    spec, tile = plan.spec, prod(plan.tiler)
    reach = max(layouts.offsets(plan.tv_layout)) + 1
    made_of = f"{count(plan.threads, 'thread')} * {count(plan.values, 'value')}"
    text = "every (thread, value) reads inside the tile, and writes an element of its own"
    because = (f"the layout reaches {reach} of {count(tile, 'element')}", made_of)
    sizes = tuple(tuple(spec.static[mode] for mode in tensor.shape) for tensor in (plan.source, spec.output))
    made = (plan.threads, plan.values)
    holds = reach <= tile and sizes == (plan.tiler, made) and made == layouts.mode_sizes(plan.tv_layout)
    return (Claim("bounds", text, because, holds, ("schedule", "tv_layout")),)
