"""Arrays of the lanes, shape (threads, blocks), seen warp by warp, shape (warps, 32); and which threads must be there.

The warps of one block do not lie next to each other: warp w of block b is row w * blocks + b.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Kind, Stop
from cutegen.emulator.checks.poison import Poison, poisoned_lanes
from cutegen.emulator.lanes import WARP, Mask, first_lane, spread
from cutegen.emulator.native.library import AccessResult, Core
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction

_MASKS = 64  # of which the warps are kept
_EVERYONE = np.asarray(0xFFFFFFFF, np.uint32)
_NOTHING = np.zeros((), np.uint32)


def by_warp(lanes: Lanes, value: Array) -> Array:
    """An array that broadcasts to the lanes, as shape (warps of all blocks, 32).

    Threads that the last warp of a block lacks hold zeros.
    """
    threads, blocks = lanes.shape
    value = spread(value, lanes.shape)
    warps = -(-threads // WARP)
    if threads % WARP:
        value = np.concatenate([value, np.zeros((warps * WARP - threads, blocks), value.dtype)])
    return np.ascontiguousarray(value.reshape(warps, WARP, blocks).swapaxes(1, 2)).reshape(warps * blocks, WARP)


def first_lane_of(lanes: Lanes, warp: int) -> tuple[int, int]:
    """The first lane (thread, block) of a warp."""
    return warp // lanes.shape[1] * WARP, warp % lanes.shape[1]


def registers_by_warp(lanes: Lanes, slots: Sequence[int]) -> Array:
    """The contents of 32-bit registers, each arranged as by `by_warp`: shape (slots, warps of all blocks, 32)."""
    for slot in slots:
        lanes.get(slot)
    return peek_by_warp(lanes, slots)


def peek_by_warp(lanes: Lanes, slots: Sequence[int]) -> Array:
    """The same, where registers that were never written are zeros and stay as they are."""
    threads, blocks = lanes.shape
    warps = -(-threads // WARP)
    held = np.zeros((len(slots), warps * WARP, blocks), np.uint32)
    for one, slot in zip(held, slots, strict=True):
        one[:threads] = _peek(lanes, slot)
    found: Array = held.reshape(-1, warps, WARP, blocks).swapaxes(2, 3).reshape(-1, warps * blocks, WARP)
    return found


def poison_of(lanes: Lanes, slots: Sequence[int]) -> tuple[Poison, ...]:
    """The poison of registers, many of which have one array."""
    return tuple(map(lanes.poison.get, slots))


def poisoned_by_warp(lanes: Lanes, of_registers: Sequence[Poison], warps: Array) -> Array:
    """In which lanes of warps each of several registers with such poison is poisoned, shape (registers, warps, 32)."""
    found: dict[int, Array] = {}
    for poison in of_registers:
        if id(poison) not in found:
            lost = np.zeros((), np.bool_) if poison is None else poisoned_lanes(poison)
            found[id(poison)] = by_warp(lanes, lost)[warps]
    if len(found) == 1:
        (only,) = found.values()
        return np.broadcast_to(only, (len(of_registers), *only.shape))
    number_of = {key: number for number, key in enumerate(found)}
    numbers = [number_of[id(poison)] for poison in of_registers]
    return np.stack(list(found.values()))[numbers]


def gather_registers(core: Core, lanes: Lanes, slots: Sequence[int], warps: Array) -> Array | None:
    """The contents of registers in some warps, copied by the core, shape (slots, warps, 32); None if not of 32 bits."""
    found = np.empty((len(slots), len(warps), WARP), np.uint32)
    return found if _gather(core, lanes, slots, warps, found, apart=False) else None


def see_registers(core: Core, lanes: Lanes, slots: Sequence[int], warps: Array, seen: Array) -> bool:
    """Lets the core write what registers hold in some warps to an array that has all warps, shape (slots, warps, 32).

    Returns whether it has.
    """
    return _gather(core, lanes, slots, warps, seen, apart=True)


def _gather(core: Core, lanes: Lanes, slots: Sequence[int], warps: Array, to: Array, *, apart: bool) -> bool:
    """Lets the core copy registers of warps, each to its place among all warps if these are `apart`."""
    arrays = [_peek(lanes, slot) for slot in slots]
    if any(array.itemsize != to.itemsize for array in arrays):
        return False
    given = np.array((*lanes.shape, len(slots), len(warps), to.shape[1], apart), np.int64)
    return core.accesses["gather_registers"]((to, warps, *arrays), given.ctypes.data) == AccessResult.FINE


def _peek(lanes: Lanes, slot: int) -> Array:
    """The bits of a register of 32 bits: zeros where it was never written, of which nothing is noted."""
    bits = lanes.bits[slot]
    if bits is None:
        bits = _NOTHING if lanes.wide[slot] is None else lanes.get(slot)
    return np.asarray(bits)


def by_thread(lanes: Lanes, value: Array) -> Array:
    """The inverse of `by_warp`: an array of shape (warps of all blocks, 32) as shape (threads, blocks).

    A `value` of shape (warps, 1) holds for all threads of a warp.
    """
    threads, blocks = lanes.shape
    wide = spread(value, (value.shape[0], WARP)).reshape(-1, blocks, WARP)
    return np.ascontiguousarray(wide.swapaxes(1, 2)).reshape(-1, blocks)[:threads]


def by_thread_of_several(lanes: Lanes, values: Array) -> Array:
    """The same of several arrays: of shape (arrays, warps of all blocks, 32) as shape (arrays, threads, blocks)."""
    threads, blocks = lanes.shape
    wide = values.reshape(len(values), -1, blocks, WARP).swapaxes(2, 3)
    return np.ascontiguousarray(wide).reshape(len(values), -1, blocks)[:, :threads]


def taking_part(lanes: Lanes, mask: Mask) -> Array:
    """The threads of the mask that have not exited, as bool of shape (warps, 32)."""
    active = lanes.active(mask)
    return by_warp(lanes, np.ones((1, 1), np.bool_) if active is None else active)


def check_converged(lanes: Lanes, members: Array, mask: Mask, instruction: Instruction) -> None:
    """Raises Stop unless every thread that `members` names executes the instruction now, or has exited before.

    A thread is not excused that has exited after work of its own, which it did while the others went on to this.

    `members` is the member mask of each lane, uint32, bit i for thread i of its warp. The PTX ISA lets threads wait for
    each other even at several instructions of one kind in different branches. Compilers do not make such code, and here
    it is a fault.
    """
    if lanes.active(mask) is None and np.ndim(members) == 0 and int(members) == int(_EVERYONE):
        return
    here, named = taking_part(lanes, mask), by_warp(lanes, members)
    bits = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
    alive = by_warp(lanes, np.ones((1, 1), np.bool_) if lanes.alive is None else lanes.alive)
    union = np.bitwise_or.reduce(np.where(here, named, np.uint32(0)), axis=1, keepdims=True)
    if lanes.left is not None:
        alive = alive | by_warp(lanes, lanes.left)
    missing = by_thread(lanes, ((union & bits) != 0) & alive & ~here)
    if has_any(missing):
        text = f"{instruction.name} names this thread in its member mask, but it is not there with the others"
        raise Stop("converged", text, instruction, first_lane(missing, lanes.shape))
    strange = by_thread(lanes, here & ((named & bits) == 0))
    if has_any(strange):
        text = f"{instruction.name} is made by a thread that its member mask does not name"
        raise Stop("converged", text, instruction, first_lane(strange, lanes.shape))


def check_whole_warps(lanes: Lanes, mask: Mask, instruction: Instruction) -> None:
    """Raises Stop unless all 32 threads of each warp execute the instruction.

    None of them may have exited, and no warp may have fewer threads than 32.
    """
    rest = lanes.shape[0] % WARP
    if lanes.active(mask) is None and not rest:
        return
    here = taking_part(lanes, mask)
    missing = here.any(axis=1, keepdims=True) & ~here
    if not has_any(missing):
        return
    absent = by_thread(lanes, missing)
    if has_any(absent):
        text = f"{instruction.name} needs all threads of a warp, but this one is not there with the others"
        raise Stop("converged", text, instruction, first_lane(absent, lanes.shape))
    short = by_thread(lanes, here & missing.any(axis=1, keepdims=True))
    text = f"{instruction.name} is made by a warp of {rest} threads"
    raise Stop("converged", text, instruction, first_lane(short, lanes.shape))


def whole_warps(lanes: Lanes, mask: Mask, instruction: Instruction) -> Array:
    """The numbers of the warps that execute an instruction, over all blocks. Raises Stop as `check_whole_warps` does.

    They are found once for each mask, as these come again and again.
    """
    active = lanes.active(mask)
    found = lanes.warps.get(id(active))
    if found is None:
        check_whole_warps(lanes, mask, instruction)
        if len(lanes.warps) >= _MASKS:
            lanes.warps.clear()
        found = lanes.warps[id(active)] = active, np.flatnonzero(taking_part(lanes, mask).any(axis=1))
    return found[1]


def same_in_warps(lanes: Lanes, given: Array, warps: Array, instruction: Instruction, kind: Kind) -> Array:
    """The value of an operand in each of the warps, from those that lanes have been `given`.

    Raises Stop, a fault of that kind, unless all lanes of a warp have the same.
    """
    given = np.asarray(given)
    if given.size == 1:
        return np.full(len(warps), given.reshape(-1)[0])
    threads, blocks = lanes.shape
    if given.shape[0] == threads and given.ndim == 2 and not threads % WARP:
        of_warps = given.reshape(-1, WARP, given.shape[1])
        first = of_warps[:, 0]
        if (of_warps == first[:, None]).all():  # in all warps, as is the rule
            return np.asarray(spread(first, (len(first), blocks)).reshape(-1)[warps])
    values = by_warp(lanes, given)[warps]
    differing = (values != values[:, :1]).any(axis=1)
    if has_any(differing):
        warp = int(warps[int(differing.argmax())])
        raise Stop(kind, "the lanes of a warp give different operands", instruction, first_lane_of(lanes, warp))
    return np.asarray(values[:, 0])
