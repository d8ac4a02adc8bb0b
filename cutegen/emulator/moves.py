"""Loads and stores. (Asynchronous copies are in `copies.py`.)"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cutegen.emulator.access import GlobalAccess
from cutegen.emulator.form import Form, Type
from cutegen.emulator.lanes import Array, Mask, both
from cutegen.emulator.placement import WINDOW
from cutegen.emulator.poison import Poison, whole
from cutegen.emulator.pure import Places, getter
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
    Source,
    Symbol,
    Vector,
    constant,
)

Operation = Callable[[Lanes, Mask], None]
Note = Callable[[str, int], None]
_TYPES = (*(f"{kind}{width}" for kind in "bus" for width in (8, 16, 32, 64)), "f32", "f64")
_CACHES = {"ld": ("ca", "cg", "cs", "lu", "cv"), "st": ("wb", "cg", "cs", "wt")}
_SPACES = {"ld": ("param", "param::entry", "const"), "st": ()}  # besides global and shared ones
_FIRST_LEVEL = tuple(
    f"L1::{p}" for p in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
)
_SECOND_LEVEL = tuple(f"L2::{p}" for p in ("evict_normal", "evict_first", "evict_last"))
AHEAD = ("L2::64B", "L2::128B", "L2::256B")
"""How much more the second-level cache may fetch."""


@dataclass(frozen=True, slots=True)
class _Access:
    """`count` values of a type at once; `space` is "" for a generic address; `constant` is ld.global.nc."""

    space: str
    count: int
    kind: Type
    constant: bool

    @property
    def size(self) -> int:
        """Bytes of one value."""
        return self.kind.width // 8


def _read(form: Form) -> _Access:
    """The modifiers of a load or store, as the PTX ISA manual 9.1 (ld, ld.global.nc, st) and ptxas 13.0 allow them,
    without scopes and cache policies."""
    opcode = form.instruction.opcode
    kind = form.type(*_TYPES)
    space = form.choice("global", "shared", "shared::cta", *_SPACES[opcode], default="").partition("::")[0]
    count = int(form.choice("v2", "v4", "v8", default="v1")[1:])
    order = form.choice("weak", "volatile", default="")
    cache = form.choice(*_CACHES[opcode], default="")
    near, far = form.choice(*_FIRST_LEVEL, default=""), form.choice(*_SECOND_LEVEL, default="")
    ahead = opcode == "ld" and form.choice(*AHEAD, default="")
    unchanging = opcode == "ld" and form.flag("nc")
    bits, outside = kind.width * count, space in ("", "global")
    if (near or far or ahead) and not outside:
        form.fail(f".{near or far or ahead} of {space} memory")
    if (near or far) and cache:
        form.fail(f".{near or far} with .{cache}")
    if far and bits != 256:
        form.fail(f".{far} of {bits} bits")
    if order == "volatile" and (cache or near or far or unchanging or space in ("param", "const")):
        form.fail(".volatile with this")
    if unchanging and (space != "global" or order or cache in ("lu", "cv")):
        form.fail(".nc with this")
    if bits > 128 and (bits > 256 or kind.width < 32 or not outside) or count == 8 and kind.width != 32:
        form.fail(f"{count} values of {kind.width} bits at once")
    return _Access(space, count, kind, unchanging)


@dataclass(frozen=True, slots=True)
class Pointer:
    """How to find the base of an address, the offset to add, and the base's slot or -1."""

    base: Callable[[Lanes], Array]
    offset: int
    slot: int

    def at(self, lanes: Lanes, mask: Mask, instruction: Instruction) -> Array:
        """The base of every lane. Raises Stop if it is not known in one of the mask."""
        if self.slot in lanes.poison:
            lanes.refuse(lanes.poison[self.slot], mask, "an address", instruction)
        return self.base(lanes)


def pointer(form: Form, operand: Operand, space: str, slots: Mapping[str, int], places: Places) -> Pointer:
    """The address of an operand in brackets, in a state space ("" for a generic one)."""
    if not isinstance(operand, Address):
        form.fail("an address was expected")
    base = operand.base
    if isinstance(base, Register):
        slot = slots[base.name]
        return Pointer(lambda lanes: lanes.get(slot), operand.offset, slot)
    if isinstance(base, Immediate):
        fixed = constant(base.bits, 64)
    elif base.name in places and places[base.name].variable.space == space:
        fixed = constant(places[base.name].address + base.offset, 64)
    else:
        form.fail(f"{base.name} is no variable in {space or 'generic'} memory")
    return Pointer(lambda lanes: fixed, operand.offset, -1)


def _items(form: Form, operand: Operand, count: int) -> tuple[Register | Immediate, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    found = tuple(i for i in items if isinstance(i, Register | Immediate))
    if len(items) != count or len(found) != count:
        form.fail(f"{count} registers were expected")
    return found


def load_operation(
    instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note, kernel: Kernel
) -> Operation:
    """ld. `note` is told the size of what it reads at least, by state space."""
    form = Form(instruction)
    access = _read(form)
    target, source = form.done(2)
    items = _items(form, target, access.count)
    if any(isinstance(i, Immediate) for i in items):
        form.fail("a destination is no register")
    targets = [(slots[i.name], i.width) if isinstance(i, Register) and i.width else None for i in items]
    if any(t is not None and t[1] < access.kind.width for t in targets):
        form.fail("a destination is too narrow")
    if access.space == "param":
        return _parameter(form, access, targets, source, kernel)
    where = pointer(form, source, access.space, slots, places)
    for kind in _kinds(access.space):
        note(kind, access.size)
    signed = access.kind.kind == "s"

    def operation(lanes: Lanes, mask: Mask) -> None:
        address = where.at(lanes, mask, instruction)
        active = lanes.active(mask)
        values, poison = _load(lanes, access, address, where.offset, active, instruction)
        for target, value, bad in zip(targets, values, poison, strict=True):
            if target is not None:
                lanes.put(target[0], _extend(value, target[1], signed), mask, bad)

    return operation


def _kinds(space: str) -> tuple[str, ...]:
    return ("global", "shared") if not space else ("shared",) if space == "shared" else ("global",)


def _extend(value: Array, width: int, signed: bool) -> Array:
    storage = STORAGE[width]
    if value.dtype == storage:
        return value
    if signed:
        return value.view(np.dtype(f"i{value.dtype.itemsize}")).astype(f"i{width // 8}").view(storage)
    return value.astype(storage)


def _parameter(
    form: Form, access: _Access, targets: Sequence[tuple[int, int] | None], operand: Operand, kernel: Kernel
) -> Operation:
    if not isinstance(operand, Address) or not isinstance(operand.base, Symbol):
        form.fail("a parameter by its name was expected")
    found = {p.name: p for p in kernel.parameters}.get(operand.base.name)
    inside = operand.offset + operand.base.offset
    if found is None or inside < 0 or inside + access.size * access.count > found.size:
        form.fail("it reads outside of its parameter")
    start, storage, signed = found.offset + inside, STORAGE[access.kind.width], access.kind.kind == "s"

    def operation(lanes: Lanes, mask: Mask) -> None:
        raw = np.frombuffer(lanes.parameters, storage, access.count, start)
        for i, target in enumerate(targets):
            if target is not None:
                lanes.put(target[0], _extend(raw[i : i + 1].reshape(()), target[1], signed), mask)

    return operation


def _memories(
    lanes: Lanes, space: str, address: Array, active: Mask
) -> list[tuple[SharedMemory | GlobalAccess, Array, Mask]]:
    """The memories that an access means, with the addresses in them and the lanes: nearly always one."""
    if space:
        return [(lanes.shared if space == "shared" else lanes.access, address, active)]
    near = np.asarray(address >= np.uint64(WINDOW))
    here, there = both(active, near), both(active, ~near)
    assert here is not None and there is not None
    inside = (lanes.shared, address - np.uint64(WINDOW))
    if not there.any():
        return [(*inside, active)]
    return [(*inside, here), (lanes.access, address, there)] if here.any() else [(lanes.access, address, active)]


def _load(
    lanes: Lanes, access: _Access, address: Array, offset: int, active: Mask, instruction: Instruction
) -> tuple[list[Array], list[Poison]]:
    parts = []
    for memory, where, part in _memories(lanes, access.space, address, active):
        if isinstance(memory, SharedMemory):
            found = memory.load(where, offset, access.size, access.count, part, instruction)
        else:
            found = memory.load(where, offset, access.size, access.count, part, instruction, constant=access.constant)
        parts.append((part, *found))
    if len(parts) == 1:
        return parts[0][1:]
    (here, values, poison), (_, others, other_poison) = parts
    assert here is not None
    return (
        [np.where(here, value, other) for value, other in zip(values, others, strict=True)],
        [_either(one, other, access.kind.width) for one, other in zip(poison, other_poison, strict=True)],
    )


def _either(one: Poison, other: Poison, width: int) -> Poison:
    """The poison of values of which some lanes come from one memory and some from another."""
    if one is None or other is None:
        return one if other is None else other
    bits = [whole(p, width) if p.dtype == np.bool_ else p for p in (one, other)]
    return np.asarray(bits[0] | bits[1])


def store_operation(instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note) -> Operation:
    """st. `note` is told the size of what it writes, by state space."""
    form = Form(instruction)
    access = _read(form)
    target, source = form.done(2)
    items: list[Source] = [form.source(item, access.kind) for item in _items(form, source, access.count)]
    where = pointer(form, target, access.space, slots, places)
    for kind in _kinds(access.space):
        note(kind, access.size)
    sources = [getter(item, access.kind.width, slots, {}, instruction) for item in items]
    origins = [slots[i.name] if isinstance(i, Register) else -1 for i in items]
    stored = (1 << access.kind.width) - 1

    def operation(lanes: Lanes, mask: Mask) -> None:
        address = where.at(lanes, mask, instruction)
        values = [source(lanes) for source in sources]
        poison: list[Poison] = [lanes.poison.get(origin) for origin in origins]
        for memory, at, part in _memories(lanes, access.space, address, lanes.active(mask)):
            if isinstance(memory, SharedMemory):
                memory.store(at, where.offset, access.size, values, poison, part, instruction)
                continue
            for bad in poison:
                if bad is not None:
                    lanes.refuse(bad & bad.dtype.type(stored), part, "what is stored to global memory", instruction)
            memory.store(at, where.offset, access.size, values, part, instruction)

    return operation


__all__ = ["AHEAD", "load_operation", "pointer", "store_operation"]
