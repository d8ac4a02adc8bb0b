"""Text of kernels whose launches choose the threads of a row: their constants, and where a thread's values start."""

from __future__ import annotations

from cutegen.codegen.formatting import python_tuple
from cutegen.codegen.parts import Constant
from cutegen.families.common.pointwise_text import width_name
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.rows import MANY_RESIDENT, RESIDENT, least_threads, sms_for

ROW, SHORTER, BLOCKS = "schedule.threads_per_row", "schedule.shorter", "schedule.scheduler"


def constants(plan: RowwisePlan) -> tuple[Constant, ...]:
    """The constants of the module, but for how many tiles there may be."""
    found = [Constant("MOST_THREADS", str(plan.threads_per_row), "that share a row", ROW)]
    if plan.beside:
        found.append(Constant("THREADS", str(least_threads(plan.flat)), "of a thread block with several rows", SHORTER))
    if plan.warps_per_row > 1 or plan.cluster > 1:
        found.append(Constant("WARPS", str(plan.warps), "of a thread block, at most", ROW))
    if plan.cluster > 1:
        found.append(Constant("CLUSTER", str(plan.cluster), "blocks that share a row", "schedule.cluster"))
    found += [
        Constant("VALUES", str(plan.values), "of a thread at a time", "schedule.tiler"),
        Constant("VECTOR", str(plan.vector), "elements of one access", "schedule.copy"),
    ]
    if plan.fewer_values:
        found.append(
            Constant("FEWER_VALUES", str(plan.fewer_values), "of a thread, where that holds the row", "schedule.tiler")
        )
    if plan.narrow_values != plan.values:
        why = "of a thread, where accesses are narrow"
        found.append(Constant("NARROW_VALUES", str(plan.narrow_values), why, "schedule.copy"))
    if plan.word:
        found.append(Constant("WORD", str(plan.word), "elements of one access of 32 bits", "schedule.copy"))
    if plan.is_crowded:
        why = "threads that a multiprocessor has registers for"
        found.append(Constant("RESIDENT", str(MANY_RESIDENT), why, SHORTER))
    if plan.persistent:
        which = f" that clusters of {plan.cluster} fill" if plan.cluster > 1 else ""
        found += [
            Constant("BLOCKS", str(plan.blocks), "at most; each loops over rows", BLOCKS),
            Constant("SMS", str(sms_for(plan.cluster)), f"multiprocessors of an H200{which}, on every GPU", BLOCKS),
            Constant("RESIDENT", str(RESIDENT), "threads on each of them", BLOCKS),
        ]
    return tuple(found)


def results_shape(plan: RowwisePlan) -> str:
    """The text of how many results shared memory has room for: of the warps of a block, for two rows where it walks
    several, or of all blocks of a cluster.
    """
    if plan.cluster > 1:
        return f"WARPS * {plan.cluster_text}"
    return "2 * WARPS" if plan.persistent else "WARPS"


def first_value(plan: RowwisePlan) -> str:
    """The text of where in its row a thread's values start.

    Each warp has a part of the row, or of a piece of it, that is as long as what its threads hold.
    """
    width = width_name(plan.flat)
    if not plan.walked:
        return _share_start(plan) + _own_value(plan)
    if plan.warps_per_row == 1:
        return f"piece * row_threads * {plan.values_text} + tidx * {width}"
    return f"(piece * row_threads + tidx // 32 * 32) * {plan.values_text} + tidx % 32 * {width}"


def assumed(plan: RowwisePlan, start: str) -> str:
    """The text of the starts of accesses, which the compiler assumes to be aligned to their width."""
    return f"cute.assume({start}, divby={width_name(plan.flat)})"


def sums(plan: RowwisePlan, block: str) -> dict[str, str]:
    """Template texts for the sums over a block's rows: where a thread's own sums start in its block's share of a row
    (`own_value`) and in the workspace (`own_start`), and where a column lies in the workspace (`block_column`). Row
    `block` of the workspace belongs to that block or cluster.
    """
    start = _share_start(plan)
    return {
        "own_value": _own_value(plan),
        "own_start": python_tuple(_in_workspace(plan, block, assumed(plan, f"{start}own_value"))),
        "block_column": ", ".join(_in_workspace(plan, block, f"{start}column")),
    }


def _own_value(plan: RowwisePlan) -> str:
    """The text of where a thread's values start in what its block has of a row."""
    width = width_name(plan.flat)
    if plan.warps_per_row == 1:
        return f"tidx * {width}"
    return f"tidx // 32 * 32 * {plan.values_text} + tidx % 32 * {width}"


def _share_start(plan: RowwisePlan) -> str:
    """The text of where a block's share of a row starts, before what is added to that."""
    return "rank * row_threads * VALUES + " if plan.cluster > 1 else ""


def _in_workspace(plan: RowwisePlan, block: str, value: str) -> list[str]:
    return [{plan.beside: block, plan.row: value}.get(mode, "0") for mode in plan.flat.lead.shape]
