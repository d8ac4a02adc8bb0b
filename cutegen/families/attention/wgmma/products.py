"""Statements of a contraction's warpgroups on scores, on what is computed of them, and on the sums that follow.

Proofs follow a tile through them: its scores are computed with once, what that gives is multiplied with the same tile
of the values, and each tile is added to the sums once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from cutegen.parts import acts
from cutegen.parts.acting import Acting
from cutegen.parts.acts import Act, Cell, Content
from cutegen.parts.faults import refuse
from cutegen.parts.moving import Multiply
from cutegen.parts.statements import Statement

SCORES, FACTORS, SUMS = "acc_S", "tOrP", "acc_O"  # registers
_COMPUTED = "computed"  # what a thread has of a tile whose scores it has computed with


@dataclass(frozen=True)
class MultiplyScores(Multiply):
    """The products of a warpgroup's rows of the left tensor with a stage of the right one: scores. `left_content` is
    what must stand in the cell of those rows.
    """

    left_content: str = ""

    def acts(self, at: Acting) -> Iterator[Act]:
        stage, content = int(at.value(self.stage)), tuple(at.value(self.content))
        (left,), (right,) = at.found(at.fragments, self.a), at.found(at.fragments, self.b)
        rows = Cell(at.agent.block, left, (int(at.value(self.place_of_a)),)), tuple(at.value(self.left_content))
        at.together("start a product")
        if self.sums in at.held.sums:
            refuse("sum", f"{at.agent.role} replaces scores of {dict(at.held.sums[self.sums])}", at.agent)
        at.held.sums[self.sums] = Counter({(content, 0): 1})
        yield acts.Multiply((rows, (Cell(at.agent.block, right, (stage,)), content)), (self.sums,))


@dataclass(frozen=True)
class Compute(Statement):
    """Lines of the family that use up the scores of a tile, and keep what follows from them in their registers."""

    tile: str

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("compute with scores")
        content: Content = tuple(at.value(self.tile))
        found = at.held.sums.pop(SCORES, Counter())
        if found != Counter({(content, 0): 1}):
            refuse("sum", f"{at.agent.role} takes {dict(found)} for the scores of tile {content[0]}", at.agent)
        at.held.tiles[_COMPUTED] = content
        yield acts.Use((SCORES,))


@dataclass(frozen=True)
class MakeFactors(Statement):
    """Lines of the family that make factors of what was computed of a tile, and scale the sums."""

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("make factors")
        content = at.held.tiles.pop(_COMPUTED, None)
        if content is None:
            refuse("sum", f"{at.agent.role} makes factors of no scores", at.agent)
        at.held.fragments[FACTORS, 0] = (content, 0)
        yield acts.Use((SCORES, FACTORS, SUMS))


@dataclass(frozen=True)
class ComputeFactors(Statement):
    """Lines of the family that use up all `scores` of a tile, and make `factors` of them."""

    tile: str
    scores: tuple[str, ...]
    factors: tuple[str, ...]

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("compute with scores")
        content: Content = tuple(at.value(self.tile))
        for name in self.scores:
            found = at.held.sums.pop(name, Counter())
            if found != Counter({(content, 0): 1}):
                refuse("sum", f"{at.agent.role} takes {dict(found)} for the {name} of tile {content[0]}", at.agent)
        for name in self.factors:
            at.held.fragments[name, 0] = (content, 0)
        yield acts.Use((*self.scores, *self.factors))


@dataclass(frozen=True)
class MultiplyFactors(Multiply):
    """The products of factors in registers, A, with a stage of the values, which are added to the sums."""

    def acts(self, at: Acting) -> Iterator[Act]:
        stage, content = int(at.value(self.stage)), tuple(at.value(self.content))
        (values,) = at.found(at.fragments, self.b)
        at.together("start a product")
        held = at.held.fragments.pop((self.a, 0), None)
        if held is None or held[0] != content:
            refuse("fragment", f"{at.agent.role} multiplies tile {content[0]} with factors of {held}", at.agent)
        at.held.sums.setdefault(self.sums, Counter())[content, 0] += 1
        yield acts.Multiply(((Cell(at.agent.block, values, (stage,)), content),), (self.sums, self.a))


@dataclass(frozen=True)
class UseSums(Statement):
    """Lines of the family that use sums: each of the tiles, from the first one on, has been added once."""

    first: str
    tiles: str
    sums: str = SUMS

    def acts(self, at: Acting) -> Iterator[Act]:
        at.together("use sums")
        found = at.held.sums.get(self.sums, Counter())
        first = int(at.value(self.first))
        wanted = {((tile,), 0) for tile in range(first, first + int(at.value(self.tiles)))}
        for step in {*found, *wanted}:
            if found[step] != 1 or step not in wanted:
                refuse("sum", f"{at.agent.role} adds tile {step[0][0]} {found[step]} times", at.agent)
        yield acts.Use((self.sums,))
