"""The rule about tensors with one value for each block, which CuTe sees as a mode inside of a mode."""

from __future__ import annotations

from cutegen.families.elementwise.schedule import Spec
from cutegen.families.elementwise.tiles import block_tile
from cutegen.lint.rule import Say


def divided(spec: Spec, say: Say) -> None:
    """Along each mode with blocks a tile is whole blocks, or a block is whole tiles."""
    tile = block_tile(spec)
    for tensor in spec.tensors:
        for block in tensor.blocks:
            extent = tile.get(block.of)
            if extent is None or block.size % extent == 0 or extent % block.size == 0:
                continue
            message = f"a tile has {extent} along {block.of}, and blocks of `{block.mode}` have {block.size}"
            notes = ("CuTe divides such a tensor where one of both is a multiple of the other",)
            help = "give the tile a divisor or a multiple of that along it, or make blocks of a power of two"
            say(message, "modes", block.mode, "size", notes=notes, help=help)
            return
