"""Stores to shared memory by the C core, in one call, where what may be wrong with them was looked at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.lanes import Mask
from cutegen.emulator.native.library import Core

_MOST = 62  # units of a lane, as their poison is in one number
_ELEMENT = 2  # bytes of an element of a matrix
_NONE = np.zeros(1, np.bool_)


class CoreStores:
    """Stores to the shared memory of the blocks of `shape`, whose `data` and `flags` have a row for each unit; `dirty`
    has the flags that a unit has in any block.
    """

    def __init__(self, core: Core, shape: tuple[int, int], data: Array, flags: Array, dirty: Array) -> None:
        self._data, self._flags, self._dirty = data, flags, dirty
        self._store, self._store_matrices = core.accesses["store_shared"], core.accesses["store_matrices"]
        self._numbers = np.zeros(9, np.int64)
        self._numbers[:2], self._numbers[3] = shape, data.itemsize
        self._lanes = shape
        self._address = self._numbers.ctypes.data

    def put(self, access: SharedAccess, values: Sequence[Array], poison: Sequence[Mask], flag: int) -> bool:
        """Does what `SharedMemory._put` does. False, and nothing is changed, for arrays that are not as the core reads
        them.
        """
        rows, columns, count = access.rows, access.columns, access.count
        mask = _NONE if access.mask is None else np.asarray(access.mask)
        stored = [np.asarray(value) for value in values]
        lost = sum(1 << j for j, one in enumerate(poison) if one is not None)
        marks = [_NONE if one is None else np.asarray(one) for one in poison] if lost else []
        if (
            count > _MOST
            or rows.dtype != np.int64
            or (columns is not None and columns.dtype != np.int64)
            or any(value.dtype != self._data.dtype for value in stored)
            or any(one.dtype != np.bool_ for one in (mask, *marks))
        ):
            return False
        self._numbers[2] = count
        self._numbers[4:] = (access.mask is not None, columns is not None, len(stored) > 0, flag, lost)
        places = (rows, rows if columns is None else columns, mask)
        self._store((*places, self._data, self._flags, self._dirty, *stored, *marks), self._address)
        return True

    def put_matrices(
        self, access: SharedAccess, registers: Sequence[Array], poison: Sequence[Array] | None, transposed: bool
    ) -> bool:
        """Stores matrices of 8 rows of 16 bytes, one for each of the registers of 32 bits that have them, as stmatrix
        does: the first lanes of each warp of an access have a row each. `poison` is that of the registers, if any has.

        False, and nothing is changed, for arrays that are not as the core reads them.
        """
        rows, mask = access.rows, _NONE if access.mask is None else np.asarray(access.mask)
        arrays = [np.asarray(one) for one in (*registers, *(poison or ()))]
        if self._data.itemsize > _ELEMENT or rows.dtype != np.int64 or any(one.dtype != np.uint32 for one in arrays):
            return False
        masked = access.mask is not None
        numbers = (*self._lanes, len(registers), self._data.itemsize, masked, transposed, poison is not None)
        given = np.array(numbers, np.int64)
        tables = (rows, rows, mask, self._data, self._flags, self._dirty)
        self._store_matrices((*tables, *arrays), given.ctypes.data)
        return True
