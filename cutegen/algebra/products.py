"""The six products: a block, layout A, repeated as the tiler B says.

logical_product(A, B) = (A, complement(A, size of A * cosize of B) o B): copies of A where A leaves room, in B's order.
"""

from __future__ import annotations

from typing import Any

from tensor_layouts import Layout

from cutegen.algebra.arguments import LAYOUT, PLAIN_LAYOUT, TILER
from cutegen.algebra.composition import check_rank, composed
from cutegen.algebra.divides import flat, tiled
from cutegen.algebra.inverses import complement
from cutegen.algebra.registry import function
from cutegen.algebra.steps import Steps
from cutegen.algebra.structure import append, coalesce
from cutegen.algebra.values import NotDefined, Table, join, text_of
from cutegen.layouts import elements, modes_of, reach


@function("products", block=LAYOUT, tiler=TILER, inside=True)
def logical_product(block: Layout, tiler: Any, steps: Steps, place: str = "") -> Layout:
    """(block, copies); with a tuple as tiler mode by mode.

    `_` in the tuple leaves a mode as it is.

    Raises `NotDefined` where the block has no complement, or where the tiler cannot be composed with it.
    """
    if not isinstance(tiler, tuple):
        return join([block, _copies(block, tiler, steps, f"{place}: " if place else "")])
    own = list(modes_of(block))
    check_rank(tiler, block)
    for i, part in enumerate(tiler):
        if part is not None:
            own[i] = logical_product(own[i], part, steps, f"{place}.{i}" if place else f"mode {i}")
    return join(own)


def _copies(block: Layout, tiler: Layout, steps: Steps, prefix: str) -> Layout:
    quiet = Steps()
    room = elements(block.shape) * reach(tiler)
    free = complement(block, room, quiet)
    try:
        copies = composed(free, tiler)
    except NotDefined as error:
        message = f"{prefix}copies of {text_of(block)}, one at each of {text_of(free)}, cannot be laid out as"
        raise NotDefined(f"{message} {text_of(tiler)}: {error.message}", error.help, 1) from None
    steps.show("complement", (block, room), free, f"{prefix}where copies of the block fit")
    steps.show("composition", (free, tiler), copies, f"{prefix}where the tiler puts them")
    steps.notes += quiet.notes
    return copies


@function("products", block=LAYOUT, tiler=PLAIN_LAYOUT, inside=True)
def zipped_product(block: Layout, tiler: Layout, steps: Steps) -> Layout:
    """(block, copies): with a layout as tiler the same as logical_product."""
    return logical_product(block, tiler, steps)


@function("products", block=LAYOUT, tiler=PLAIN_LAYOUT, inside=True)
def tiled_product(block: Layout, tiler: Layout, steps: Steps) -> Layout:
    """The block, then the copies along each mode of the tiler by themselves."""
    zipped = logical_product(block, tiler, steps)
    steps.show("zipped_product", (block, tiler), zipped, "(block, copies)")
    return tiled(zipped)


@function("products", block=LAYOUT, tiler=PLAIN_LAYOUT, inside=True)
def flat_product(block: Layout, tiler: Layout, steps: Steps) -> Layout:
    """The modes of the block, then those of the copies."""
    zipped = logical_product(block, tiler, steps)
    steps.show("zipped_product", (block, tiler), zipped, "(block, copies)")
    return flat(zipped)


@function("products", block=LAYOUT, tiler=PLAIN_LAYOUT, inside=True)
def blocked_product(block: Layout, tiler: Layout, steps: Steps) -> Layout:
    """Mode by mode (block, copies): whole blocks beside each other."""
    inner, outer = _both_modes(block, tiler, steps)
    return _zipped(inner, outer)


@function("products", block=LAYOUT, tiler=PLAIN_LAYOUT, inside=True)
def raked_product(block: Layout, tiler: Layout, steps: Steps) -> Layout:
    """Mode by mode (copies, block), coalesced: the blocks interleaved."""
    inner, outer = _both_modes(block, tiler, steps)
    interleaved = _zipped(outer, inner)
    return coalesce(interleaved, (1,) * len(modes_of(interleaved)))


def _both_modes(block: Layout, tiler: Layout, steps: Steps) -> tuple[Layout, Layout]:
    """The block, and where its copies go, with as many modes as the one that has more."""
    rank = max(len(modes_of(block)), len(modes_of(tiler)))
    padded = []
    for layout in (block, tiler):
        padded.append(append(layout, Layout(1, 0), rank))
        if len(modes_of(layout)) < rank:
            steps.show("append", (layout, Layout(1, 0), rank), padded[-1], "as many modes as the other has")
    logical = logical_product(padded[0], padded[1], steps)
    steps.show("logical_product", (padded[0], padded[1]), logical, "(block, copies)")
    first, second = modes_of(logical)
    return first, second


def _zipped(first: Layout, second: Layout) -> Layout:
    """((first's mode, second's mode), ...). As in CuTe a first without parentheses is paired with all of the second."""
    if isinstance(first.shape, int):
        return join([join([first, second])])
    if isinstance(second.shape, int) or len(second.shape) != len(first.shape):
        message = f"{text_of(first)} and {text_of(second)} cannot be paired mode by mode"
        raise NotDefined(message, "parentheses around the modes of both, as (4):(1)")
    return join([join([one, other]) for one, other in zip(modes_of(first), modes_of(second), strict=True)])


@function("products", name="product", block=PLAIN_LAYOUT, tiler=PLAIN_LAYOUT)
def all_products(block: Layout, tiler: Layout, steps: Steps) -> Table:
    """All six products side by side."""
    logical = logical_product(block, tiler, steps)
    return Table(
        (
            ("logical_product", logical, "(block,copies)"),
            ("zipped_product", logical, "(block,copies)"),
            ("tiled_product", tiled(logical), "(block,CopiesM,CopiesN,...)"),
            ("flat_product", flat(logical), "(BlockM,BlockN,...,CopiesM,CopiesN,...)"),
            ("blocked_product", blocked_product(block, tiler, Steps()), "((BlockM,CopiesM),(BlockN,CopiesN),...)"),
            ("raked_product", raked_product(block, tiler, Steps()), "((CopiesM,BlockM),(CopiesN,BlockN),...)"),
        )
    )
