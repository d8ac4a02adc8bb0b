"""Operations that only read and write registers: the semantics of `semantics.py`, on the lanes' state."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from cutegen.emulator.fma import fma_f32
from cutegen.emulator.lanes import Array, Mask
from cutegen.emulator.poison import Poison, rule_for, some, whole
from cutegen.emulator.semantics import compile_pure
from cutegen.emulator.shared import BASE
from cutegen.emulator.state import Lanes
from cutegen.emulator.types import (
    STORAGE,
    Immediate,
    Instruction,
    Register,
    Source,
    Special,
    Symbol,
    UnsupportedInstruction,
    constant,
)

Getter = Callable[[Lanes], Array]
WINDOW = 1 << 60  # generic address of the first byte of shared memory
_CONVERT = {
    "cvta.to.global": 0,
    "cvta.to.const": 0,
    "cvta.global": 0,
    "cvta.const": 0,
    "cvta.to.shared": -WINDOW,
    "cvta.shared": WINDOW,
}
_LAST_29 = np.uint32(0x1FFFFFFF)
_HALF = np.uint32(0x10000000)


def pure_operation(
    instruction: Instruction,
    slots: Mapping[str, int],
    symbols: Mapping[str, int],
    approximate: Callable[[Instruction], None],
) -> Callable[[Lanes, Mask], None] | None:
    """The operation, or None if the instruction is not one on registers alone."""
    if instruction.opcode == "cvta":
        return _convert_address(instruction, slots, symbols)
    op = compile_pure(instruction)
    if op is None:
        return None
    if op.approximate:
        approximate(instruction)
    if instruction.name == "fma.rn.f32" and all(isinstance(s, Register) for s in op.sources):
        return _multiply_add(instruction, slots)
    getters = tuple(getter(s, w, slots, symbols, instruction) for s, w in zip(op.sources, op.widths, strict=True))
    sources = tuple(slots[s.name] if isinstance(s, Register) else -1 for s in op.sources)
    targets = tuple(slots[d.name] if d.width else -1 for d in op.destinations)
    function, spread = op.function, rule_for(instruction, op)

    def poisoned(lanes: Lanes, values: list[Array]) -> list[Poison] | None:
        found = [lanes.poison.get(slot) for slot in sources]
        return None if all(p is None for p in found) else spread(found, values)

    if len(targets) == 1 and targets[0] >= 0:
        target = targets[0]

        def single(lanes: Lanes, mask: Mask) -> None:
            values = [get(lanes) for get in getters]
            bad = poisoned(lanes, values) if lanes.poison else None
            lanes.put(target, function(values)[0], mask, None if bad is None else bad[0])

        return single

    def several(lanes: Lanes, mask: Mask) -> None:
        values = [get(lanes) for get in getters]
        bad = poisoned(lanes, values) if lanes.poison else None
        for i, (target, result) in enumerate(zip(targets, function(values), strict=True)):
            if target >= 0:
                lanes.put(target, result, mask, None if bad is None else bad[i])

    return several


def getter(
    source: Source, width: int, slots: Mapping[str, int], symbols: Mapping[str, int], instruction: Instruction
) -> Getter:
    """How to find a source's bits."""
    if isinstance(source, Register):
        slot = slots[source.name]

        def register(lanes: Lanes) -> Array:
            bits = lanes.bits[slot]
            return lanes.get(slot) if bits is None else bits

        return register
    if isinstance(source, Immediate):
        fixed = constant(source.bits, width)
        return lambda lanes: fixed
    if isinstance(source, Special):
        name = source.name
        if name not in SPECIALS:
            raise UnsupportedInstruction(name, instruction.line, instruction.text, "special register")
        return lambda lanes: lanes.specials[name].astype(STORAGE[width], copy=False)
    assert isinstance(source, Symbol)
    name, offset = source.name, source.offset
    if name in symbols:
        fixed = constant(BASE + symbols[name] + offset, width)
        return lambda lanes: fixed
    return lambda lanes: constant(lanes.symbols[name] + offset, width)


def _multiply_add(instruction: Instruction, slots: Mapping[str, int]) -> Callable[[Lanes, Mask], None]:
    """fma.rn.f32, which is nearly all that a matrix product does: values stay float64 from one to the next.

    `fma.py` says why the result is right where the float64 sum is no midpoint between two float32 numbers and the
    float32 result is normal or exact (underflow is what the processor reports otherwise). All else goes there.
    """
    target, a, b, c = (slots[o.name] if isinstance(o, Register) else -1 for o in instruction.operands)
    float32, float64, uint32 = np.float32, np.float64, np.uint32

    def wide(lanes: Lanes, slot: int) -> Array:
        value: Array = np.asarray(lanes.get(slot)).view(float32).astype(float64)
        lanes.wide[slot] = value
        return value

    def operation(lanes: Lanes, mask: Mask) -> None:
        held = lanes.wide
        x, y, z = held[a], held[b], held[c]
        x = wide(lanes, a) if x is None else x
        y = wide(lanes, b) if y is None else y
        z = wide(lanes, c) if z is None else z
        poison: Poison = None
        if lanes.poison:
            for slot in (a, b, c):
                found = lanes.poison.get(slot)
                if found is not None:
                    poison = some(found) if poison is None else poison | some(found)
            if poison is not None:
                poison = whole(poison, 32)
        lanes.underflow = False
        total = np.add(x * y, z)
        result: Array = np.asarray(total).astype(float32)
        if lanes.underflow or total.ndim == 0 or ((total.view(uint32)[..., ::2] & _LAST_29) == _HALF).any():
            result = np.asarray(fma_f32(x.astype(float32), y.astype(float32), z.astype(float32)))
        if mask is None:
            held[target] = result.astype(float64)
            lanes.bits[target] = None
            if lanes.poison:
                if poison is None:
                    lanes.poison.pop(target, None)
                else:
                    lanes.poison[target] = poison
        else:
            lanes.put(target, np.where(np.isnan(result), _NAN, result).view(uint32), mask, poison)

    return operation


_NAN = np.uint32(0x7FFFFFFF).view(np.float32)


def _convert_address(
    instruction: Instruction, slots: Mapping[str, int], symbols: Mapping[str, int]
) -> Callable[[Lanes, Mask], None]:
    name, _, width = instruction.name.rpartition(".")
    target, source = instruction.operands
    if name not in _CONVERT or width not in ("u64", "s64", "b64") or not isinstance(target, Register):
        raise UnsupportedInstruction(instruction.name, instruction.line, instruction.text)
    assert isinstance(source, Register | Immediate | Special | Symbol)
    get = getter(source, 64, slots, symbols, instruction)
    slot, shift = slots[target.name], np.uint64(_CONVERT[name] & (2**64 - 1))
    origin = slots[source.name] if isinstance(source, Register) else -1

    def operation(lanes: Lanes, mask: Mask) -> None:
        value = get(lanes)
        lanes.put(slot, np.asarray(value) + shift, mask, lanes.poison.get(origin))

    return operation


SPECIALS = frozenset(
    (
        *(f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
        "%laneid",
        "%warpid",
        "%nwarpid",
        *(f"%lanemask_{which}" for which in ("eq", "le", "lt", "ge", "gt")),
        "%dynamic_smem_size",
        "%total_smem_size",
        *(
            f"%{name}.{axis}"
            for name in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
            for axis in "xyz"
        ),
        "%cluster_ctarank",
        "%cluster_nctarank",
    )
)
"""Special registers that the machine provides (one block a cluster)."""
