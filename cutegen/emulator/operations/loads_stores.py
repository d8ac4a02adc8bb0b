"""ld and st as operations on the lanes' state. Asynchronous copies are in `async_copies`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.poison import Poison, poison_whole
from cutegen.emulator.instructions.pure_op import Source
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask, both
from cutegen.emulator.memory.global_access import GlobalAccess
from cutegen.emulator.memory.placement import WINDOW
from cutegen.emulator.memory.shared_memory import SharedMemory
from cutegen.emulator.operations.addresses import read_pointer
from cutegen.emulator.operations.operands import Note, Operation, Places, getter
from cutegen.emulator.operations.peers import whose_memory
from cutegen.emulator.operations.shared_loads import SharedLoad, extend
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Address, Immediate, Instruction, Kernel, Operand, Register, Symbol, Vector
from cutegen.emulator.ptx.types import STORAGE, Type

_TYPES = (*(f"{kind}{width}" for kind in "bus" for width in (8, 16, 32, 64)), "f32", "f64")
_CACHES = {"ld": ("ca", "cg", "cs", "lu", "cv"), "st": ("wb", "cg", "cs", "wt")}
_SPACES = {"ld": ("local", "param", "param::entry", "const"), "st": ("local",)}  # besides global and shared memory
_FIRST_LEVEL = tuple(
    f"L1::{p}" for p in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
)
_SECOND_LEVEL = tuple(f"L2::{p}" for p in ("evict_normal", "evict_first", "evict_last"))
AHEAD = ("L2::64B", "L2::128B", "L2::256B")
"""The modifiers that say how much the second-level cache may fetch beyond what is read."""


@dataclass(frozen=True, slots=True)
class _Access:
    """The data that a load or a store moves: `count` values of the type `kind`.

    `space` is the state space, or "" for a generic address; `constant` says that it is ld.global.nc, and `peers` that
    an address may be one of another block of the cluster.
    """

    space: str
    count: int
    kind: Type
    constant: bool
    peers: bool

    @property
    def size(self) -> int:
        """How many bytes one value has."""
        return self.kind.width // 8


def _read_modifiers(reader: InstructionReader) -> _Access:
    """Reads the modifiers of a load or a store.

    Raises UnsupportedInstruction for those that the PTX ISA 9.1 (sections of ld, ld.global.nc and st) or ptxas 13.0
    does not allow, and for scopes and cache policies.
    """
    opcode = reader.instruction.opcode
    kind = reader.type(*_TYPES)
    window = reader.choice("global", "shared", "shared::cta", "shared::cluster", *_SPACES[opcode], default="")
    space = window.partition("::")[0]
    count = int(reader.choice("v2", "v4", "v8", default="v1")[1:])
    order = reader.choice("weak", "volatile", default="")
    cache = reader.choice(*_CACHES[opcode], default="")
    near, far = reader.choice(*_FIRST_LEVEL, default=""), reader.choice(*_SECOND_LEVEL, default="")
    ahead = opcode == "ld" and reader.choice(*AHEAD, default="")
    unchanging = opcode == "ld" and reader.flag("nc")
    bits, outside = kind.width * count, space in ("", "global")
    if (near or far or ahead) and not outside:
        reader.fail(f".{near or far or ahead} of {space} memory")
    if (near or far) and cache:
        reader.fail(f".{near or far} with .{cache}")
    if far and bits != 256:
        reader.fail(f".{far} of {bits} bits")
    if order == "volatile" and (cache or near or far or unchanging or space in ("param", "const")):
        reader.fail(".volatile with this")
    if unchanging and (space != "global" or order or cache in ("lu", "cv")):
        reader.fail(".nc with this")
    if bits > 128 and (bits > 256 or kind.width < 32 or not outside) or count == 8 and kind.width != 32:
        reader.fail(f"{count} values of {kind.width} bits at once")
    return _Access(space, count, kind, unchanging, window in ("", "shared::cluster"))


def _values(reader: InstructionReader, operand: Operand, count: int) -> tuple[Register | Immediate, ...]:
    """The `count` registers and constants of an operand. Raises UnsupportedInstruction for another number of them."""
    items = operand.items if isinstance(operand, Vector) else (operand,)
    found = tuple(i for i in items if isinstance(i, Register | Immediate))
    if len(items) != count or len(found) != count:
        reader.fail(f"{count} registers were expected")
    return found


def load_operation(
    instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note, kernel: Kernel
) -> Operation:
    """The operation of ld. `slots` numbers the registers by name; `note` gets the size of one value.

    Raises UnsupportedInstruction for forms that are not emulated.
    """
    reader = InstructionReader(instruction)
    access = _read_modifiers(reader)
    target, source = reader.operands(2)
    items = _values(reader, target, access.count)
    if any(isinstance(i, Immediate) for i in items):
        reader.fail("a destination is no register")
    targets = [(slots[i.name], i.width) if isinstance(i, Register) and i.width else None for i in items]
    if any(t is not None and t[1] < access.kind.width for t in targets):
        reader.fail("a destination is too narrow")
    if access.space == "param":
        return _load_parameter(reader, access, targets, source, kernel)
    where = read_pointer(reader, source, access.space, slots, places)
    for memory in _memories_of(access.space):
        note(memory, access.size)
    signed = access.kind.kind == "s"
    if access.space == "shared" and not access.peers:
        return SharedLoad(where, access.size, tuple(targets), signed, instruction)

    def load(lanes: Lanes, mask: Mask) -> None:
        address = where.known_base(lanes, mask, instruction)
        active = lanes.active(mask)
        values, poison = _load(lanes, access, address, where.offset, active, instruction)
        for target, value, bad in zip(targets, values, poison, strict=True):
            if target is not None:
                lanes.put(target[0], extend(value, target[1], signed), mask, bad)

    return load


def _memories_of(space: str) -> tuple[str, ...]:
    """Which memories of several threads an access in a state space may reach: "global", "shared" or, with a generic
    address, both.
    """
    if space == "local":
        return ()
    return ("global", "shared") if not space else ("shared",) if space == "shared" else ("global",)


def _load_parameter(
    reader: InstructionReader,
    access: _Access,
    targets: Sequence[tuple[int, int] | None],
    operand: Operand,
    kernel: Kernel,
) -> Operation:
    """The operation of ld.param. `targets` are the slots and widths of the destinations, None for unwanted values."""
    if not isinstance(operand, Address) or not isinstance(operand.base, Symbol):
        reader.fail("a parameter by its name was expected")
    found = {p.name: p for p in kernel.parameters}.get(operand.base.name)
    inside = operand.offset + operand.base.offset
    if found is None or inside < 0 or inside + access.size * access.count > found.size:
        reader.fail("it reads outside of its parameter")
    start, storage, signed = found.offset + inside, STORAGE[access.kind.width], access.kind.kind == "s"

    def load(lanes: Lanes, mask: Mask) -> None:
        raw = np.frombuffer(lanes.parameters, storage, access.count, start)
        for i, target in enumerate(targets):
            if target is not None:
                lanes.put(target[0], extend(raw[i : i + 1].reshape(()), target[1], signed), mask)

    return load


def _memories(
    lanes: Lanes, space: str, address: Array, active: Mask
) -> list[tuple[SharedMemory | GlobalAccess, Array, Mask]]:
    """The memories that an access reaches, each with the addresses in it and the mask of the lanes that reach it.

    There are two only if some lanes of the mask `active` have generic addresses of shared memory and others have not.
    """
    if space:
        return [(lanes.shared if space == "shared" else lanes.access, address, active)]
    near = np.asarray(address >= np.uint64(WINDOW))
    here, there = both(active, near), both(active, ~near)
    assert here is not None and there is not None
    inside = (lanes.shared, address - np.uint64(WINDOW))
    if not has_any(there):
        return [(*inside, active)]
    return [(*inside, here), (lanes.access, address, there)] if has_any(here) else [(lanes.access, address, active)]


def _load(
    lanes: Lanes, access: _Access, address: Array, offset: int, active: Mask, instruction: Instruction
) -> tuple[list[Array], list[Poison]]:
    """Loads from all memories that the access reaches: the values, and the poison of each. Raises Stop for a fault."""
    if access.space == "local":
        return lanes.local.load(address, offset, access.size, access.count, active, instruction)
    parts = []
    for memory, where, part in _memories(lanes, access.space, address, active):
        if isinstance(memory, SharedMemory):
            found = _load_shared(memory, lanes, access, where, offset, part, instruction)
        else:
            found = memory.load(where, offset, access.size, access.count, part, instruction, constant=access.constant)
        parts.append((part, *found))
    if len(parts) == 1:
        return parts[0][1:]
    (here, values, poison), (_, others, other_poison) = parts
    assert here is not None
    return (
        [np.where(here, value, other) for value, other in zip(values, others, strict=True)],
        [_joined_poison(one, other, access.kind.width) for one, other in zip(poison, other_poison, strict=True)],
    )


def _load_shared(
    memory: SharedMemory,
    lanes: Lanes,
    access: _Access,
    address: Array,
    offset: int,
    part: Mask,
    instruction: Instruction,
) -> tuple[list[Array], list[Poison]]:
    """Loads from shared memory, of whichever block: the values, and the poison of each. Raises Stop for a fault."""
    columns = None
    if access.peers:
        address, offset, columns = whose_memory(lanes, address, offset, part, instruction)
    return memory.load(address, offset, access.size, access.count, part, instruction, columns)


def _joined_poison(one: Poison, other: Poison, width: int) -> Poison:
    """The union of the poison of two values that are `width` bits wide, one of them from each memory."""
    if one is None or other is None:
        return one if other is None else other
    bits = [poison_whole(p, width) if p.dtype == np.bool_ else p for p in (one, other)]
    return np.asarray(bits[0] | bits[1])


def store_operation(instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note) -> Operation:
    """The operation of st. `slots` numbers the registers by name; `note` gets the size of one value.

    Raises UnsupportedInstruction for forms that are not emulated.
    """
    reader = InstructionReader(instruction)
    access = _read_modifiers(reader)
    target, source = reader.operands(2)
    items: list[Source] = [reader.source(item, access.kind) for item in _values(reader, source, access.count)]
    where = read_pointer(reader, target, access.space, slots, places)
    for memory in _memories_of(access.space):
        note(memory, access.size)
    sources = [getter(item, access.kind.width, slots, {}, instruction) for item in items]
    origins = [slots[i.name] if isinstance(i, Register) else -1 for i in items]
    stored = (1 << access.kind.width) - 1

    def store(lanes: Lanes, mask: Mask) -> None:
        address = where.known_base(lanes, mask, instruction)
        values = [source(lanes) for source in sources]
        poison: list[Poison] = [lanes.poison.get(origin) for origin in origins]
        if access.space == "local":
            active = lanes.active(mask)
            lanes.local.store(address, where.offset, access.size, values, poison, active, instruction)
            return
        for memory, at, part in _memories(lanes, access.space, address, lanes.active(mask)):
            if isinstance(memory, SharedMemory):
                offset, columns = where.offset, None
                if access.peers:
                    at, offset, columns = whose_memory(lanes, at, offset, part, instruction)
                memory.store(at, offset, access.size, values, poison, part, instruction, columns)
                continue
            for bad in poison:
                if bad is not None and (part is None or not lanes.beyond(bad, part)):
                    lanes.refuse(bad & bad.dtype.type(stored), part, "what is stored to global memory", instruction)
            memory.store(at, where.offset, access.size, values, part, instruction)

    return store
