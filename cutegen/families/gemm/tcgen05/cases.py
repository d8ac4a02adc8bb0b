"""Verification cases of a gemm on Blackwell's tensor cores besides those of every kernel."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.families.common.row_copies import long_rows
from cutegen.families.gemm.tcgen05.plan import Tcgen05Plan
from cutegen.verification.case_request import CaseRequest


def more_requests(plan: Tcgen05Plan) -> Iterator[CaseRequest]:
    """By way of workspaces also rows that are copied in several tiles."""
    if plan.way and plan.row_copies is not None:
        yield from long_rows(plan.row_copies, plan.padded)
