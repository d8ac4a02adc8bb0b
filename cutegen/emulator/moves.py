"""Loads, stores and asynchronous copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np

from cutegen.emulator.access import GlobalAccess
from cutegen.emulator.lanes import Array, Mask, Stop, both, first
from cutegen.emulator.pure import WINDOW, getter
from cutegen.emulator.shared import SharedMemory
from cutegen.emulator.state import Lanes
from cutegen.emulator.types import (
    STORAGE,
    Address,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Register,
    Symbol,
    UnsupportedInstruction,
    Vector,
    constant,
)

Operation = Callable[[Lanes, Mask], None]
Note = Callable[[str, int], None]
_TYPES = {f"{kind}{width}": width // 8 for kind in "bus" for width in (8, 16, 32, 64)} | {"f16": 2, "f32": 4, "f64": 8}
_HINTS = frozenset(("weak", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "volatile", "cta"))
_SPACES = {"global": "global", "shared": "shared", "shared::cta": "shared", "const": "global"}


def _fail(instruction: Instruction, why: str = "") -> NoReturn:
    raise UnsupportedInstruction(instruction.name, instruction.line, instruction.text, why)


def _form(instruction: Instruction) -> tuple[str, int, int, bool]:
    """State space ("" for generic), count of a vector, bytes of an element, whether it is signed."""
    space, count = "", 1
    *middle, last = instruction.modifiers
    if last not in _TYPES:
        _fail(instruction, f"type .{last}")
    for modifier in middle:
        if modifier in _SPACES and not space:
            space = _SPACES[modifier]
        elif modifier in ("param", "param::entry") and instruction.opcode == "ld" and not space:
            space = "param"
        elif modifier in ("v2", "v4", "v8") and count == 1:
            count = int(modifier[1:])
        elif modifier not in _HINTS and not modifier.startswith(("L1::", "L2::")) or modifier == "L2::cache_hint":
            _fail(instruction, f"modifier .{modifier}")
    size = _TYPES[last]
    if size * count > 32:
        _fail(instruction, f"{size * count} bytes at once")
    return space, count, size, last.startswith("s")


def _address(
    instruction: Instruction, operand: Operand, slots: Mapping[str, int], symbols_are: str
) -> tuple[Callable[[Lanes], Array], int, int]:
    """How to find the base address, the offset, and the base's slot or -1."""
    if not isinstance(operand, Address):
        _fail(instruction, "an address was expected")
    base = operand.base
    if isinstance(base, Register):
        slot = slots[base.name]
        return (lambda lanes: lanes.get(slot)), operand.offset, slot
    if isinstance(base, Immediate):
        fixed = constant(base.bits, 64)
        return (lambda lanes: fixed), operand.offset, -1
    name, extra = base.name, base.offset

    def symbol(lanes: Lanes) -> Array:
        if name not in lanes.symbols:
            raise Stop("out-of-bounds", f"no variable {name} in {symbols_are} memory", instruction)
        return np.asarray(lanes.symbols[name] + extra, np.uint64)

    return symbol, operand.offset, -1


def _items(instruction: Instruction, operand: Operand, count: int) -> tuple[Register | Immediate, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count or not all(isinstance(i, Register | Immediate) for i in items):
        _fail(instruction, f"{count} registers were expected")
    return items  # type: ignore[return-value]


def sized(item: Register | Immediate, width: int) -> Register | Immediate:
    """An immediate cut to `width` bits."""
    return Immediate(item.bits & ((1 << width) - 1), width) if isinstance(item, Immediate) else item


def load_operation(instruction: Instruction, slots: Mapping[str, int], note: Note, kernel: Kernel) -> Operation:
    space, count, size, signed = _form(instruction)
    if len(instruction.operands) != 2:
        _fail(instruction, "two operands were expected")
    items = _items(instruction, instruction.operands[0], count)
    if not all(isinstance(i, Register) for i in items):
        _fail(instruction, "a destination is no register")
    targets = [(slots[i.name], i.width) if isinstance(i, Register) and i.width else None for i in items]
    if any(t is not None and t[1] < size * 8 for t in targets):
        _fail(instruction, "a destination is too narrow")
    if space == "param":
        return _parameter(instruction, targets, size, count, signed, kernel)
    get, offset, slot = _address(instruction, instruction.operands[1], slots, space or "generic")
    for kind in (space,) if space else ("global", "shared"):
        note(kind, size)

    def operation(lanes: Lanes, mask: Mask) -> None:
        address = get(lanes)
        if slot in lanes.poison:
            lanes.refuse(lanes.poison[slot], mask, "an address", instruction)
        active = lanes.active(mask)
        memory, address = _memory(lanes, space, address, active, instruction)
        values, poison = memory.load(address, offset, size, count, active, instruction)
        for target, value, bad in zip(targets, values, poison, strict=True):
            if target is not None:
                lanes.put(target[0], _extend(value, target[1], signed), mask, bad)

    return operation


def _extend(value: Array, width: int, signed: bool) -> Array:
    storage = STORAGE[width]
    if value.dtype == storage:
        return value
    if signed:
        return value.view(np.dtype(f"i{value.dtype.itemsize}")).astype(f"i{width // 8}").view(storage)
    return value.astype(storage)


def _parameter(
    instruction: Instruction,
    targets: Sequence[tuple[int, int] | None],
    size: int,
    count: int,
    signed: bool,
    kernel: Kernel,
) -> Operation:
    operand = instruction.operands[1]
    if not isinstance(operand, Address) or not isinstance(operand.base, Symbol):
        _fail(instruction, "a parameter by its name was expected")
    found = {p.name: p for p in kernel.parameters}.get(operand.base.name)
    inside = operand.offset + operand.base.offset
    if found is None or inside < 0 or inside + size * count > found.size:
        _fail(instruction, "it reads outside of its parameter")
    start = found.offset + inside

    def operation(lanes: Lanes, mask: Mask) -> None:
        raw = np.frombuffer(lanes.parameters, STORAGE[size * 8], count, start)
        for i, target in enumerate(targets):
            if target is not None:
                lanes.put(target[0], _extend(raw[i : i + 1].reshape(()), target[1], signed), mask)

    return operation


def _memory(
    lanes: Lanes, space: str, address: Array, active: Mask, instruction: Instruction
) -> tuple[SharedMemory | GlobalAccess, Array]:
    """The memory that an access means, and the address in it."""
    if space == "shared":
        return lanes.shared, address
    if space == "global":
        return lanes.access, address
    inside = np.asarray(address) >= np.uint64(WINDOW)
    inside = inside if active is None else inside | ~active
    if inside.all():
        return lanes.shared, np.asarray(address) - np.uint64(WINDOW)
    used = inside if active is None else inside & active
    if used.any():
        raise Stop("out-of-bounds", "generic addresses of shared and of global memory in one access", instruction)
    return lanes.access, address


def store_operation(instruction: Instruction, slots: Mapping[str, int], note: Note) -> Operation:
    space, count, size, _ = _form(instruction)
    if len(instruction.operands) != 2 or "const" in instruction.modifiers or "nc" in instruction.modifiers:
        _fail(instruction)
    items = _items(instruction, instruction.operands[1], count)
    get, offset, slot = _address(instruction, instruction.operands[0], slots, space or "generic")
    for kind in (space,) if space else ("global", "shared"):
        note(kind, size)
    sources = [getter(sized(item, size * 8), size * 8, slots, {}, instruction) for item in items]
    origins = [slots[i.name] if isinstance(i, Register) else -1 for i in items]

    def operation(lanes: Lanes, mask: Mask) -> None:
        address = get(lanes)
        if slot in lanes.poison:
            lanes.refuse(lanes.poison[slot], mask, "an address", instruction)
        active = lanes.active(mask)
        values = [source(lanes) for source in sources]
        memory, address = _memory(lanes, space, address, active, instruction)
        if memory is lanes.shared:
            poison = [lanes.poison.get(o) for o in origins]
            lanes.shared.store(address, offset, size, values, poison, active, instruction)
            return
        if lanes.poison:
            for origin in origins:
                if origin in lanes.poison:
                    lanes.refuse(lanes.poison[origin], mask, "what is stored to global memory", instruction)
        lanes.access.store(address, offset, size, values, active, instruction)

    return operation


def copy_operation(instruction: Instruction, slots: Mapping[str, int], note: Note) -> Operation | None:
    """cp.async and its groups."""
    modifiers = instruction.modifiers
    if not modifiers or modifiers[0] != "async":
        _fail(instruction)
    if modifiers == ("async", "commit_group"):
        return lambda lanes, mask: lanes.shared.commit(lanes.active(mask))
    if modifiers == ("async", "wait_group"):
        (count,) = instruction.operands
        if not isinstance(count, Immediate):
            _fail(instruction, "a count that is no constant")
        left = count.bits
        return lambda lanes, mask: lanes.shared.wait(left, lanes.active(mask))
    if modifiers == ("async", "wait_all"):

        def all_of_them(lanes: Lanes, mask: Mask) -> None:
            lanes.shared.commit(lanes.active(mask))
            lanes.shared.wait(0, lanes.active(mask))

        return all_of_them
    kind, *rest = [m for m in modifiers[1:] if not m.startswith("L2::") or m == "L2::cache_hint"]
    if kind not in ("ca", "cg") or rest not in (["shared", "global"], ["shared::cta", "global"]):
        _fail(instruction)
    return _copy(instruction, slots, note)


def _copy(instruction: Instruction, slots: Mapping[str, int], note: Note) -> Operation:
    target, source, amount, *more = instruction.operands
    if not isinstance(amount, Immediate) or amount.bits not in (4, 8, 16) or len(more) > 1:
        _fail(instruction, "a copy of other than 4, 8 or 16 bytes, or with more operands")
    size = amount.bits
    if "cg" in instruction.modifiers and size != 16:
        _fail(instruction, "cp.async.cg moves 16 bytes")
    to, to_offset, to_slot = _address(instruction, target, slots, "shared")
    origin, offset, slot = _address(instruction, source, slots, "global")
    note("global", size)
    note("shared", min(size, 8))
    given = more[0] if more else None
    if isinstance(given, Register) and given.width == 32:
        given_slot = slots[given.name]
    elif given is None or isinstance(given, Immediate):
        given_slot = -1
    else:
        _fail(instruction, "a source size that is no 32-bit register")
    fixed = constant(size if not isinstance(given, Immediate) else given.bits, 32)

    def operation(lanes: Lanes, mask: Mask) -> None:
        for s, what in ((to_slot, "an address"), (slot, "an address"), (given_slot, "the size of a copy")):
            if s in lanes.poison:
                lanes.refuse(lanes.poison[s], mask, what, instruction)
        active = lanes.active(mask)
        unit = lanes.shared.unit
        amounts = fixed if given_slot < 0 else lanes.get(given_slot)
        values, poison = _fetch(lanes, origin(lanes), offset, size, unit, amounts, active, instruction)
        lanes.shared.copy(to(lanes), to_offset, size, values, poison, active, instruction)

    return operation


def _fetch(
    lanes: Lanes,
    address: Array,
    offset: int,
    size: int,
    unit: int,
    amounts: Array,
    active: Mask,
    instruction: Instruction,
) -> tuple[list[Array], Mask]:
    """What a copy brings, in units of shared memory: the first `amounts` bytes of its source, then zeros."""
    count = size // unit
    storage = STORAGE[unit * 8]
    zero = np.zeros((), storage)
    poison: Mask = None
    values: list[Array] = [zero] * count
    for amount in _distinct(amounts):
        part: Mask = None
        if np.size(amounts) > 1:
            part = both(active, amounts == amount)
            if part is not None and not part.any():
                continue
        else:
            part = active
        if amount > size:
            lane = first(np.ones((1, 1), np.bool_) if part is None else part, lanes.shape)
            raise Stop("out-of-bounds", f"cp.async of {amount} bytes from the source, {size} in all", instruction, lane)
        if amount == 0:
            continue
        if amount == size:
            found, bad = lanes.access.load(address, offset, unit, count, part, instruction)
        elif amount % unit == 0:
            found, bad = [], []
            for i in range(int(amount) // unit):
                value, one = lanes.access.load(address, offset + i * unit, unit, 1, part, instruction)
                found += value
                bad += one
            found += [zero] * (count - len(found))
        else:
            raise Stop("out-of-bounds", f"cp.async of {amount} bytes from the source: not emulated", instruction)
        values = found if part is active else [np.where(part, f, v) for f, v in zip(found, values, strict=True)]  # type: ignore[arg-type]
        for one_bad in bad:
            if one_bad is not None:
                poison = one_bad if poison is None else poison | one_bad
    return values, poison


def _distinct(amounts: Array) -> list[int]:
    """The different values; nearly always one, or two."""
    low, high = amounts.min(), amounts.max()
    if low == high:
        return [int(low)]
    if ((amounts == low) | (amounts == high)).all():
        return [int(low), int(high)]
    return [int(a) for a in np.unique(amounts)]


__all__ = ["copy_operation", "load_operation", "store_operation"]
