"""Boxes of tensors with a `fold`: the tensor map of the memory that there is, and where a box lies in that.

The core copies boxes from and to the memory that there is. So it is given a map of that, and coordinates there, for
boxes whose elements lie there as they lie in the tensor that the kernel sees.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.memory.bound_tensors import BoundTensor, Fold
from cutegen.emulator.memory.tensor_maps import TensorMap


@dataclass(frozen=True)
class NearMap:
    """The map `tensor` of the existing memory of a tensor with a `fold`, which the kernel sees by another map.

    `mode` is the number of the map's mode with only some coordinates, -1 for none.
    """

    tensor: TensorMap
    fold: Fold
    mode: int

    @cached_property
    def _known(self) -> dict[int, int | None]:
        return {}

    @cached_property
    def _there(self) -> list[int]:
        return self.fold.coordinates.tolist()  # type: ignore[no-any-return]

    def at(self, coordinate: int) -> int | None:
        """The coordinate, along that mode, of a box at a coordinate of the kernel; None if the elements of the box do
        not lie there in the kernel's layout.
        """
        if coordinate not in self._known:
            self._known[coordinate] = self._find(coordinate)
        return self._known[coordinate]

    def _find(self, coordinate: int) -> int | None:
        there, elsewhere = self._there, self.fold.elsewhere
        first, last = max(coordinate, 0), min(coordinate + self.tensor.box[self.mode] - 1, there[-1])
        if first > last:
            return len(there)  # beyond the end, as all of the box is beyond one
        place, beyond = bisect_left(there, first), bisect_right(there, last)
        count = last - first + 1
        if beyond - place == count:
            return place if coordinate >= 0 else coordinate
        if beyond > place or elsewhere is None or coordinate < 0:
            return None
        like = elsewhere.start + (first - elsewhere.start) % len(elsewhere)
        return bisect_left(there, like) if like + count <= elsewhere.stop else None


def near_map(told: TensorMap, tensors: Sequence[BoundTensor]) -> NearMap | None:
    """The map of the existing memory, for a kernel's map of a tensor among those with a `fold`.

    None if it belongs to none, or not to a whole one.
    """
    for tensor in tensors:
        fold = tensor.fold
        assert fold is not None
        if fold.address == told.address and tensor.itemsize == told.itemsize:
            return _near(told, tensor, fold)
    return None


def _near(told: TensorMap, tensor: BoundTensor, fold: Fold) -> NearMap | None:
    sizes = list(tensor.shape)
    sizes[fold.mode] = int(fold.coordinates[-1]) + 1
    extent = tensor.itemsize
    for mode in sorted((m for m, size in enumerate(sizes) if size > 1), key=lambda m: fold.strides[m]):
        if fold.strides[mode] < extent:
            return None  # an address may be of several elements
        extent += fold.strides[mode] * (sizes[mode] - 1)
    of_stride = {fold.strides[m]: m for m, size in enumerate(sizes) if size > 1}
    modes = [of_stride.pop(step, -1) if size > 1 else -1 for size, step in zip(told.sizes, told.strides, strict=True)]
    if of_stride or any(size != (1 if m < 0 else sizes[m]) for m, size in zip(modes, told.sizes, strict=True)):
        return None
    itemsize = tensor.itemsize
    near = [step if m < 0 else tensor.strides[m] * itemsize for m, step in zip(modes, told.strides, strict=True)]
    if near[0] != itemsize or fold.mode not in modes and sizes[fold.mode] != 1:
        return None
    there = tuple(1 if m < 0 else tensor.shape[m] for m in modes)
    mode = modes.index(fold.mode) if fold.mode in modes else -1
    return NearMap(replace(told, address=tensor.at, sizes=there, strides=tuple(near)), fold, mode)


def near_coordinates(near: NearMap, coordinates: Sequence[Array], here: Array) -> Sequence[Array] | None:
    """The kernel's coordinates of boxes, in the lanes of a mask, converted to those of a near map.

    None where those of some box are not there.
    """
    if near.mode < 0:
        return coordinates
    told = np.broadcast_to(coordinates[near.mode], here.shape)[here].view(np.int32)
    found = [near.at(one) for one in told.tolist()]
    if None in found:
        return None
    those = np.zeros(here.shape, np.int32)
    those[here] = np.array(found, np.int32)
    return [*coordinates[: near.mode], those, *coordinates[near.mode + 1 :]]
