"""The plan of shapes: which sizes, strides, base addresses and data a kernel is run on, chosen to break it.

Pure functions of a plan and its resolved spec: no torch, no clock, no chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from cutegen.language.model import KernelSpec, Tensor
from cutegen.planning.plan import Plan

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
        """Whether some tensor of the case has no elements; which one follows from the spec."""
        return 0 in self.sizes.values()


# ---------------------------------------------------------------------------------------------------- strides


def align_unit(tensor: Tensor) -> int:
    """A tensor's `align` in elements, of which its base address and every stride but the major one are a multiple."""
    return max(1, (tensor.align or 1) // tensor.dtype.bytes)


def strides_for(tensor: Tensor, sizes: Mapping[str, int], layout: Layout) -> tuple[int, ...]:
    """A tensor's strides in elements, in the order of its shape.

    The major mode has stride 1; the others follow from the last to the first.
    """
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
class Wish:
    """A case before its sizes are brought to allowed ones. Modes that `wanted` leaves out get the tile's size."""

    name: str
    why: str
    wanted: Mapping[str, int] = field(default_factory=dict)
    layout: Layout = "compact"
    data: Data = "random"
    exactly: bool = False  # the spec's own sizes are taken as they are


def derive_cases(plan: Plan) -> tuple[Case, ...]:
    """Every case that the kernel of a plan is verified on, in a fixed order."""
    spec, family = plan.spec, plan.spec.family
    tiles = {mode: spec.static.get(mode, size) for mode, size in family.covered(plan).items()}
    own = family.wishes(plan, tiles)
    cases: dict[tuple[object, ...], Case] = {}
    for wish in _derived(plan, tiles) if own is None else own:
        for sizes in _allowed(spec, tiles, wish):
            layout: Layout = wish.layout
            if layout == "compact" and not compact_allowed(spec, sizes):
                layout = "padded"
            key = (tuple(sizes.items()), layout, wish.data)
            if key not in cases:
                cases[key] = Case(wish.name, wish.why, sizes, layout, wish.data, len(cases))
                break  # rounding the other way would be another wish's case
    return tuple(cases.values())


def _allowed(spec: KernelSpec, tiles: Mapping[str, int], wish: Wish) -> Iterator[dict[str, int]]:
    """The sizes of a wish, brought to what `static` and `divisible` allow.

    They are rounded away from the tile's sizes first, then toward them.
    """
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
        fitting = spec.family.accepted(spec, sizes)
        if fitting is not None:
            yield fitting


def _derived(plan: Plan, tile: Mapping[str, int]) -> Iterator[Wish]:
    """The wishes for any family's kernel, with the family's own among them.

    `tile` is what a block covers; of a fixed mode that is all of it.
    """
    spec, op = plan.spec, plan.spec.operation
    free = [m for m in spec.modes if m not in spec.static]
    inner = op.contracted(spec)
    outer = [m for m in free if m not in inner]
    deep = {m: max(tile[m] * 2 + 1, 2) for m in inner}  # enough of k to be past a single tile

    yield Wish("tile", "exactly one tile")
    yield Wish("tile integers", "exactly one tile, the result must be exact", data="integers")
    for i, shape in enumerate(spec.verify.shapes):
        why = "a shape of the spec"
        yield Wish(f"spec shape {i + 1}", why, shape, exactly=True)
        yield Wish(
            f"spec shape {i + 1} integers", why + ", the result must be exact", shape, "compact", "integers", True
        )
    for mode in free:
        yield Wish(f"{mode} one less", f"{mode} one below the tile", {mode: max(1, tile[mode] - 1)})
        yield Wish(f"{mode} one more", f"{mode} one above the tile", {mode: tile[mode] + 1})
    less = {m: max(1, tile[m] - 1) for m in free}
    more = {m: tile[m] + 1 for m in free}
    yield Wish("all one less", "every mode one below the tile", less, data="integers")
    yield Wish("all one more", "every mode one above the tile", more, data="integers")
    for mode in free:
        yield Wish(f"{mode} = 1", f"size 1 in {mode}", {**more, mode: 1})
    yield Wish("all 1", "a single element", dict.fromkeys(free, 1))
    primes = dict(zip(free, _primes_above(tile[m] + tile[m] // 3 + 1 for m in free), strict=True))
    below = dict(zip(free, _primes_below(tile[m] * 2 // 3 + 1 for m in free), strict=True))
    yield Wish("primes", "sizes that nothing divides", primes)
    yield Wish("primes integers", "sizes that nothing divides, the result must be exact", primes, data="integers")
    yield Wish("small primes", "less than a tile in every mode", below)
    several = {m: tile[m] * 3 for m in outer} | {m: tile[m] * 2 for m in inner if m in free}
    yield Wish("several tiles", "whole tiles, several in every mode", several)
    yield from spec.family.more_wishes(plan, tile)
    ragged = {m: size + max(1, tile[m] // 2 - 1) for m, size in several.items()}
    yield Wish("several and a residue", "several tiles and a part of one in every mode", ragged, data="integers")
    if inner and all(m in free for m in inner):
        yield from _contraction(plan, tile, inner, outer)
    for layout, why in (
        ("padded", "rows further apart than they are long"),
        ("offset", "a slice at the least alignment that the spec allows"),
    ):
        kind: Layout = "padded" if layout == "padded" else "offset"
        yield Wish(layout, why, deep, kind)
        yield Wish(f"{layout} primes", why + ", sizes that nothing divides", primes, kind, "integers")
        yield Wish(f"{layout} residue", why + ", a part of a tile in every mode", more, kind)
    if op.has_special_values and any(t.dtype.is_float for t in spec.tensors if t.reads):
        why = "NaN, infinities, signed zeros and subnormals among the inputs"
        yield Wish("special values", why, primes, data="special")
    for mode in (m for m in spec.output.shape if m in free):
        yield Wish(f"{mode} = 0", "an empty output: nothing is launched, nothing is written", {**deep, mode: 0})


def _contraction(plan: Plan, tile: Mapping[str, int], inner: Iterable[str], outer: Iterable[str]) -> Iterator[Wish]:
    """Cases about the number of k tiles; the other modes are part of a tile, to keep predicates at work."""
    spec, stages = plan.spec, plan.stages
    may_be_empty = spec.operation.modes_that_may_be_empty(spec.compute, {t.name: t for t in spec.tensors})
    part = {m: max(1, tile[m] // 2 + 1) for m in outer}
    for mode in inner:
        k = tile[mode]
        if mode in may_be_empty:
            yield Wish(f"{mode} = 0", "an empty sum is zero", {**part, mode: 0})
        yield Wish(f"{mode} below a tile", f"{mode} below one tile", {**part, mode: max(1, k // 2 + 1)})
        deepest = stages or 1
        for count in sorted({1, deepest - 1, deepest, deepest + 1, 2 * deepest + 1} - {0}):
            of = f"{count} tile{'s'[: count > 1]} of {mode}, {stages} stages" if stages else f"{count} tiles of {mode}"
            yield Wish(f"{mode} {count} tiles", of, {**part, mode: count * k}, data="integers")
            yield Wish(f"{mode} {count} tiles and 1", of + " and a residue", {**part, mode: count * k + 1})
        why = f"two blocks in every other mode, and so much of {mode} that every stage is used again"
        sizes = {**{m: tile[m] + 1 for m in outer}, mode: (deepest + 1) * k + 1}
        yield Wish("blocks and stages", why, sizes, data="integers")


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
