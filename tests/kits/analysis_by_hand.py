"""The accesses that a generated kernel makes for given sizes, enumerated from the definitions of what it prints.

Nothing here knows of layout algebra: a layout is a table, a partition is its definition, a predicate is evaluated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np
from analysis_kit import flat
from analysis_kit import image as of_strides
from tensor_layouts import Layout

from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.families.gemm.staged.plan import GemmOperand, GemmPlan, WorkspacePlan
from cutegen.planning.plan import Plan

Coordinates = np.ndarray  # of integers, shape (threads, values, modes)


def image(layout: Layout) -> np.ndarray:
    """The values of a layout at 0, 1, ...."""
    return of_strides(layout.shape, layout.stride)


def extents(layout: Layout) -> tuple[int, ...]:
    shape = layout.shape if isinstance(layout.shape, tuple) else (layout.shape,)
    return tuple(prod(flat(s)) for s in shape)


def unravel(index: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Coordinates in a tile, first mode fastest; the last one is not bounded."""
    found = []
    for extent in shape[:-1]:
        found.append(index % extent)
        index = index // extent
    return np.stack([*found, index], axis=-1)


def places(layout: Layout) -> np.ndarray:
    """Of a layout that numbers coordinates: number -> coordinate. Fails for one that does not."""
    numbers = image(layout)
    assert sorted(numbers) == list(range(len(numbers)))
    return unravel(np.argsort(numbers), extents(layout))


def dealt_out(threads: Layout, values: Layout) -> tuple[Coordinates, tuple[int, ...]]:
    """CuTe's thread-value partition, by its definition: a thread has neighbours. With the tile that it covers."""
    own = extents(values)
    tile = tuple(t * v for t, v in zip(extents(threads), own, strict=True))
    return places(threads)[:, None, :] * np.array(own) + places(values)[None, :, :], tile


def in_tile(plan: ElementwisePlan) -> Coordinates:
    """Of each thread's values in the tile that it works on."""
    if plan.partition == "inner":
        values = image(plan.value_layout) if plan.value_layout is not None else np.arange(prod(plan.tiler))
        return np.broadcast_to(unravel(values, plan.tiler), (plan.threads, len(values), len(plan.tiler)))
    assert plan.thread_layout is not None
    if plan.partition == "inner_outer":
        sides, run = np.array(extents(plan.thread_layout)), np.array(plan.run or [1] * len(plan.tiler))
        assert plan.run is None or plan.pointwise.vector in (1, prod(plan.run)), "it is printed as VECTOR"
        assert not (np.array(plan.tiler) % (sides * run)).any()
        share = np.array(plan.tiler) // (sides * run)
        starts = unravel(np.arange(prod(share)), share)[None] * sides + places(plan.thread_layout)[:, None]
        found = (starts * run)[:, :, None, :] + unravel(np.arange(prod(run)), run)
        return run_by(found.reshape(len(found), -1, len(plan.tiler)), plan.threads)
    assert plan.value_layout is not None
    found, tile = dealt_out(plan.thread_layout, plan.value_layout)
    steps = np.array([prod(tile[:i]) for i in range(len(tile))])
    return run_by(unravel((found * steps).sum(axis=-1), plan.tiler), plan.threads)


def run_by(found: Coordinates, threads: int) -> Coordinates:
    assert threads <= len(found), "a thread beyond the layout is no coordinate of it"
    return found[:threads]


class Memory:
    """The elements of one tensor: which accesses left it, and how often each element was met.

    All that are below `wanted` along the first mode are to be met once, all there are if that is left out.
    """

    def __init__(self, shape: Sequence[int], wanted: int | None = None) -> None:
        self.shape, self.met, self.outside = tuple(shape), np.zeros(tuple(shape), np.int64), False
        self.wanted = wanted

    def access(self, first: Coordinates, along: int, vector: int) -> None:
        """Accesses of `vector` elements along a mode, from coordinates of shape (..., modes) on."""
        where = (
            first.reshape(-1, first.shape[-1])[:, None, :]
            + np.arange(vector)[None, :, None] * np.eye(first.shape[-1], dtype=np.int64)[along]
        )
        where = where.reshape(-1, where.shape[-1])
        inside = ((where >= 0) & (where < np.array(self.shape))).all(axis=-1)
        self.outside |= not inside.all()
        np.add.at(self.met, tuple(where[inside].T), 1)


def problems(plan: Plan, sizes: Mapping[str, int]) -> set[str]:
    """The failures at these sizes: `bounds` if an access leaves its tensor, `coverage` if the output is not written
    once, or a gemm's operand not copied once; `broken` if the plan gives no kernel.
    """
    try:
        match plan:
            case ElementwisePlan():
                return _elementwise(plan, sizes)
            case GemmPlan():
                return _gemm(plan, sizes)
    except AssertionError:
        return {"broken"}
    raise TypeError


def _elementwise(plan: ElementwisePlan, sizes: Mapping[str, int]) -> set[str]:
    modes = plan.spec.output.shape
    shape = np.array([sizes[mode] for mode in modes])
    own, tiler = in_tile(plan), np.array(plan.tiler)
    tiles = -(-shape // tiler)
    memory = {o.tensor.name: Memory([sizes[m] for m in o.tensor.shape]) for o in plan.pointwise.operands}
    per_block = plan.threads if plan.partition == "inner" else 1
    for block in range(-(-int(prod(tiles)) // per_block)):
        made = np.ones(plan.threads, bool)
        if plan.partition == "inner":
            rest, start = block * plan.threads + np.arange(plan.threads), np.zeros((plan.threads, len(modes)), int)
            for i in plan.tile_order[:-1]:
                start[:, i], rest = rest % tiles[i], rest // tiles[i]
            start[:, plan.tile_order[-1]] = rest
            if plan.guard_tiles:
                made = rest < 1
            start = start * tiler
            # A mode with one tile by its fixed size has stride 0: its coordinate stays in the tile, not its address.
            still = [plan.spec.static.get(m, t + 1) <= t for m, t in zip(modes, plan.tiler, strict=True)]
            seen = np.where(still, 0, start)
        else:
            start = unravel(np.array([block]), tiles) * tiler
            seen = start
        _pointwise(plan, own + start[:, None, :], own + seen[:, None, :], made, shape, memory)
    return _told(plan, memory)


def _pointwise(
    plan: Plan, where: Coordinates, seen: Coordinates, made: np.ndarray, shape: np.ndarray, memory: dict[str, Memory]
) -> None:
    """The accesses of one block to every operand, behind the predicates that are printed: one for `vector` values."""
    point, modes = plan.pointwise, plan.spec.output.shape
    assert where.shape[1] == point.values and point.values % point.vector == 0
    masked = [mode in point.masked for mode in modes]
    checked = (seen[:, :: point.vector, :] < shape)[..., masked].all(axis=-1) & made[:, None]
    if not any(masked):
        checked = np.ones_like(checked)
    for o in point.operands:
        assert point.values % o.vector == 0 and point.vector % o.vector == 0
        first = where[:, :: o.vector, :]
        taken = first[np.repeat(checked, point.vector // o.vector, axis=1)]
        columns = [modes.index(mode) for mode in o.tensor.shape]
        # Without its own modes a tensor is read where the others are; that is what stride 0 does.
        memory[o.tensor.name].access(taken[..., columns], o.tensor.shape.index(str(o.tensor.major)), o.vector)


def _told(plan: Plan, memory: dict[str, Memory], once: Sequence[str] = ()) -> set[str]:
    found = {"bounds"} if any(m.outside for m in memory.values()) else set()
    whole = [plan.spec.output.name, *once]
    wanted = [memory[name].met[: memory[name].wanted] for name in whole]
    return found | ({"coverage"} if any((met != 1).any() for met in wanted) else set())


def _gemm(plan: GemmPlan, sizes: Mapping[str, int]) -> set[str]:
    tile = np.array([plan.tile[plan.m], plan.tile[plan.n]])
    shape, depth = np.array([sizes[plan.m], sizes[plan.n]]), plan.tile[plan.k]
    grid, k_tiles = -(-shape // tile), -(-sizes[plan.k] // depth)
    memory = {o.tensor.name: Memory([sizes[m] for m in o.tensor.shape]) for o in plan.pointwise.operands}
    outputs = list(memory)
    copied = {x.tensor.name: Memory([sizes[x.mode], sizes[plan.k]]) for x in (plan.a, plan.b) if x.workspace is None}
    for side, x in enumerate((plan.a, plan.b)):
        if x.workspace is not None:  # its rows are padded, maybe beyond the last tile
            rows = _fill(x.workspace, sizes, memory)
            copied[x.tensor.name] = Memory([rows, sizes[plan.k]], wanted=int(grid[side] * tile[side]))
    residue = sizes[plan.k] - depth * k_tiles if plan.residue else 0
    for side, x in enumerate((plan.a, plan.b)):
        first = copies(plan, x)
        for block, k_tile in itertools.product(range(grid[side]), range(k_tiles)):
            where = first + np.array([block * tile[side], residue + k_tile * depth])
            made = np.ones(where.shape[:-1], bool)
            if x.masked:
                made &= where[..., 0] < copied[x.tensor.name].shape[0]
            if plan.residue and k_tile == 0:
                made &= where[..., 1] > -1
            along = list(x.tensor.shape).index(str(x.tensor.major))
            copied[x.tensor.name].access(where[made], along, x.vector)
    own = accumulators(plan)
    columns = [(plan.m, plan.n).index(mode) for mode in plan.spec.output.shape]
    own, shape = own[..., columns], shape[columns]
    for block in np.ndindex(*grid):
        where = own + (np.array(block) * tile)[columns]
        _pointwise(plan, where, where, np.ones(plan.threads, bool), shape, memory)
    return _told(plan, memory | copied, [name for name in (*memory, *copied) if name not in outputs])


def _fill(x: WorkspacePlan, sizes: Mapping[str, int], memory: dict[str, Memory]) -> int:
    """Makes the accesses of the kernel that fills a workspace, and returns how many rows that has."""
    size = np.array([sizes[x.mode], sizes[x.k]])
    rows = -(-size[0] // x.write) * x.write
    source, target = Memory(size), Memory([rows, size[1]])
    memory[f"{x.tensor.name} itself"], memory[f"{x.tensor.name}'s workspace"] = source, target
    own, covered = dealt_out(x.thread_layout, Layout((x.write, x.read), (1, x.write)))
    assert covered == x.tile and own.shape == (x.threads, x.write * x.read, 2)
    values = own.reshape(x.threads, x.read, x.write, 2)
    for block in np.ndindex(*(-(-np.array([rows, size[1]]) // x.tile))):
        where = values + np.array(block) * x.tile
        for found, along, bounds, first, vector in (
            (source, 1, size, where[:, 0, :, :], x.read),
            (target, 0, np.array([rows, size[1]]), where[:, :, 0, :], x.write),
        ):
            found.access(first[(first < bounds).all(axis=-1)], along, vector)
    return int(rows)


def copies(plan: GemmPlan, x: GemmOperand) -> Coordinates:
    """The first coordinate (m or n, k) of each access of each thread, in a tile."""
    own, covered = dealt_out(x.thread_layout, x.value_layout)
    tile = (plan.tile[x.mode], plan.tile[plan.k])
    assert own.shape[1] % x.vector == 0 and not any(t % c for t, c in zip(tile, covered, strict=True))
    rest = tuple(t // c for t, c in zip(tile, covered, strict=True))
    assert x.copies == (own.shape[1] // x.vector, *rest), "there is a predicate for each access"
    assert x.smem_stride >= tile[0], "columns of shared memory are apart"
    repeats = unravel(np.arange(prod(rest)), rest) * np.array(covered)
    found = own[:, None, :: x.vector, :] + repeats[None, :, None, :]
    assert plan.threads == len(own), "threads beyond the layout copy nobody knows what"
    return found.reshape(plan.threads, -1, 2)


def accumulators(plan: GemmPlan) -> Coordinates:
    """(m, n) of each thread's accumulators, in the order of the epilogue."""
    sides = extents(plan.thread_layout)
    own = []
    for threads, mode, permutation in zip(
        sides, (plan.m, plan.n), (plan.permutation_m, plan.permutation_n), strict=False
    ):
        taken = np.arange(threads) if permutation is None else image(permutation)
        assert sorted(taken) == list(range(len(taken)))
        assert len(taken) % threads == 0 and plan.tile[mode] % len(taken) == 0
        repeats = np.arange(plan.tile[mode] // len(taken)) * len(taken)
        # thread t has places t, t + threads, ... of the permutation, and again in each repetition
        own.append((repeats[None, :, None] + taken.reshape(-1, threads).T[:, None, :]).reshape(threads, -1))
    where = run_by(places(plan.thread_layout), plan.threads)
    ms, ns = own[0][where[:, 0]], own[1][where[:, 1]]
    if plan.row_first:
        pairs = np.stack(np.broadcast_arrays(ms[:, :, None], ns[:, None, :]), axis=-1)
    else:
        pairs = np.stack(np.broadcast_arrays(ms[:, None, :], ns[:, :, None]), axis=-1)
    return pairs.reshape(plan.threads, -1, 2)


# ------------------------------------------------------------------------------------------------ sizes to look at


def accepted(plan: Plan, mode: str) -> list[int]:
    """Sizes of a mode around its tile that the host takes."""
    if mode in plan.spec.static:
        return [plan.spec.static[mode]]
    step, tile = plan.spec.divisible.get(mode, 1), plan.tile[mode]
    wanted = {1, tile - 1, tile, tile + 1, 2 * tile + tile // 2}
    if isinstance(plan, ElementwisePlan) and plan.partition == "inner":
        wanted.add(tile * (plan.threads + 1))  # threads of the last block are left over
    return sorted({max(step, n // step * step) for n in wanted} | {step})


def whole_blocks(plan: Plan, sizes: Mapping[str, int]) -> bool:
    if not isinstance(plan, ElementwisePlan) or not plan.check_threads:
        return True
    return prod(-(-sizes[m] // plan.tile[m]) for m in plan.spec.output.shape) % plan.threads == 0


def sizes_of(plan: Plan, most: int = 6) -> Iterator[dict[str, int]]:
    """A few combinations of accepted sizes, all the largest among them, and one of a whole block where that is asked
    for; those that take too long are left out."""
    modes = plan.spec.modes
    every = [accepted(plan, mode) for mode in modes]
    chosen = [tuple(options[(i + j) % len(options)] for j, options in enumerate(every)) for i in range(most)]
    chosen.append(tuple(options[-1] for options in every))
    if isinstance(plan, ElementwisePlan) and plan.check_threads:
        slowest = plan.spec.output.shape[plan.tile_order[-1]]
        chosen.append(tuple(plan.tile[mode] * (plan.threads if mode == slowest else 1) for mode in modes))
    for sizes in dict.fromkeys(chosen):
        found = dict(zip(modes, sizes, strict=True)) | dict(plan.spec.static)
        if prod(found.values()) < 1 << 18 and whole_blocks(plan, found):
            yield found


def found_by_hand(plan: Plan) -> set[str]:
    return set().union(*(problems(plan, sizes) for sizes in sizes_of(plan)))
