"""The rule about scales of blocks: which of them threads find for what they hold of a tile."""

from __future__ import annotations

from cutegen.families.gemm.wgmma.product import COLUMNS, exchanged, product_of
from cutegen.families.gemm.wgmma.scales import chunk_of, is_scaled, scales_of
from cutegen.families.gemm.wgmma.schedule import Spec
from cutegen.lint.rule import Say
from cutegen.lint.trial import changed, first_that_works, written


def found(spec: Spec, say: Say) -> None:
    """A step along k lies in one block, and 8 neighbouring columns share a scale; rows and sums are as written."""
    if not is_scaled(spec):
        return
    product, tiler, (scale_a, scale_b) = product_of(spec), spec.schedule.tiler or {}, scales_of(spec)
    if len(product.stacked) > 1:
        message = f"{len(product.stacked)} products, and a kernel with block scales has one"
        say(message, "compute", help="write a kernel for each product")
        return
    if spec.segments is not None:
        message = f"`{spec.segments.mode}` is cut into segments, and block scales cannot be combined with segments"
        say(message, "modes", spec.segments.mode, help="write a kernel without segments, and call it for each segment")
        return
    if exchanged(spec):
        message = f"{spec.schedule.mma.rows} is the mode of the rows, and block scales need the rows of A there"
        say(message, "schedule", "mma", "rows", help=f"write `rows: {product.n}`, or leave it out")
        return
    scale = scale_a or scale_b
    assert scale is not None
    depth = tiler.get(product.k)
    if depth is not None and scale.depth % depth:
        tried = (
            (written(f"write `{product.k}: {value}`"), changed(spec, {f"tiler.{product.k}": value}))
            for value in (128, 64, 32)
            if scale.depth % value == 0
        )
        message = f"the tile is {depth} deep along {product.k}, and does not divide blocks of {scale.depth}"
        say(message, "schedule", "tiler", product.k, help=lambda: first_that_works(say.code, tried))
    if scale_b is not None and scale_b.along and scale_b.unit % COLUMNS:
        each = "each column has its own scale" if scale_b.of_each else f"{scale_b.unit} columns share a scale"
        message = (
            f"{each} in `{scale_b.tensor.name}`, and a thread multiplies {COLUMNS} neighbouring columns by one scale"
        )
        help = f"give it a mode of blocks of {product.n} whose size is a multiple of {COLUMNS}"
        say(message, "tensors", scale_b.tensor.name, "shape", help=help)
    elif product.n in tiler and chunk_of(spec) % COLUMNS:
        message = f"{chunk_of(spec)} columns of a tile share a scale of `{scale_b.tensor.name if scale_b else ''}`"
        say(f"{message}; it must be a multiple of {COLUMNS}", "schedule", "tiler", product.n)
    if spec.schedule.mma.in_flight:
        message = "the products of a step are scaled before the next ones start: none are in flight then"
        say(message, "schedule", "mma", "in_flight", help="write `in_flight: 0`, or leave it out")
