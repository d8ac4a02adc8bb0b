"""mma.sync with sums in float32, and ldmatrix of rows that are loaded, by the C core: in one call for all warps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.arithmetic.f8_formats import F8_FORMATS
from cutegen.emulator.native.library import Core
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.warps.product_types import SINGLE_BITS
from cutegen.emulator.warps.tensor_cores import MatrixCopy, Mma

_KINDS = {"bf16": 0, "f16": 1, "tf32": 2, "e4m3": 3, "e5m2": 3}
_NONE = np.zeros(1)
_ROW = 8  # elements of a row of ldmatrix


class CoreMma:
    """The products of one mma.sync. Those of integers, and sums in float16, are not for the core."""

    def __init__(self, mma: Mma) -> None:
        self._possible = mma.accumulator == "f32" and mma.kind in _KINDS
        kinds, cut = (mma.kind, mma.b_kind), mma.fused
        self._tables = tuple(F8_FORMATS[kind].values if kind in F8_FORMATS else _NONE for kind in kinds)
        dropped = 0 if cut is None else (1 << SINGLE_BITS - cut.bits) - 1
        numbers = (mma.k, *(_KINDS.get(kind, 0) for kind in kinds), cut.terms if cut else mma.k, cut is not None)
        self._numbers = np.array((0, 0, *numbers, dropped), np.int64)
        self._address = self._numbers.ctypes.data

    def run(self, core: Core, lanes: Lanes, registers: Sequence[Array]) -> Array | None:
        """The registers of D, shape (registers, threads, blocks), from those of A, B and C. None: that is for numpy."""
        given = [np.asarray(one) for one in registers]
        if not self._possible or any(one.dtype != np.uint32 for one in given):
            return None
        out = np.empty((4, *lanes.shape), np.uint32)
        self._numbers[:2] = lanes.shape
        core.accesses["multiply_warps"]((*self._tables, out, *given), self._address)
        return out


class CoreMatrixLoad:
    """The registers that one ldmatrix fills."""

    def __init__(self, copy: MatrixCopy) -> None:
        self._count = copy.count
        self._numbers = np.array((0, 0, copy.count, copy.transposed), np.int64)
        self._address = self._numbers.ctypes.data

    def run(self, core: Core, lanes: Lanes, values: Sequence[Array]) -> Array | None:
        """The registers, shape (registers, threads, blocks), from the rows of the lanes, eight arrays of 16 bits.

        None: that is for numpy.
        """
        given = [np.asarray(one) for one in values]
        if len(given) != _ROW or any(one.dtype != np.uint16 for one in given):
            return None
        out = np.empty((self._count, *lanes.shape), np.uint32)
        self._numbers[:2] = lanes.shape
        core.accesses["spread_matrices"]((*given, out), self._address)
        return out
