"""The plan of a contraction that walks one mode, for warps and for warpgroups that multiply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from cutegen.families.attention.operands import UNIT, multiplied
from cutegen.language.lengths import lengths_of
from cutegen.language.model import Tensor
from cutegen.language.modes import Lengths
from cutegen.ops.neutral import excluding_name
from cutegen.ops.reach import Bound, known_bounds
from cutegen.ops.walked import Walked
from cutegen.planning.plan import Plan
from cutegen.planning.promises import known_divisor


def suffix_of(number: int) -> str:
    """The suffix of the names of variables for a product, or an output, of that number."""
    return f"_{number + 1}" if number else ""


@dataclass(frozen=True)
class Operand:
    """A tensor that is multiplied or stored in tiles: rows of `depth` contiguous elements."""

    tensor: Tensor
    row: str  # the mode of its rows in a tile
    depth_mode: str
    rows: int  # of a tile, or of what is moved at once
    depth: int
    swizzle: int  # bytes of a row of shared memory, over which runs of 16 exchange their places


Moved = TypeVar("Moved", bound=Operand)


@dataclass(frozen=True)
class Pair(Generic[Moved]):
    """A product of two tensors with an element for each score: of rows of both, along their depth."""

    name: str  # of what it computes
    left: Moved
    right: Moved
    suffix: str  # of the names of its variables

    @property
    def steps(self) -> int:
        """Products of a tile along the summed mode."""
        return self.left.depth // UNIT


@dataclass(frozen=True)
class Outer(Generic[Moved]):
    """A product along the walked mode of what was computed of the scores with rows of a tensor."""

    name: str  # of the sum
    values: Moved
    suffix: str  # of the names of its variables


def products_of(
    found: Walked, operands: Mapping[str, Moved]
) -> tuple[tuple[Pair[Moved], ...], tuple[Outer[Moved], ...]]:
    """The products of two tensors, and those along the walked mode, of operands by the names of their tensors. Every
    sum in `outer` has a product: that is what it is chosen by.
    """
    pairs = tuple(
        Pair(one.name, operands[one.a], operands[one.b], suffix_of(number)) for number, one in enumerate(found.products)
    )
    outers = tuple(
        Outer(one.name, operands[one.product.b], suffix_of(number))
        for number, one in enumerate(found.outer)
        if one.product is not None
    )
    return pairs, outers


def comes_by_turns(found: Walked) -> bool:
    """Whether the tiles of two tensors come by turns: those of the only product of two, and of the only one along the
    walked mode.
    """
    _, rights = multiplied(found)
    return len(found.products) == len(found.outer) == 1 and len(rights) == 2 and not found.around


@dataclass(frozen=True, kw_only=True)
class WalkingPlan(Plan, Generic[Moved]):
    """A block takes a tile of rows of one combination of the `outer` modes, and walks tiles of the walked mode."""

    walked: Walked
    stages: int
    lefts: tuple[Moved, ...]  # whose rows a block keeps
    rights: tuple[Moved, ...]  # of which each tile that is walked has rows
    outputs: tuple[Moved, ...]  # with columns
    pairs: tuple[Pair[Moved], ...]
    outers: tuple[Outer[Moved], ...]
    packed: tuple[str, ...] = ()  # modes of the rows of a tile besides `rows_mode`

    @property
    def by_turns(self) -> bool:
        """Whether the tiles of two tensors come by turns; else those of all come together."""
        return comes_by_turns(self.walked)

    @property
    def q(self) -> Moved:
        """The only tensor on the left, of a plan whose tiles come `by_turns`."""
        (found,) = self.lefts
        return found

    @property
    def k(self) -> Moved:
        """The tensor that it is multiplied with."""
        (found,) = self.pairs
        return found.right

    @property
    def v(self) -> Moved:
        """The tensor that is multiplied with what is computed of the scores."""
        (found,) = self.outers
        return found.values

    @property
    def o(self) -> Moved:
        """The only output with columns."""
        (found,) = self.outputs
        return found

    @property
    def loaded(self) -> tuple[Moved, ...]:
        """The tensors whose tiles are copied to shared memory."""
        return (*self.lefts, *self.rights)

    @property
    def read_both_ways(self) -> tuple[Moved, ...]:
        """The tensors that are walked whose rows and whose columns are multiplied."""
        return tuple(x for x in self.rights if x in self.rights_of_pairs and x in self.rights_of_outers)

    @property
    def rights_of_pairs(self) -> tuple[Moved, ...]:
        """The tensors that are walked whose rows are multiplied."""
        return tuple(dict.fromkeys(pair.right for pair in self.pairs))

    @property
    def rights_of_outers(self) -> tuple[Moved, ...]:
        """The tensors that are walked whose columns are multiplied with what is computed of the scores."""
        return tuple(dict.fromkeys(one.values for one in self.outers))

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
