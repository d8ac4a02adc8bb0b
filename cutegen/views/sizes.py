"""The sizes of modes that follow from those of arguments, where these have sizes that are computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from cutegen.views.extents import Extent, extent, is_computed, modes_of, size_of
from cutegen.views.memory import Memory, T


@dataclass(frozen=True)
class Solved:
    """A mode whose size follows from that of an argument along one of its modes: that is `factor` times it and `rest`
    more.
    """

    mode: str
    argument: str
    axis: int
    factor: Extent
    rest: Extent


def solved(arguments: Sequence[Memory], static: Mapping[str, int]) -> tuple[tuple[Solved, ...], tuple[str, ...]]:
    """The modes that no argument which is read has itself, in an order in which their sizes can be computed one after
    the other, and those whose sizes do not follow. Arguments that are not read may be left out of a call: they say only
    what the others do not.
    """
    known, found = set(static), []
    computed: list[tuple[str, int, Extent]] = []
    for reads in (True, False):
        for argument in (t for t in arguments if t.reads is reads):
            known |= {item for item in argument.shape if not is_computed(item)}
            items = [(axis, item) for axis, item in enumerate(argument.shape) if is_computed(item)]
            computed += [(argument.name, axis, extent(item)) for axis, item in items]
        while (one := next(filter(None, (_solving(*each, known) for each in computed)), None)) is not None:
            found.append(one)
            known.add(one.mode)
    wanted = (mode for _, _, size in computed for mode in size.modes)
    return tuple(found), tuple(dict.fromkeys(mode for mode in wanted if mode not in known))


def unsolved(arguments: Sequence[T], static: Mapping[str, int]) -> Iterator[tuple[T, int, list[str]]]:
    """The sizes that are computed of modes whose own sizes do not follow: the argument, its mode, and these modes."""
    unknown = solved([t for t in arguments if t.views or not any(map(is_computed, t.shape))], static)[1]
    for argument in (t for t in arguments if t.views):
        for axis, item in enumerate(argument.shape):
            if modes := [mode for mode in modes_of(item) if mode in unknown]:
                yield argument, axis, modes


def _solving(argument: str, axis: int, size: Extent, known: Set[str]) -> Solved | None:
    """The one mode that an argument's size tells, if the sizes of all others are known."""
    unknown = [mode for mode in size.modes if mode not in known]
    linear = size.linear_in(unknown[0]) if len(unknown) == 1 else None
    return Solved(unknown[0], argument, axis, *linear) if linear is not None else None


def sizes_of(
    arguments: Sequence[Memory], static: Mapping[str, int], shapes: Mapping[str, Sequence[int]]
) -> dict[str, int]:
    """The size of every mode, from the shapes of arguments by name; of those left out nothing is known.

    Raises ValueError for shapes that disagree.
    """
    given, sizes = [t for t in arguments if t.name in shapes], dict(static)
    for argument in sorted(given, key=lambda t: not t.reads):
        for item, size in zip(argument.shape, shapes[argument.name], strict=True):
            if not is_computed(item):
                sizes.setdefault(item, size)
    for one in solved(given, static)[0]:
        rest, factor = one.rest.at(sizes), one.factor.at(sizes)
        sizes[one.mode] = max(0, shapes[one.argument][one.axis] - rest) // max(1, factor)
    for argument in given:
        for item, size in zip(argument.shape, shapes[argument.name], strict=True):
            if size_of(item, sizes) != size:
                raise ValueError(f"{argument.name}: {item} is {size} here and {size_of(item, sizes)} elsewhere")
    return sizes


def computed_modes(arguments: Sequence[Memory]) -> tuple[str, ...]:
    """The modes of sizes that are computed."""
    items = (item for t in arguments for item in t.shape if is_computed(item))
    return tuple(dict.fromkeys(mode for item in items for mode in extent(item).modes))
