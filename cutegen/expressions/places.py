"""Modes without names, and tensors of whole numbers that are places along a mode, as targets are columns."""

from __future__ import annotations

from collections.abc import Iterable

from cutegen.expressions.tree import COMPARISONS, Binary, Compute, Coord, Name, walk

ONE = "1"
"""The mode of size 1 that a shape writes as the number: it belongs to no tensor in particular, and has no name."""

_TOGETHER = "*"


def joined(modes: Iterable[str]) -> str:
    """The name of several modes that are one: `C*HW`. That of one alone is its own."""
    return _TOGETHER.join(modes)


def parts_of(name: str) -> tuple[str, ...]:
    """The modes that such a name stands for."""
    return tuple(name.split(_TOGETHER))


def modes_compared(compute: Compute, name: str, operators: tuple[str, ...] = COMPARISONS) -> tuple[str, ...]:
    """The modes whose coordinates are compared with the elements of a tensor by `operators`, in order of first use."""
    found: list[str] = []
    for node in (node for value in compute.values for node in walk(value)):
        if isinstance(node, Binary) and node.op in operators:
            sides = (node.left, node.right)
            if any(isinstance(side, Name) and side.id == name for side in sides):
                found += [side.mode for side in sides if isinstance(side, Coord)]
    return tuple(dict.fromkeys(found))
