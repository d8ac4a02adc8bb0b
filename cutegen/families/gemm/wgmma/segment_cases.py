"""Verification cases of rows that are cut into segments: lengths around a tile's, segments without rows, and rows that
belong to none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.product import ROWS
from cutegen.verification.case_request import CaseRequest
from cutegen.verification.case_requests import ROUNDS

LEFT = 5  # rows behind the last segment
WARP_OF_SEGMENTS = 32  # that a warp counts at a time


def segment_requests(plan: WarpspecializedPlan) -> Iterator[CaseRequest]:
    """The cases of segments by their lengths. `rows` are those of a tile."""
    rows, stages = plan.tile[plan.m], plan.stages or 1
    across = plan.cluster_tile[1]
    wide, deep = 2 * across + 1, (stages + 1) * plan.tile[plan.k] - 1
    lengths: tuple[int, ...] = (0, 1, rows - 1, rows, 0, rows + 1, 2 * rows + 1)
    yield _of(
        plan, "segments around a tile", "a row less and a row more than tiles have, none, and one", lengths, 1, deep
    )
    lengths = (2 * rows + ROWS, rows, ROWS + 1, ROWS, ROWS - 1, 1, 0, 0)
    yield _of(
        plan, "segments by length", "the longest first, parts of a tile's rows, and none at last", lengths, wide, 1
    )
    lengths = (0, 0, 0)
    yield _of(plan, "segments without rows", "no tile is there, and nothing is written", lengths, 1, 1)
    few = 2 * WARP_OF_SEGMENTS + 1
    lengths = tuple(number % 3 for number in range(few))
    yield _of(plan, "many segments", "a warp counts them in several rounds, and blocks go by several", lengths, 1, 1)
    taking = 2 if plan.pingpong else 1
    count = (ROUNDS + 1) * taking
    lengths = tuple((rows, 0, rows + 1, 1)[number % 4] for number in range(count + 2))
    why = "one cluster walks all tiles, and goes from segment to segment"
    steps = (max(2, stages // 2) + 1) * plan.tile[plan.k] - 1
    yield _of(plan, "segments in turn", why, lengths, wide, steps, blocks=plan.cluster_size)
    lengths = (rows // 2, 0, rows + 1)
    steps = (2 * stages + 1) * plan.tile[plan.k] - 1
    why = "one cluster walks all tiles, each of which uses every stage again"
    yield _of(plan, "long segments in turn", why, lengths, 1, steps, blocks=plan.cluster_size)


def _of(
    plan: WarpspecializedPlan,
    name: str,
    why: str,
    lengths: Sequence[int],
    columns: int,
    steps: int,
    blocks: int | None = None,
) -> CaseRequest:
    """The case of segments of these lengths, with some rows behind the last one."""
    assert plan.segments is not None
    ends = tuple(accumulate(lengths))
    sizes = {plan.m: ends[-1] + LEFT, plan.segments.of: len(ends), plan.n: columns, plan.k: steps}
    return CaseRequest(name, why, sizes, "padded", "integers", blocks=blocks, ends=ends)
