"""Who has what of a gemm's output: the warps that multiply, and the threads that store."""

from __future__ import annotations

from collections.abc import Sequence

from tensor_layouts import Layout

from cutegen import layouts
from cutegen.families.common.dealing import dealt
from cutegen.families.gemm.mma_sync.plan import MmaSyncPlan


def accumulator_layout(plan: MmaSyncPlan, strides: Sequence[int]) -> Layout:
    """The layout (thread, accumulator) -> element of a tensor with these strides along m and n.

    A thread has rows lane / 4 and 8 below of a warp's 16, and pairs of columns of its 8 (PTX ISA 9.1, section
    9.7.14.5). Warps that are neighbours along a mode have the next 16 rows and the next 8 columns.
    """
    (m, n), (rows, columns, _) = strides, plan.instruction
    along_m, along_n, _ = layouts.mode_sizes(plan.atoms)
    steps = (rows * m, columns * n, 0)
    ranked = sorted(zip(layouts.leaves(plan.atoms), steps, strict=True), key=lambda mode: mode[0][1])
    warps = [(count, step) for (count, _), step in ranked if count > 1]
    rest = plan.tile[plan.m] // (rows * along_m), plan.tile[plan.n] // (columns * along_n)
    return Layout(
        ((4, 8, *(count for count, _ in warps)), (2, 2, *rest)),
        ((2 * n, m, *(step for _, step in warps)), (n, 8 * m, rows * along_m * m, columns * along_n * n)),
    )


def store_layout(plan: MmaSyncPlan, strides: Sequence[int]) -> Layout:
    """The layout (thread, value) -> element of a tensor with these strides along m and n, as the epilogue stores it."""
    return dealt(plan.store_threads, plan.store_values, (plan.tile[plan.m], plan.tile[plan.n]), tuple(strides))
