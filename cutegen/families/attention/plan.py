"""The plan of a contraction that walks one mode, for warps and for warpgroups that multiply."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cutegen.families.attention.operands import UNIT
from cutegen.language.lengths import lengths_of
from cutegen.language.modes import Lengths
from cutegen.ops.neutral import excluding_name
from cutegen.ops.reach import Bound, known_bounds
from cutegen.ops.walked import Walked
from cutegen.planning.plan import Plan
from cutegen.planning.promises import known_divisor


def suffix_of(number: int) -> str:
    """The suffix of the names of variables for a product, or an output, of that number."""
    return f"_{number + 1}" if number else ""


@dataclass(frozen=True, kw_only=True)
class WalkingPlan(Plan):
    """A block takes a tile of rows of one combination of the `outer` modes, and walks tiles of the walked mode."""

    walked: Walked
    stages: int
    packed: tuple[str, ...] = ()  # modes of the rows of a tile besides `rows_mode`

    @property
    def rows_mode(self) -> str:
        """The mode of the rows of a tile, or of several the one that varies least."""
        return self.walked.rows[0]

    @property
    def row_block(self) -> int:
        """Rows of a tile."""
        return self.tile[self.rows_mode]

    @property
    def key_block(self) -> int:
        """Elements along the walked mode that are multiplied at a time."""
        return self.tile[self.walked.walked]

    @property
    def depth(self) -> int:
        """Elements of the summed mode."""
        return self.tile[self.walked.scores.mode]

    @property
    def columns(self) -> int:
        """Elements of the output's rows."""
        return self.tile[self.walked.columns]

    @property
    def steps(self) -> int:
        """Products of a tile of scores along the summed mode."""
        return self.depth // UNIT

    @property
    def outer_steps(self) -> int:
        """Products of a tile along the walked mode."""
        return self.key_block // UNIT

    @property
    def row_modes(self) -> tuple[str, ...]:
        """The modes of the rows of a tile, the last one fastest."""
        return (self.rows_mode, *self.packed)

    @property
    def outer(self) -> tuple[str, ...]:
        """Modes of which a block has one place: the last varies fastest from block to block."""
        return (*self.walked.batch, *(mode for mode in self.walked.rows[1:] if mode not in self.packed))

    @cached_property
    def lengths(self) -> Lengths | None:
        """The lengths of the walked mode, one for each place along another mode; None where all of it exists."""
        return lengths_of(self.spec.tensors)

    @cached_property
    def bounds(self) -> tuple[Bound, ...]:
        """The bounds of the walked tiles."""
        return known_bounds(self.spec, self.walked)

    @cached_property
    def masked(self) -> str | None:
        """The element statement that is made minus infinity beyond the end; None: each term is made neutral."""
        return excluding_name(self.walked)

    @property
    def whole(self) -> bool:
        """Whether the walked mode ends with a tile."""
        return self.lengths is None and known_divisor(self.spec, self.walked.walked) % self.key_block == 0

    @property
    def shares_out(self) -> bool:
        """Whether blocks take the tiles of rows of several places together, as walks have different lengths."""
        return bool(self.outer) and any(bound.row for bound in self.bounds)
