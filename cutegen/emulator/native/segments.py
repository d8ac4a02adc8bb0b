"""A segment: instructions on registers that the core runs by one call, over all lanes.

It is for lanes in which all that it reads has been written. Otherwise numpy runs the operations that it stands for,
which know what becomes of poison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.lanes import Mask
from cutegen.emulator.native.graphs import Graph
from cutegen.emulator.native.library import Core
from cutegen.emulator.native.plans import BLOCKS, THREADS, Plan
from cutegen.emulator.native.shared_plans import shared_plans
from cutegen.emulator.native.spreading import Spread, poisoned_results
from cutegen.emulator.operations.operands import Operation
from cutegen.emulator.operations.state import Lanes

_empty = np.empty
Gather = Callable[[], Sequence[tuple[int, Operation]]]
Spreads = Callable[[], Mapping[int, Spread]]
_Made = tuple[Plan, tuple[tuple[tuple[int, ...], Any], ...]]
_DTYPES: Mapping[int, Any] = {1: np.dtype(np.bool_), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8")}


class Segment:
    """The operation of several instructions at once. `gather` makes those of numpy that do the same, and `spreads` says
    how poison goes through them.
    """

    def __init__(self, core: Core, graph: Graph, widths: Sequence[int], gather: Gather, spreads: Spreads) -> None:
        self.core, self.graph = core, graph
        self._gather, self._spreads = gather, spreads
        self._known: Mapping[int, Spread] | None = None
        self._each: Sequence[Operation] | None = None
        inputs = graph.inputs()
        self.reads = tuple(graph.values[value].slot for value in inputs)
        self.targets = tuple(graph.results)
        self._widths = tuple(widths[slot] for slot in self.targets)
        self._sizes = tuple(graph.values[value].size for value in inputs)
        select = {size: core.operations[f"sel{8 * size}"].number for size in (1, 2, 4, 8)}
        self._plans = shared_plans(graph, select)
        self._made: dict[object, _Made] = {}

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        bits, poison = lanes.bits, lanes.poison
        lost: dict[int, Array] | None = None
        if poison and not lanes.clean(self.reads, mask):
            if self._known is None:
                self._known = self._spreads()
            lost = poisoned_results(lanes, mask, self.targets, self._widths, self._known)
            if lost is None:
                self._run_each(lanes, mask)
                return
        inputs = [bits[slot] for slot in self.reads]
        try:
            shapes = [array.shape for array in inputs]  # type: ignore[union-attr]
        except AttributeError:
            inputs = [lanes.get(slot) for slot in self.reads]
            if lanes.poison and not lanes.clean(self.reads, mask):  # one was never written
                self._run_each(lanes, mask)
                return
            shapes = [array.shape for array in inputs]  # type: ignore[union-attr]
        merges: tuple[int, ...] = ()
        if mask is not None:
            merges = self._merges(lanes, mask, inputs, shapes)
        elif poison:
            for slot in self.targets:
                poison.pop(slot, None)
        key = (merges, *shapes)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._plan(lanes.shape, inputs, merges)
        plan, made = found
        outputs = tuple([_empty(shape, dtype) for shape, dtype in made])
        if () in shapes:  # numpy's scalars are no arrays
            inputs = [np.asarray(array) for array in inputs]
        given = tuple(inputs)
        threads, blocks = lanes.shape
        if self.core.run(plan.address, given, outputs, threads, blocks):
            raise MemoryError
        wide = lanes.wide
        for slot, result in zip(self.targets, plan.results, strict=True):
            if isinstance(result, int):
                bits[slot] = outputs[result] if result >= 0 else given[-1 - result]
            else:
                bits[slot] = result
            wide[slot] = None
        if lost:
            _add_poison(lanes, lost)

    def _run_each(self, lanes: Lanes, mask: Mask) -> None:
        """Runs the instructions by numpy."""
        if self._each is None:
            self._each = [operation for _, operation in self._gather()]
        for operation in self._each:
            operation(lanes, mask)

    def _merges(
        self, lanes: Lanes, mask: Array, inputs: list[Array | None], shapes: list[tuple[int, ...]]
    ) -> tuple[int, ...]:
        """The results that must be written in the lanes of the mask only, by their numbers.

        Adds what they held, and the mask, to the inputs, and their shapes to `shapes`. Poison is brought up to date.
        """
        bits, poison = lanes.bits, lanes.poison
        outside: dict[int, Array] = {}
        merges = []
        for number, (slot, width) in enumerate(zip(self.targets, self._widths, strict=True)):
            old = bits[slot]
            before = poison.get(slot)
            if old is None or before is not None:
                if width not in outside:
                    outside[width] = lanes.outside(mask, width)
                if old is None and lanes.wide[slot] is None:
                    poison[slot] = outside[width]
                    continue
                if before is outside[width]:
                    continue  # what the other lanes have means nothing
                if before is not None:
                    left = lanes.poison_left(before, mask, width)
                    if left is None:
                        del poison[slot]
                    else:
                        poison[slot] = left
                old = lanes.get(slot)
            merges.append(number)
            inputs.append(old)
            shapes.append(old.shape)
        if merges:
            inputs.append(mask)
            shapes.append(mask.shape)
        return tuple(merges)

    def _plan(self, shape: tuple[int, int], inputs: Sequence[Array | None], merges: tuple[int, ...]) -> _Made:
        """The plan for inputs of such shapes, and shape and type of each array that it makes."""
        sizes = tuple(array.itemsize for array in inputs[: len(self._sizes)] if array is not None)
        assert sizes == self._sizes, "a register holds another type than its width's"
        plan = self._plans.plan(merges, tuple(_sort(array.shape) for array in inputs if array is not None))
        return plan, tuple((_shape(sort, shape), _DTYPES[size]) for sort, size in plan.made)


def _add_poison(lanes: Lanes, lost: Mapping[int, Array]) -> None:
    """Adds poison to registers by their slots; many have the same."""
    made: dict[tuple[int, int], Array] = {}
    before = {slot: lanes.poison.get(slot) for slot in lost}
    for slot, more in lost.items():
        old = before[slot]
        key = id(old), id(more)
        if key not in made:
            made[key] = more if old is None else old | more
        lanes.poison[slot] = made[key]


def _sort(shape: tuple[int, ...]) -> int:
    """The sort of an array of a shape: THREADS, BLOCKS, their sum or 0, by what it has an entry for each of."""
    down, right = ((1, 1) + shape)[-2:]
    return THREADS * (down != 1) + BLOCKS * (right != 1)


def _shape(sort: int, shape: tuple[int, int]) -> tuple[int, ...]:
    """The shape of an array of a sort, where that of all lanes is `shape`."""
    return (shape[0] if sort & THREADS else 1, shape[1] if sort & BLOCKS else 1) if sort else ()
