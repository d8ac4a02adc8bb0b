"""How long the rows of a call may be, where a kernel holds a row whole."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from cutegen.families.rowwise.flat import FlatSpec, flat, flat_sizes, parts_of
from cutegen.families.rowwise.rows import most_of_row, row_of
from cutegen.families.rowwise.schedule import Spec

MOST_PLACES = 2**31 - 2**21  # of a row that has several modes: 32 bits reach a tile beyond it


def refused(spec: Spec, sizes: Mapping[str, int]) -> str | None:
    """Why the host rejects the length of a row; None where it accepts it."""
    spec = flat(spec)
    row, most = row_of(spec), most_of_row(spec)
    size = flat_sizes(spec, sizes)[row]
    return f"{row} is {size}, and a row has {most} at most" if most is not None and size > most else None


def _most(spec: Spec) -> int | None:
    """The longest row that the host takes, where that is less than its mode may have."""
    most = most_of_row(spec)
    counted = isinstance(spec, FlatSpec) and row_of(spec) not in spec.static  # together: each mode has its own bound
    return MOST_PLACES if counted and most is None else most


def accepted(spec: Spec, sizes: dict[str, int]) -> dict[str, int] | None:
    """The sizes, changed as little as makes a row short enough; None where the kernel has another for such rows."""
    spec = flat(spec)
    row, most = row_of(spec), _most(spec)
    size = flat_sizes(spec, sizes)[row]
    if spec.schedule.fewer_threads and spec.schedule.keep == "reload":  # of a kernel that has another for those
        return sizes if size > (spec.schedule.tiler or {})[row] else None
    if most is None or size <= most:
        return sizes
    parts, found = parts_of(spec), dict(sizes)
    for part in reversed([part for part in parts if part not in spec.static]):
        others, step = prod(found[p] for p in parts if p != part), spec.divisible.get(part, 1)
        found[part] = max(step, most // max(1, others) // step * step)
        if prod(found[p] for p in parts) <= most:
            return found
    return None
