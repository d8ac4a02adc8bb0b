"""Questions that inference, lint and plan ask of a row kernel's spec."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tensor_layouts import Layout

from cutegen.atoms.targets import TARGETS, WARP
from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.places import joined
from cutegen.expressions.reducing import without_definitions
from cutegen.expressions.selecting import without_selections
from cutegen.expressions.tree import Call, Typed, walk
from cutegen.families.common.planning import operand
from cutegen.families.rowwise.flat import along_one_mode, along_row, parts_of
from cutegen.families.rowwise.program import program_of
from cutegen.families.rowwise.schedule import Spec
from cutegen.families.rowwise.walks import Program
from cutegen.language.kinds import MAX_INT
from cutegen.language.model import Tensor
from cutegen.planning.promises import fitting_elements, whole_accesses
from cutegen.planning.sound import MAX_THREADS, MAX_VALUES
from cutegen.remembering import remembers

THREADS = 128  # of a block, if a row needs no more
FEW_THREADS = 64  # the same where launches choose and blocks do not stay: they end, and others begin, sooner
SMS = 132  # multiprocessors of an H200, by which the blocks of a persistent kernel are counted
FILLED = {4: 120, 8: 120, 16: 112}  # of these by blocks of a cluster: parts of some groups of them stay empty
RESIDENT = 512  # threads on each of them, of kernels that sum over the rows
MANY_RESIDENT = 1024  # of those whose compiler would take more registers than it needs
WALKED = ("smem", "reload")  # where rows wait that are walked in pieces
BULK = 16  # bytes of which bulk copies move a multiple, between addresses that are multiples of it
MAX_CLUSTER = max(target.cluster for target in TARGETS.values())  # thread blocks


def row_of(spec: Spec) -> str:
    """The mode of the rows; of several that are one, their names as one."""
    return joined(parts_of(spec))


def beside(spec: Spec) -> str | None:
    """The mode along which a block may have several rows: the last one that is not the row's; None if there is none."""
    return next((mode for mode in reversed(spec.lead.shape) if mode != row_of(spec)), None)


def along(spec: Spec) -> list[Tensor]:
    """The tensors that lie along the rows, with all other modes or without some."""
    return [t for t in spec.tensors if row_of(spec) in t.shape]


def whole_tensors(spec: Spec) -> list[Tensor]:
    """Tensors with all modes: they are most of the traffic, and set the width of an access."""
    elements = {t.name: t.modes for t in spec.by_element.tensors}
    return [t for t in along(spec) if len(elements[t.name]) == len(spec.lead.shape)]


def widest_tensor(spec: Spec) -> Tensor:
    """The tensor of the widest element type among `whole_tensors`: one access to it is `copy.bits` wide."""
    return max(whole_tensors(spec), key=lambda t: t.dtype.bits)


def widest_vector(spec: Spec) -> int:
    """Elements that one access may move, for all whole tensors."""
    by_alignment = min(fitting_elements(spec, tensor) for tensor in whole_tensors(spec))
    by_type = max(1, 128 // widest_tensor(spec).dtype.bits)
    return min(by_alignment, by_type, whole_accesses(spec, row_of(spec)))


def vector_of(spec: Spec) -> int:
    """Elements of one access to a whole tensor."""
    assert spec.schedule.copy.bits is not None
    return max(1, spec.schedule.copy.bits // widest_tensor(spec).dtype.bits)


def fixed_for_all_rows(spec: Spec) -> list[Tensor]:
    """The tensors that are read and are the same for all rows, which a block that walks them loads once."""
    return [t for t in spec.tensors if len(spec.lead.shape) > 1 and t.role == "in" and t.modes == (row_of(spec),)]


def is_fixed_for_all_rows(spec: Spec) -> bool:
    """Whether there is such a tensor."""
    return bool(fixed_for_all_rows(spec))


def walks_rows(spec: Spec) -> bool:
    """Whether a block has many rows, one after the other."""
    walk = spec.schedule.scheduler
    return walk.kind == "persistent" or (walk.kind is None and (walk.blocks is not None or bool(program(spec).columns)))


def has_bulk_copies(target: str) -> bool:
    """Whether a target copies runs of bytes from global to shared memory by itself: `cp.async.bulk`."""
    return TARGETS[target].number >= 90


def kept_in_smem(spec: Spec) -> list[Tensor]:
    """The tensors whose part of a row waits in shared memory: those with all modes whose accesses bulk copies fit, and
    beside them, of blocks that walk many rows, what is the same for all.

    Others are read from global memory in every walk that needs them.
    """
    if spec.schedule.keep != "smem":
        return []
    whole = [t for t in whole_tensors(spec) if t.reads and vector_of(spec) * t.dtype.bytes % BULK == 0]
    if not whole or not walks_rows(spec):
        return whole
    fixed = fixed_for_all_rows(spec)
    return [*whole, *(t for t in fixed if operand(spec, t, vector_of(spec), read=True).bits % (8 * BULK) == 0)]


def stages_of(spec: Spec) -> int:
    """The rows for which shared memory has room at a time: one is computed on, and one may be under way."""
    return 2 if spec.schedule.keep == "smem" and spec.schedule.pipeline.stages == 2 else 1


def kept_bytes_of(spec: Spec) -> dict[str, int]:
    """The bytes that shared memory has for each element of a row, of each tensor that waits there, by name."""
    fixed = {t.name for t in fixed_for_all_rows(spec)}
    return {t.name: t.dtype.bytes * (1 if t.name in fixed else stages_of(spec)) for t in kept_in_smem(spec)}


def longest(spec: Spec) -> int | None:
    """The elements of the longest row that a call can have: of fixed size, or as the bound of a case says; None where
    nothing bounds it.
    """
    row = row_of(spec)
    most = spec.static.get(row, spec.sizes_of(row)[1])
    return most if most < MAX_INT else None


def slots_of(spec: Spec) -> int:
    """Pieces of the longest row that a block has at most, which those of its cluster take in turns."""
    return -(-(longest(spec) or 0) // ((spec.schedule.tiler or {})[row_of(spec)] * cluster_of(spec)))


def rows_of(spec: Spec) -> int:
    """Rows of a block."""
    tiler = spec.schedule.tiler or {}
    return prod(extent for mode, extent in tiler.items() if mode != row_of(spec))


def values_of(spec: Spec) -> int:
    """Elements of a row that one thread holds at a time, rounded up; 0 if that is not known yet."""
    tiler, threads = spec.schedule.tiler or {}, spec.schedule.threads_per_row
    row = row_of(spec)
    return -(-tiler[row] // threads) if threads and row in tiler else 0


def cluster_of(spec: Spec) -> int:
    """Thread blocks that share a row: a cluster of them, or one."""
    return (spec.schedule.cluster or {}).get(row_of(spec), 1)


def threads_of(spec: Spec) -> int:
    """Threads of a block; 0 if that is not known yet."""
    return rows_of(spec) * (spec.schedule.threads_per_row or 0)


def counts_of_threads(most: int) -> list[int]:
    """How many threads may share a row whose launch has as few as hold it: part of a warp in halves, else whole warps,
    `most` at most.
    """
    return [count for count in range(1, most + 1) if (count < WARP and count & (count - 1) == 0) or count % WARP == 0]


def has_two_results(spec: Spec) -> bool:
    """Whether the warps of a block have places for the results of two rows, so that they wait once for a row."""
    walks = spec.schedule.scheduler.blocks is not None
    return spec.schedule.fewer_threads and spec.schedule.keep == "registers" and walks and cluster_of(spec) == 1


def most_blocks(spec: Spec) -> int:
    """The blocks of the largest cluster that may share a row, which all targets have."""
    return 1 if program(spec).scans else min((TARGETS[target].cluster for target in spec.targets), default=1)


def sms_for(blocks: int) -> int:
    """The multiprocessors on which clusters of so many blocks all run at once, with the same number of blocks on each.

    The blocks of a cluster run in one group of multiprocessors. A cluster that has to wait for another one begins with
    its rows when that has done all of its own.
    """
    return FILLED.get(blocks, SMS)


def fewest_threads(spec: Spec, size: int) -> int:
    """Those of a block that share a row of that size, at most as many as the schedule says."""
    most, values, blocks = spec.schedule.threads_per_row or 1, values_of(spec), cluster_of(spec)
    least, share = WARP if blocks > 1 else 1, -(-size // blocks)
    counts = (count for count in counts_of_threads(most) if count >= least)
    return next((count for count in counts if count * values >= share), most)


def only_threads(spec: Spec) -> int:
    """The threads of a block that share a row in every launch; 0 where launches differ in them."""
    row, most = row_of(spec), spec.schedule.threads_per_row or 1
    if row in spec.static:
        return fewest_threads(spec, spec.static[row])
    return most if most == (WARP if cluster_of(spec) > 1 else 1) else 0


def rows_with(spec: Spec, threads: int) -> int:
    """Rows of a block whose rows have so many threads each."""
    return max(1, least_threads(spec) // threads) if beside(spec) is not None else 1


def least_threads(spec: Spec) -> int:
    """Threads of a block with several rows: of those that do not stay fewer, unless the tiler has rows for more."""
    schedule, rows = spec.schedule, (spec.schedule.tiler or {}).get(beside(spec) or "", 1)
    several = rows > 1 and rows * (schedule.threads_per_row or 0) == THREADS
    stays = schedule.scheduler.blocks is not None or bool(program(spec).columns)
    return FEW_THREADS if schedule.fewer_threads and not stays and not several else THREADS


def may_share(spec: Spec) -> bool:
    """Whether as many threads as share a row can reduce it: a power of two, or whole warps of one block."""
    threads, whole = spec.schedule.threads_per_row or 1, cluster_of(spec) == 1 and not spec.schedule.fewer_threads
    return threads & (threads - 1) == 0 or (whole and threads % WARP == 0)


def is_sound(spec: Spec) -> bool:
    """Whether rows are contiguous and nothing is too large to count through; what is not filled in yet passes."""
    row, blocks = row_of(spec), cluster_of(spec)
    if not may_share(spec) or blocks & (blocks - 1) or blocks > MAX_CLUSTER:
        return False
    if any(tensor.major not in (None, row) for tensor in along(spec)):
        return False
    return threads_of(spec) <= MAX_THREADS and values_of(spec) <= MAX_VALUES


def most_of_row(spec: Spec) -> int | None:
    """The longest row that a kernel takes which holds a row whole, of a size that the host accepts; None: any."""
    row, tiler = row_of(spec), spec.schedule.tiler or {}
    schedule = spec.schedule
    if schedule.keep != "registers" or schedule.longer == "reload" or row not in tiler or row in spec.static:
        return None
    step = spec.divisible.get(row, 1)
    return tiler[row] * cluster_of(spec) // step * step


def statements_of(spec: Spec) -> tuple[Typed, ...]:
    """The statements with their types."""
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    return annotate(spec.compute, types)


def is_online(spec: Spec) -> bool:
    """Whether sums that depend on a row's largest value, or on its mean, are found in the walk that finds that."""
    return spec.schedule.online == "walked" and spec.schedule.keep in WALKED


def is_walked(spec: Spec) -> bool:
    """Whether rows, or those that no block holds, are walked in pieces."""
    return spec.schedule.keep in WALKED or spec.schedule.longer == "reload"


def has_exponentials_above(spec: Spec) -> bool:
    """Whether there is a sum of exponentials above a row's largest value."""
    return any(one.above is not None for one in _online(spec).reductions)


def only_sums_exponentials(spec: Spec) -> bool:
    """Whether all there is of exponentials are sums above a row's largest value."""
    planned = _online(spec)
    values = (*(value for one in planned.walks for value in one.values), *(step.value for step in planned.rows))
    return has_exponentials_above(spec) and not any(
        isinstance(node, Call) and node.function == "exp" for value in values for node in walk(value)
    )


def has_squares_around(spec: Spec) -> bool:
    """Whether there is a sum of squares around a row's mean."""
    return any(one.around is not None for one in _online(spec).reductions)


def _online(spec: Spec) -> Program:
    """The walks in which all is found together that can be."""
    return program(replace(spec, schedule=replace(spec.schedule, keep="reload", online="walked")))


def has_exponentials(spec: Spec) -> bool:
    """Whether there is an `exp` of f32."""
    nodes = (node for statement in without_definitions(statements_of(spec)) for node in walk(statement.value))
    return any(isinstance(node, Call) and node.function == "exp" and node.dtype is Dtype.f32 for node in nodes)


@remembers(64)
def program(spec: Spec) -> Program:
    """The walks over a row."""
    row = row_of(spec)
    shapes = {t.name: along_row(spec, t.modes) for t in spec.tensors}
    statements = without_selections(statements_of(spec), shapes, spec.static)
    return program_of(
        along_one_mode(spec, without_definitions(statements)),
        shapes,
        row,
        spec.static.get(row),
        spec.schedule.keep == "registers",
        is_online(spec),
        parts_of(spec),
        spec.schedule.fast_math,
    )


def thread_values(spec: Spec, strides: tuple[int, ...]) -> Layout:
    """(thread, value) of a block's tile to a place, in a tensor with those strides along the lead's modes.

    The threads of a row are the fastest; a thread has one access of neighbours, then the next `threads_per_row`
    accesses further. Where launches give a row as few threads as hold it, and where a row is scanned, each warp has a
    part of its own, in which that holds for its lanes.
    """
    threads, vector = spec.schedule.threads_per_row or 1, vector_of(spec)
    modes = spec.lead.shape
    step = strides[modes.index(row_of(spec))]
    lanes = min(threads, WARP) if spec.schedule.fewer_threads or program(spec).scans else threads
    shape, stride = [lanes], [vector * step if lanes > 1 else 0]
    if lanes < threads:
        shape, stride = [*shape, threads // lanes], [*stride, lanes * values_of(spec) * step]
    if (rows := rows_of(spec)) > 1:
        mode = beside(spec)
        assert mode is not None
        shape, stride = [*shape, rows], [*stride, strides[modes.index(mode)]]
    times = values_of(spec) // vector
    values, steps = [vector], [step if vector > 1 else 0]
    if times > 1:
        values, steps = [*values, times], [*steps, vector * lanes * step]
    return Layout((_mode(shape), _mode(values)), (_mode(stride), _mode(steps)))


def _mode(items: list[int]) -> int | tuple[int, ...]:
    return items[0] if len(items) == 1 else tuple(items)
