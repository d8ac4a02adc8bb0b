"""Waits for products of warpgroups: wgmma.wait_group, and what accumulators hold once it is over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.poison import poison_whole
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.native.library import Core
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Immediate, Instruction
from cutegen.emulator.synchronisation.product_groups import WARPS
from cutegen.emulator.warps.by_warp import (
    by_thread,
    by_thread_of_several,
    by_warp,
    first_lane_of,
    taking_part,
    whole_warps,
)
from cutegen.emulator.warps.register_factors import check_untouched

_MOST_GROUPS = 7
"""That a wait may leave."""


@dataclass(frozen=True)
class ProductWait:
    """wgmma.wait_group for all but the last `left` groups of a warp's products."""

    left: int
    instruction: Instruction

    def come(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes that go on at once. Raises Stop for a part of a warp."""
        return self._open(lanes, mask, whole_warps(lanes, mask, self.instruction))

    def open_for(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes of warps whose products have ended, as all warps of their warpgroup have started them."""
        return self._open(lanes, mask, np.flatnonzero(taking_part(lanes, mask).any(axis=1)))

    def _open(self, lanes: Lanes, mask: Array, warps: Array) -> Array:
        """The same, of which `warps` are the numbers."""
        products = lanes.team.products
        ready = np.asarray([warp for warp in warps.tolist() if products.is_open(self.left, warp)], np.int64)
        if not ready.size:
            return np.zeros_like(mask)
        check_untouched(lanes, self.left, ready.tolist(), self.instruction)
        _end(lanes, products.wait(self.left, ready.tolist()), self.instruction)
        through = threads_of(lanes, ready)
        _learn(lanes, ready)
        return through

    def changes(self, lanes: Lanes, blocks: Array) -> None:
        """Nothing that is counted."""

    def give_up(self, lanes: Lanes, mask: Array) -> bool:
        """No warp goes on before its products have ended."""
        return False

    def hang(self, lanes: Lanes, mask: Array) -> Stop:
        """The fault that another warp of the warpgroup never starts its part of a product."""
        warp = int(np.flatnonzero(taking_part(lanes, mask).any(axis=1))[0])
        late = lanes.team.products.late(self.left, warp)
        text = f"waits forever for products that warp {late // lanes.shape[1]} of its warpgroup never starts"
        return Stop("deadlock", text, self.instruction, first_lane_of(lanes, warp))


def read_product_wait(reader: InstructionReader) -> ProductWait:
    """Reads wgmma.wait_group. Raises UnsupportedInstruction for other forms."""
    reader.choice("wait_group")
    if not reader.leads("sync") or not reader.leads("aligned"):
        reader.fail("only .sync.aligned")
    (left,) = reader.operands(1)
    if not isinstance(left, Immediate) or left.width is not None or left.bits > _MOST_GROUPS:
        reader.fail(f"a count that is no constant from 0 to {_MOST_GROUPS}")
    return ProductWait(left.bits, reader.instruction)


def _end(lanes: Lanes, landed: Iterable[tuple[tuple[int, ...], Array]], instruction: Instruction) -> None:
    """Puts into the registers what accumulators hold, in the warps where no product writes them any more."""
    products = lanes.team.products
    for slots, warps in landed:
        for unknown in {id(one): one for one in map(lanes.poison.get, slots)}.values():
            bits = by_warp(lanes, np.zeros((), np.uint32) if unknown is None else unknown)[warps]
            touched = (bits != np.uint32(0xFFFFFFFF)).any(axis=1)
            if has_any(touched):
                warp = int(warps[int(touched.argmax())])
                text = "a register of an accumulator was written while a product that this waits for writes it, too"
                raise Stop("wgmma", text, instruction, first_lane_of(lanes, warp))
        rows, mask = products.rows(slots), threads_of(lanes, warps)
        lost = _lost(lanes, rows[:, 0], warps)
        merged = None if products.core is None else _merged(products.core, lanes, slots, rows, mask)
        held = products.held[rows[:, 0]] if merged is None else merged
        for slot, bits, some in zip(
            slots, by_thread_of_several(lanes, held) if merged is None else held, lost, strict=True
        ):
            if merged is None:
                lanes.put(slot, bits, mask, some)
            else:
                lanes.put_merged(slot, bits, mask, some)
        products.seen[rows, warps] = products.held[rows, warps]


def _lost(lanes: Lanes, rows: Array, warps: Array) -> Sequence[Array | None]:
    """The poison that accumulators in some rows have in warps: None for none."""
    unknown = lanes.team.products.unknown
    if unknown is None or not has_any(unknown[rows[:, None], warps]):
        return [None] * len(rows)
    made: dict[bytes, Array | None] = {}  # what is lost is so in many rows alike
    for one in (some := unknown[rows]):
        if (key := one.tobytes()) not in made:
            made[key] = poison_whole(by_thread(lanes, one), 32) if has_any(one[warps]) else None
    return [made[one.tobytes()] for one in some]


def _merged(core: Core, lanes: Lanes, slots: Sequence[int], rows: Array, mask: Array) -> Array | None:
    """The contents of registers, shape (slots, threads, blocks), after the core puts accumulators into them in the
    lanes of a mask. None where a register was never written, or is not of 32 bits.
    """
    bits, products = lanes.bits, lanes.team.products
    if any(bits[slot] is None and lanes.wide[slot] is None for slot in slots):
        return None
    arrays = [np.asarray(lanes.get(slot)) for slot in slots]
    if any(array.itemsize != products.held.itemsize for array in arrays):
        return None
    made = np.empty((len(slots), *lanes.shape), np.uint32)
    given = np.array((*lanes.shape, len(slots), products.count), np.int64)
    core.accesses["land_accumulators"]((products.held, rows, mask, made, *arrays), given.ctypes.data)
    return made


def _learn(lanes: Lanes, warps: Array) -> None:
    """Lets the lanes of warps know that the products of their warpgroups which have ended so far are in the past."""
    clocks = lanes.team.clocks
    now = clocks.tick()
    agents = np.asarray([agent_of(lanes, warp) for warp in warps.tolist()])
    for agent in np.unique(agents).tolist():
        clocks.learn_of(threads_of(lanes, warps[agents == agent]), agent, now)


def agent_of(lanes: Lanes, warp: int) -> int:
    """The number of the agent that reads for the products of a warp's warpgroup."""
    number, block = divmod(warp, lanes.shape[1])
    return lanes.team.product_agent(number // WARPS) + block % lanes.team.size


def threads_of(lanes: Lanes, warps: Array) -> Array:
    """The mask of the threads of some warps."""
    key = f"threads of {warps.tobytes().hex()}"
    found = lanes.kept.get(key)
    if found is None:
        rows = np.zeros((lanes.team.products.count, 1), np.bool_)
        rows[warps] = True
        found = lanes.kept[key] = by_thread(lanes, rows)
    assert isinstance(found, np.ndarray)
    return lanes.known(found)
