"""fma.rn.f32 as an operation on the lanes' state: one at a time, or many at once, as a matrix product has them.

The values stay float64 from one multiply-add to the next. `fma_f32` says why rounding the float64 sum gives the right
result where that sum is no midpoint between two float32 numbers and the float32 result is normal or exact. The
processor reports an underflow where it is neither. All other cases are left to `fma_f32`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.arithmetic.fma import fma_f32
from cutegen.emulator.checks.poison import Poison, poison_whole, poisoned_lanes
from cutegen.emulator.lanes import Mask, spread
from cutegen.emulator.operations.operands import Operation
from cutegen.emulator.operations.state import Lanes

FEWEST = 8
"""So many independent multiply-adds in a row are worth being done at once."""

MOST_LANES = 1024
"""With more lanes than these the arithmetic takes longer than the calls that are saved by doing many at once."""

MOST_PRODUCTS = 4
"""So many arrays of sums are kept for those that are added to them next."""

_LAST_29, _HALF = np.uint64(0x1FFFFFFF), np.uint64(0x10000000)
_NAN = np.uint32(0x7FFFFFFF).view(np.float32)


def _inexact(lanes: Lanes, total: Array) -> bool:
    """Whether rounding a float64 sum to float32 may give another number than rounding the exact sum does."""
    return lanes.underflow or bool(np.count_nonzero((total.view(np.uint64) & _LAST_29) == _HALF))


def _wide(lanes: Lanes, slot: int) -> Array:
    """The float32 values of a register as float64, which are kept for the next multiply-add."""
    value = lanes.wide[slot]
    if value is None:
        value = np.asarray(lanes.get(slot)).view(np.float32).astype(np.float64)
        lanes.wide[slot] = value
    return value


def _number(lanes: Lanes, slot: int) -> Array | None:
    """The float32 values of a register as float64, or None if it was never written or has a NaN.

    A NaN is left out because float64 does not keep its bits.
    """
    value, bits = lanes.wide[slot], lanes.bits[slot]
    if value is not None or bits is None:
        return value
    narrow: Array = np.asarray(bits).view(np.float32)
    return None if has_any(np.isnan(narrow)) else narrow.astype(np.float64)


@dataclass(frozen=True)
class MultiplyAdd:
    """The operation target = a * b + c on float32, rounded once. Each field is the slot of a register."""

    target: int
    a: int
    b: int
    c: int

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        x, y, z = (_wide(lanes, slot) for slot in (self.a, self.b, self.c))
        poison: Poison = None
        if lanes.poison:
            for slot in () if lanes.clean((self.a, self.b, self.c), mask) else (self.a, self.b, self.c):
                found = lanes.poison.get(slot)
                if found is not None:
                    poison = poisoned_lanes(found) if poison is None else poison | poisoned_lanes(found)
            if poison is not None:
                poison = poison_whole(poison, 32)
        lanes.underflow = False
        total: Array = np.asarray(x * y + z)
        result: Array = total.astype(np.float32)
        if total.ndim == 0 or _inexact(lanes, total):
            result = np.asarray(fma_f32(x.astype(np.float32), y.astype(np.float32), z.astype(np.float32)))
        target = self.target
        if mask is None:
            lanes.wide[target], lanes.bits[target] = result.astype(np.float64), None
            if lanes.poison:
                if poison is None:
                    lanes.poison.pop(target, None)
                else:
                    lanes.poison[target] = poison
            return
        kept = _number(lanes, target) if poison is None and target not in lanes.poison else None
        if kept is None:
            lanes.put(target, np.where(np.isnan(result), _NAN, result).view(np.uint32), mask, poison)
        else:
            lanes.wide[target], lanes.bits[target] = np.where(mask, result.astype(np.float64), kept), None


class MultiplyAdds:
    """Several multiply-adds at once, none of which reads what another one writes: as many calls of numpy as for one."""

    def __init__(self, each: Sequence[MultiplyAdd]) -> None:
        self.each = tuple(each)
        self.factors = list(dict.fromkeys(slot for one in each for slot in (one.a, one.b)))
        place = {slot: i for i, slot in enumerate(self.factors)}
        self.a, self.b = np.array([place[one.a] for one in each]), np.array([place[one.b] for one in each])
        self.addends, self.targets = tuple(one.c for one in each), tuple(one.target for one in each)
        self.read = frozenset((*self.factors, *self.addends))

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        before = [] if mask is None else [_number(lanes, target) for target in self.targets]
        results = self._results(lanes, mask, before)
        if results is None:
            for one in self.each:
                one(lanes, mask)
            return
        new = mask is not None and before[0] is None
        rows = list(results)
        for target, result in zip(self.targets, rows, strict=True):
            lanes.wide[target], lanes.bits[target] = result, None
        if len(lanes.products) > MOST_PRODUCTS:
            lanes.products.clear()
        lanes.products[self.targets] = results, rows
        if mask is None:
            if lanes.poison:
                for target in self.targets:
                    lanes.poison.pop(target, None)
        elif new:
            lanes.poison.update(dict.fromkeys(self.targets, lanes.outside(mask, 32)))
        elif lanes.poison:
            self._clear_poison(lanes, mask)

    def _clear_poison(self, lanes: Lanes, mask: Array) -> None:
        """Takes the poison of the targets away in the lanes of the mask.

        Most targets share one array of poison, which is looked at once.
        """
        left: dict[int, Poison] = {}
        for target in self.targets:
            before = lanes.poison.get(target)
            if before is None:
                continue
            if id(before) not in left:
                merged = np.where(mask, np.uint32(0), before)
                left[id(before)] = merged if has_any(merged) else None
            after = left[id(before)]
            if after is None:
                del lanes.poison[target]
            else:
                lanes.poison[target] = after

    def _poisoned(self, lanes: Lanes, mask: Mask) -> bool:
        """Whether some lane of the mask reads what means nothing."""
        if not lanes.poison:
            return False
        found = {id(poison): poison for slot in self.read if (poison := lanes.poison.get(slot)) is not None}
        if mask is None:
            return bool(found)
        return any(has_any(poisoned_lanes(poison) & mask) for poison in found.values())

    def _results(self, lanes: Lanes, mask: Mask, before: Sequence[Array | None]) -> Array | None:
        """The results as float64, shape (multiply-adds, threads, blocks), or None if they must be computed one by one.

        `before` is what `_number` says of each target, and is empty where the mask is None.
        """
        threads, blocks = lanes.shape
        if threads * blocks > MOST_LANES or self._poisoned(lanes, mask):
            return None
        if any(lanes.bits[slot] is None and lanes.wide[slot] is None for slot in self.read):
            return None  # one was never written
        kept = [value for value in before if value is not None]
        if kept and len(kept) != len(before):
            return None
        if not kept and any(lanes.bits[target] is not None for target in self.targets if before):
            return None  # a NaN is there
        factors = _factors(lanes, self.factors)
        addends = _addends(lanes, self.addends)
        lanes.underflow = False
        total = factors[self.a]
        total *= factors[self.b]
        total += addends
        results: Array = total.astype(np.float32).astype(np.float64)
        if _inexact(lanes, total):
            return None
        if mask is None or not kept:
            return results
        return np.where(mask, results, _stacked(kept, lanes.shape))


def _factors(lanes: Lanes, slots: Sequence[int]) -> Array:
    """The float32 values of registers as float64, shape (registers, threads, blocks)."""
    if any(lanes.wide[slot] is not None for slot in slots):
        return _stacked([_wide(lanes, slot) for slot in slots], lanes.shape)
    return _stacked([lanes.get(slot) for slot in slots], lanes.shape).view(np.float32).astype(np.float64)


def _addends(lanes: Lanes, slots: tuple[int, ...]) -> Array:
    """The float32 values of registers as float64, shape (registers, threads, blocks); it must not be changed."""
    before = lanes.products.pop(slots, None)
    if before is not None and all(lanes.wide[slot] is row for slot, row in zip(slots, before[1], strict=True)):
        return before[0]
    return _stacked([_wide(lanes, slot) for slot in slots], lanes.shape)


def _stacked(values: Sequence[Array], shape: tuple[int, int]) -> Array:
    """Values that broadcast to `shape`, along a new first axis."""
    whole = [spread(value, shape) for value in values]
    return np.concatenate(whole).reshape(len(values), *shape)


def nothing(lanes: Lanes, mask: Mask) -> None:
    """Does nothing. It stands where a multiply-add stood that `MultiplyAdds` now does earlier in the basic block."""


def gather_multiply_adds(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    """The operations of a basic block, with independent multiply-adds done at once where there are enough in a row.

    There are as many operations as before, so that each keeps its instruction's place: the first of such a row does all
    of it, and the others do nothing.
    """
    found: list[Operation] = []
    row: list[MultiplyAdd] = []
    written: set[int] = set()

    def end_row() -> None:
        if len(row) >= FEWEST:
            found.extend([MultiplyAdds(row), *[nothing] * (len(row) - 1)])
        else:
            found.extend(row)
        row.clear()
        written.clear()

    for operation in operations:
        if not isinstance(operation, MultiplyAdd):
            end_row()
            found.append(operation)
            continue
        if not written.isdisjoint((operation.target, operation.a, operation.b, operation.c)):
            end_row()
        row.append(operation)
        written.add(operation.target)
    end_row()
    return tuple(found)
