"""Modes that a spec declares by what they are to others: rows that are cut into segments, one for each place along
another mode, those of which only so many elements exist for each place along another one, and blocks of another mode,
along which tensors broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cutegen.language.kinds import Integer, Text, key

MOST = 1 << 16  # elements of a block


@dataclass(frozen=True)
class Mode:
    """A mode by name, and what it is to another mode: cut into segments, one for each element along `of`, of a length
    for each element along `of`, or `blocks` of another. It has the keys of one of these.
    """

    name: str
    of: str = key(
        Text(), "The mode with one element for each segment that this one is cut into, or for each length.", default=""
    )
    offsets: str = key(
        Text(),
        "The i32 tensor with the end of each segment: segment x has the places from `ends[x - 1]`, or 0 for the first "
        "one, up to but not including `ends[x]`.",
        default="",
    )
    lengths: str = key(
        Text(),
        "The tensor of i32 with the number of elements that exist, for each place along `of`: those behind them are "
        "never part of a result.",
        default="",
    )
    blocks: str = key(Text(), "The mode that is divided into blocks.", default="")
    size: int = key(Integer(2, MOST), "Elements of a block; the last one may have fewer.", default=0)


class Segments(NamedTuple):
    """A mode that is cut into segments: the elements of each lie in a row, and one place along the mode `of` belongs to
    them. The tensor `ends` has the end of each, in ascending order.
    """

    mode: str
    of: str
    ends: str


class Lengths(NamedTuple):
    """A mode of which only the first elements exist: so many as the tensor `used` has for each place along the mode
    `of`. Lengths below 0 count as 0, and those above the size of the mode as its size.
    """

    mode: str
    of: str
    used: str


class Block(NamedTuple):
    """A mode of a tensor's shape with one element for each `size` elements along the mode `of`."""

    mode: str
    of: str
    size: int

    def count(self, sizes: Mapping[str, int]) -> int:
        """The number of blocks for the size of each mode."""
        return -(-sizes[self.of] // self.size)
