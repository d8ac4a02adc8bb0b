"""Which calls get a kernel of their own where a schedule says nothing at all: by target, and by how long rows are."""

from __future__ import annotations

from dataclasses import replace

from cutegen.atoms.targets import TARGETS
from cutegen.families.rowwise.inference import resolve
from cutegen.families.rowwise.rows import (
    has_bulk_copies,
    is_sound,
    kept_in_smem,
    program,
    row_of,
    whole_tensors,
    widest_tensor,
    widest_vector,
)
from cutegen.families.rowwise.schedule import RowCopy, RowwiseSchedule, Spec
from cutegen.families.rowwise.smem_inference import HELD, IN_SMEM, MOST_IN_SMEM
from cutegen.families.rowwise.summed_inference import summed_lengths
from cutegen.language.cases import Case, Conditions, SizeIs
from cutegen.planning.report import Report

CLUSTERS = (1, 2, 4, 8, 16)  # thread blocks that share the rows of one case, with a bound on their length for each
STREAMED = (256, 4096)  # threads, and elements of a piece, of rows that are walked once and need not wait anywhere


def inferred_cases(spec: Spec) -> tuple[Case, ...]:
    """The cases of a spec whose schedule says nothing; none if one schedule is best for all that it is for.

    Targets from Hopper on have clusters and bulk copies, others have not: where a row of fixed size would do with those
    what it cannot do without, the former have a case of their own. Long rows whose length is not fixed wait in shared
    memory, with more blocks for each the longer they are.
    """
    modern = tuple(target for target in spec.targets if has_bulk_copies(target))
    if spec.schedule != RowwiseSchedule() or not is_sound(spec):
        return ()
    only = () if modern == spec.targets else modern
    if row_of(spec) not in spec.static and program(spec).columns:
        return _of_summed_rows(spec, modern, only)
    found = [Case(Conditions(only, *one), _of_long_rows(spec)) for one in _long_rows(spec, modern)]
    if not found and only and modern and _schedule(spec, modern) != _schedule(spec, spec.targets):
        found = [Case(Conditions(only), RowwiseSchedule())]
    return (*found, Case(Conditions(), RowwiseSchedule())) if found else ()


def _schedule(spec: Spec, targets: tuple[str, ...]) -> RowwiseSchedule:
    """What is inferred for some targets."""
    return resolve(replace(spec, targets=targets), Report(spec.source)).schedule


def _of_summed_rows(spec: Spec, modern: tuple[str, ...], only: tuple[str, ...]) -> tuple[Case, ...]:
    """The cases of rows of any length over which something is summed: held by a block, or by a cluster of some.

    A thread keeps its columns' sums in registers, and only what is longer than all these hold is walked in pieces.
    """
    row, cases = row_of(spec), list[Case]()
    low, high = spec.sizes_of(row)
    most = min((TARGETS[target].cluster for target in modern), default=1)
    for blocks, bound in summed_lengths(spec, most, alone=bool(only)).items():
        if low < min(bound, high):
            schedule = RowwiseSchedule(shorter="fewer_threads", cluster={row: blocks} if blocks > 1 else None)
            limits = {row: (SizeIs("<=", bound),)} if bound < high else {}
            cases.append(Case(Conditions(only if blocks > 1 else (), limits), schedule))
            low = bound
    rest = RowwiseSchedule(keep="reload", cluster={row: most} if most > 1 and not only else None)
    return (*cases, Case(Conditions(), rest)) if low < high else tuple(cases)


def _of_long_rows(spec: Spec) -> RowwiseSchedule:
    """What is written of the schedule for rows that registers do not hold."""
    if not _is_streamed(spec):
        return RowwiseSchedule(keep="smem")
    threads, piece = STREAMED
    return RowwiseSchedule(keep="reload", threads_per_row=threads, tiler={row_of(spec): piece})


def _is_streamed(spec: Spec) -> bool:
    """Whether a row is walked once, if sums that depend on another value are found together with that."""
    return len(program(replace(spec, schedule=replace(spec.schedule, keep="reload", online="walked"))).walks) == 1


def _long_rows(spec: Spec, targets: tuple[str, ...]) -> list[tuple[dict[str, tuple[SizeIs, ...]], int]]:
    """The lengths of rows, and the alignment, that have a kernel of their own on targets with bulk copies.

    None where the length is fixed, where sums go over the rows, or where bulk copies would bring only some of the
    tensors.
    """
    row = row_of(spec)
    if row in spec.static or not targets:
        return []
    vector, widest = widest_vector(spec), widest_tensor(spec)
    copy = RowCopy(bits=vector * widest.dtype.bits)
    kept = [t.dtype.bytes for t in kept_in_smem(replace(spec, schedule=RowwiseSchedule(keep="smem", copy=copy)))]
    if not kept or len(kept) < sum(t.reads for t in whole_tensors(spec)):
        return []
    share = min(IN_SMEM // max(kept), MOST_IN_SMEM // sum(kept)) // vector * vector
    held = (_schedule(spec, targets).tiler or {})[row]
    low, high, found = min(HELD // sum(kept), held) // vector * vector, spec.sizes_of(row)[1], []
    if _is_streamed(spec):
        return [({row: (SizeIs(">", low), SizeIs("%", vector))}, 16)] if low < high else []
    for blocks in CLUSTERS:
        bound = share * blocks
        if blocks <= min(TARGETS[target].cluster for target in targets) and low < min(bound, high):
            limit = [SizeIs("<=", bound)] if bound < high else []
            found.append(({row: (SizeIs(">", low), *limit, SizeIs("%", vector))}, 16))
            low = bound
    return found
