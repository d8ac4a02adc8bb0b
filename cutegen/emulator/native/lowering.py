"""Which operations of the core do what an instruction on registers does.

An instruction is lowered to one expression for each of its results. What the core does not do bit for bit as numpy
does has none. Forms that `instructions` refuses never get here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.memory.placement import Place
from cutegen.emulator.native.lowering_conversions import lower_conversion
from cutegen.emulator.native.lowering_floats import FLOATS, float_comparison, lower_float
from cutegen.emulator.native.nodes import Node, call, constant, resized
from cutegen.emulator.ptx.model import Guard, Immediate, Instruction, Register, Special, Symbol, Vector
from cutegen.emulator.ptx.types import TYPES, Type

_WORDS = ("16", "32", "64")
_OPPOSITE = {"gt": "lt", "ge": "le"}  # of swapped operands
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_JOINS = ("and", "or", "xor")


def lower(instruction: Instruction, op: PureOp, places: Mapping[str, Place]) -> tuple[Node, ...] | None:
    """The expressions of an instruction's results, or None where the core has none. `op` are its semantics."""
    if op.undefined is not None or any(isinstance(source, Special) for source in op.sources):
        return None
    negated = [isinstance(o, Guard) and o.negated for o in instruction.operands[len(op.destinations) :]]
    arguments: list[Node] = []
    for number, (source, width) in enumerate(zip(op.sources, op.widths, strict=True)):
        node: Node = number
        if isinstance(source, Immediate):
            node = constant(source.bits, max(width, 8))
        elif isinstance(source, Symbol):
            node = constant(places[source.name].address + source.offset, width)
        if number < len(negated) and negated[number]:
            node = call("not1", node)
        arguments.append(node)
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode == "mov":
        return _moved(instruction, op, arguments)
    if opcode == "cvt":
        converted = lower_conversion(modifiers, arguments, op.widths[0], op.destinations[0].width)
        return None if converted is None else (converted,)
    kind = TYPES.get(modifiers[-1]) if modifiers else None
    if kind is None:
        return None
    if opcode == "setp":
        return _compared(modifiers[:-1], kind, arguments, len(op.destinations))
    result = _lowered(opcode, modifiers[:-1], kind, arguments)
    return None if result is None else (result,)


def _lowered(opcode: str, modifiers: Sequence[str], kind: Type, arguments: Sequence[Node]) -> Node | None:
    """The expression of an instruction with one result, by its opcode, the modifiers before its type, and that."""
    width = kind.width
    if opcode == "selp":
        return call(f"sel{width}", *arguments) if not modifiers else None
    if kind.kind in ("f", "bf"):
        return lower_float(opcode, modifiers, kind, arguments)
    if kind.lanes > 1 or kind.kind not in ("s", "u", "b", "pred"):
        return None
    if opcode in ("and", "or", "xor", "not"):
        return call(f"{opcode}{width}", *arguments)
    if opcode in ("mul", "mad"):
        return _product(opcode, modifiers, kind, arguments)
    if opcode == "shf":
        return _funnel(modifiers, arguments)
    if modifiers:
        return None
    if opcode in ("add", "sub", "neg", "abs"):
        return call(f"{opcode}{width}", *arguments)
    if opcode in ("min", "max"):
        return call(f"{opcode}{kind.kind}{width}", *arguments)
    if opcode in ("shl", "shr"):
        return call(f"{'sar' if kind.kind == 's' else opcode}{width}", *arguments)
    if opcode in ("popc", "clz"):
        return call(f"{opcode}{width}", *arguments)
    if width == 32 and opcode in ("lop3", "prmt", "bfe", "bfi"):
        name = {"lop3": "lop32", "prmt": "prmt32", "bfe": f"bfe{kind.kind}32", "bfi": "bfi32"}[opcode]
        return call(name, *arguments)
    return None


def _product(opcode: str, modifiers: Sequence[str], kind: Type, arguments: Sequence[Node]) -> Node | None:
    """mul and mad of whole numbers."""
    if len(modifiers) != 1:
        return None
    (part,), width = modifiers, kind.width
    factors = arguments[:2]
    if part == "lo":
        node: Node = call(f"mul{width}", *factors)
    elif part == "hi" and width == 64:
        node = call(f"hi{kind.kind}64", *factors)
    elif part == "hi":
        whole = call(f"wide{kind.kind}{width}", *factors)
        node = resized(call(f"shr{2 * width}", whole, constant(width, 32)), 2 * width, width)
    else:
        node = call(f"wide{kind.kind}{width}", *factors)
    total = 2 * width if part == "wide" else width
    return node if opcode == "mul" else call(f"add{total}", node, arguments[2])


def _funnel(modifiers: Sequence[str], arguments: Sequence[Node]) -> Node | None:
    """shf: the pair of words shifted."""
    way, manner = modifiers
    count = call("and32", arguments[2], constant(31, 32))
    if manner == "clamp":
        count = call("minu32", arguments[2], constant(32, 32))
    return call(f"shf{way}32", *arguments[:2], count)


def _compared(modifiers: Sequence[str], kind: Type, arguments: Sequence[Node], results: int) -> tuple[Node, ...] | None:
    """setp, with one result or two."""
    name, *rest = modifiers
    if kind.lanes > 1:
        return None
    ftz = "ftz" in rest
    joins = [word for word in rest if word in _JOINS]
    if len(joins) + ftz != len(rest):
        return None
    a, b = arguments[:2]
    found = float_comparison(name, kind, ftz, a, b) if kind.kind in FLOATS else _whole_comparison(name, kind, a, b)
    if found is None:
        return None
    both = (found, call("not1", found))[:results]
    if joins:
        return tuple(call(f"{joins[0]}1", one, arguments[2]) for one in both)
    return both


def _whole_comparison(name: str, kind: Type, a: Node, b: Node) -> Node | None:
    """A comparison of whole numbers."""
    if name in ("eq", "ne"):
        return call(f"{name}{kind.width}", a, b)
    name, sign = _UNSIGNED.get(name, name), kind.kind
    if name in _OPPOSITE:
        name, a, b = _OPPOSITE[name], b, a
    return call(f"{name}{sign}{kind.width}", a, b)


def _moved(instruction: Instruction, op: PureOp, arguments: Sequence[Node]) -> tuple[Node, ...] | None:
    """mov: a copy of a register or constant, or of a vector of registers to one or from one."""
    target, source = instruction.operands[0], instruction.operands[-1]
    if isinstance(source, Vector) and isinstance(target, Register):
        width = target.width
        part = width // len(arguments)
        total: Node | None = None
        for place, argument in enumerate(arguments):
            moved = call(f"shl{width}", resized(argument, part, width), constant(place * part, 32))
            total = resized(argument, part, width) if total is None else call(f"or{width}", total, moved)
        assert total is not None
        return (total,)
    if isinstance(target, Vector):
        width = op.widths[0]
        part = width // len(target.items)
        places = range(len(target.items))
        return tuple(
            resized(call(f"shr{width}", arguments[0], constant(i * part, 32)) if i else arguments[0], width, part)
            for i in places
        )
    return (arguments[0],)
