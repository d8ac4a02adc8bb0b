"""The shared memory of a kernel, declared once: buffers of tiles, arrays of barriers, and where they lie.

Lengths and arrivals are Python expressions of the kernel's constants. Proofs and sizes evaluate the text that is
printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from cutegen.atoms.copies import MBARRIER
from cutegen.parts.acting import value_of


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """So many `copies` of `bytes` bytes each, one behind the other, under a variable of the kernel."""

    variable: str
    cells: tuple[str, ...]  # what proofs call its copies: several names are of tensors side by side in each
    element: str  # type
    layout: str
    copies: str  # or the extents of several indices, the first of which counts neighbours
    bytes: int
    alignment: int
    swizzle: str = ""
    within: str = ""  # the variable of the buffer in whose place it lies, from its start on
    title: str = ""  # what people call it
    what: str = ""  # a copy, with {number}, or {group} and {place}, as a sentence begins
    each: str = ""  # copies of a group, if there are groups

    @property
    def length(self) -> str:
        return f"prod(({self.copies},))"

    @property
    def arguments(self) -> list[str]:
        """The arguments of `smem.allocate_tensor` for this buffer, as Python."""
        swizzle = [f"swizzle={self.swizzle}"] if self.swizzle else []
        return [self.element, self.layout, f"byte_alignment={self.alignment}", *swizzle]


@dataclass(frozen=True, kw_only=True)
class Barriers:
    """An array of mbarriers, each of which is initialised with so many arrivals."""

    name: str
    length: str
    arrivals: str
    title: str = ""
    what: str = ""
    each: str = ""
    bytes: int = MBARRIER
    alignment: int = MBARRIER
    within: str = ""


Declared: TypeAlias = "Buffer | Barriers"


class Placed(NamedTuple):
    """Where a buffer or an array of barriers lies, and how many there are of it."""

    of: Declared
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + -(-self.length * self.of.bytes // self.of.alignment) * self.of.alignment


def laid_out(declared: Sequence[Declared], constants: Mapping[str, int]) -> Iterator[Placed]:
    """Where things lie that are allocated in this order, each at a multiple of its alignment, behind the one before."""
    starts: dict[str, int] = {}
    at = 0
    for one in declared:
        start = starts[one.within] if one.within else -(-at // one.alignment) * one.alignment
        placed = Placed(one, start, int(value_of(one.length, constants)))
        if isinstance(one, Buffer):
            starts[one.variable] = start
        at = max(at, placed.end)
        yield placed


def bytes_of(declared: Sequence[Declared], constants: Mapping[str, int]) -> int:
    """Bytes that they take together."""
    return max((placed.end for placed in laid_out(declared, constants)), default=0)
