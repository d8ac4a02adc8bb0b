"""The memory that a kernel needs besides its tensors: parts of shared memory, and what a call allocates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from cutegen.expressions.places import parts_of


@dataclass(frozen=True)
class Buffer:
    """A part of shared memory, of a tensor or another value: `stages` of `depth` columns of `rows` elements, each
    column `stride` elements behind the one before, padding included. `what` says what the columns are. With a `swizzle`
    runs of 16 bytes exchange their places over so many bytes."""

    tensor: str
    rows: int
    stride: int
    depth: int
    stages: int
    bytes: int
    what: str = "of k"
    swizzle: int = 0


@dataclass(frozen=True)
class Scratch:
    """Global memory that a call allocates besides its tensors, through which one kernel passes something to another.

    The size of each mode is rounded up to a multiple; `copies` are of that size.
    """

    tensor: str  # that it holds another way
    rounded: tuple[tuple[str, int], ...]  # modes, or several as one by `joined`, and of which multiple each size is
    element: int  # bytes
    copies: int = 1

    def bytes(self, sizes: Mapping[str, int]) -> int:
        """Its size in bytes, for the size of every mode."""
        whole = [(prod(sizes[part] for part in parts_of(mode)), multiple) for mode, multiple in self.rounded]
        return prod(-(-size // multiple) * multiple for size, multiple in whole) * self.element * self.copies
