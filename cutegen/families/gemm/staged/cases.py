"""A gemm's own cases of verification: around tiles of workspaces, which other families lack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cutegen.families.gemm.staged.plan import MultistagePlan
from cutegen.verification.case_request import CaseRequest


def more_requests(plan: MultistagePlan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
    """The cases around the tiles of the kernels that fill workspaces, which are not those of the product.

    `tiles` is what a block covers of each mode.
    """
    more = {mode: tiles[mode] + 1 for mode in plan.spec.modes if mode not in plan.spec.static}
    for x in plan.workspaces:
        for step, what in ((-1, "less"), (1, "more")):
            sizes = {mode: max(1, size + step) for mode, size in zip((x.mode, x.k), x.tile, strict=True)}
            why = (
                f"{x.mode} and {x.k} one {what} than the tile of the kernel that fills the workspace of {x.tensor.name}"
            )
            free = {mode: size for mode, size in sizes.items() if mode not in plan.spec.static}
            yield CaseRequest(f"workspace of {x.tensor.name}, one {what}", why, {**more, **free}, data="integers")
