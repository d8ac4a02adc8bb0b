"""Every place in a kernel where a warp's threads access memory together, and how tensors lie there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cutegen.analysis.access import Access
from cutegen.analysis.asked import family_of
from cutegen.language.model import KernelSpec, Tensor
from cutegen.planning.plan import Plan

FAR = 1 << 20  # elements that stand for any size of a mode: whole cache lines, and more than any tile


def accesses(plan: Plan) -> tuple[Access, ...]:
    """All accesses of a kernel in the order in which it makes them: loads, shared memory, stores.

    Of a kernel that runs in several ways those of the first, which the schedule speaks of; of several kernels those of
    each, one after the other.
    """
    firsts = [kernel.ways[0] for kernel in plan.kernels]
    return tuple(access for first in firsts for access in family_of(first.spec).accesses(first))


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
