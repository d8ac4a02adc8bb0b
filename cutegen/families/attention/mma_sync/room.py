"""The shared memory and the registers that a tile of a contraction takes, and the copies that its threads can make."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.atoms.targets import WARP
from cutegen.dtypes import Dtype
from cutegen.families.attention.mma_sync.plan import given_numbers, shared_keys
from cutegen.families.attention.mma_sync.schedule import Spec
from cutegen.families.attention.operands import (
    ACCESS,
    extents,
    moved_in_tiles,
    multiplied,
    stored_with_columns,
    swizzle_of,
)
from cutegen.families.common.dealing import copy_layouts
from cutegen.language.model import Tensor
from cutegen.ops.walked import Walked


def registers_of(spec: Spec, found: Walked, rows: int, keys: int) -> tuple[int, int, int]:
    """The registers of a thread for scores, for factors in 16 bits and for sums, of a warp with so many rows and
    elements along the walked mode.
    """
    columns = sum(spec.static[found.columns_of(one)] for one in found.outer)
    scores, factors = rows * keys * len(found.products) // WARP, rows * keys * len(found.outer) // (2 * WARP)
    return scores, factors, rows * columns // WARP


def smem_bytes(spec: Spec, found: Walked) -> int:
    """Bytes of shared memory of a block, of a schedule whose words may not fit each other."""
    return max(placed(bytes_loaded(spec, found))[1], _bytes_at_end(spec, found))


def _bytes_at_end(spec: Spec, found: Walked) -> int:
    """The bytes of what goes through shared memory at the end: tiles of outputs, or what warps give of a part."""
    if not spec.schedule.split:
        return placed(bytes_stored(spec, found))[1]
    (rows, _), warps = extents(spec, found), spec.schedule.mma.warps or 1
    given = given_numbers(spec.static[found.columns], len(found.of_rows)) * Dtype.f32.bytes
    return rows * given * warps if shared_keys(rows, warps) > 1 else 0


def bytes_loaded(spec: Spec, found: Walked) -> list[tuple[int, int]]:
    """The bytes of the stages of each tensor that is loaded, and of the runs that exchange their places."""
    (rows, keys), depths = extents(spec, found), moved_in_tiles(spec, found)
    stages = spec.schedule.pipeline.stages or 1
    lefts, rights = multiplied(found)
    tiles = [(rows, name) for name in lefts] + [(stages * keys, name) for name in rights]
    return [_with_swizzle(spec, spec.tensor(name), depths[name], count) for count, name in tiles]


def bytes_stored(spec: Spec, found: Walked) -> list[tuple[int, int]]:
    """The same of the tiles of outputs."""
    rows, _ = extents(spec, found)
    return [_with_swizzle(spec, tensor, column, rows) for tensor, column in stored_with_columns(spec, found)]


def _with_swizzle(spec: Spec, tensor: Tensor, mode: str, rows: int) -> tuple[int, int]:
    depth, width = spec.static[mode], tensor.dtype.bytes
    return rows * depth * width, swizzle_of(depth, width)


def placed(sizes: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    """Where buffers of these sizes start, one behind the other at multiples of eight runs of their swizzle, and where
    the last one ends.
    """
    starts, end = [], 0
    for size, swizzle in sizes:
        start = -(-end // (8 * swizzle)) * 8 * swizzle
        starts.append(start)
        end = start + size
    return starts, end


def copies_fit(threads: int, rows: int, depth: int) -> bool:
    """Whether threads copy a tile in whole rows of accesses."""
    return copy_layouts(threads, (rows, depth), ACCESS // 2, last=True) is not None
