"""The values of constant expressions in `compute`: each must fit the type that it is computed in.

Conditions on numbers and conversions of numbers are constant, too, and become literals (`folded`); arithmetic on
numbers stays as it was written, and Python evaluates it when the kernel is compiled.
"""

from __future__ import annotations

import math
from fractions import Fraction

from cutegen.dtypes import Dtype
from cutegen.expressions.errors import NumberError
from cutegen.expressions.tree import COMPARISONS, QUOTIENTS, SHIFTS, Binary, Call, Cast, Expr, Literal_, Place, Unary

Number = int | float | bool
# digits of the significand, exponents of the largest number and of the least one that is not subnormal
_FORMATS = {
    Dtype.f64: (53, 1023, -1022),
    Dtype.f32: (24, 127, -126),
    Dtype.f16: (11, 15, -14),
    Dtype.bf16: (8, 127, -126),
    Dtype.f8e4m3: (4, 8, -6),
    Dtype.f8e5m2: (3, 15, -14),
}


def check_constants(tree: Expr) -> None:
    """Go through an annotated tree. Raises `NumberError` at the first part of it that is made of numbers alone and
    divides by zero, or has a value that its type cannot hold."""
    _value(tree)


def folded(node: Expr) -> Expr:
    """An annotated node, as a literal where it is a truth or a conversion that no argument of the kernel decides.

    Raises `NumberError` as `check_constants` does.
    """
    if isinstance(node, Cast) or (isinstance(node, Unary | Binary) and node.dtype is Dtype.bool):
        value = _value(node)
        if value is not None:
            return Literal_(value, dtype=node.dtype, place=node.place)
    return node


def limits(dtype: Dtype) -> tuple[int | float, int | float]:
    """The least and the largest number of a type."""
    if dtype.is_f8:
        return -dtype.largest, dtype.largest
    if dtype.is_float:
        digits, exponent, _ = _FORMATS[dtype]
        largest = float((2 - Fraction(1, 1 << (digits - 1))) * Fraction(2) ** exponent)
        return -largest, largest
    return dtype.range


def _fits(value: Number, dtype: Dtype) -> bool:
    if dtype.is_float:
        digits, exponent, _ = _FORMATS[dtype]
        # From half a step beyond the largest number on, rounding gives infinity, or 8 bits a number far from this one
        return abs(Fraction(value)) < Fraction(limits(dtype)[1]) + Fraction(2) ** (exponent - digits)
    low, high = limits(dtype)
    return low <= int(value) <= high


def _checked(value: Number, dtype: Dtype, place: Place, made: str = "", *, infinite: bool = True) -> Number:
    """The value, which must fit its type; with `infinite` one that is no number fits every float, though infinity none
    of 8 bits: a conversion gives none."""
    if dtype.is_float and infinite and (math.isnan(value) or (math.isinf(value) and not dtype.is_f8)):
        return value
    if not math.isfinite(value) or not _fits(value, dtype):
        low, high = limits(dtype)
        what = f"{made} is {_shown(value)}, which" if made else _shown(value)
        span = f"{low:.7g} to {high:.7g}" if dtype.is_float else f"{low} to {high}"
        help = f"{dtype.value} holds {span}{'; infinity is `inf`' if dtype.is_float and not dtype.is_f8 else ''}"
        raise NumberError(f"{what} does not fit in {dtype.value}", place, help)
    return value


def _shown(value: Number) -> str:
    text = repr(value)
    return text if len(text) <= 24 else f"about {float(value):.3e}"


def _value(node: Expr) -> Number | None:
    """The constant value of a part; None where it depends on the kernel's arguments or calls a function."""
    assert node.dtype is not None
    match node:
        case Literal_():
            return _checked(node.value, node.dtype, node.place)
        case Unary(op="-"):
            x = _value(node.x)
            return None if x is None else _checked(-x, node.dtype, node.place, f"-({_shown(x)})")
        case Unary():
            x = _value(node.x)
            return None if x is None else not x
        case Binary():
            left, right = _value(node.left), _value(node.right)
            if left is None and right == 0 and node.op in QUOTIENTS:
                raise _by_zero(node)
            return None if left is None or right is None else _binary(node, left, right)
        case Cast():
            x = _value(node.x)
            return None if x is None else _cast(node, x)
    for child in node.children:
        _value(child)
    if isinstance(node, Call) and node.body is not None:
        _value(node.body)
    return None


def _binary(node: Binary, left: Number, right: Number) -> Number:
    assert node.dtype is not None
    if node.op == "and":
        return bool(left and right)
    if node.op == "or":
        return bool(left or right)
    if node.op in COMPARISONS:
        return {
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
            "==": left == right,
            "!=": left != right,
        }[node.op]
    if node.op in ("/", *QUOTIENTS) and right == 0:
        raise _by_zero(node)
    if node.op in SHIFTS and not 0 <= right < 64:
        raise NumberError(f"{_shown(left)} is shifted by {_shown(right)} bits", node.right.place, "write 0 to 63")
    made = f"{_shown(left)} {node.op} {_shown(right)}"
    match node.op:
        case "+":
            value = left + right
        case "-":
            value = left - right
        case "*":
            value = left * right
        case "/":
            value = left / right
        case "//":
            value = left // right
        case "%":
            value = left % right
        case "<<":
            value = int(left) << int(right)
        case ">>":
            value = int(left) >> int(right)
        case "&":
            value = int(left) & int(right)
        case "|":
            value = int(left) | int(right)
        case "^":
            value = int(left) ^ int(right)
        case _:
            value = left
            for _ in range(1, int(right)):
                value = value * left
    return _checked(value, node.dtype, node.place, made, infinite=not (math.isfinite(left) and math.isfinite(right)))


def _by_zero(node: Binary) -> NumberError:
    help = "write a divisor that is not 0"
    if node.op == "/":
        help += "; infinity is `inf`, and not-a-number is `nan`"
    return NumberError("division by zero", node.right.place, help)


def _cast(node: Cast, x: Number) -> Number:
    """A conversion that was written wraps integers around, as in C, and rounds; nothing else may leave the type."""
    assert node.dtype is not None and node.x.dtype is not None
    if node.dtype is Dtype.bool:
        return bool(x)
    if node.dtype.is_float:
        number = float(_checked(x, node.dtype, node.x.place))
        if not node.explicit:
            return number
        return nearest(nearest(number, node.x.dtype) if node.x.dtype.is_float else number, node.dtype)
    if node.explicit and not node.x.dtype.is_float:
        low, _ = limits(node.dtype)
        return (int(x) - low) % (1 << node.dtype.bits) + low
    return int(_checked(x, node.dtype, node.place))


def nearest(value: float, dtype: Dtype) -> float:
    """The number of a float type that is nearest, of two the even one."""
    if not math.isfinite(value):
        return value
    digits, _, least = _FORMATS[dtype]
    step = max(math.frexp(value)[1], least + 1) - digits  # exponent of the distance between numbers there
    return math.copysign(math.ldexp(round(math.ldexp(value, -step)), step), value)
