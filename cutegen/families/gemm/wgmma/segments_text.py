"""Text about rows that are cut into segments, in the module of a warp-specialised gemm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.language.model import Tensor

ROWS = "segment_rows"
FINDERS = ["tile - tiles_before", "cute.ceil_div(segment_rows, {block})", "tiles_n"]
"""The arguments of the function that finds a tile of a segment by its number."""


def segments_context(plan: WarpspecializedPlan) -> dict[str, Any]:
    """Template variables for tiles, which are of a segment's rows where rows are cut into segments."""

    def tile_view(tensor: Tensor) -> str:
        return of_segment(plan, tensor, f"m{tensor.name}")

    def has_matrices(tensor: Tensor) -> bool:
        return plan.batch is not None or (plan.segments is not None and plan.has_batch(tensor))

    def tile_place(tensor: Tensor) -> str:
        return f"m_tile, n_tile, {plan.matrix_place}" if has_matrices(tensor) else "m_tile, n_tile"

    def matrix_index(tensor: Tensor) -> str:
        return f"[None, None, {plan.matrix_place}]" if has_matrices(tensor) else ""

    return {
        "segments": plan.segments,
        "segment_block": rows_of_cluster(plan),
        "tile_view": tile_view,
        "tile_place": tile_place,
        "matrix_index": matrix_index,
        "rows_bound": ROWS if plan.segments is not None else f"m{plan.spec.output.name}.shape[0]",
    }


def rows_of_cluster(plan: WarpspecializedPlan) -> str:
    """The expression for the rows of the tiles of a cluster's blocks together."""
    block = f"BLK_{plan.m.upper()}"
    return f"{block} * CLUSTER_M" if plan.cluster[0] * plan.cluster[1] > 1 else block


def of_segment(plan: WarpspecializedPlan, tensor: Tensor, seen: str) -> str:
    """The expression `seen` for a tensor of rows and columns. It starts at the tile's segment where rows are cut into
    segments.
    """
    return f"cute.domain_offset((first_row, 0), {seen})" if plan.is_cut(tensor) else seen


def seen_by_segments(plan: WarpspecializedPlan) -> Iterator[tuple[str, str]]:
    """The tensors with a matrix, a row or a value for each segment, and the layouts with which the kernel sees them:
    rows, columns, segments.
    """
    for side in plan.sides:
        for tensor in (t for t in side.tensors if plan.has_batch(t)):
            yield tensor.name, f"cute.select(m{tensor.name}.layout, mode=[1, 2, 0])"
    output = plan.spec.output.name
    for operand in plan.pointwise.operands:
        tensor = operand.tensor
        if plan.segments is None or plan.segments.of not in tensor.shape:
            continue
        name = f"m{tensor.name}"
        columns = f"{name}.stride[{tensor.shape.index(plan.n)}]" if plan.n in tensor.shape else "0"
        of = tensor.shape.index(plan.segments.of)
        shape = f"(*m{output}.shape, {name}.shape[{of}])"
        yield tensor.name, f"cute.make_layout({shape}, stride=(0, {columns}, {name}.stride[{of}]))"
