"""Which case runs in several orders of blocks and warps: all of them would take long, and one can be chosen well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from cutegen.language.model import ElementwiseSchedule, KernelSpec, ProbeSchedule
from cutegen.verification.cases import Case, contracted, covered, tiles_of

ORDERS = 3  # their own, a random one, and that one backwards


def case_for_orders(
    spec: KernelSpec, tile: Mapping[str, int], stages: int | None, cases: Sequence[Case]
) -> Case | None:
    """The one of `cases` in which the order of blocks and warps can matter most; None if none of them has an element.

    That is, before all else, one of several blocks; then of blocks side by side along the most modes of the output;
    then of more tiles of k than stages, so that every stage is used again; then of the least work; then the first.
    `tile` and `stages` are as for `derive_cases`.
    """
    one_block = covered(spec, tile)

    def rank(case: Case) -> tuple[bool, int, bool, int]:
        along = sum(case.sizes[mode] > one_block[mode] for mode in spec.output.shape)
        reused = any(case.sizes[mode] > (stages or 1) * one_block[mode] for mode in contracted(spec))
        return blocks_of(spec, tile, case.sizes) == 1, -along, not reused, prod(case.sizes.values())

    return min((case for case in cases if not case.empty), key=rank, default=None)


def blocks_of(spec: KernelSpec, tile: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """How many blocks of threads cover the output."""
    schedule = spec.schedule
    if isinstance(schedule, ProbeSchedule):
        return 1
    if isinstance(schedule, ElementwiseSchedule) and schedule.partition == "inner" and schedule.threads:
        return -(-tiles_of(spec, sizes) // schedule.threads)
    one_block = covered(spec, tile)
    return prod(-(-sizes[mode] // one_block[mode]) for mode in spec.output.shape)
