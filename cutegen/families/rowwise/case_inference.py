"""Rows of any length: which lengths get a kernel of their own where a schedule says nothing at all."""

from __future__ import annotations

from dataclasses import replace

from cutegen.atoms.targets import TARGETS
from cutegen.families.rowwise.rows import (
    has_bulk_copies,
    kept_in_smem,
    program,
    row_of,
    whole_tensors,
    widest_tensor,
    widest_vector,
)
from cutegen.families.rowwise.schedule import RowCopy, RowwiseSchedule, Spec
from cutegen.families.rowwise.smem_inference import IN_SMEM, MOST_IN_SMEM
from cutegen.language.cases import Case, Conditions, SizeIs

CLUSTERS = (1, 4, 8, 16)  # thread blocks that share the rows of one case, with a bound on their length for each
HELD = 16384  # bytes of a tensor's row from which on it waits in shared memory: registers are as good for shorter ones


def inferred_cases(spec: Spec) -> tuple[Case, ...]:
    """Cases for rows whose length is not fixed: long ones wait in shared memory, by length with more blocks for each.

    That is for targets that have bulk copies, and rows that those can bring whole; all others have the last case. None
    where the schedule says anything, or sums go over the rows.
    """
    row = row_of(spec)
    targets = tuple(target for target in spec.targets if has_bulk_copies(target))
    if spec.schedule != RowwiseSchedule() or row in spec.static or not targets or program(spec).columns:
        return ()
    vector, widest = widest_vector(spec), widest_tensor(spec)
    copy = RowCopy(bits=vector * widest.dtype.bits)
    kept = [t.dtype.bytes for t in kept_in_smem(replace(spec, schedule=RowwiseSchedule(keep="smem", copy=copy)))]
    if not kept or len(kept) < sum(t.reads for t in whole_tensors(spec)):
        return ()
    share = min(IN_SMEM // max(kept), MOST_IN_SMEM // sum(kept)) // vector * vector
    low, high = HELD // max(kept), spec.sizes_of(row)[1]
    found = []
    for blocks in CLUSTERS:
        bound = share * blocks
        if blocks > min(TARGETS[target].cluster for target in targets) or low >= min(bound, high):
            continue
        sizes = [SizeIs(">", low), *([SizeIs("<=", bound)] if bound < high else []), SizeIs("%", vector)]
        only = () if targets == spec.targets else targets
        conditions = Conditions(only, {row: tuple(sizes)}, align=16)
        found.append(Case(conditions, RowwiseSchedule(keep="smem")))
        low = bound
    return (*found, Case(Conditions(), RowwiseSchedule())) if found else ()
