"""The cases of a walk that several blocks share: fewer tiles than parts, as many, and several for each part."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.families.attention.mma_sync.filling import FEWEST
from cutegen.families.attention.mma_sync.plan import AttentionPlan
from cutegen.verification.case_request import CaseRequest

DEAR = 96  # tiles, of which a case has no more


def split_requests(plan: AttentionPlan) -> Iterator[CaseRequest]:
    """The cases, of few rows: with one key in the last tile, and with whole numbers, whose sums are exact."""
    if plan.parts == 1:
        return
    walked, keys, parts, stages = plan.walked.walked, plan.key_block, plan.parts, plan.stages
    others = dict.fromkeys((*plan.outer, *plan.packed), 1)
    few = {mode: 1 + place % 2 for place, mode in enumerate(others)}
    counts = {
        parts - 1: "a part without a tile",
        parts: "a tile for each part",
        parts + 1: "one part with a tile more",
        parts * (stages + 1) + 1: "more tiles than stages in each part",
        parts * (3 * stages + 1) - 1: "stages that go round three times in all parts but one",
    }
    if plan.fills:
        parts = 2
        counts = {
            2 * FEWEST: "two parts",
            3 * FEWEST + 1: "three parts, one of which has a tile more",
            8 * FEWEST + 3: "eight parts, three of which have a tile more",
        }
    for tiles, why in counts.items():
        if 0 < tiles <= max(DEAR, parts + 1):
            sizes = {**few, plan.rows_mode: 3, walked: (tiles - 1) * keys + 1}
            yield CaseRequest(f"{tiles} tiles in parts", why, sizes, data="integers")
    parts = parts * FEWEST if plan.fills else parts
    sizes = {**others, plan.rows_mode: 2, walked: parts * keys + 7}
    why = "NaN, infinities and others in several parts"
    yield CaseRequest("special values in parts", why, sizes, data="special")
