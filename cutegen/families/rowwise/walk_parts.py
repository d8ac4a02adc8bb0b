"""The parts of a walk over a row, as text, and where else the threads of a row wait for each other."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from cutegen.families.rowwise.column_text import ColumnText
from cutegen.families.rowwise.operand_text import OperandText
from cutegen.families.rowwise.partial_text import PartialText, PartText
from cutegen.families.rowwise.plan import RowwisePlan


@dataclass(frozen=True)
class StoreText:
    """A tensor along the rows that a walk stores."""

    operand: OperandText
    statements: tuple[str, ...]
    store: str  # into its registers
    result: str  # the values that are stored, in what `store_values` takes


@dataclass(frozen=True)
class ReductionText:
    """A reduction: what a thread has of it before and after a piece of the row, and what the row has in all."""

    variable: str
    start: str
    statements: tuple[str, ...]
    what: str  # for a comment


@dataclass(frozen=True)
class WalkText:
    """One walk over the row."""

    loads: list[OperandText]  # that are loaded here
    values: list[OperandText]  # whose values are first used here
    partial: list[PartialText]  # those that are read here at some of the modes of a row
    parts: list[PartText]  # the coordinates along such modes that are made here
    identity: bool  # whether a thread's coordinates of its values are made here, for what follows
    coordinates: bool
    accessed: bool  # whether accesses beyond the row's end must be told
    in_row: bool  # whether elements beyond it must be
    statements: tuple[str, ...]
    carried: list[tuple[str, str]]  # what scans carry from piece to piece: variables, and what they begin with
    stores: list[StoreText]
    columns: list[ColumnText]
    reductions: list[ReductionText]
    backwards: bool  # whether it begins at the row's end, of which a cache has what the walk before read last
    across: list[str]  # the statements by which the threads of a row exchange what they have of these
    after: list[str]

    @property
    def placed(self) -> bool:
        """Whether the places of a thread's values in the row are asked for."""
        return self.coordinates or bool(self.parts or self.partial)

    @property
    def computed(self) -> list[tuple[str, list[str]]]:
        """The statements before the stores, with the paths that they come from: exponentials are as `math` says."""
        lines = [*self.statements, *(line for one in self.reductions for line in one.statements)]
        paths = groupby(lines, lambda line: "schedule.math" if "cute.math.exp(" in line else "compute")
        return [(path, list(own)) for path, own in paths]


def all_have_read(plan: RowwisePlan) -> list[str]:
    """The statements after which every thread of a row has read the old values that one of them replaces at its end.

    Warps that meet in shared memory for a reduction, which comes before, have read them by then.
    """
    comment, wait = "# All threads of the row have read what is written now", "cute.arch.sync_threads()"
    if plan.cluster > 1:
        return [comment, "cute.arch.cluster_arrive()", "cute.arch.cluster_wait()"]
    if plan.threads_per_row == 1:
        return []
    if plan.warps_per_row == 1 or not plan.program.meetings:
        return [comment, wait]
    if plan.fewer_threads and not plan.walked:
        return ["if cutlass.const_expr(in_warp):", f"    {wait}  # all threads of the row have read it"]
    return []
