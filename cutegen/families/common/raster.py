"""In which order the blocks of a gemm number the tiles of its output, and how many of them a grid counts."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from cutegen.atoms.targets import TARGETS
from cutegen.language.model import KernelSpec


def tile_order(spec: KernelSpec, raster: str | None) -> tuple[int, int]:
    """The modes of the output by number: that along which consecutive blocks walk, then the other of a matrix."""
    assert raster is not None
    *batch, m, n = spec.lead.shape
    across = n if raster == m else m
    return spec.lead.shape.index(raster), spec.lead.shape.index(across)


def most_across(spec: KernelSpec) -> int:
    """Tiles across the raster that a grid of every target counts: blocks walk these along y."""
    return min(TARGETS[target].grid_y for target in spec.targets)


def largest_across(spec: KernelSpec, across: str, tile: int) -> tuple[str, int] | None:
    """The mode across the raster, of tiles of that size, and the largest size that a grid allows it.

    None where its size is fixed and not larger.
    """
    largest = most_across(spec) * tile
    return None if across in spec.static and spec.static[across] <= largest else (across, largest)


def counted_sizes(most: int, tile: Mapping[str, int], beside: Mapping[str, int] | None) -> dict[str, int]:
    """The largest size of each mode of a tile, where at most so many tiles can be counted. The other modes have the
    sizes of `beside`, or one tile.
    """
    tiles = {mode: max(1, -(-(beside or {}).get(mode, 1) // extent)) for mode, extent in tile.items()}
    every = prod(tiles.values())
    return {mode: most // (every // tiles[mode]) * extent for mode, extent in tile.items()}
