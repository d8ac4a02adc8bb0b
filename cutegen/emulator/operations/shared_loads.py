"""Loads from the shared memory of the lanes' own block: one, and several in a row, which are made by one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.lanes import Mask
from cutegen.emulator.memory.core_loads import Loads, OneLoad
from cutegen.emulator.operations.addresses import Pointer
from cutegen.emulator.operations.operands import Operation
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.ptx.types import STORAGE

Target = tuple[int, int] | None
"""The slot and the width of a register that is written, None for a value that nobody wants."""


@dataclass(frozen=True, eq=False)
class SharedLoad:
    """The operation of a load of values of `size` bytes to registers, `signed` ones or not."""

    where: Pointer
    size: int
    targets: tuple[Target, ...]
    signed: bool
    instruction: Instruction

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        address = self.where.known_base(lanes, mask, self.instruction)
        count, active = len(self.targets), lanes.active(mask)
        values, poison = lanes.shared.load(address, self.where.offset, self.size, count, active, self.instruction)
        for target, value, bad in zip(self.targets, values, poison, strict=True):
            if target is not None:
                lanes.put(target[0], extend(value, target[1], self.signed), mask, bad)

    def put(self, lanes: Lanes, mask: Mask, values: Sequence[Array]) -> None:
        """Writes what was loaded, all of which was written before, to the registers."""
        for target, value in zip(self.targets, values, strict=True):
            if target is not None:
                lanes.put(target[0], extend(value, target[1], self.signed), mask)


class SharedLoads:
    """The operation of several loads, none of which needs what one before it loads, of as many values of one size."""

    def __init__(self, each: Sequence[SharedLoad]) -> None:
        self.each = tuple(each)
        pointers = {one.where.slot: one.where for one in each}
        self._slots, self._pointers = tuple(pointers), tuple(pointers.values())
        which = np.array([self._slots.index(one.where.slot) for one in each], np.int64)
        own = tuple(OneLoad(one.where.offset, one.instruction) for one in each)
        self._count, size = len(each[0].targets), each[0].size
        self._loads = Loads(own, size, self._count, which)
        targets = [target for one in each for target in one.targets]
        # Where each value goes, if all of them go to registers as they are
        plain = all(target is not None and target[1] == 8 * size for target in targets)
        self._plain = [target[0] for target in targets if target is not None] if plain else None

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        done, each, shared = 0, self.each, lanes.shared
        by_core = shared.core_loads if shared.touched is None else None
        if by_core is not None and (not lanes.poison or lanes.clean(self._slots, mask)):
            addresses = [np.asarray(pointer.base(lanes)) for pointer in self._pointers]
            active = lanes.active(mask)
            first = -1
            while first < done < len(each):  # once one fails at once, others are likely to
                first = done
                values, done = by_core.load_several(self._loads, addresses, active, first)
                self._put(lanes, mask, first, values)
                if first < done < len(each):
                    each[done](lanes, mask)
                    done += 1
        for one in each[done:]:
            one(lanes, mask)

    def _put(self, lanes: Lanes, mask: Mask, first: int, values: Sequence[Array]) -> None:
        """Writes what was loaded, from a load on, to the registers."""
        count = self._count
        if self._plain is None:
            for i in range(len(values) // count):
                self.each[first + i].put(lanes, mask, values[i * count : (i + 1) * count])
            return
        slots = self._plain[first * count :]
        if mask is None and not lanes.poison:
            bits, wide = lanes.bits, lanes.wide
            for slot, value in zip(slots, values, strict=False):
                bits[slot] = value
                wide[slot] = None
            return
        for slot, value in zip(slots, values, strict=False):
            lanes.put(slot, value, mask)


def loads_together(operations: Iterable[tuple[int, Operation]]) -> tuple[tuple[int, Operation], ...]:
    """The operations, each with a number, with loads that follow each other made at once, as the first of them."""
    found: list[tuple[int, Operation]] = []
    some: list[SharedLoad] = []
    written: set[int] = set()
    start = 0

    def end() -> None:
        if some:
            found.append((start, some[0] if len(some) == 1 else SharedLoads(some)))
        some.clear()
        written.clear()

    for number, operation in operations:
        if not isinstance(operation, SharedLoad):
            end()
            found.append((number, operation))
            continue
        alike = not some or (some[0].size, len(some[0].targets)) == (operation.size, len(operation.targets))
        if not alike or operation.where.slot in written or operation.where.slot < 0:
            end()
        if not some:
            start = number
        some.append(operation)
        written.update(target[0] for target in operation.targets if target is not None)
    end()
    return tuple(found)


def extend(value: Array, width: int, signed: bool) -> Array:
    """Raw bits extended to a register of `width` bits, by the sign if `signed`, else by zeros."""
    storage = STORAGE[width]
    if value.dtype == storage:
        return value
    if signed:
        return value.view(np.dtype(f"i{value.dtype.itemsize}")).astype(f"i{width // 8}").view(storage)
    return value.astype(storage)
