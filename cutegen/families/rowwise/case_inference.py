"""Which calls get a kernel of their own where a schedule says nothing at all: by target, and by how long rows are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cutegen.atoms.targets import TARGETS
from cutegen.expressions.tree import Local, walk
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
FEW = 32  # rows at most that leave most of a GPU without work, and are shared by more blocks
OF_FEW = ((4, 16384), (16, 65536))  # how many share one of so many elements at most, if there are few
SHARED = (128, 32)  # threads of such a block, and their values
CROWDED = (10240, 12288)  # elements of rows whose threads leave room for two blocks only, if each value has registers
STREAMED = ((65536, 256, 8192), (10240, 128, 4096))  # above so many elements threads and a piece of rows walked once
OF_STREAMS = ((65536, 256, 8), (16384, 64, 4))  # above so many elements, of so many rows at most, how many share one

Lengths = tuple[Mapping[str, tuple[SizeIs, ...]], int]  # what sizes must be, and the alignment


def inferred_cases(spec: Spec) -> tuple[Case, ...]:
    """The cases of a spec whose schedule says nothing; none if one schedule is best for all that it is for.

    Targets from Hopper on have clusters and bulk copies, others have not: where a row of fixed size would do with those
    what it cannot do without, the former have a case of their own. Long rows whose length is not fixed wait in shared
    memory, with more blocks for each the longer they are; those that are scanned have one block.
    """
    modern = tuple(target for target in spec.targets if has_bulk_copies(target))
    if spec.schedule != RowwiseSchedule() or not is_sound(spec) or program(spec).scans:
        return ()
    only = () if modern == spec.targets else modern
    if row_of(spec) not in spec.static and program(spec).columns:
        return _of_summed_rows(spec, modern, only)
    lengths = _streamed(spec, modern) if _is_streamed(spec) else [*_few_rows(spec, modern), *_long_rows(spec, modern)]
    found = [Case(Conditions(only, *sizes), schedule) for schedule, sizes in _left(spec, lengths)]
    if not found and only and modern and _schedule(spec, modern) != _schedule(spec, spec.targets):
        found = [Case(Conditions(only), RowwiseSchedule())]
    return (*found, Case(Conditions(), RowwiseSchedule())) if found else ()


def _schedule(spec: Spec, targets: tuple[str, ...]) -> RowwiseSchedule:
    """The schedule that is inferred for these targets."""
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


def _is_streamed(spec: Spec) -> bool:
    """Whether a row is walked once, if sums that depend on another value are found together with that."""
    return len(program(replace(spec, schedule=replace(spec.schedule, keep="reload", online="walked"))).walks) == 1


def _beside(spec: Spec) -> str | None:
    """The only mode beside the row's, whose size is the number of rows; None where there is none, or several."""
    others = [mode for mode in spec.lead.shape if mode != row_of(spec)]
    return others[0] if len(others) == 1 else None


def _most_blocks(targets: tuple[str, ...]) -> int:
    return min(TARGETS[target].cluster for target in targets)


def _few_rows(spec: Spec, targets: tuple[str, ...]) -> list[tuple[RowwiseSchedule, Lengths]]:
    """The schedules of few rows, whose blocks hold them in registers, and their lengths."""
    row, beside, (threads, values), found = row_of(spec), _beside(spec), SHARED, list[tuple[RowwiseSchedule, Lengths]]()
    low = _held(spec, targets) // 2
    for blocks, high in OF_FEW:
        if (
            not low < spec.sizes_of(row)[1]
            or not low
            or beside is None
            or blocks > _most_blocks(targets)
            or blocks * threads * values < high
        ):
            continue
        few = {beside: (SizeIs("<=", FEW),), row: (SizeIs(">", low), SizeIs("<=", high), _whole(spec))}
        tiler, low = {row: threads * values}, high
        schedule = RowwiseSchedule(keep="registers", threads_per_row=threads, tiler=tiler, cluster={row: blocks})
        found.append((schedule, (few, 16)))
    return found


def _streamed(spec: Spec, targets: tuple[str, ...]) -> list[tuple[RowwiseSchedule, Lengths]]:
    """The schedules of long rows that are walked once, and their lengths: in elements of 16 bits of one tensor."""
    row, beside, held, found = (
        row_of(spec),
        _beside(spec),
        _held(spec, targets),
        list[tuple[RowwiseSchedule, Lengths]](),
    )
    schedules = [
        (low, RowwiseSchedule(keep="reload", threads_per_row=threads, tiler={row: piece}))
        for low, threads, piece in STREAMED
    ]
    if not held or schedules[-1][0] >= spec.sizes_of(row)[1]:
        return []
    for low, most, blocks in OF_STREAMS:
        if beside is not None and blocks <= _most_blocks(targets):
            few = {beside: (SizeIs("<=", most),), row: (SizeIs(">", low), _whole(spec))}
            found.append((replace(schedules[-1][1], cluster={row: blocks}), (few, 16)))
    for low, one in schedules:
        found.append((one, ({row: (SizeIs(">", low), _whole(spec))}, 16)))
    return found


def _left(spec: Spec, found: list[tuple[RowwiseSchedule, Lengths]]) -> list[tuple[RowwiseSchedule, Lengths]]:
    """Where the number of rows is fixed, the schedules that some length gets which none before is for; else all."""
    row, beside = row_of(spec), _beside(spec)
    if beside is None or beside not in spec.static:
        return found
    left, before = list[tuple[RowwiseSchedule, Lengths]](), list[tuple[int, int]]()
    for schedule, (sizes, align) in found:
        low, high = Conditions((), sizes).within(row)
        starts = (start for start in (low, *(last + 1 for _, last in before)) if low <= start <= high)
        new = any(not any(first <= start <= last for first, last in before) for start in starts)
        if new and all(one.holds(spec.static[beside]) for one in sizes.get(beside, ())):
            left.append((schedule, ({row: sizes[row]}, align)))
            before.append((low, high))
    return left


def _whole(spec: Spec) -> SizeIs:
    """That a row is made of whole accesses."""
    return SizeIs("%", widest_vector(spec))


def _kept(spec: Spec) -> list[int]:
    """The bytes of an element of each tensor that bulk copies bring to shared memory."""
    copy = RowCopy(bits=widest_vector(spec) * widest_tensor(spec).dtype.bits)
    return [t.dtype.bytes for t in kept_in_smem(replace(spec, schedule=RowwiseSchedule(keep="smem", copy=copy)))]


def _held(spec: Spec, targets: tuple[str, ...]) -> int:
    """The longest row that registers hold as well as shared memory; 0 if there is no choice: where the length is fixed,
    where sums go over the rows, or where bulk copies would bring only some of the tensors.
    """
    row, vector = row_of(spec), widest_vector(spec)
    if row in spec.static or program(spec).columns or not targets:
        return 0
    kept = _kept(spec)
    if not kept or len(kept) < sum(t.reads for t in whole_tensors(spec)):
        return 0
    held = (_schedule(spec, targets).tiler or {})[row]
    return min(HELD // sum(kept), held) // vector * vector


def _keeps_values(spec: Spec) -> bool:
    """Whether registers keep values that were computed of each element, for a later walk over those that were read."""
    walks = program(replace(spec, schedule=replace(spec.schedule, keep="registers"))).walks
    for number, one in enumerate(walks):
        before = {named.name for earlier in walks[:number] for named in earlier.elements}
        if any(isinstance(node, Local) and node.id in before for value in one.values for node in walk(value)):
            return True
    return False


def _long_rows(spec: Spec, targets: tuple[str, ...]) -> list[tuple[RowwiseSchedule, Lengths]]:
    """The schedules of long rows, which bulk copies bring to shared memory, and their lengths."""
    row, vector, low = row_of(spec), widest_vector(spec), _held(spec, targets)
    if not low:
        return []
    kept, high, found = _kept(spec), spec.sizes_of(row)[1], list[tuple[RowwiseSchedule, Lengths]]()
    share = min(IN_SMEM // max(kept), MOST_IN_SMEM // sum(kept)) // vector * vector
    if _keeps_values(spec) and CROWDED[1] <= min(low, share):
        crowded = {row: (SizeIs(">", CROWDED[0]), SizeIs("<=", CROWDED[1]), _whole(spec))}
        found.append((RowwiseSchedule(keep="smem"), (crowded, 16)))
    for blocks in CLUSTERS:
        bound = share * blocks
        if blocks <= _most_blocks(targets) and low < min(bound, high):
            limit = [SizeIs("<=", bound)] if bound < high else []
            lengths = {row: (SizeIs(">", low), *limit, _whole(spec))}
            found.append((RowwiseSchedule(keep="smem"), (lengths, 16)))
            low = bound
    return found
