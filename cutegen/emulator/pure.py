"""Operations that only read and write registers: the semantics of `semantics.py`, on the lanes' state.

And prefetch, which changes nothing that a program can see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from cutegen.emulator.fma import fma_f32
from cutegen.emulator.form import Form
from cutegen.emulator.lanes import Array, Mask, both
from cutegen.emulator.placement import WINDOW, Place
from cutegen.emulator.poison import Poison, rule_for, some, whole
from cutegen.emulator.semantics import compile_pure
from cutegen.emulator.state import Lanes
from cutegen.emulator.types import (
    STORAGE,
    Address,
    Immediate,
    Instruction,
    PureOp,
    Register,
    Source,
    Special,
    Symbol,
    UnsupportedInstruction,
    constant,
)

Getter = Callable[[Lanes], Array]
Places = Mapping[str, Place]
_LAST_29 = np.uint32(0x1FFFFFFF)
_HALF = np.uint32(0x10000000)


def pure_operation(
    instruction: Instruction,
    slots: Mapping[str, int],
    places: Places,
    note: Callable[[PureOp], None],
) -> Callable[[Lanes, Mask], None] | None:
    """The operation, or None if the instruction is not one on registers alone. `note` is told what it computes."""
    if instruction.opcode in ("prefetch", "prefetchu"):
        return _prefetch(instruction)
    if instruction.opcode == "cvta":
        return _convert_address(instruction, slots, places)
    op = compile_pure(instruction)
    if op is None:
        return None
    note(op)
    if instruction.name == "fma.rn.f32" and all(isinstance(s, Register) for s in op.sources):
        return _multiply_add(instruction, slots)
    getters = tuple(getter(s, w, slots, places, instruction) for s, w in zip(op.sources, op.widths, strict=True))
    sources = tuple(slots[s.name] if isinstance(s, Register) else -1 for s in op.sources)
    targets = tuple(slots[d.name] if d.width else -1 for d in op.destinations)
    function, spread = op.function, rule_for(instruction, op)
    if op.undefined is not None:
        return _partial(instruction, op, op.undefined, getters, sources, targets[0])

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


def _partial(
    instruction: Instruction,
    op: PureOp,
    undefined: Callable[[list[Array]], Array],
    getters: tuple[Getter, ...],
    sources: tuple[int, ...],
    target: int,
) -> Callable[[Lanes, Mask], None]:
    """An operation without a result for some operands: what it writes then is as good as never written."""

    def operation(lanes: Lanes, mask: Mask) -> None:
        values = [get(lanes) for get in getters]
        lost = undefined(values)
        for slot in sources:
            if slot in lanes.poison:
                lost = lost | some(lanes.poison[slot])
        if not lost.any():
            lanes.put(target, op(values)[0], mask)
            return
        used = both(lanes.active(mask), lost)
        if used is not None and used.any():
            lanes.open = instruction
        lanes.put(target, op(values)[0], mask, lost)

    return operation


def getter(source: Source, width: int, slots: Mapping[str, int], places: Places, instruction: Instruction) -> Getter:
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
    if source.name not in places:
        raise UnsupportedInstruction(instruction.name, instruction.line, instruction.text, f"address of {source.name}")
    here = constant(places[source.name].address + source.offset, width)
    return lambda lanes: here


def _multiply_add(instruction: Instruction, slots: Mapping[str, int]) -> Callable[[Lanes, Mask], None]:
    """fma.rn.f32, which is nearly all that a matrix product does: values stay float64 from one to the next.

    `fma.py` says why the result is right where the float64 sum is no midpoint between two float32 numbers and the
    float32 result is normal or exact (underflow is what the processor reports otherwise). All else goes there.
    """
    target, a, b, c = (slots[o.name] if isinstance(o, Register) else -1 for o in instruction.operands)
    float32, float64, uint32, count = np.float32, np.float64, np.uint32, np.count_nonzero

    def wide(lanes: Lanes, slot: int) -> Array:
        value: Array = np.asarray(lanes.get(slot)).view(float32).astype(float64)
        lanes.wide[slot] = value
        return value

    def number(lanes: Lanes) -> Array | None:
        """What the target holds, if it was written and is a number in every lane: a NaN has bits of its own."""
        value, bits = lanes.wide[target], lanes.bits[target]
        if value is not None or bits is None:
            return value
        narrow: Array = np.asarray(bits).view(float32)
        return None if np.isnan(narrow).any() else narrow.astype(float64)

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
        if lanes.underflow or total.ndim == 0 or count((total.view(uint32)[..., ::2] & _LAST_29) == _HALF):
            result = np.asarray(fma_f32(x.astype(float32), y.astype(float32), z.astype(float32)))
        if mask is None:
            held[target] = result.astype(float64)
            lanes.bits[target] = None
            if lanes.poison:
                if poison is None:
                    lanes.poison.pop(target, None)
                else:
                    lanes.poison[target] = poison
            return
        kept = number(lanes) if poison is None and target not in lanes.poison else None
        if kept is None:
            lanes.put(target, np.where(np.isnan(result), _NAN, result).view(uint32), mask, poison)
        else:
            held[target] = np.where(mask, result.astype(float64), kept)
            lanes.bits[target] = None

    return operation


_NAN = np.uint32(0x7FFFFFFF).view(np.float32)


def _prefetch(instruction: Instruction) -> Callable[[Lanes, Mask], None]:
    """A hint, of any address: the manual (9.7.9.15) gives it no effect but on the caches."""
    form = Form(instruction)
    if instruction.opcode == "prefetchu":
        form.choice("L1")
    else:
        form.flag("global")
        form.choice("L1", "L2", "L2::evict_last", "L2::evict_normal")
    if not isinstance(form.done(1)[0], Address):
        form.fail("an address was expected")
    return lambda lanes, mask: None


def _convert_address(
    instruction: Instruction, slots: Mapping[str, int], places: Places
) -> Callable[[Lanes, Mask], None]:
    """cvta. Only shared memory has addresses of its own; those of all else are generic as they are."""
    form = Form(instruction)
    kind = form.type("u64")
    back = form.leads("to")
    space = form.choice("global", "const", "shared", "shared::cta").partition("::")[0]
    target, operand = form.done(2)
    if not isinstance(target, Register) or target.width != 64:
        form.fail("no register to write to")
    if isinstance(operand, Symbol) and not back and operand.name in places:
        if places[operand.name].variable.space != space:
            form.fail(f"{operand.name} is no variable in {space} memory")
        source: Source = operand
    else:
        source = form.source(operand, kind)
    get = getter(source, 64, slots, places, instruction)
    away = 0 if space != "shared" else -WINDOW if back else WINDOW
    slot, shift = slots[target.name], np.uint64(away & (2**64 - 1))
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
