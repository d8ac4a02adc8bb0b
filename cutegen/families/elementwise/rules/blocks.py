"""The rule about tensors with one value for each block, which CuTe sees as a mode inside of a mode."""

from __future__ import annotations

from cutegen.families.elementwise.schedule import Spec
from cutegen.families.elementwise.tiles import block_tile, parts_of_tile
from cutegen.lint.rule import Say

_HELP = "give {} a divisor or a multiple of that along it, or write a power of two as the size of a block"


def divided(spec: Spec, say: Say) -> None:
    """Along each mode with blocks a tile is whole blocks, or a block is whole tiles; and so is each part of a tile that
    threads take in turn.
    """
    tile = block_tile(spec)
    for block in (block for tensor in spec.tensors for block in tensor.blocks):
        extent = tile.get(block.of)
        if extent is None or block.size % extent == 0:
            continue
        what, whose = f"a tile has {extent} along {block.of}", "the tile"
        if extent % block.size == 0:
            parts = (part for part in parts_of_tile(spec, block.of) if part % block.size and block.size % part)
            if (part := next(parts, None)) is None:
                continue
            what, whose = f"threads take {part} at a time of a tile's {extent} along {block.of}", "the threads"
        notes = ("CuTe divides such a tensor only if one of the two is a multiple of the other",)
        message = f"{what}, and blocks of `{block.mode}` have {block.size}"
        say(message, "modes", block.mode, "size", notes=notes, help=_HELP.format(whose))
        return
