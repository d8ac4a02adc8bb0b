"""Every place in a kernel where a warp's threads access memory together, as a thread-value layout into that memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tensor_layouts import ComposedLayout, Layout, Swizzle, compose

from cutegen import layouts
from cutegen.dtypes import Dtype
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec, Tensor
from cutegen.planning.plan import Plan

FAR = 1 << 20  # elements that stand for any size of a mode: whole cache lines, and more than any tile


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


def accesses(plan: Plan) -> tuple[Access, ...]:
    """All accesses of a kernel in the order in which it makes them: loads, shared memory, stores.

    Of a kernel that runs in several ways those of the first, which the schedule speaks of; of several kernels those of
    each, one after the other.
    """
    firsts = [kernel.ways[0] for kernel in plan.kernels]
    return tuple(access for first in firsts for access in first.spec.family.accesses(first))


def strides_of(tensor: Tensor, modes: Sequence[str], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Elements between neighbours along each of `modes`: 1 along the contiguous one, 0 where the tensor lacks it.

    The strides along the others are those of a packed tensor, as torch makes it, as long as `sizes` has the sizes of
    all modes that lie inside. Packed means as close as the alignment allows; the host demands that alignment of
    strides, and takes tensors with wider strides too. From the first missing size on, strides are whole cache lines and
    longer than any tile.
    """
    unit = max(1, (tensor.align or 1) // tensor.dtype.bytes)
    steps, step = {}, 1
    for mode in (str(tensor.major), *(mode for mode in reversed(tensor.shape) if mode != tensor.major)):
        steps[mode] = step
        step = -(-step * sizes.get(mode, FAR) // unit) * unit
    return tuple(steps.get(mode, 0) for mode in modes)


def fixed_sizes(spec: KernelSpec, tile: Mapping[str, int]) -> Mapping[str, int]:
    """The sizes that the spec fixes, except those of modes in which a tile reaches beyond the tensor.

    In such a mode some threads have no element, and in packed rows they would seem to have another row's.
    """
    return {mode: size for mode, size in spec.static.items() if size >= tile.get(mode, 1)}
