"""Questions that inference, lint and plan ask of an elementwise schedule."""

from __future__ import annotations

from math import prod

from tensor_layouts import Layout, size

from cutegen import layouts
from cutegen.families.common.narrowing import interleaved
from cutegen.families.elementwise.schedule import ElementwiseSchedule, Spec
from cutegen.language.model import Tensor
from cutegen.layouts import make_layout_tv
from cutegen.planning.promises import fitting_elements, whole_accesses
from cutegen.planning.sound import MAX_THREADS, MAX_VALUES, deals_out


def whole_tensors(spec: Spec) -> list[Tensor]:
    """Tensors with all modes of the output: they are most of the traffic, and set the width of an access."""
    elements = {t.name: t.modes for t in spec.by_element.tensors}
    return [t for t in spec.tensors if len(elements[t.name]) == len(spec.lead.shape)]


def widest_tensor(spec: Spec) -> Tensor:
    """The tensor of the widest element type among `whole_tensors`: one access to it is `copy.bits` wide."""
    return max(whole_tensors(spec), key=lambda t: t.dtype.bits)


def widest_bits(spec: Spec) -> int:
    return widest_tensor(spec).dtype.bits


def widest_vector(spec: Spec) -> int:
    """Elements that one access may move, for the output and all whole tensors that are contiguous where it is."""
    along = [t for t in whole_tensors(spec) if t.runs_along(spec.lead.major)]
    by_alignment = min((fitting_elements(spec, tensor) for tensor in along), default=1)
    return min(by_alignment, max(1, 128 // widest_bits(spec)), whole_accesses(spec, spec.lead.major))


def major_index(spec: Spec) -> int:
    assert spec.lead.major is not None
    return spec.lead.shape.index(spec.lead.major)


def beside_major(spec: Spec) -> int:
    """The slowest mode of those along which the output is not contiguous: a thread's rows are along it."""
    return next(i for i in reversed(range(len(spec.lead.shape))) if i != major_index(spec))


def along_major(spec: Spec, along: int, next_: int) -> tuple[int, ...]:
    """A shape over the output's modes: `along` the contiguous mode, `next_` along the slowest other one."""
    rank, major = len(spec.lead.shape), major_index(spec)
    shape = [1] * rank
    shape[major] = along
    if rank > 1:
        shape[beside_major(spec)] = next_
    return tuple(shape)


def dealt_run(spec: Spec, schedule: ElementwiseSchedule) -> int:
    """Neighbours along the output's contiguous mode that the threads of inner_outer deal out together.

    One access, if the spec says how wide that is; else single elements.
    """
    if schedule.partition != "inner_outer" or schedule.copy.bits is None:
        return 1
    return max(1, schedule.copy.bits // widest_bits(spec))


def contiguous_run(spec: Spec, schedule: ElementwiseSchedule) -> int:
    """Elements along the output's contiguous mode that a thread owns in a row, first in its order of values.

    For inner_outer those that it may own: the largest power of two in its share of the tiler.
    """
    major = major_index(spec)
    match schedule.partition:
        case "inner":
            assert schedule.tiler is not None
            extent = schedule.tiler[spec.lead.shape[major]]
            return extent & -extent
        case "inner_outer":
            if schedule.copy.bits is None:
                return 1
            share = shares(spec, schedule)[major]
            return share & -share
    assert schedule.thread_layout is not None and schedule.value_layout is not None
    tiler, tv = make_layout_tv(schedule.thread_layout, schedule.value_layout)
    values = layouts.offsets(layouts.modes_of(tv)[1])
    return layouts.run_along([layouts.coordinates(value, tiler) for value in values], major)


def shares(spec: Spec, schedule: ElementwiseSchedule) -> list[int]:
    """Elements of a thread along each mode of an inner_outer tiler, rounded down where it does not divide."""
    assert schedule.tiler is not None and schedule.thread_layout is not None
    sides = layouts.mode_sizes(schedule.thread_layout)
    return [schedule.tiler[mode] // side for mode, side in zip(spec.lead.shape, sides, strict=True)]


def vector_of(spec: Spec) -> int:
    """Elements of one access, the same for all whole tensors that are contiguous where the output is."""
    assert spec.schedule.copy.bits is not None
    return max(1, spec.schedule.copy.bits // widest_bits(spec))


def block_tile(spec: Spec) -> dict[str, int]:
    """The extent of a thread block's tile along each mode; for inner, of one thread's."""
    schedule = spec.schedule
    if schedule.partition == "thread_value":
        assert schedule.thread_layout is not None and schedule.value_layout is not None
        threads = layouts.mode_sizes(schedule.thread_layout)
        values = layouts.mode_sizes(schedule.value_layout)
        return {m: t * v for m, t, v in zip(spec.lead.shape, threads, values, strict=True)}
    assert schedule.tiler is not None
    return {m: schedule.tiler[m] for m in spec.lead.shape}


def parts_of_tile(spec: Spec, mode: str) -> tuple[int, ...]:
    """The extents by which a block's tile is divided among threads along a mode: for inner none."""
    schedule, axis = spec.schedule, spec.lead.shape.index(mode)
    if schedule.partition == "inner" or schedule.thread_layout is None:
        return ()
    if schedule.partition == "thread_value":
        assert schedule.value_layout is not None
        tiler, tv = make_layout_tv(schedule.thread_layout, schedule.value_layout)
        ways = (tv, interleaved(tv)) if schedule.narrows else (tv,)
        return tuple(_step(tiler, way, axis) for way in ways)
    run = dealt_run(spec, schedule) if axis == major_index(spec) else 1
    return (run, run * layouts.mode_sizes(schedule.thread_layout)[axis])


def _step(tiler: tuple[int, ...], tv: Layout, axis: int) -> int:
    """The neighbours along a mode of a tile that are one thread's, or where it has but one the threads that have others
    before its next one.
    """
    values = layouts.offsets(layouts.modes_of(tv)[1])
    places = sorted({layouts.coordinates(value, tiler)[axis] for value in values})
    together = next((i for i, place in enumerate(places) if place != i), len(places))
    return places[1] if together == 1 < len(places) else together


def tile_order(spec: Spec) -> tuple[int, ...]:
    """Modes of the output in the order in which consecutive tiles are walked, fastest first.

    The raster's mode, then the contiguous one, then the others from the last to the first. Tiles are a thread's for
    the partition inner, a block's else.
    """
    raster = spec.schedule.scheduler.raster
    first = [] if raster is None else [spec.lead.shape.index(raster)]
    return tuple(dict.fromkeys([*first, *value_order(spec)]))


def value_order(spec: Spec) -> tuple[int, ...]:
    """Modes of the output in the order of a thread's own values, the contiguous one first."""
    return tuple(dict.fromkeys([major_index(spec), *reversed(range(len(spec.lead.shape)))]))


def values_of(schedule: ElementwiseSchedule) -> int:
    """Elements of the output that a thread has; rounded up where the tiler does not divide. 0 if not known yet."""
    match schedule.partition:
        case "thread_value":
            return int(size(schedule.value_layout)) if schedule.value_layout is not None else 0
        case "inner_outer":
            if schedule.tiler is None or schedule.thread_layout is None:
                return 0
            return -(-prod(schedule.tiler.values()) // int(size(schedule.thread_layout)))
    return prod(schedule.tiler.values()) if schedule.tiler is not None else 0


def threads_of(schedule: ElementwiseSchedule) -> int:
    """Threads of a block; 0 if not known yet."""
    if schedule.partition == "inner":
        return schedule.threads or 0
    return int(size(schedule.thread_layout)) if schedule.thread_layout is not None else 0


def is_sound(spec: Spec) -> bool:
    """Whether ranks agree and nothing is too large to enumerate; what is not filled in yet passes."""
    schedule, modes = spec.schedule, spec.lead.shape
    for layout, limit in ((schedule.thread_layout, MAX_THREADS), (schedule.value_layout, MAX_VALUES)):
        if layout is not None and not (len(layouts.modes_of(layout)) == len(modes) and deals_out(layout, limit)):
            return False
    return threads_of(schedule) <= MAX_THREADS and values_of(schedule) <= MAX_VALUES
