"""How poison goes through a segment, told at once for all its instructions: where registers are poisoned as a whole.

So it is in the lanes of rows that nothing has loaded: all that is computed from them means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.poison import (
    joins_halves,
    keeps_some,
    keeps_whole,
    makes_whole,
    poison_whole,
    poisoned_lanes,
)
from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.lanes import Mask
from cutegen.emulator.native.graphs import Lowered
from cutegen.emulator.operations.state import Lanes

Slots = frozenset[int]


@dataclass(frozen=True)
class Spread:
    """The registers before a segment that the lower and the upper half of a result are made of.

    Where it is `whole`, poison of whole registers among them makes all of the result poison, or of the one half. Where
    it is not, this makes `some` bit of it poison, or nothing is said of what becomes of it.
    """

    lower: Slots
    upper: Slots
    whole: bool = True
    some: bool = True

    @property
    def slots(self) -> Slots:
        return self.lower | self.upper

    @property
    def halves(self) -> bool:
        """Whether the halves are made of different registers."""
        return self.lower != self.upper


def spreads(instructions: Iterable[tuple[Lowered, PureOp]]) -> dict[int, Spread]:
    """How poison spreads to each register that instructions write, by its slot, after all of them."""
    found: dict[int, Spread] = {}

    def now(slot: int) -> Spread:
        if slot < 0:
            return Spread(frozenset(), frozenset())
        return found.get(slot) or Spread(frozenset((slot,)), frozenset((slot,)))

    for one, op in instructions:
        made = _made(one, op, [now(slot) for slot in one.sources])
        for target in (target for target in one.targets if target >= 0):
            if one.guard is None:
                found[target] = made
                continue
            either = made.slots | now(target).slots
            found[target] = _chosen(now(one.guard), either) if op.undefined is None else _unknown(either)
    return found


def _made(one: Lowered, op: PureOp, sources: Sequence[Spread]) -> Spread:
    """How poison spreads to the results of an instruction, from how it spreads to its sources."""
    slots = frozenset[int]().union(*(source.slots for source in sources))
    if one.instruction.opcode == "selp":
        return _chosen(sources[2], sources[0].slots | sources[1].slots)
    if not all(source.some and not source.halves for source in sources):
        return _unknown(slots)
    if joins_halves(one.instruction, op):
        return Spread(sources[1].slots, sources[0].slots)
    whole = all(source.whole for source in sources)
    if keeps_whole(one.instruction, op) and (whole or makes_whole(one.instruction, op)):
        return Spread(slots, slots)
    return Spread(slots, slots, whole=False, some=whole and keeps_some(one.instruction, op))


def _chosen(by: Spread, either: Slots) -> Spread:
    """How poison spreads to the value that the predicate `by` chooses among ones made of the registers `either`.

    The value is poison as a whole if the predicate is. So it is if one of the registers is, in case the predicate is
    made of all of them, too.
    """
    known = by.whole and not by.halves and either <= by.slots
    return Spread(by.slots, by.slots) if known else _unknown(by.slots | either)


def _unknown(slots: Slots) -> Spread:
    return Spread(slots, slots, whole=False, some=False)


def poisoned_results(
    lanes: Lanes, mask: Mask, targets: Sequence[int], widths: Sequence[int], known: Mapping[int, Spread]
) -> dict[int, Array] | None:
    """The poison that results of a segment have in the lanes of the mask, by slot; None where it is not known."""
    unions: dict[tuple[int, ...], Array | None] = {}
    made: dict[tuple[int, int, int], Array] = {}
    found: dict[int, Array] = {}

    def union(slots: Slots) -> Array | None:
        """The lanes of the mask in which some of the registers are poisoned."""
        some = {id(poison): poison for slot in slots if (poison := lanes.poison.get(slot)) is not None}
        key = tuple(some)
        if key not in unions:
            lost: Array | None = None
            for poison in some.values():
                lost = poisoned_lanes(poison) if lost is None else lost | poisoned_lanes(poison)
            lost = lost if lost is None or mask is None else lost & mask
            unions[key] = lost if lost is not None and has_any(lost) else None
        return unions[key]

    for target, width in zip(targets, widths, strict=True):
        spread = known[target]
        lower = union(spread.lower)
        upper = lower if spread.upper is spread.lower else union(spread.upper)
        if lower is None and upper is None:
            continue
        held = (lanes.poison.get(slot) for slot in spread.slots)
        if not spread.whole or not all(lanes.is_whole(poison) for poison in held if poison is not None):
            return None
        key = id(lower), id(upper), width
        if key not in made:
            made[key] = _poison(lower, upper, width)
        found[target] = made[key]
    return found


def _poison(lower: Array | None, upper: Array | None, width: int) -> Array:
    """Poison of the halves of a register in lanes."""
    if lower is upper:
        assert lower is not None
        return poison_whole(lower, width)
    low = (1 << width // 2) - 1
    found: Array | None = None
    for lost, bits in ((lower, low), (upper, low << width // 2)):
        if lost is not None:
            part = poison_whole(lost, width)
            part = part & part.dtype.type(bits)
            found = part if found is None else found | part
    assert found is not None
    return found
