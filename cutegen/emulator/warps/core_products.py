"""Products of warpgroups that the C core starts: all that one wgmma does, in one call, where all is in order.

What is not in order, and what must be looked at more closely, is left to `warpgroup_products`, with nothing changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.lanes import WARP, Mask
from cutegen.emulator.native.library import AccessResult, Core, core
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.synchronisation.product_groups import Factor
from cutegen.emulator.warps.by_warp import by_thread, gather_registers
from cutegen.emulator.warps.product_form import ProductForm
from cutegen.emulator.warps.product_reads import ProductReads
from cutegen.emulator.warps.product_sums import numbers_of, tables_of

_NAME = "products"  # under which lanes keep a `CoreProducts`
_MOST = 64  # sets of warps that are kept
_NONE = np.zeros((1, 1), np.uint32)

FindReads = Callable[[Array], ProductReads]
"""Finds the reads of warps from their descriptors: those of A, unless it is in registers, and of B. Raises Stop."""


@dataclass(frozen=True)
class _Warps:
    """Some warps: their numbers, those of their warpgroups' agents, and the mask of their threads. The core gives their
    descriptors, and whether they keep their sums; `given` are the numbers for that, and `address` is where they lie.
    """

    numbers: Array
    agents: Sequence[int]
    threads: Array
    descriptors: Array
    keeps: Array
    given: Array
    address: int


@dataclass(frozen=True)
class _Told:
    """The core's arguments for products of one form by some warps that read the same places each time.

    `elements` are all bytes that are multiplied: those of the `units` first, then those of `factor`, which are A in
    registers. `reads` and `sums` are the core's numbers, and `reads_address` and `sums_address` are the addresses of
    these.
    """

    reads_of: ProductReads
    places: Array
    elements: Array
    units: Array
    factor: Array
    resting: Array
    reads: Array
    reads_address: int
    sums: Array
    sums_address: int


class CoreProducts:
    """The products of the lanes of one batch. `agent_of` says which agent reads for the products of a warp."""

    def __init__(self, found: Core, lanes: Lanes, agent_of: Callable[[Lanes, int], int]) -> None:
        self._core, self._agent_of = found, agent_of
        self._warps: dict[int, _Warps] = {}
        self._told: dict[tuple[int, int, bytes], _Told] = {}

    def start(
        self, form: ProductForm, lanes: Lanes, mask: Mask, numbers: Array, find: FindReads, factor: Factor | None
    ) -> bool:
        """Starts the products of warps with some numbers, those of the mask, and returns whether it has.

        `factor` is A, where that is in registers.
        """
        products, log = lanes.team.products, lanes.shared.log
        assert isinstance(log, SharedHistory)
        if not products.has(form.slots) or not products.fenced[numbers].all() or not lanes.clean(form.factor, mask):
            return False
        warps = self._warps_of(lanes, numbers)
        operands = [np.asarray(get(lanes)) for get in (form.a or form.b, form.b, form.keeps)]
        found = self._core.accesses["find_operands"](
            (*operands, warps.numbers, warps.descriptors, warps.keeps), warps.address
        )
        if found != AccessResult.FINE:
            return False
        key = id(form), id(warps), warps.descriptors.tobytes()
        told = self._told.get(key)
        if told is None:
            try:
                found_reads = find(warps.descriptors.view(np.uint64)[2 - len(form.descriptors) :])
                told = self._tell(form, lanes, warps, found_reads)
            except Stop:
                return False
            if told is None:
                return False
            self._told[key] = told
        if factor is not None:
            told.factor[:] = factor.bits.reshape(-1)
        return self._start(form, lanes, mask, warps, told, log, factor)

    def _start(
        self,
        form: ProductForm,
        lanes: Lanes,
        mask: Mask,
        warps: _Warps,
        told: _Told,
        log: SharedHistory,
        factor: Factor | None,
    ) -> bool:
        products, memory, reads = lanes.team.products, lanes.shared, told.reads_of
        flags, data = memory.flags.reshape(-1), memory.data.reshape(-1)
        registers: Array = _NONE
        told.sums[10] = 0
        while True:
            part, lost = reads.written_part, reads.lost_units
            new = None if part is None else part.lost
            if new is not None and products.unknown is None:
                products.mark()
            unknown = products.unknown
            told.sums[11:] = unknown is not None, new is not None
            arrays = log.products.arrays(reads, told.places, told.reads, flags, data, told.units, lost)
            sums = (told.elements, *reads.where, *reads.matrix, *tables_of(form.kinds), products.held)
            sums += (products.rows(form.slots), warps.numbers, warps.keeps, told.resting, registers, products.flying)
            sums += (products.seen, _NONE if unknown is None else unknown, _NONE if new is None else new)
            found = self._core.start_products(arrays, told.reads_address, sums, told.sums_address)
            if found == AccessResult.FINE:
                break
            if found == AccessResult.NEW and reads.look(memory):
                continue
            if found != AccessResult.TWICE or not self._may_rest(form, lanes, mask, warps, told.resting):
                return False
            gathered = gather_registers(self._core, lanes, form.slots, warps.numbers)
            if gathered is None:
                return False
            registers, told.sums[10] = gathered, 1
        end = partial(log.products.end, form.instruction, reads, warps.agents, lost if reads.written_part else None)
        products.note(warps.numbers.tolist(), form.slots, end, factor)
        if told.sums[10]:
            lanes.lose([form.slots[i] for i in np.flatnonzero(told.resting.any(axis=1)).tolist()], warps.threads)
        return True

    @staticmethod
    def _may_rest(form: ProductForm, lanes: Lanes, mask: Mask, warps: _Warps, resting: Array) -> bool:
        """Whether no register that is added to is known to hold what means nothing."""
        if not (warps.keeps & resting).any():
            return True
        for slot in form.slots:
            lanes.get(slot)
        return lanes.clean(form.slots, mask)

    def _warps_of(self, lanes: Lanes, numbers: Array) -> _Warps:
        """The record of some warps, kept by the identity of `numbers`, which `whole_warps` returns again each time."""
        found = self._warps.get(id(numbers))
        if found is None or found.numbers is not numbers:
            if len(self._warps) >= _MOST:
                self._warps.clear()
                self._told.clear()
            rows = np.zeros((lanes.team.products.count, 1), np.bool_)
            rows[numbers] = True
            given = np.array((lanes.shape[1], len(numbers)), np.int64)
            agents = [self._agent_of(lanes, warp) for warp in numbers.tolist()]
            found = self._warps[id(numbers)] = _Warps(
                numbers,
                agents,
                lanes.known(by_thread(lanes, rows)),
                np.zeros((2, len(numbers)), np.int64),
                np.zeros(len(numbers), np.bool_),
                given,
                given.ctypes.data,
            )
        return found

    def _tell(self, form: ProductForm, lanes: Lanes, warps: _Warps, reads: ProductReads) -> _Told | None:
        """The core's arguments for products with some reads.

        None where the reads leave the memory or are empty. None also if one register is several accumulators in a loop
        that may be cut short: the core counts each of these, round by round.
        """
        counted = lanes.shared.touched is not None and len({*form.slots}) < len(form.slots)
        if counted or not reads.inside or not len(reads.cells):
            return None
        clocks, count, products = lanes.team.clocks, len(warps.numbers), lanes.team.products
        memory, slots = lanes.shared.data, len(form.slots)
        size = len(reads.cells) * memory.itemsize
        elements = np.empty(size + len(form.factor) * count * WARP * 4, np.uint8)
        about = (len(reads.cells), count, 0, clocks.warps, clocks.members, memory.itemsize, form.instruction.line)
        of_reads = np.array(about, np.int64)
        of_sums = np.array(
            (slots, count, form.columns, form.depth, products.count, *numbers_of(form), 0, 0, 0), np.int64
        )
        return _Told(
            reads,
            reads.clusters * clocks.members + reads.first,
            elements,
            elements[:size].view(memory.dtype),
            elements[size:].view(np.uint32),
            np.empty((slots, count), np.bool_),
            of_reads,
            of_reads.ctypes.data,
            of_sums,
            of_sums.ctypes.data,
        )


def core_products(lanes: Lanes, agent_of: Callable[[Lanes, int], int]) -> CoreProducts | None:
    """The products by the core, made once for lanes; None without a core, and where more is kept than it knows."""
    if _NAME not in lanes.kept:
        log, found = lanes.shared.log, core()
        taken = found is not None and isinstance(log, SharedHistory) and log.has_core and lanes.origins is None
        taken = taken and lanes.team.products.core is not None
        lanes.kept[_NAME] = CoreProducts(found, lanes, agent_of) if taken and found is not None else None
    made = lanes.kept[_NAME]
    assert made is None or isinstance(made, CoreProducts)
    return made
