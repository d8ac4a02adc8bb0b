"""Which of several schedules calls take by their estimates, where enough sizes are fixed to tell beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cutegen.analysis.cost import BOX, estimates
from cutegen.family import family_of
from cutegen.language.model import KernelSpec, Schedule

NEAR = 4096  # up to this size both sides of the ends of all boxes are asked for; of larger sizes, some
MATRICES = 512  # up to this size of a batch each is asked for
FARTHEST = 1 << 17
STRIDE = 1.02  # from one of those to the next


def taken_for_some_sizes(resolved: Sequence[KernelSpec], schedules: Sequence[Schedule]) -> list[Schedule]:
    """The schedules that have the least estimate for some sizes; all of them where two sizes or more are free, or one
    has no estimate. `resolved` are specs that have them, as their family completes them.

    Where one size is free, estimates change at the ends of tiles and of boxes, and with each matrix of a batch: sizes
    on both sides of each are asked for, and of large ones some, as there one more tile makes little difference.
    """
    if not resolved:
        return []
    first = resolved[0]
    free = [mode for mode in first.modes if mode not in first.static]
    if len(free) > 1:
        return list(schedules)
    found = [family_of(one).cost(family_of(one).plan(one)) for one in resolved]
    costs = [one[0] for one in found if one is not None]
    moved = next((one[1] for one in found if one is not None), None)
    if moved is None or len(costs) < len(schedules):
        return list(schedules)
    taken = set()
    for sizes in _sizes(first, free, costs[0].batch):
        times = estimates(costs, moved, sizes)
        taken.add(times.index(min(times)))
    return [schedule for number, schedule in enumerate(schedules) if number in taken]


def _sizes(spec: KernelSpec, free: Sequence[str], batch: str | None) -> Iterator[Mapping[str, int]]:
    """Sizes that represent all calls, with at most one free size; `batch` is the mode of a batch."""
    if not free:
        yield spec.static
        return
    (mode,) = free
    step, (low, high) = spec.divisible.get(mode, 1), spec.sizes_of(mode)
    wanted = list(range(MATRICES)) if mode == batch else []
    wanted += [near for size in range(len(wanted), NEAR + 1, BOX) for near in (size, size + 1)]
    while wanted[-1] < FARTHEST:
        wanted.append(int(wanted[-1] * STRIDE))
    for size in dict.fromkeys(-(-max(one, low, 1) // step) * step for one in wanted):
        if size <= high:
            yield {**spec.static, mode: size}
