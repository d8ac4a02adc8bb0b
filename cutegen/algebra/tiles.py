"""Functions that kernels apply to layouts: tiles for blocks and threads, thread-value layouts, other element types."""

from __future__ import annotations

from math import gcd
from typing import Any

import tensor_layouts
from tensor_layouts import Layout

from cutegen.algebra.arguments import COORDINATE, INTEGER, LAYOUT, NUMBERS, PLAIN_LAYOUT, SHAPE, TILER
from cutegen.algebra.composition import composition
from cutegen.algebra.coordinates import slice_
from cutegen.algebra.divides import zipped_divide
from cutegen.algebra.inverses import right_inverse
from cutegen.algebra.making import make_ordered_layout
from cutegen.algebra.products import blocked_product, raked_product
from cutegen.algebra.questions import product_each
from cutegen.algebra.registry import function
from cutegen.algebra.steps import Steps
from cutegen.algebra.values import NotDefined, ThreadValue, plain, text_of
from cutegen.layouts import IntTuple, compact, compact_like, elements, is_compact, is_injective, leaves, modes_of

MAX_BITS = 65_536  # of one element


@function("tiles", thr_layout=PLAIN_LAYOUT, val_layout=PLAIN_LAYOUT)
def make_layout_tv(threads: Layout, values: Layout, steps: Steps) -> ThreadValue:
    """The tiler [0], and (thread, value) -> place in the tile [1].

    It is the inverse of place -> thread + threads * value.

    Raises `NotDefined` for a layout that does not number its threads or values each once: there is no such inverse,
    and CuTeDSL, which does not look, ends the Python process or computes something else.
    """
    for argument, (layout, noun) in enumerate(((threads, "threads"), (values, "values"))):
        if not is_injective(layout) or not is_compact(layout):
            total = elements(layout.shape)
            message = f"{text_of(layout)} does not number {total} {noun} from 0 to {total - 1}, each once"
            good = text_of(compact_like(layout.shape, layout.stride))
            raise NotDefined(message, f"a compact layout, such as {good}", argument)
    count = elements(threads.shape)
    raked = raked_product(threads, values, Steps())
    steps.show("raked_product", (threads, values), raked, f"place -> thread + {count} * value")
    inverse = right_inverse(raked, Steps())
    steps.show("right_inverse", (raked,), inverse, f"thread + {count} * value -> place")
    both = compact((count, elements(values.shape)))
    tv = composition(inverse, both, Steps())
    steps.show("composition", (inverse, both), tv, "(thread, value) -> place")
    tiler = tuple(elements(mode.shape) for mode in modes_of(raked))
    steps.show("product_each", (raked.shape,), tiler, "the tiler")
    return ThreadValue(tiler, tv)


@function("tiles", input=PLAIN_LAYOUT, tiler=TILER, coord=COORDINATE, proj=COORDINATE.or_none())
def local_tile(layout: Layout, tiler: Any, coordinate: Any, proj: Any, steps: Steps) -> Layout:
    """One tile; proj=(1,_,1) leaves out the modes of tiler and coordinate at `_`."""
    if proj is not None:
        if not all(isinstance(part, tuple) and len(part) == len(proj) for part in (proj, tiler, coordinate)):
            message = "tiler, coordinate and projection do not have the same number of modes"
            raise NotDefined(message, "local_tile(L, (128,128,8), (0,0,_), proj=(1,_,1))", 3)
        tiler = tuple(part for part, keep in zip(tiler, proj, strict=True) if keep is not None)
        coordinate = tuple(part for part, keep in zip(coordinate, proj, strict=True) if keep is not None)
    zipped = zipped_divide(layout, tiler, Steps())
    steps.show("zipped_divide", (layout, plain(tiler)), zipped, "(tile, which tile)")
    tile, rest = modes_of(zipped)
    if isinstance(coordinate, tuple) and isinstance(rest.shape, tuple):
        coordinate += (None,) * (len(rest.shape) - len(coordinate))
    return _sliced(zipped, (_holes(tile), coordinate), steps)


@function("tiles", target=PLAIN_LAYOUT, tiler=PLAIN_LAYOUT, index=INTEGER)
def local_partition(layout: Layout, threads: Layout, index: int, steps: Steps) -> Layout:
    """The elements of one thread: one from each tile, where tiles have the shape of a layout of threads."""
    if index >= elements(threads.shape):
        message = f"there is no thread {index}: {text_of(threads)} has {elements(threads.shape)}"
        raise NotDefined(message, f"a thread from 0 to {elements(threads.shape) - 1}", 2)
    tiler = product_each(threads.shape)
    zipped = zipped_divide(layout, TILER.check(tiler), Steps())
    steps.show("zipped_divide", (layout, tiler), zipped, "(place in the tile, which tile)")
    tile, rest = modes_of(zipped)
    place = _thread_coordinate(threads, index)
    return _sliced(zipped, (place if isinstance(tile.shape, tuple) else place[0], _holes(rest)), steps)


def _holes(layout: Layout) -> Any:
    """`_` for each mode."""
    return (None,) * len(layout.shape) if isinstance(layout.shape, tuple) else None


def _sliced(layout: Layout, coordinate: Any, steps: Steps) -> Layout:
    result = slice_(layout, coordinate, steps)
    steps.show("slice_", (layout, coordinate), result)
    return result


def _thread_coordinate(threads: Layout, index: int) -> tuple[int, ...]:
    """The place of a thread, one number a mode: index / stride % size, as CuTe inverts a layout."""
    found = []
    for mode in modes_of(threads):
        place, step = 0, 1
        for size, stride in leaves(mode):
            place += (index // stride % size if stride else 0) * step
            step *= size
        found.append(place)
    return tuple(found)


@function("tiles", atom=LAYOUT, trg_shape=SHAPE, order=NUMBERS, inside=True)
def tile_to_shape(block: Layout, target: IntTuple, order: Any, steps: Steps) -> Layout:
    """Blocks beside each other, in an order, until they cover a shape."""
    sizes = (target,) if isinstance(target, int) else tuple(map(elements, target))
    own = [elements(mode.shape) for mode in modes_of(block)]
    if len(own) > len(sizes):
        message = f"{text_of(block)} has {len(own)} modes, and the shape {text_of(target)} has {len(sizes)}"
        raise NotDefined(message, "a shape with a size for each mode of the block", 1)
    own += [1] * (len(sizes) - len(own))
    times = tuple(-(-size // extent) for size, extent in zip(sizes, own, strict=True))
    steps.show("ceil_div", (sizes, tuple(own)), times, "blocks along each mode")
    for size, extent, count in zip(sizes, own, times, strict=True):
        if size % extent:
            steps.note(f"{extent} does not divide {size}: {count} blocks of {extent} cover {count * extent}")
    grid = make_ordered_layout(times, order)
    steps.show("make_ordered_layout", (times, order), grid, "their order")
    return blocked_product(block, grid, steps)


@function("tiles", new_type_bits=INTEGER, old_type_bits=INTEGER, src_layout=PLAIN_LAYOUT)
def recast_layout(new_bits: int, old_bits: int, layout: Layout, steps: Steps) -> Layout:
    """The same memory in elements of another width, in bits.

    Raises `NotDefined` where the elements do not fill each other along a mode.
    """
    if not 1 <= min(new_bits, old_bits) <= max(new_bits, old_bits) <= MAX_BITS:
        raise NotDefined(f"elements have from 1 to {MAX_BITS} bits", "32 and 8, for example")
    common = gcd(new_bits, old_bits)
    finer, wider = tensor_layouts.downcast(layout, old_bits // common), new_bits // common
    for size, stride in leaves(finer):
        if size != 1 and stride % wider and (wider % stride or size % (wider // stride)):
            message = f"elements of {new_bits} bits do not fill {size}:{stride} of {common} bits each"
            raise NotDefined(message, f"sizes and strides that are multiples of {wider}", 2)
    if common not in (new_bits, old_bits):
        steps.remark(f"in elements of {common} bits: {text_of(finer)}")
    return tensor_layouts.upcast(finer, wider)
