"""fma.rn.f32, which is nearly all that a matrix product does: one at a time, and many at once.

Values stay float64 from one to the next. `fma.py` says why the result is right where the float64 sum is no midpoint
between two float32 numbers and the float32 result is normal or exact (underflow is what the processor reports
otherwise). All else goes there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cutegen.emulator.fma import fma_f32
from cutegen.emulator.lanes import Array, Mask
from cutegen.emulator.poison import Poison, some, whole
from cutegen.emulator.state import Lanes

Operation = Callable[[Lanes, Mask], None]
FEWEST = 8  # that are worth being gathered
MOST_LANES = 1024  # at once: with more, the arithmetic takes longer than the calls that gathering saves
_LAST_29, _HALF = np.uint64(0x1FFFFFFF), np.uint64(0x10000000)
_NAN = np.uint32(0x7FFFFFFF).view(np.float32)


def _inexact(lanes: Lanes, total: Array) -> bool:
    """Whether rounding a sum to float32 may give another number than rounding the exact one does."""
    return lanes.underflow or bool(np.count_nonzero((total.view(np.uint64) & _LAST_29) == _HALF))


def _wide(lanes: Lanes, slot: int) -> Array:
    value = lanes.wide[slot]
    if value is None:
        value = np.asarray(lanes.get(slot)).view(np.float32).astype(np.float64)
        lanes.wide[slot] = value
    return value


def _number(lanes: Lanes, slot: int) -> Array | None:
    """What a register holds, if it was written and is a number in every lane: a NaN has bits of its own."""
    value, bits = lanes.wide[slot], lanes.bits[slot]
    if value is not None or bits is None:
        return value
    narrow: Array = np.asarray(bits).view(np.float32)
    return None if np.isnan(narrow).any() else narrow.astype(np.float64)


@dataclass(frozen=True)
class MultiplyAdd:
    """target = a * b + c, each the slot of a register."""

    target: int
    a: int
    b: int
    c: int

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        x, y, z = (_wide(lanes, slot) for slot in (self.a, self.b, self.c))
        poison: Poison = None
        if lanes.poison:
            for slot in (self.a, self.b, self.c):
                found = lanes.poison.get(slot)
                if found is not None:
                    poison = some(found) if poison is None else poison | some(found)
            if poison is not None:
                poison = whole(poison, 32)
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
    """Several of them, none of which reads what another one writes. As many calls of numpy as for one."""

    def __init__(self, each: Sequence[MultiplyAdd]) -> None:
        self.each = tuple(each)
        self.factors = list(dict.fromkeys(slot for one in each for slot in (one.a, one.b)))
        place = {slot: i for i, slot in enumerate(self.factors)}
        self.first, self.second = np.array([place[one.a] for one in each]), np.array([place[one.b] for one in each])
        self.addends, self.targets = [one.c for one in each], [one.target for one in each]
        self.read = frozenset((*self.factors, *self.addends))

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        before = [] if mask is None else [_number(lanes, target) for target in self.targets]
        results = self._results(lanes, mask, before)
        if results is None:
            for one in self.each:
                one(lanes, mask)
            return
        new = mask is not None and before[0] is None
        for target, result in zip(self.targets, results, strict=True):
            lanes.wide[target], lanes.bits[target] = result, None
        if mask is None:
            if lanes.poison:
                for target in self.targets:
                    lanes.poison.pop(target, None)
        elif new:
            lanes.poison.update(dict.fromkeys(self.targets, whole(~mask, 32)))
        elif lanes.poison:
            self._written(lanes, mask)

    def _written(self, lanes: Lanes, mask: Array) -> None:
        """Lanes of the mask are poisoned no longer. Most targets share their poison, so that it is asked for once."""
        left: dict[int, Poison] = {}
        for target in self.targets:
            before = lanes.poison.get(target)
            if before is None:
                continue
            if id(before) not in left:
                merged = np.where(mask, np.uint32(0), before)
                left[id(before)] = merged if merged.any() else None
            after = left[id(before)]
            if after is None:
                del lanes.poison[target]
            else:
                lanes.poison[target] = after

    def _results(self, lanes: Lanes, mask: Mask, before: Sequence[Array | None]) -> Array | None:
        """One each, as float64; None where they have to be computed one at a time. `before`: what the targets hold."""
        threads, blocks = lanes.shape
        if threads * blocks > MOST_LANES or not self.read.isdisjoint(lanes.poison):
            return None
        kept = [value for value in before if value is not None]
        if kept and len(kept) != len(before):
            return None
        if not kept and any(lanes.bits[target] is not None for target in self.targets if before):
            return None  # a NaN is there
        factors = _stacked([_wide(lanes, slot) for slot in self.factors], lanes.shape)
        addends = _stacked([_wide(lanes, slot) for slot in self.addends], lanes.shape)
        lanes.underflow = False
        total = factors[self.first]
        total *= factors[self.second]
        total += addends
        results: Array = total.astype(np.float32).astype(np.float64)
        if _inexact(lanes, total):
            return None
        if mask is None or not kept:
            return results
        return np.where(mask, results, _stacked(kept, lanes.shape))


def _stacked(values: Sequence[Array], shape: tuple[int, int]) -> Array:
    whole = [value if value.shape == shape else np.broadcast_to(value, shape) for value in values]
    return np.concatenate(whole).reshape(len(values), *shape)


def _nothing(lanes: Lanes, mask: Mask) -> None:
    """In the place of one that was gathered into an earlier one."""


def gathered(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    """As many operations, in which runs of multiply-adds that are independent of each other are done by their first."""
    found: list[Operation] = []
    run: list[MultiplyAdd] = []
    written: set[int] = set()

    def close() -> None:
        if len(run) >= FEWEST:
            found.extend([MultiplyAdds(run), *[_nothing] * (len(run) - 1)])
        else:
            found.extend(run)
        run.clear()
        written.clear()

    for operation in operations:
        if not isinstance(operation, MultiplyAdd):
            close()
            found.append(operation)
            continue
        if not written.isdisjoint((operation.target, operation.a, operation.b, operation.c)):
            close()
        run.append(operation)
        written.add(operation.target)
    close()
    return tuple(found)
