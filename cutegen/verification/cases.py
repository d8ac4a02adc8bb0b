"""The plan of shapes: which sizes, strides, base addresses and data a kernel is run on, chosen to break it.

Pure functions of a resolved spec: no torch, no clock, no chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import lcm, prod
from typing import Literal

from cutegen.language.model import ElementwiseSchedule, GemmSchedule, KernelSpec, Scheduler, Tensor
from cutegen.planning.gemm_workspace import plan_workspaces

Layout = Literal["compact", "padded", "offset"]
Data = Literal["random", "integers", "special"]
WELL_ALIGNED = 256  # bytes: of a base address that is not at its least alignment


@dataclass(frozen=True)
class Case:
    """One run of a kernel.

    `sizes` maps every mode to its size. `layout`: `compact` has no gaps; `padded` separates rows by the least gap that
    `align` allows; `offset` is padded, with base address and strides aligned to `align` bytes and to no more.
    `data`: `random` normal numbers, `integers` small ones for which results are exact, `special` with NaN, infinities,
    signed zeros and subnormals mixed in.
    """

    name: str
    why: str
    sizes: Mapping[str, int]
    layout: Layout = "compact"
    data: Data = "random"
    seed: int = 0

    @property
    def empty(self) -> bool:
        """Some tensor of the case has no elements (which one follows from the spec)."""
        return 0 in self.sizes.values()


# ---------------------------------------------------------------------------------------------------- strides


def align_unit(tensor: Tensor) -> int:
    """`align` in elements: what the base address and every stride but the major one are a multiple of."""
    return max(1, (tensor.align or 1) // tensor.dtype.bytes)


def strides_for(tensor: Tensor, sizes: Mapping[str, int], layout: Layout) -> tuple[int, ...]:
    """Strides in elements, in the order of the tensor's shape. The major mode has stride 1, then last to first."""
    if not tensor.shape:
        return ()
    major = tensor.major or tensor.shape[-1]
    order = [major, *(m for m in reversed(tensor.shape) if m != major)]
    unit = align_unit(tensor)
    strides = {major: 1}
    for inner, mode in pairwise(order):
        extent = strides[inner] * max(1, sizes[inner])
        if layout != "compact":
            extent = -(-(extent + 1) // unit) * unit
            if layout == "offset" and (extent // unit) % 2 == 0:
                extent += unit  # an odd multiple of `align`: aligned to no more than the spec promises
        strides[mode] = extent
    return tuple(strides[m] for m in tensor.shape)


def compact_allowed(spec: KernelSpec, sizes: Mapping[str, int]) -> bool:
    """Whether strides without gaps keep every tensor's `align`."""
    for tensor in spec.tensors:
        major = tensor.major or (tensor.shape[-1] if tensor.shape else "")
        for mode, stride in zip(tensor.shape, strides_for(tensor, sizes, "compact"), strict=True):
            if mode != major and stride % align_unit(tensor):
                return False
    return True


# ------------------------------------------------------------------------------------------------------ sizes


@dataclass(frozen=True)
class _Wish:
    """A case before its sizes are brought to allowed ones. Modes that `wanted` leaves out get the tile's size."""

    name: str
    why: str
    wanted: Mapping[str, int] = field(default_factory=dict)
    layout: Layout = "compact"
    data: Data = "random"
    exactly: bool = False  # the spec's own sizes are taken as they are


def derive_cases(spec: KernelSpec, tile: Mapping[str, int], stages: int | None) -> tuple[Case, ...]:
    """Every case that `spec` is verified on, in a fixed order.

    `tile`: mode -> elements of one block's tile (modes left out count as 1). `stages`: shared-memory stages of a
    pipelined kernel, else None.
    """
    tiles = {mode: spec.static.get(mode, size) for mode, size in covered(spec, tile).items()}
    wishes = _probe(spec) if spec.op == "probe" else _derived(spec, tiles, stages)
    cases: dict[tuple[object, ...], Case] = {}
    for wish in wishes:
        for sizes in _allowed(spec, tiles, wish):
            layout: Layout = wish.layout
            if layout == "compact" and not compact_allowed(spec, sizes):
                layout = "padded"
            key = (tuple(sizes.items()), layout, wish.data)
            if key not in cases:
                cases[key] = Case(wish.name, wish.why, sizes, layout, wish.data, len(cases))
                break  # rounding the other way would be another wish's case
    return tuple(cases.values())


def covered(spec: KernelSpec, tile: Mapping[str, int]) -> dict[str, int]:
    """How many elements along each mode a block covers; a static mode may have fewer. `tile` as for `derive_cases`."""
    sizes = {mode: max(1, tile.get(mode, 1)) for mode in spec.modes}
    schedule = spec.schedule
    if isinstance(schedule, ElementwiseSchedule) and schedule.partition == "inner" and schedule.threads:
        # the plan's tile is a thread's; a block's is a run of them along the major mode
        major = _walk(spec)[0]
        sizes[major] = (schedule.tiler or {}).get(major, 1) * schedule.threads
    return sizes


def _allowed(spec: KernelSpec, tiles: Mapping[str, int], wish: _Wish) -> Iterator[dict[str, int]]:
    """The wished sizes brought to what `static` and `divisible` allow: rounded away from the tile's, then toward it."""
    if wish.exactly:
        yield {mode: wish.wanted.get(mode, tiles[mode]) for mode in spec.modes}
        return
    larger = any(size > tiles[mode] for mode, size in wish.wanted.items())
    for up in (larger, not larger):
        sizes = {}
        for mode in spec.modes:
            wanted, step = wish.wanted.get(mode, tiles[mode]), max(1, spec.divisible.get(mode, 1))
            rounded = -(-wanted // step) * step if up else wanted // step * step
            # only a case that asks for an empty mode gets one
            sizes[mode] = spec.static.get(mode, rounded if rounded or not wanted else step)
        fitting = whole_blocks(spec, sizes)
        if fitting is not None:
            yield fitting


def _walk(spec: KernelSpec) -> tuple[str, ...]:
    """The output's modes in the order in which consecutive threads of an inner partition walk them."""
    assert isinstance(spec.schedule, ElementwiseSchedule)
    output, raster = spec.output, spec.schedule.scheduler.raster
    first = [] if raster is None else [raster]
    return tuple(dict.fromkeys([*first, output.major or output.shape[-1], *reversed(output.shape)]))


def block_rule(spec: KernelSpec) -> int | None:
    """The number that the host wants the number of tiles to be a multiple of, if it wants any.

    That is an inner partition's threads, where no predicate stops the threads that are too many in the last block.
    """
    schedule = spec.schedule
    if not isinstance(schedule, ElementwiseSchedule) or schedule.partition != "inner" or not schedule.threads:
        return None
    return None if schedule.predication.get(_walk(spec)[-1]) == "mask" else schedule.threads


def tiles_of(spec: KernelSpec, sizes: Mapping[str, int]) -> int:
    """How many tiles of a thread (inner partition) cover the output."""
    assert isinstance(spec.schedule, ElementwiseSchedule)
    tiler = spec.schedule.tiler or {}
    return prod(-(-sizes[m] // tiler.get(m, 1)) for m in spec.output.shape)


def whole_blocks(spec: KernelSpec, sizes: dict[str, int]) -> dict[str, int] | None:
    """`sizes`, one of them enlarged as little as `block_rule` asks for; None if static sizes leave no way."""
    threads = block_rule(spec)
    if threads is None or tiles_of(spec, sizes) % threads == 0:
        return sizes
    assert isinstance(spec.schedule, ElementwiseSchedule)
    for mode in reversed(_walk(spec)):
        step = lcm(spec.divisible.get(mode, 1), (spec.schedule.tiler or {}).get(mode, 1))
        first = -(-sizes[mode] // step)
        for count in range(first, first + threads):
            enlarged = {**sizes, mode: count * step}
            if mode not in spec.static and tiles_of(spec, enlarged) % threads == 0:
                return enlarged
    return None


def _probe(spec: KernelSpec) -> Iterator[_Wish]:
    yield _Wish("compact", "the layout's own tile", data="integers")
    yield _Wish("random", "the layout's own tile")
    yield _Wish("padded", "rows further apart than they are long", layout="padded")
    yield _Wish("offset", "a slice at the least alignment that the spec allows", layout="offset")
    yield _Wish("offset integers", "a slice at the least alignment that the spec allows", {}, "offset", "integers")


def _derived(spec: KernelSpec, tile: Mapping[str, int], stages: int | None) -> Iterator[_Wish]:
    free = [m for m in spec.modes if m not in spec.static]
    inner = contracted(spec)
    outer = [m for m in free if m not in inner]
    deep = {m: max(tile[m] * 2 + 1, 2) for m in inner}  # enough of k to be past a single tile

    yield _Wish("tile", "exactly one tile")
    yield _Wish("tile integers", "exactly one tile, the result must be exact", data="integers")
    for i, shape in enumerate(spec.verify.shapes):
        why = "a shape of the spec"
        yield _Wish(f"spec shape {i + 1}", why, shape, exactly=True)
        yield _Wish(
            f"spec shape {i + 1} integers", why + ", the result must be exact", shape, "compact", "integers", True
        )
    for mode in free:
        yield _Wish(f"{mode} one less", f"{mode} one below the tile", {mode: max(1, tile[mode] - 1)})
        yield _Wish(f"{mode} one more", f"{mode} one above the tile", {mode: tile[mode] + 1})
    less = {m: max(1, tile[m] - 1) for m in free}
    more = {m: tile[m] + 1 for m in free}
    yield _Wish("all one less", "every mode one below the tile", less, data="integers")
    yield _Wish("all one more", "every mode one above the tile", more, data="integers")
    for mode in free:
        yield _Wish(f"{mode} = 1", f"size 1 in {mode}", {**more, mode: 1})
    yield _Wish("all 1", "a single element", dict.fromkeys(free, 1))
    primes = dict(zip(free, _primes_above(tile[m] + tile[m] // 3 + 1 for m in free), strict=True))
    below = dict(zip(free, _primes_below(tile[m] * 2 // 3 + 1 for m in free), strict=True))
    yield _Wish("primes", "sizes that nothing divides", primes)
    yield _Wish("primes integers", "sizes that nothing divides, the result must be exact", primes, data="integers")
    yield _Wish("small primes", "less than a tile in every mode", below)
    several = {m: tile[m] * 3 for m in outer} | {m: tile[m] * 2 for m in inner if m in free}
    yield _Wish("several tiles", "whole tiles, several in every mode", several)
    if isinstance(spec.schedule, GemmSchedule) and spec.schedule.workspace:
        yield from _workspaces(spec, more)
    if isinstance(spec.schedule, GemmSchedule) and (spec.schedule.scheduler.swizzle or 1) > 1:
        yield from _bands(spec, tile, spec.schedule.scheduler)
    ragged = {m: size + max(1, tile[m] // 2 - 1) for m, size in several.items()}
    yield _Wish("several and a residue", "several tiles and a part of one in every mode", ragged, data="integers")
    if inner and all(m in free for m in inner):
        yield from _contraction(tile, inner, outer, stages)
    for layout, why in (
        ("padded", "rows further apart than they are long"),
        ("offset", "a slice at the least alignment that the spec allows"),
    ):
        kind: Layout = "padded" if layout == "padded" else "offset"
        yield _Wish(layout, why, deep, kind)
        yield _Wish(f"{layout} primes", why + ", sizes that nothing divides", primes, kind, "integers")
        yield _Wish(f"{layout} residue", why + ", a part of a tile in every mode", more, kind)
    if spec.op == "elementwise" and any(t.dtype.is_float for t in spec.tensors if t.reads):
        why = "NaN, infinities, signed zeros and subnormals among the inputs"
        yield _Wish("special values", why, primes, data="special")
    for mode in (m for m in spec.output.shape if m in free):
        yield _Wish(f"{mode} = 0", "an empty output: nothing is launched, nothing is written", {**deep, mode: 0})


def _workspaces(spec: KernelSpec, more: Mapping[str, int]) -> Iterator[_Wish]:
    """Around the tiles of the kernels that fill them, which are not those of the product."""
    for x in plan_workspaces(spec).values():
        for step, what in ((-1, "less"), (1, "more")):
            sizes = {mode: max(1, size + step) for mode, size in zip((x.mode, x.k), x.tile, strict=True)}
            why = (
                f"{x.mode} and {x.k} one {what} than the tile of the kernel that fills the workspace of {x.tensor.name}"
            )
            free = {mode: size for mode, size in sizes.items() if mode not in spec.static}
            yield _Wish(f"workspace of {x.tensor.name}, one {what}", why, {**more, **free}, data="integers")


def _bands(spec: KernelSpec, tile: Mapping[str, int], scheduler: Scheduler) -> Iterator[_Wish]:
    """A whole band and one that is cut, so that both widths are walked."""
    assert scheduler.swizzle is not None
    for mode in spec.output.shape:
        if mode != scheduler.raster and mode not in spec.static:
            sizes = {m: 2 * tile[m] + 1 for m in spec.output.shape if m not in spec.static}
            sizes[mode] = tile[mode] * scheduler.swizzle + 1
            why = f"a band of {scheduler.swizzle} tiles of {mode} and one of a single tile"
            yield _Wish("band and a tile", why, sizes, data="integers")


def _contraction(
    tile: Mapping[str, int], inner: Iterable[str], outer: Iterable[str], stages: int | None
) -> Iterator[_Wish]:
    """Cases about the number of k tiles; the other modes are part of a tile, to keep predicates at work."""
    part = {m: max(1, tile[m] // 2 + 1) for m in outer}
    for mode in inner:
        k = tile[mode]
        yield _Wish(f"{mode} = 0", "an empty sum is zero", {**part, mode: 0})
        yield _Wish(f"{mode} below a tile", f"{mode} below one tile", {**part, mode: max(1, k // 2 + 1)})
        deepest = stages or 1
        for count in sorted({1, deepest - 1, deepest, deepest + 1, 2 * deepest + 1} - {0}):
            of = f"{count} tile{'s'[: count > 1]} of {mode}, {stages} stages" if stages else f"{count} tiles of {mode}"
            yield _Wish(f"{mode} {count} tiles", of, {**part, mode: count * k}, data="integers")
            yield _Wish(f"{mode} {count} tiles and 1", of + " and a residue", {**part, mode: count * k + 1})
        why = f"two blocks in every other mode, and so much of {mode} that every stage is used again"
        sizes = {**{m: tile[m] + 1 for m in outer}, mode: (deepest + 1) * k + 1}
        yield _Wish("blocks and stages", why, sizes, data="integers")


def contracted(spec: KernelSpec) -> list[str]:
    """Modes that are summed over: those of the matrix product's operands that the output lacks."""
    product = spec.compute.matmul
    if product is None:
        return []
    return [m for m in spec.tensor(product.a).shape if m not in spec.output.shape]


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


def _primes_above(starts: Iterable[int]) -> Iterator[int]:
    """The first prime from each start on, all of them different, so that swapped modes cannot hide."""
    used: set[int] = set()
    for n in starts:
        while not _is_prime(n) or n in used:
            n += 1
        used.add(n)
        yield n


def _primes_below(starts: Iterable[int]) -> Iterator[int]:
    """The last prime up to each start (1 if there is none), different ones while there are."""
    used: set[int] = set()
    for n in starts:
        while n > 1 and (not _is_prime(n) or n in used):
            n -= 1
        used.add(n)
        yield max(1, n)
