"""Instructions on registers that are alike, done at once: as many calls of numpy as for one.

Unrolled code has many of them, and what numpy computes in a call takes less time than the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.poison import Rule
from cutegen.emulator.lanes import Mask, spread
from cutegen.emulator.operations.multiply_adds import FEWEST as FEWEST_SUMS
from cutegen.emulator.operations.multiply_adds import MultiplyAdd, MultiplyAdds
from cutegen.emulator.operations.operands import Getter, Operation
from cutegen.emulator.operations.shared_loads import loads_together
from cutegen.emulator.operations.state import Lanes

FEWEST = 3
"""So many instructions that are alike are worth being done at once."""

MOST_LANES = 4096
"""With more lanes than these the copies take longer than the calls that are saved."""


@dataclass(frozen=True, eq=False)
class RegisterOperation:
    """The operation of an instruction with one result, the register in the slot `target`.

    `sources` are the slots of what it reads, -1 for what is no register, and `getters` find their values. `function`
    computes the result from those, and `rule` its poison. Operations with the same `sort` differ in the registers only.
    """

    target: int
    sources: tuple[int, ...]
    getters: tuple[Getter, ...]
    function: Callable[[Sequence[Array]], list[Array]]
    rule: Rule
    sort: object
    read: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "read", tuple(dict.fromkeys(slot for slot in self.sources if slot >= 0)))

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        values = [get(lanes) for get in self.getters]
        poison = None
        if lanes.poison and not lanes.clean(self.read, mask):
            poison = self.rule([lanes.poison.get(slot) for slot in self.sources], values)[0]
        lanes.put(self.target, self.function(values)[0], mask, poison)


class AlikeOperations:
    """Several operations of one sort at once, none of which reads or writes what another one writes."""

    def __init__(self, each: Sequence[RegisterOperation]) -> None:
        self.each = tuple(each)
        self.read = tuple(dict.fromkeys(slot for one in each for slot in one.read))
        self._first = each[0]
        self._slots = [None if slot < 0 else [one.sources[i] for one in each] for i, slot in enumerate(each[0].sources)]

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        values = self._values(lanes)
        if values is None or lanes.poison and not lanes.clean(self.read, mask):
            for one in self.each:
                one(lanes, mask)
            return
        for one, result in zip(self.each, self._first.function(values)[0], strict=True):
            lanes.put(one.target, result, mask)

    def _values(self, lanes: Lanes) -> list[Array] | None:
        """The values of the sources, those of registers with a first axis for the operations; None if they are many."""
        found = [None if slots is None else [lanes.get(slot) for slot in slots] for slots in self._slots]
        shapes = {value.shape for values in found for value in values or ()}
        shape = shapes.pop() if len(shapes) == 1 else lanes.shape
        if len(shape) != 2:
            shape = (1, 1) if not shape and not shapes else lanes.shape
        if shape[0] * shape[1] > MOST_LANES:
            return None
        return [
            get(lanes)
            if values is None
            else np.concatenate([spread(value, shape) for value in values]).reshape(len(values), *shape)
            for get, values in zip(self._first.getters, found, strict=True)
        ]


def gather_alike(
    operations: Sequence[tuple[int, Operation]],
    reads: Sequence[Sequence[int]],
    writes: Sequence[Sequence[int] | None],
) -> tuple[tuple[int, Operation], ...]:
    """The operations of a basic block, each with the number of its instruction, with those that are alike done at once,
    and loads that follow each other.

    These come where the first of them was, if nothing in between reads or writes what they write, or writes what they
    read. `reads` and `writes` say which slots each instruction reads and writes; where it does more than that and read
    memory, `writes` has None, and nothing is brought forward over it.
    """
    found: list[list[tuple[int, Operation]]] = []
    latest: dict[object, int] = {}  # sort -> where those are done that are alike
    written: dict[int, int] = {}  # slot -> where it is written last
    read: dict[int, int] = {}
    for number, operation in operations:
        sources, targets = _registers(operation, reads[number], writes[number])
        place = len(found)
        sort = operation.sort if isinstance(operation, RegisterOperation) else None
        sort = MultiplyAdd if isinstance(operation, MultiplyAdd) else sort
        if sort is not None:
            at = latest.get(sort, -1)
            free = all(written.get(slot, -1) < at for slot in (*sources, *targets))
            if free and all(read.get(slot, -1) <= at for slot in targets):
                place = at
            latest[sort] = place
        elif writes[number] is None:
            latest.clear()
        if place == len(found):
            found.append([])
        found[place].append((number, operation))
        for slot in sources:
            read[slot] = max(place, read.get(slot, -1))
        for slot in targets:
            written[slot] = place
    together: list[tuple[int, Operation]] = []
    for some in found:
        alike = [operation for _, operation in some if isinstance(operation, RegisterOperation)]
        sums = [operation for _, operation in some if isinstance(operation, MultiplyAdd)]
        if len(alike) >= FEWEST:
            together.append((some[0][0], AlikeOperations(alike)))
        elif len(sums) >= FEWEST_SUMS:
            together.append((some[0][0], MultiplyAdds(sums)))
        else:
            together += some
    return loads_together(together)


def _registers(
    operation: Operation, reads: Sequence[int], writes: Sequence[int] | None
) -> tuple[Sequence[int], Sequence[int]]:
    """The slots that an operation reads and writes, from what its first instruction does."""
    if isinstance(operation, MultiplyAdds):
        return tuple(operation.read), operation.targets
    if isinstance(operation, MultiplyAdd):
        return (operation.a, operation.b, operation.c), (operation.target,)
    return reads, writes or ()
