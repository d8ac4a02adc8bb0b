"""Which operations of the core do what an instruction on floats does."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.emulator.native.nodes import Node, call, constant
from cutegen.emulator.ptx.types import Type

FLOATS = ("f", "bf")
_SIGN, _SIZE = constant(1 << 31, 32), constant((1 << 31) - 1, 32)
_OPPOSITE = {"gt": "lt", "ge": "le", "gtu": "ltu", "geu": "leu"}  # of swapped operands
_APPROXIMATE = ("ex2", "rcp", "sqrt", "rsqrt", "div")
_ROUNDINGS = ("rn", "rz", "rm", "rp")


def lower_float(opcode: str, modifiers: Sequence[str], kind: Type, arguments: Sequence[Node]) -> Node | None:
    """The expression of an instruction on floats with one result, or None where the core has none."""
    if opcode in ("abs", "neg") and kind.name != "f64" and not modifiers:
        return _with_sign(opcode, kind, arguments[0])
    if kind.name != "f32":
        return None
    flags = set(modifiers)
    ftz, sat = "ftz" in flags, "sat" in flags
    flags -= {"ftz", "sat"}
    if len(flags) + ftz + sat != len(modifiers):
        return None
    operands = [call("ftzf32", a) for a in arguments] if ftz else list(arguments)
    node = _function(opcode, flags, operands)
    if node is None or sat and opcode not in ("add", "sub", "mul", "fma", "mad"):
        return None
    if ftz:
        node = call("ftzf32", node)
    return call("satf32", node) if sat else node


def _function(opcode: str, flags: set[str], operands: Sequence[Node]) -> Node | None:
    """The expression of a function of float32; `flags` are its modifiers but for `.ftz` and `.sat`."""
    if opcode in ("add", "sub", "mul") and flags <= {"rn"} or opcode == "div" and flags == {"rn"}:
        return call(f"{opcode}f32", *operands)
    if opcode in ("rcp", "sqrt") and flags == {"rn"}:
        return call(f"{opcode}f32", *operands)
    if opcode in ("fma", "mad") and len(flags) == 1 and flags <= set(_ROUNDINGS):
        (mode,) = flags
        return call("fmaf32" if mode == "rn" else f"fma{mode}f32", *operands)
    if opcode in _APPROXIMATE and flags == {"approx"}:
        return call(f"{opcode}approxf32", *operands)
    if opcode == "div" and flags == {"full"}:
        return call("divfullf32", *operands)
    if opcode in ("min", "max") and flags <= {"NaN"} and len(operands) == 2:
        return call(f"{opcode}{'nan' if flags else ''}f32", *operands)
    if opcode in ("abs", "neg") and not flags:
        return call("and32", operands[0], _SIZE) if opcode == "abs" else call("xor32", operands[0], _SIGN)
    if opcode == "copysign" and not flags:
        return call("or32", call("and32", operands[0], _SIGN), call("and32", operands[1], _SIZE))
    return None


def _with_sign(opcode: str, kind: Type, operand: Node) -> Node:
    """abs and neg of floats that may be packed."""
    each = kind.element.width
    signs = sum(1 << (each * i + each - 1) for i in range(kind.lanes))
    if opcode == "neg":
        return call(f"xor{kind.width}", operand, constant(signs, kind.width))
    return call(f"and{kind.width}", operand, constant(~signs, kind.width))


def float_comparison(name: str, kind: Type, ftz: bool, a: Node, b: Node) -> Node | None:
    """A comparison of floats, or None where the core has none."""
    if kind.name in ("f16", "bf16") and not ftz:
        a, b = call(f"{kind.name}_f32", a), call(f"{kind.name}_f32", b)
    elif kind.name == "f32" and ftz:
        a, b = call("ftzf32", a), call("ftzf32", b)
    elif kind.name not in ("f32", "f64"):
        return None
    width = "f64" if kind.name == "f64" else "f32"
    either = call("or1", call(f"nan{width}", a), call(f"nan{width}", b))
    if name == "nan":
        return either
    if name == "num":
        return call("not1", either)
    if name == "ne":
        return call("and1", call(f"neu{width}", a, b), call("not1", either))
    if name == "equ":
        return call("or1", call(f"eq{width}", a, b), either)
    if name in _OPPOSITE:
        name, a, b = _OPPOSITE[name], b, a
    return call(f"{name}{width}", a, b) if name in ("eq", "lt", "le", "neu", "ltu", "leu") else None
