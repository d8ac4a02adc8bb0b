"""Shared memory of the other blocks of a cluster: mapa, and whose memory an address in the cluster's window means."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.poison import poisoned_lanes
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask, spread
from cutegen.emulator.memory.placement import ODD, PEER_BITS, WINDOW
from cutegen.emulator.operations.operands import Operation, Places, getter
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction, Register, Symbol
from cutegen.emulator.ptx.types import STORAGE, TYPES

_OFFSET = (1 << PEER_BITS) - 1
_RANKS = 1 << 6  # a rank that is larger, which no cluster has, is taken for this one


def peer_address_operation(instruction: Instruction, slots: Mapping[str, int], places: Places) -> Operation:
    """The operation of mapa, which gives the address that a variable has in the block of a given rank.

    Whether there is such a block is looked at when the address is used: compilers move mapa to where it may not be
    needed. Raises UnsupportedInstruction for forms that PTX does not have.
    """
    reader = InstructionReader(instruction)
    kind = reader.type("u32", "u64")
    generic = not reader.leads("shared::cluster")
    if generic and kind.width != 64:
        reader.fail("a generic address of 32 bits")
    target, operand, rank_operand = reader.operands(3)
    slot = slots[reader.target(target, kind).name]
    if isinstance(operand, Symbol) and (operand.name not in places or places[operand.name].variable.space != "shared"):
        reader.fail(f"{operand.name} is no variable in shared memory")
    source = operand if isinstance(operand, Symbol) else reader.source(operand, kind)
    rank_source = reader.source(rank_operand, TYPES["u32"])
    address = getter(source, kind.width, slots, places, instruction)
    rank = getter(rank_source, 32, slots, {}, instruction)
    origins = [slots[s.name] for s in (source, rank_source) if isinstance(s, Register)]
    window = WINDOW if generic and not isinstance(source, Symbol) else 0
    storage = STORAGE[kind.width]

    def map_address(lanes: Lanes, mask: Mask) -> None:
        near = (address(lanes).astype(np.int64) - window) & _OFFSET | lanes.shared.base & ODD
        ranks = np.minimum(rank(lanes).astype(np.int64), _RANKS)
        mapped = near + (ranks + 1 << PEER_BITS) + (WINDOW if generic else 0)
        lost = [poisoned_lanes(lanes.poison[origin]) for origin in origins if origin in lanes.poison]
        lanes.put(slot, mapped.astype(storage), mask, reduce(np.logical_or, lost) if lost else None)

    return map_address


def whose_memory(
    lanes: Lanes, address: Array, offset: int, active: Mask, instruction: Instruction, *, counted: bool = False
) -> tuple[Array, int, Array | None]:
    """For addresses in the cluster's window: those in a block's own window, an offset, and the blocks' numbers.

    In kernels that work in pairs, addresses without the bit `ODD` are those of the even block. The numbers, by which
    the batch knows the blocks, are None where all addresses are the lanes' own. An access that is `counted` ends with a
    phase of an mbarrier of the block, which need not know of it otherwise. Raises Stop for a block that is not there,
    or may not be there any more.
    """
    if not lanes.in_clusters:
        return address, offset, None
    there = np.asarray(address).astype(np.int64) + offset
    shape, team = lanes.shape, lanes.team
    in_pairs = lanes.shared.base & ODD and team.size % 2 == 0
    even = (there & ODD == 0) if in_pairs else np.zeros((1, 1), np.bool_)
    if not has_any(there >> PEER_BITS) and not has_any(even):
        return address, offset, None
    part = whole(active, shape) & spread((there >> PEER_BITS > 0) | even, shape)
    if not has_any(part):
        return address, offset, None
    own = np.arange(shape[1])[None, :]
    ranks = np.where(there >> PEER_BITS > 0, (there >> PEER_BITS) - 1, own % team.size)
    ranks = np.where(part, np.where(even, ranks & ~1, ranks), 0)
    columns = np.where(part, team.columns(part, ranks, instruction), own)
    team.visit(part, columns, instruction, counted=counted)
    return there & _OFFSET | np.where(even, ODD, 0), 0, columns
