"""Text of a row kernel's launches: which exist, when a call takes each, and the arguments of each."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.families.common.narrowing_text import Narrowing
from cutegen.families.rowwise.operand_text import loads_each
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.variants import variants

THREADS = "schedule.threads_per_row"


def narrowing_of(plan: RowwisePlan) -> Narrowing:
    """The kernel's launches."""
    if plan.fewer_threads:
        block = f"row_threads, {'block_rows' if plan.beside else '1'}, 1"
        most = "threads" if plan.is_crowded else most_threads(plan)
        options, cluster = (f"max_number_threads=[{most}, 1, 1]",), plan.cluster_text
        common = plan.flat, plan.operands, plan.vector, plan.row, THREADS
        empty = any(loads_each(plan, o) for o in plan.operands)
        return Narrowing(*common, None, cluster, block, options, empty, plan.word)
    layout = variants(plan)[-1].tv_layout
    return Narrowing(plan.flat, plan.operands, plan.vector, plan.row, THREADS, layout, plan.cluster_text)


def most_threads(plan: RowwisePlan) -> str:
    """The text of how many threads a block has at most; of blocks that stay, how many have registers for all."""
    if plan.persistent:
        return "RESIDENT"
    return "max(MOST_THREADS, THREADS)" if plan.beside else "MOST_THREADS"


def piece_size(plan: RowwisePlan, axis: int) -> str:
    """The text of how many elements a block has of a row that it walks."""
    return f"row_threads * {(plan.longer or plan).values_text}" if plan.fewer_threads else f"TILER[{axis}]"


def most_held(plan: RowwisePlan) -> str:
    """The text of how many elements of a row a block holds, or the blocks that share it."""
    if plan.fewer_threads:
        values = "VALUES" if plan.narrow_values == plan.values else "values"
        return "CLUSTER * " * (plan.cluster > 1) + f"MOST_THREADS * {values}"
    return "CLUSTER * " * (plan.cluster > 1) + f"TILER[{plan.flat.lead.shape.index(plan.row)}]"


def chooses(plan: RowwisePlan) -> bool:
    """Whether a row's threads are lanes of one warp in some launches, and whole warps in others."""
    return plan.fewer_threads and not plan.walked and plan.warps_per_row > 1 and plan.cluster == 1


def tells_warps(plan: RowwisePlan) -> bool:
    """Whether accesses decide, too, if a row of one warp's threads has the launch for lanes of one warp."""
    return chooses(plan) and bool(plan.flat.schedule.narrows)


@dataclass(frozen=True)
class LaunchText:
    """The launches of one kernel; a call has one of them.

    `condition` begins their branch. The rest is what `launch_kernel` gets besides: for `wide` accesses, for these with
    `fewer` values a thread (None without such a launch), and for `narrow` accesses.
    """

    condition: str
    kernel: str
    wide: list[str]
    fewer: list[str] | None
    narrow: list[str]


def launches(plan: RowwisePlan) -> list[LaunchText]:
    """The launches of the kernels of a module, in the order in which `launch` tries them."""
    kernel, found = f"{plan.flat.kernel}_kernel", list[tuple[str, RowwisePlan, list[str]]]()
    if chooses(plan):
        in_warp = "is_in_warp" if tells_warps(plan) else "row_threads <= 32"
        found = [(in_warp, plan, ["in_warp=True"]), ("is_held", plan, ["in_warp=False"])]
    elif plan.longer is not None:
        found = [("is_held", plan, [])]
    if plan.longer is not None:
        found.append(("", plan.longer, []))
    texts = []
    for number, (when, own, more) in enumerate(found):
        condition = "else" if number == len(found) - 1 else f"{'elif' if number else 'if'} {when}"
        values = [f"{own.values_text}={{}}"] if own.values_differ else []
        wide = [*["threads=RESIDENT"] * own.is_crowded, *more]
        narrow = "VALUES" if plan.narrow_values == plan.values else "NARROW_VALUES"
        texts.append(
            LaunchText(
                condition,
                kernel if own is plan else longer_name(plan),
                [*wide, *(one.format("VALUES") for one in values)],
                [*wide, *(one.format("FEWER_VALUES") for one in values)] if own.fewer_values else None,
                [*more, *(one.format(narrow) for one in values)],
            )
        )
    return texts


def longer_name(plan: RowwisePlan) -> str:
    """The name of the kernel for rows that no block holds."""
    return f"{plan.flat.kernel}_longer_kernel"
