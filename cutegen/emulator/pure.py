"""Operations that only read and write registers: the semantics of `semantics.py`, on the lanes' state.

And prefetch, which changes nothing that a program can see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from cutegen.emulator.form import Form
from cutegen.emulator.lanes import Array, Mask, both
from cutegen.emulator.multiply_adds import MultiplyAdd
from cutegen.emulator.placement import WINDOW, Place
from cutegen.emulator.poison import Poison, rule_for, some
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
        target, *read = (slots[o.name] if isinstance(o, Register) else -1 for o in instruction.operands)
        return MultiplyAdd(target, *read)
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
