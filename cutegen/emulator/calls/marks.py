"""Which bytes of a storage are marked, also of one in which there are few elements in gigabytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutegen.emulator.memory.bound_tensors import BoundTensor, elements_of

Bools = NDArray[np.bool_]


class Marks:
    """A mark for each byte of a storage, at first the same for all.

    A `sparse` one keeps the offsets of the bytes that are not as all were at first; others have an array, `whole`.
    """

    def __init__(self, size: int, marked: bool, *, sparse: bool) -> None:
        self.whole: Bools | None = None
        if not sparse:
            self.whole = np.ones(size, np.bool_) if marked else np.zeros(size, np.bool_)
        self._first = marked
        self._others: NDArray[np.int64] = np.zeros(0, np.int64)

    def read(self, tensor: BoundTensor, offset: int) -> Bools:
        """The marks of a tensor's elements, shape (*shape, itemsize); it starts `offset` bytes into the storage."""
        if self.whole is not None:
            marked: Bools = elements_of(self.whole[offset:][: tensor.span], tensor).copy()
            return marked
        return np.asarray(np.isin(byte_offsets(tensor, offset), self._others) != self._first)

    def write(self, tensor: BoundTensor, offset: int, marks: Bools | bool) -> None:
        """Sets the marks of a tensor's elements, as `read` gives them, or all of them alike."""
        if not tensor.span:
            return
        if self.whole is not None:
            elements_of(self.whole[offset:][: tensor.span], tensor)[...] = marks
            return
        offsets = byte_offsets(tensor, offset)
        other = np.broadcast_to(np.asarray(marks) != self._first, offsets.shape)
        self._others = np.union1d(np.setdiff1d(self._others, offsets[~other]), offsets[other])


def byte_offsets(tensor: BoundTensor, offset: int) -> NDArray[np.int64]:
    """Where each byte of a tensor's elements lies in its storage."""
    places: NDArray[np.int64] = np.arange(tensor.itemsize, dtype=np.int64) + offset
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
        steps = np.arange(size, dtype=np.int64) * (stride * tensor.itemsize)
        places = np.asarray(steps.reshape(-1, *[1] * places.ndim) + places)
    return places
