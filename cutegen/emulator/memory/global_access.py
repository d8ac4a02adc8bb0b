"""Loads and stores of the lanes in global memory: bounds, alignment, and whether the bytes were ever written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.earlier_grids import EarlierGrids
from cutegen.emulator.checks.faults import Kind, Stop, Witness
from cutegen.emulator.checks.global_races import Epochs
from cutegen.emulator.checks.origins import Origins
from cutegen.emulator.checks.reads_in_flight import Flight
from cutegen.emulator.lanes import WARP, Mask, first_lane, spread, value_at
from cutegen.emulator.memory.arenas import GAP, UNWRITTEN, Arena, GlobalMemory, describe
from cutegen.emulator.memory.bound_tensors import element_at
from cutegen.emulator.memory.core_global import core_global
from cutegen.emulator.memory.far_tensors import as_told
from cutegen.emulator.memory.global_hazards import Hazards
from cutegen.emulator.memory.placement import VARIABLES
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.ptx.types import STORAGE


class GlobalAccess:
    """Global memory as the lanes of one batch see it.

    `lanes` are the numbers of the lanes over the whole grid, shape (threads, blocks). `threads` is how many threads a
    block has, and `epochs` counts the barriers that each block has passed. `earlier`, if it is given, says which lanes
    know that the grids ahead of theirs have ended; the others must not touch any tensor.
    """

    def __init__(
        self, memory: GlobalMemory, lanes: Array, threads: int, epochs: Epochs, earlier: EarlierGrids | None = None
    ) -> None:
        self.memory, self.earlier = memory, earlier
        self.hazards = Hazards(memory, lanes, threads, epochs)
        self.shape: tuple[int, int] = (lanes.shape[0], lanes.shape[1])
        self._core = core_global(memory, lanes, threads, epochs)
        self.origins: Origins | None = None
        self.latest = ""  # the name of the tensor that was read last
        self.written = 0  # how many stores there were

    def load(
        self,
        address: Array,
        offset: int,
        size: int,
        count: int,
        mask: Mask,
        instruction: Instruction,
        *,
        constant: bool = False,
        flights: list[Flight] | None = None,
    ) -> tuple[list[Array], list[Mask]]:
        """Loads `count` values of `size` bytes from `address` + `offset`, in the lanes of the mask.

        Returns the values, and for each of them the mask of the lanes in which it was never written (None: in none).
        `constant` says that ld.global.nc reads, so that the memory must never be written. `flights` is given for an
        asynchronous copy: it reads until what is appended there has landed. Raises Stop for a fault.
        """
        total = size * count
        if total > 16:  # 256-bit accesses: two halves, once the whole is known to be aligned
            self.aligned(address, offset, total, mask, instruction)
            half = count // 2
            low, high = (
                self.load(address, offset + at, size, half, mask, instruction, constant=constant, flights=flights)
                for at in (0, half * size)
            )
            return low[0] + high[0], low[1] + high[1]
        address, offset = self.memory.folded(self._two_modes(address), offset)
        if self._core is not None and not self._too_early(mask):
            read = self._core.load(address, offset, size, count, mask, constant=constant, flies=flights is not None)
            if read is not None:
                self.latest = read[0].name
                return read[1], [None] * count
        arena, index = self.find(address, offset, total, mask, instruction)
        if arena is None:
            return self._load_several(address, offset, size, count, mask, instruction, constant, flights)
        if self.earlier is not None:
            self.refuse_early(self.earlier, arena, index, total, mask, instruction, "reads")
        self.latest = arena.name
        poison: list[Mask] = [None] * count
        if arena.flags is not None:
            poison = self._unwritten(arena, index, size, count, mask, instruction)
        if arena.touched is not None:
            keep = slice(None) if mask is None else spread(mask, self.shape)
            cells = spread(index, self.shape)[keep].reshape(-1, 1)
            self.hazards.read(arena, cells, total, keep, instruction, constant, flights)
        found = np.asarray(arena.view(total).take(index))
        if count == 1:
            return [found], poison
        parts = found[..., None].view(STORAGE[size * 8])
        return [parts[..., i] for i in range(count)], poison

    def store(
        self,
        address: Array,
        offset: int,
        size: int,
        values: Sequence[Array],
        mask: Mask,
        instruction: Instruction,
    ) -> None:
        """Stores values of `size` bytes, one after the other, to `address` + `offset`, in the lanes of the mask.

        Raises Stop for a fault.
        """
        self.written += 1
        total = size * len(values)
        if total > 16:
            self.aligned(address, offset, total, mask, instruction)
            half = len(values) // 2
            self.store(address, offset, size, values[:half], mask, instruction)
            self.store(address, offset + half * size, size, values[half:], mask, instruction)
            return
        address, offset = self.memory.folded(self._two_modes(address), offset)
        core = None if self._core is None or self._too_early(mask) else self._core
        if core is not None and core.store(address, offset, size, values, mask):
            return
        arena, index = self.find(address, offset, total, mask, instruction)
        if arena is None:
            for part in self._by_arena(address, offset, mask):
                self.store(address, offset, size, values, part, instruction)
            return
        if self.earlier is not None:
            self.refuse_early(self.earlier, arena, index, total, mask, instruction, "writes")
        index = spread(index, self.shape)
        if arena.touched is None:
            lane = first_lane(np.ones(self.shape, np.bool_) if mask is None else mask, self.shape)
            raise self.stop_at(
                arena, index, lane, total, "write-to-input", f"writes {arena.name}, an input", instruction
            )
        keep = slice(None) if mask is None else spread(mask, self.shape)
        cells = index[keep].reshape(-1)
        if arena.flags is not None:
            flags = group_of(arena.flags, total).take(cells, axis=0)
            if has_any(flags & GAP):
                raise self.gap(arena, index, total, mask, instruction)
        self.hazards.write(arena, cells[:, None], total, keep, instruction)
        storage = STORAGE[size * 8]
        columns = [spread(v, self.shape)[keep].reshape(-1).astype(storage, copy=False) for v in values]
        group_of(arena.bytes, total).view(storage)[cells] = np.stack(columns, axis=-1)
        if arena.flags is not None:
            group_of(arena.flags, total)[cells] &= np.uint8(~UNWRITTEN & 0xFF)

    def detach(self, gone: Array) -> None:
        """Notes that the lanes of the mask have exited and are not at the barrier that their block passes now."""
        self.hazards.detach(gone)
        if self.earlier is not None:
            self.earlier.detach(gone)

    # ----------------------------------------------------------------------------------------------------- addresses

    @staticmethod
    def _two_modes(address: Array) -> Array:
        """Addresses as an array of two modes, which broadcasts to the lanes."""
        address = np.asarray(address)
        return address.reshape((1,) * (2 - address.ndim) + address.shape)

    def find(
        self, address: Array, offset: int, size: int, mask: Mask, instruction: Instruction
    ) -> tuple[Arena | None, Array]:
        """The one arena that all lanes of the mask address, and the index of each access in it, in units of `size`.

        Lanes outside of the mask get an index that exists. Where lanes address several arenas, returns None and the
        addresses. Raises Stop for an access that is misaligned or out of bounds.
        """
        if mask is None:
            low, high = int(address.min()), int(address.max())
        else:
            shape = np.broadcast_shapes(address.shape, mask.shape)
            used = spread(address, shape)[spread(mask, shape)]
            low, high = int(used.min()), int(used.max())
        self.aligned(address, offset, size, mask, instruction)
        arena = self.memory.around(low + offset, high + offset + size)
        if arena is None:
            starts = [a for a in self.memory.arenas if a.low <= low + offset < a.high]
            ends = [a for a in self.memory.arenas if a.low < high + offset + size <= a.high]
            if not starts or not ends or starts[0] is ends[0] or self._strays(address, offset, size, mask):
                raise self._outside(address, offset, size, mask, instruction)
            return None, address
        shift = size.bit_length() - 1
        index = (address.astype(np.int64) + (offset - arena.start)) >> shift
        if mask is not None:
            index = np.where(mask, index, (arena.low - arena.start) >> shift)
        return arena, index

    def aligned(self, address: Array, offset: int, size: int, mask: Mask, instruction: Instruction) -> None:
        """Raises Stop if `address` + `offset` is not a multiple of `size`, a power of two, in a lane of the mask."""
        if not (int(np.bitwise_or.reduce(address, axis=None)) | offset) & (size - 1):
            return
        wrong = (address.astype(np.int64) + offset) % size != 0
        wrong = wrong if mask is None else wrong & mask
        if has_any(wrong):
            lane = first_lane(wrong, self.shape)
            where = value_at(address, lane, self.shape) + offset
            explanation = (
                f"{_verb(instruction)} of {size} bytes at an address {where % size} bytes past a multiple of it"
            )
            raise self._named(Stop("misaligned", explanation, instruction, lane, address=where))

    def _strays(self, address: Array, offset: int, size: int, mask: Mask) -> bool:
        """Whether the access of any lane of the mask lies in no tensor."""
        return has_any(self._lost(address, offset, size, mask))

    def _lost(self, address: Array, offset: int, size: int, mask: Mask) -> Array:
        """The lanes of the mask whose access lies in no tensor."""
        where = address.astype(np.int64) + offset
        lost = np.ones(where.shape, np.bool_)
        for arena in self.memory.arenas:
            lost &= (where < arena.low) | (where + size > arena.high)
        return lost if mask is None else lost & mask

    def _outside(self, address: Array, offset: int, size: int, mask: Mask, instruction: Instruction) -> Stop:
        """The fault of the first lane whose access lies in no tensor."""
        lane = first_lane(self._lost(address, offset, size, mask), self.shape)
        where = value_at(address, lane, self.shape) + offset
        arena = self.memory.nearest(where)
        what = f"{_verb(instruction)} of {size} bytes"
        if arena is None:
            return Stop("out-of-bounds", f"{what} of global memory: no tensor", instruction, lane, address=where)
        if (told := self.memory.told_of(where)) is not None:
            text = f"{what} of {told.name} where no element of it is that these blocks may touch"
            element = None
            if (all_of_it := as_told(told)) is not None:
                text = f"{what} {describe(all_of_it, where, size)}"
                element = element_at(all_of_it, where)
            return Stop("out-of-bounds", text, instruction, lane, address=where, tensor=told.name, element=element)
        far = min(abs(where - arena.low), abs(where - arena.high)) > 1 << 39
        place = "at an address of no tensor" if far else arena.describe(where, size)
        return self._named(Stop("out-of-bounds", f"{what} {place}", instruction, lane, address=where), far)

    def gap(self, arena: Arena, index: Array, size: int, mask: Mask, instruction: Instruction) -> Stop:
        """The fault of the first lane whose access lies, at least in part, in a gap between elements."""
        assert arena.flags is not None
        bad = np.asarray((group_of(arena.flags, size)[spread(index, self.shape)] & GAP).any(axis=-1))
        lane = first_lane(bad if mask is None else bad & mask, self.shape)
        where = arena.start + value_at(index, lane, self.shape) * size
        text = f"{_verb(instruction)} of {size} bytes {arena.describe(where, size)}"
        return self._named(Stop("out-of-bounds", text, instruction, lane, address=where))

    def stop_at(
        self,
        arena: Arena,
        index: Array,
        lane: tuple[int, int],
        size: int,
        kind: Kind,
        text: str,
        instruction: Instruction,
    ) -> Stop:
        """The fault of one lane, whose access of `size` bytes has that lane's `index` in the arena."""
        where = arena.start + value_at(index, lane, self.shape) * size
        return self._named(Stop(kind, text, instruction, lane, address=where))

    def _too_early(self, mask: Mask) -> bool:
        """Whether a lane of the mask does not know that the grids ahead of its own have ended."""
        return self.earlier is not None and has_any(self.earlier.unknown_to(mask))

    def refuse_early(
        self,
        earlier: EarlierGrids,
        arena: Arena,
        index: Array,
        size: int,
        mask: Mask,
        instruction: Instruction,
        verb: Literal["reads", "writes"],
    ) -> None:
        """Raises Stop if a lane of the mask does not know that the grids ahead of its own have ended.

        Its access of `size` bytes has that lane's `index` in the arena. Variables of the kernel are nobody else's.
        """
        if arena.low >= VARIABLES or not has_any(bad := earlier.unknown_to(mask)):
            return
        lane = first_lane(bad, self.shape)
        still = "writing" if verb == "reads" else "reading or writing"
        text = (
            f"warp {lane[0] // WARP} {verb} {arena.name} before griddepcontrol.wait, in a launch that may start before "
            f"the kernels ahead of it in the stream have ended (use_pdl): they may still be {still} it"
        )
        if not earlier.line:
            text += "; the kernel has no griddepcontrol.wait at all"
        stop = self.stop_at(arena, index, lane, size, "early", text, instruction)
        if earlier.line:
            told = "the wait, which must come first in this thread, or in one that a barrier orders before it"
            stop.witnesses = (Witness(told, earlier.line),)
        raise stop

    def _named(self, stop: Stop, far: bool = False) -> Stop:
        """The fault with the tensor that is nearest to its address, and the element there, unless it is too `far`."""
        arena = None if far or stop.address is None else self.memory.nearest(stop.address)
        if arena is not None and arena.span and stop.address is not None:
            stop.tensor, stop.element = arena.name, arena.element(stop.address)
        return stop

    def _by_arena(self, address: Array, offset: int, mask: Mask) -> list[Array]:
        """The lanes of the mask, as one mask for each arena that they address."""
        where = address.astype(np.int64) + offset
        parts = [(where >= a.low) & (where < a.high) for a in self.memory.arenas]
        parts = [p if mask is None else p & mask for p in parts]
        return [p for p in parts if has_any(p)]

    def _load_several(
        self,
        address: Array,
        offset: int,
        size: int,
        count: int,
        mask: Mask,
        instruction: Instruction,
        constant: bool,
        flights: list[Flight] | None,
    ) -> tuple[list[Array], list[Mask]]:
        """Loads, as `load` does, where the lanes of the mask address different tensors: from one after the other."""
        values = [np.zeros(self.shape, STORAGE[size * 8]) for _ in range(count)]
        poison: list[Mask] = [None] * count
        for part in self._by_arena(address, offset, mask):
            found, bad = self.load(address, offset, size, count, part, instruction, constant=constant, flights=flights)
            for i in range(count):
                values[i] = np.where(part, found[i], values[i])
                one, other = bad[i], poison[i]
                poison[i] = other if one is None else one if other is None else one | other
        return values, poison

    # ------------------------------------------------------------------------------------------------- what is known

    def _unwritten(
        self, arena: Arena, index: Array, size: int, count: int, mask: Mask, instruction: Instruction
    ) -> list[Mask]:
        """The lanes of the mask in which each of the `count` values was never written. Raises Stop for a gap."""
        assert arena.flags is not None
        flags = group_of(arena.flags, size * count)[index]
        if not has_any(flags):
            return [None] * count
        gaps = _with_flag(flags, GAP)
        gaps = gaps if mask is None else gaps & mask
        if has_any(gaps):
            raise self.gap(arena, index, size * count, mask, instruction)
        poison: list[Mask] = []
        for i in range(count):
            some: Array = _with_flag(flags[..., i * size : (i + 1) * size], UNWRITTEN)
            some = some if mask is None else some & mask
            poison.append(some if has_any(some) else None)
        if self.origins is not None and any(one is not None for one in poison):
            self._note_origin(self.origins, arena, index, flags, instruction)
        return poison

    def _note_origin(
        self, origins: Origins, arena: Arena, index: Array, flags: Array, instruction: Instruction
    ) -> None:
        """Notes that a load reads what was never written; `flags` are those of the bytes of each access."""

        def describe(lane: tuple[int, int]) -> str:
            size = flags.shape[-1]
            own = spread(flags, (*self.shape, size))[lane]
            where = arena.start + value_at(index, lane, self.shape) * size + int(((own & UNWRITTEN) != 0).argmax())
            element = arena.element(where)
            return f"{arena.name}{'' if element is None else list(element)}, which was never written"

        what = f"{arena.name}, at elements never written"
        origins.load(origins.add(instruction, describe, what, arena.name))


def group_of(flags: Array, size: int) -> Array:
    """The flags of the bytes of an arena as an array of shape (accesses, size)."""
    return flags.reshape(-1, size)


def _with_flag(flags: Array, flag: int) -> Array:
    """The accesses with a byte, along the last axis of 1, 2, 4, 8 or 16 of them, that has a flag."""
    width = min(flags.shape[-1], 8)
    words = np.ascontiguousarray(flags).view(STORAGE[8 * width])
    found = (words & STORAGE[8 * width].type(int.from_bytes(bytes([flag] * width), "little"))) != 0
    return np.asarray(found[..., 0] if found.shape[-1] == 1 else found.any(axis=-1))


def _verb(instruction: Instruction) -> str:
    """The word for a load, a store or a copy in faults."""
    return {"ld": "load", "st": "store", "cp": "cp.async"}.get(instruction.opcode, instruction.name)
