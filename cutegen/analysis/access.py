"""A place in a kernel where a warp's threads access memory together, as a thread-value layout into that memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tensor_layouts import ComposedLayout, Layout, Swizzle, compose

from cutegen import layouts
from cutegen.dtypes import Dtype
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec, Tensor


@dataclass(frozen=True)
class Access:
    """One instruction that all threads of a block execute together, and how often they do.

    `layout` maps (thread, value) to an element: of the buffer in shared memory, or of a tensor in global memory whose
    tile starts at a cache line, with the strides of `strides_of`. Its values are those of one thread for one tile, or
    for one k of the tile where the multiply-add reads shared memory; one instruction moves `vector` of them.
    """

    name: str  # "A to shared memory"
    tensor: str
    dtype: Dtype
    space: Literal["global", "shared"]
    kind: Literal["read", "write"]
    vector: int
    layout: Layout
    path: Path  # what in the spec decides it
    block: int | None = None  # threads of a block, where the layout has more
    workspace: Tensor | None = None  # the tensor as it lies there, where that is what is accessed
    swizzle: Swizzle | None = None
    narrow_because: str = ""  # why it moves no more elements, where neither the layout nor the tensor says so

    def memory(self, spec: KernelSpec) -> Tensor:
        """The tensor as it lies in the memory that is accessed."""
        return self.workspace or spec.tensor(self.tensor)

    @property
    def bytes(self) -> int:
        """The bytes that one instruction moves for one thread."""
        return self.vector * self.dtype.bytes

    @property
    def threads(self) -> int:
        """The number of a block's threads that make the access."""
        return self.block or layouts.mode_sizes(self.layout)[0]

    @property
    def values(self) -> int:
        return layouts.mode_sizes(self.layout)[1]

    @property
    def instructions(self) -> int:
        """How often one thread executes the instruction for one tile, or for one k of it from shared memory."""
        return self.values // self.vector

    @property
    def first(self) -> Layout | ComposedLayout:
        """The part of the layout (thread, value) that each thread's first instruction moves, swizzled as it lies."""
        first = _first(self.layout, self.vector)
        return first if self.swizzle is None else compose(self.swizzle, first)


@lru_cache(maxsize=512)
def _first(layout: Layout, vector: int) -> Layout:
    """The part of a layout (thread, value) that has the first `vector` values of each thread."""
    threads, values = layouts.modes_of(layout)
    return layouts.pair(threads, compose(values, Layout(vector, 1)))
