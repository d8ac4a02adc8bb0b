"""Nested tuples of integers, as shapes and strides are: their leaves, sizes and text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

IntTuple = int | tuple["IntTuple", ...]


def flat(value: IntTuple) -> Iterator[int]:
    """The integers of nested tuples, from left to right."""
    if isinstance(value, int):
        yield value
    else:
        for part in value:
            yield from flat(part)


def elements(shape: IntTuple) -> int:
    """The number of coordinates of a shape: the product of its integers."""
    return prod(flat(shape))


def nested_like(profile: IntTuple, values: Iterator[Any]) -> Any:
    """The next of `values`, as many as the profile has integers, nested as these are."""
    return next(values) if isinstance(profile, int) else tuple(nested_like(part, values) for part in profile)


def congruent(shape: IntTuple, stride: IntTuple) -> bool:
    """Whether two nested tuples have integers in the same places."""
    if isinstance(shape, int) or isinstance(stride, int):
        return isinstance(shape, int) and isinstance(stride, int)
    return len(shape) == len(stride) and all(map(congruent, shape, stride))


def show(shape: Any) -> str:
    """A shape as CuTe prints it: `((4,1),1,1,3)`. Its entries may be names of dynamic sizes."""
    if isinstance(shape, tuple | list):
        return "(" + ",".join(show(s) for s in shape) + ")"
    return str(shape)


def coordinates(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The coordinate of a linear index into `shape`, whose first mode is the fastest."""
    result = []
    for extent in shape:
        result.append(index % extent)
        index //= extent
    return tuple(result)
