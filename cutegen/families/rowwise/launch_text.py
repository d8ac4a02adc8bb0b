"""What is printed of a row kernel's launches: which there are, when a call has each, and what it gets."""

from __future__ import annotations

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


def launches(plan: RowwisePlan) -> list[tuple[str, str, list[str], bool, str]]:
    """The launches of which a call has one: when, of which kernel, what that gets besides, whether it also has one for
    fewer values of a thread, and the parameter that says how many a thread has, empty where all launches have as many.
    """
    kernel, found = f"{plan.flat.kernel}_kernel", []
    if chooses(plan):
        found = [("row_threads <= 32", kernel, ["in_warp=True"]), ("is_held", kernel, ["in_warp=False"])]
    elif plan.longer is not None:
        found = [("is_held", kernel, [])]
    if plan.longer is None and found:
        found[-1] = ("", *found[-1][1:])
    if plan.longer is not None:
        found.append(("", longer_name(plan), []))
    words = [f"{'elif' if number else 'if'} {when}" for number, (when, *_) in enumerate(found[:-1])]
    own = {kernel: plan} | ({} if plan.longer is None else {longer_name(plan): plan.longer})
    return [
        (word, name, more, bool(plan.fewer_values) and name == kernel, own[name].values_text * own[name].values_differ)
        for word, (_, name, more) in zip([*words, "else"], found, strict=False)
    ]


def longer_name(plan: RowwisePlan) -> str:
    """The name of the kernel for rows that no block holds."""
    return f"{plan.flat.kernel}_longer_kernel"
