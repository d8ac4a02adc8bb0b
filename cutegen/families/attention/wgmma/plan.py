"""The plan of a contraction on the tensor cores of warpgroups: every number and choice that its templates print."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cutegen.families.attention.operands import taken_places, vectors_of
from cutegen.families.attention.plan import Operand, WalkingPlan, suffix_of
from cutegen.families.attention.reach_text import parts_of
from cutegen.language.model import Tensor
from cutegen.ops.folding import folded

ROWS = 64  # of a warpgroup, which its product has
WARPGROUP = 128  # threads
REGISTERS = {1: (24, 240), 2: (24, 240), 3: (32, 160)}
"""Of a thread that loads, and of one that multiplies, by the number of warpgroups that do: a block has 65536."""


@dataclass(frozen=True)
class MappedOperand(Operand):
    """A tensor whose tiles a tensor map loads or stores."""

    around: tuple[str, ...] = ()  # modes of which tiles of all places are walked

    @property
    def bytes(self) -> int:
        """Bytes of one load, or store."""
        return self.rows * self.depth * self.tensor.dtype.bytes

    @property
    def order(self) -> tuple[int, ...]:
        """The tensor's modes as its map has them: rows, then along a row, those around, then the others."""
        modes = self.tensor.shape
        first = [modes.index(mode) for mode in (self.row, self.depth_mode, *self.around)]
        return (*first, *(place for place in range(len(modes)) if place not in first))


@dataclass(frozen=True, kw_only=True)
class WarpgroupAttentionPlan(WalkingPlan[MappedOperand]):
    """One warp loads tiles; warpgroups that have 64 rows of a tile each multiply and compute by turns."""

    @cached_property
    def vectors(self) -> tuple[Tensor, ...]:
        """The tensors of which each tile has a vector along the walked mode in shared memory."""
        return () if self.by_turns else vectors_of(self.spec, self.walked)

    @property
    def zeroed(self) -> tuple[MappedOperand, ...]:
        """The tensors whose rows beyond a length are overwritten with zeros. Where tiles come by turns, it is the one
        that factors are multiplied with: scores beyond the length are left out.
        """
        return self.rights_of_outers if self.by_turns else self.rights

    @property
    def sum_products(self) -> dict[int, str]:
        """The products of warpgroups along the walked mode: of sums with so many columns, each with its variable."""
        columns = dict.fromkeys(one.values.depth for one in self.outers)
        return {count: f"mma_O{suffix_of(number)}" for number, count in enumerate(columns)}

    @property
    def consumers(self) -> int:
        """Warpgroups that multiply."""
        return self.row_block // ROWS

    @property
    def registers(self) -> tuple[int, int]:
        """Registers of a thread: in the warpgroup that loads, and in those that multiply."""
        return REGISTERS[self.consumers]

    @cached_property
    def overlaid(self) -> dict[str, str]:
        """The outputs whose tiles take the places of tiles of left tensors, and these."""
        return taken_places(self.spec, self.walked)

    @cached_property
    def folds(self) -> bool:
        """Whether scores are scaled where their exponentials are computed."""
        names = [tensor.name for tensor in self.spec.tensors]
        return self.by_turns and self.spec.schedule.fast_math and folded(self.walked, self.bounds, names) is not None

    @property
    def takes_turns(self) -> bool:
        """Whether named barriers have one warpgroup multiply while another computes."""
        return self.consumers > 1

    @property
    def parts(self) -> tuple[bool, ...]:
        """The parts of the walk behind its first tile: whether bounds may cut tiles of each, so that scores are left
        out of these. Statements that do not scale scores later leave them out of every tile.
        """
        return parts_of(self.bounds) if self.folds else (False,)
