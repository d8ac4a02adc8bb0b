"""The plan of a contraction on the tensor cores of warpgroups: every number and choice that its templates print."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cutegen.families.attention.plan import WalkingPlan
from cutegen.families.attention.reach_text import parts_of
from cutegen.language.model import Tensor
from cutegen.ops.folding import folded

ROWS = 64  # of a warpgroup, which its product has
WARPGROUP = 128  # threads
REGISTERS = {1: (24, 240), 2: (24, 240), 3: (32, 160)}
"""Of a thread that loads, and of one that multiplies, by the number of warpgroups that do: a block has 65536."""


@dataclass(frozen=True)
class Operand:
    """A tensor that is multiplied or stored in tiles by a tensor map: rows of `depth` contiguous elements."""

    tensor: Tensor
    row: str  # the mode of its rows in a tile
    depth_mode: str
    rows: int  # of a load, or of a store
    depth: int
    swizzle: int  # bytes of a row of shared memory, over which runs of 16 exchange their places

    @property
    def bytes(self) -> int:
        """Bytes of one load, or store."""
        return self.rows * self.depth * self.tensor.dtype.bytes

    @property
    def order(self) -> tuple[int, ...]:
        """The tensor's modes as its map has them: rows, then along a row, then the others."""
        modes = self.tensor.shape
        first = modes.index(self.row), modes.index(self.depth_mode)
        return (*first, *(place for place in range(len(modes)) if place not in first))


@dataclass(frozen=True, kw_only=True)
class WarpgroupAttentionPlan(WalkingPlan):
    """One warp loads tiles; warpgroups that have 64 rows of a tile each multiply and compute by turns."""

    q: Operand
    k: Operand
    v: Operand
    o: Operand

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return self.row_block // ROWS

    @property
    def registers(self) -> tuple[int, int]:
        """Registers of a thread: in the warpgroup that loads, and in those that multiply."""
        return REGISTERS[self.consumers]

    @property
    def overlaid(self) -> bool:
        """Whether the tile of the output takes the place of that of the left tensor, which has as many bytes."""
        return self.o.bytes == self.q.bytes

    @cached_property
    def folds(self) -> bool:
        """Whether scores are scaled where their exponentials are computed."""
        names = [tensor.name for tensor in self.spec.tensors]
        return self.spec.schedule.fast_math and folded(self.walked, self.bounds, names) is not None

    @property
    def takes_turns(self) -> bool:
        """Whether one warpgroup multiplies while another computes."""
        return self.consumers > 1

    @property
    def parts(self) -> tuple[bool, ...]:
        """The parts of the walk behind its first tile: whether bounds may cut tiles of each, so that scores are left
        out of these. Statements that do not scale scores later leave them out of every tile.
        """
        return parts_of(self.bounds) if self.folds else (False,)
