"""What is wrong with the schedule of a multistage gemm on tensor cores as it was written."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.expressions.tree import Compute
from cutegen.families.gemm_multistage.mma_sync.schedule import MmaSyncSchedule
from cutegen.families.gemm_multistage.reading import check_names
from cutegen.language.context import Context
from cutegen.language.model import Tensor


def check_schedule(
    ctx: Context, schedule: MmaSyncSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
) -> None:
    """Says which modes and tensors there are not, and what would have no effect on a tensor."""
    check_names(ctx, schedule, tensors, compute)
