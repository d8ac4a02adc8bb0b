"""The family of row kernels, as the rooms ask it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from cutegen.atoms.targets import WARP
from cutegen.families.rowwise.flat import parts_of
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.schedule import RowwiseSchedule, Spec
from cutegen.family import Family
from cutegen.ops.rowwise import ROWWISE

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from cutegen.analysis.access import Access
    from cutegen.analysis.buffers import Buffer, Scratch
    from cutegen.analysis.claim import Claim
    from cutegen.codegen.parts import KernelParts
    from cutegen.drawing.model import Figure
    from cutegen.expressions.tree import Compute
    from cutegen.language.cases import Case
    from cutegen.language.context import Context
    from cutegen.language.model import Tensor
    from cutegen.lint.rule import PerformanceRule, Rule
    from cutegen.planning.report import Report
    from cutegen.tuning.choice import Choice
    from cutegen.verification.case_request import CaseRequest


class RowwiseFamily(Family[RowwiseSchedule, RowwisePlan]):
    """Kernels that reduce each row of their tensors, and compute along it what follows from that."""

    name = "rowwise"
    op = ROWWISE
    schedule = RowwiseSchedule

    def check_schedule(
        self, ctx: Context, schedule: RowwiseSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
    ) -> None:
        from cutegen.families.rowwise.reading import check_schedule

        check_schedule(ctx, schedule, tensors, compute)

    def resolve(self, spec: Spec, report: Report) -> Spec:
        from cutegen.families.rowwise.inference import resolve

        return resolve(spec, report)

    def cases(self, spec: Spec) -> tuple[Case, ...]:
        from cutegen.families.rowwise.case_inference import inferred_cases
        from cutegen.families.rowwise.flat import flat

        found, own = inferred_cases(flat(spec)), {*spec.modes}
        return found if all(own.issuperset(case.conditions.sizes) for case in found) else ()  # a row is of several

    def is_sound(self, spec: Spec) -> bool:
        from cutegen.families.rowwise.flat import flat
        from cutegen.families.rowwise.rows import is_sound

        return is_sound(flat(spec))

    def plan(self, spec: Spec) -> RowwisePlan:
        from cutegen.families.rowwise.planning import plan

        return plan(spec)

    def variants(self, plan: RowwisePlan) -> tuple[RowwisePlan, ...]:
        from cutegen.families.rowwise.variants import variants

        return variants(plan)

    def rules(self) -> tuple[Rule, ...]:
        from cutegen.families.rowwise.rules import RULES

        return RULES

    def performance_rules(self) -> tuple[PerformanceRule, ...]:
        from cutegen.families.rowwise.rules import PERFORMANCE_RULES

        return PERFORMANCE_RULES

    @property
    def templates(self) -> Mapping[str, Traversable]:
        from cutegen.families.common.pointwise_text import templates

        return {**super().templates, **templates()}

    def kernel_parts(self, plan: RowwisePlan) -> KernelParts:
        from cutegen.families.rowwise.text import kernel_parts

        return kernel_parts(plan)

    def accesses(self, plan: RowwisePlan) -> tuple[Access, ...]:
        from cutegen.families.rowwise.accesses import accesses_of

        return accesses_of(plan)

    def claims(self, plan: RowwisePlan) -> Iterator[Claim]:
        from cutegen.families.rowwise.claims import claims

        return claims(plan)

    def blocks(self, plan: RowwisePlan, sizes: Mapping[str, int]) -> int:
        tile, threads = self._launched(plan, sizes)
        tiles = prod(-(-sizes[mode] // extent) for mode, extent in tile.items() if mode != plan.row)
        return tiles * plan.cluster if plan.blocks is None else min(tiles * plan.cluster, plan.blocks_with(threads))

    def _launched(self, plan: RowwisePlan, sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
        """The extents of a block's tile by mode, and the threads of a block, in a launch with those sizes."""
        from cutegen.families.rowwise.flat import flat_sizes
        from cutegen.families.rowwise.rows import fewest_threads, rows_with

        tile, threads = dict(plan.tile), plan.threads
        if plan.fewer_threads and plan.beside is not None:
            threads = fewest_threads(plan.flat, flat_sizes(plan.flat, sizes)[plan.row])
            tile[plan.beside] = rows_with(plan.flat, threads)
            threads *= tile[plan.beside]
        return tile, threads

    def buffers(self, plan: RowwisePlan) -> Iterator[Buffer]:
        from cutegen.families.rowwise.accesses import buffers

        return buffers(plan)

    def scratch(self, plan: RowwisePlan) -> Iterator[Scratch]:
        from cutegen.families.rowwise.accesses import scratch

        return scratch(plan)

    def largest(self, plan: RowwisePlan, beside: Mapping[str, int] | None = None) -> Mapping[str, int]:
        from cutegen.families.common.raster import counted_sizes

        several = plan.row not in plan.spec.modes  # modes of a row: none of them alone has a bound
        found = {} if plan.walked or plan.longer is not None or several else {plan.row: plan.row_tile}
        if plan.most_tiles is not None:
            rows = {mode: 1 if plan.fewer_threads else size for mode, size in plan.tile.items() if mode != plan.row}
            found |= counted_sizes(plan.most_tiles, rows, beside)
        return found

    def covered(self, plan: RowwisePlan) -> dict[str, int]:
        from cutegen.families.common.places import FEW_PLACES
        from cutegen.families.rowwise.flat import parted

        found = parted(plan.flat, plan.tile)
        places = dict.fromkeys(plan.spec.taken, FEW_PLACES)
        return {mode: max(1, found.get(mode, 1)) for mode in plan.spec.modes} | places

    def reached(self, plan: RowwisePlan, sizes: Mapping[str, int]) -> Mapping[str, int]:
        from cutegen.families.rowwise.flat import flat_sizes, parted

        tile = plan.tile[plan.row]
        walked = max(1, -(-flat_sizes(plan.flat, sizes)[plan.row] // tile)) * tile
        reached, threads = self._launched(plan, sizes)
        own = reached if plan.fewer_threads else plan.tile
        tiles = prod(-(-sizes[mode] // extent) for mode, extent in own.items() if mode != plan.row)
        reached[plan.row] = walked if plan.walked or plan.longer is not None else plan.row_tile
        if plan.blocks is not None and plan.beside is not None:
            reached[plan.beside] *= -(-tiles * plan.cluster // plan.blocks_with(threads))
        return parted(plan.flat, reached)

    def threads_beside(self, plan: RowwisePlan, sizes: Mapping[str, int]) -> int:
        from cutegen.families.rowwise.flat import flat_sizes

        return -(-flat_sizes(plan.flat, sizes)[plan.row] // 32) * 32 * plan.column_warps * len(plan.program.columns)

    def additions(self, plan: RowwisePlan, sizes: Mapping[str, int], modes: Sequence[str]) -> int | None:
        from cutegen.families.rowwise.chains import additions

        return additions(plan, sizes, modes)

    def requests(self, plan: RowwisePlan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
        from cutegen.families.rowwise.cases import requests

        return requests(plan, tiles)

    def form(self, plan: RowwisePlan) -> object:
        """The schedule but for how long a row is, and how many threads and blocks share it, where several do: how their
        results meet follows from how many there are.
        """
        schedule = replace(plan.spec.schedule, tiler=None, threads_per_row=None, cluster=None)
        several = plan.cluster > 1, plan.threads_per_row > WARP, plan.threads_per_row > 1, plan.rows > 1
        of_thread = plan.values, plan.vector, plan.row_stages, plan.broadcasts_early
        beside = {mode: bounds for mode, bounds in plan.spec.within.items() if mode not in parts_of(plan.flat)}
        promised = plan.spec.targets, dict(plan.spec.static), dict(plan.spec.divisible)
        ways = plan.flat.schedule.narrows if plan.fewer_threads else len(plan.ways)  # with any number of threads
        return schedule, several, of_thread, promised, plan.kept, plan.masked, plan.program, ways, beside

    def of_form(self, plan: RowwisePlan) -> RowwisePlan:
        return replace(plan, any_cluster=plan.cluster > 1)

    def more_requests(self, plan: RowwisePlan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
        from cutegen.families.rowwise.cases import more_requests

        return more_requests(plan, tiles)

    def refused(self, spec: Spec, sizes: Mapping[str, int]) -> str | None:
        from cutegen.families.rowwise.lengths import refused

        return refused(spec, sizes)

    def accepted(self, spec: Spec, sizes: dict[str, int]) -> dict[str, int] | None:
        from cutegen.families.common.places import enough_places
        from cutegen.families.rowwise.lengths import accepted

        found = accepted(spec, sizes)
        return None if found is None else enough_places(spec, found)

    def figures(self, plan: RowwisePlan) -> tuple[Figure, ...]:
        from cutegen.families.rowwise.pictures import figures

        return figures(plan)

    def axes(self, specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
        from cutegen.families.rowwise.flat import flat
        from cutegen.families.rowwise.tuning import axes

        return axes([flat(spec) for spec in specs])

    def refinements(self, spec: Spec) -> Iterator[Choice]:
        from cutegen.families.rowwise.tuning import refinements

        return refinements(spec)

    def inferred_from(self) -> Mapping[str, tuple[str, ...]]:
        from cutegen.families.rowwise.inference import INFERRED_FROM

        return INFERRED_FROM
