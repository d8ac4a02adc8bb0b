"""Instructions that only read and write registers, as operations on the lanes' state.

What they compute is in `instructions`; here it is applied to the lanes of a mask, with what was never written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.poison import Poison, poisoned_lanes, rule_for
from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.lanes import Mask, both
from cutegen.emulator.operations.alike import RegisterOperation
from cutegen.emulator.operations.multiply_adds import MultiplyAdd
from cutegen.emulator.operations.operands import Getter, Operation, Places, getter
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Guard, Instruction, Operand, Register, Vector


def register_operation(instruction: Instruction, op: PureOp, slots: Mapping[str, int], places: Places) -> Operation:
    """The operation of an instruction whose semantics are `op`. `slots` numbers the registers by name.

    Raises UnsupportedInstruction for special registers and symbols that are not emulated.
    """
    if instruction.name == "fma.rn.f32" and all(isinstance(s, Register) for s in op.sources):
        target, *factors = (slots[o.name] if isinstance(o, Register) else -1 for o in instruction.operands)
        return MultiplyAdd(target, *factors)
    getters = tuple(getter(s, w, slots, places, instruction) for s, w in zip(op.sources, op.widths, strict=True))
    sources = tuple(slots[s.name] if isinstance(s, Register) else -1 for s in op.sources)
    targets = tuple(slots[d.name] if d.width else -1 for d in op.destinations)
    function = op.function
    rule = op.kept.get("rule") or op.kept.setdefault("rule", rule_for(instruction, op))
    if op.undefined is not None:
        return _undefined_for_some(instruction, op, op.undefined, getters, sources, targets[0])

    if len(targets) == 1 and targets[0] >= 0:
        return RegisterOperation(targets[0], sources, getters, function, rule, _sort(instruction))
    read = tuple(dict.fromkeys(slot for slot in sources if slot >= 0))

    def several(lanes: Lanes, mask: Mask) -> None:
        values = [get(lanes) for get in getters]
        bad: list[Poison] | None = None
        if lanes.poison and not lanes.clean(read, mask):
            bad = rule([lanes.poison.get(slot) for slot in sources], values)
        for i, (target, result) in enumerate(zip(targets, function(values), strict=True)):
            if target >= 0:
                lanes.put(target, result, mask, None if bad is None else bad[i])

    return several


def _sort(instruction: Instruction) -> object:
    """A key shared by instructions that differ only in their registers; None for one not worth running with others."""
    operands = instruction.operands
    registers = [isinstance(o, Register | Guard | Vector) for o in operands]
    if not any(registers[1:]) or (instruction.opcode == "mov" and not any(isinstance(o, Vector) for o in operands)):
        return None
    return (instruction.name, instruction.guard is None, *map(_kind, operands))


def _kind(operand: Operand) -> object:
    """An operand without the name of its register."""
    if isinstance(operand, Vector):
        return tuple(map(_kind, operand.items))
    if isinstance(operand, Guard):
        return operand.register.width, operand.negated
    return operand.width if isinstance(operand, Register) else operand


def _undefined_for_some(
    instruction: Instruction,
    op: PureOp,
    undefined: Callable[[list[Array]], Array],
    getters: tuple[Getter, ...],
    sources: tuple[int, ...],
    target: int,
) -> Operation:
    """An operation whose result PTX leaves open for some operands: there it writes poison.

    `undefined` gives, from the sources, the lanes in which that is so.
    """

    def compute(lanes: Lanes, mask: Mask) -> None:
        values = [get(lanes) for get in getters]
        lost = undefined(values)
        for slot in sources:
            if slot in lanes.poison:
                lost = lost | poisoned_lanes(lanes.poison[slot])
        if not has_any(lost):
            lanes.put(target, op(values)[0], mask)
            return
        used = both(lanes.active(mask), lost)
        if used is not None and has_any(used):
            lanes.open = instruction
        lanes.put(target, op(values)[0], mask, lost)

    return compute
