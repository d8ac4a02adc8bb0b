"""Accesses to shared memory, unit by unit, with who makes them: lanes, or warps that gather whole matrices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any


@dataclass(frozen=True)
class Touches:
    """An access, unit by unit: one entry for each lane of it and each of the lane's units.

    `rows` and `columns` select the units of the `blocks`; `clusters` and `members` are the threads that access them.
    """

    rows: Array
    columns: Array
    clusters: Array
    members: Array
    blocks: int

    @cached_property
    def cells(self) -> Array:
        """The number of each unit over all blocks."""
        return np.asarray(self.rows * self.blocks + self.columns)


def overlap(rows: Array, columns: Array, counts: Array) -> bool:
    """Whether any two runs share a unit: each has so many units of a block, from one of its rows on."""
    order = np.lexsort((rows, columns))
    rows, columns = rows[order], columns[order]
    near = (columns[1:] == columns[:-1]) & (rows[1:] - rows[:-1] < counts[order[:-1]])
    return has_any(near)


class GatheredReads(Protocol):
    """The matrices that warps gather from shared memory at once; several warps may read the same one."""

    @property
    def cells(self) -> Array:
        """The units of all matrices over all blocks."""

    @property
    def starts(self) -> Array:
        """Where the cells of each matrix start, and the last ones end."""

    @property
    def matrices(self) -> Array:
        """The numbers of the two matrices that each warp reads, shape (warps, 2)."""

    @property
    def of_cell(self) -> Array:
        """The number of the matrix of each of the cells."""

    @property
    def times(self) -> Array:
        """How many warps read each of the cells."""

    @property
    def clusters(self) -> Array:
        """The cluster of each warp."""

    @property
    def first(self) -> Array:
        """The first member of each warp."""

    def least(self, known: Array) -> Array:
        """The least of what the warps that read it know, a row for each matrix, from a row for each warp."""

    def of_warp(self, number: int) -> tuple[Array, bool]:
        """The cells that a warp reads, and whether they are all different ones."""
