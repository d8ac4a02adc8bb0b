"""Helpers for printing casts: which conversions go through another type, and where the range of a type ends."""

from __future__ import annotations

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import Call, Expr, Literal_


def within(x: Expr, most: float) -> Expr:
    """The expression of a value between `-most` and `most`, or NaN."""
    high, low = (Literal_(number, dtype=x.dtype) for number in (most, -most))
    return Call("maximum", (Call("minimum", (x, high), dtype=x.dtype), low), dtype=x.dtype)


def by_way_of_f32(source: Dtype, dtype: Dtype) -> bool:
    """Whether a conversion from or to a float of 8 bits has no instruction of its own, nor one that CuTeDSL finds."""
    if dtype.is_f8:
        return source.is_f8 or not source.is_float
    return source.is_f8 and (dtype is Dtype.bool or (dtype.is_float and dtype is not Dtype.f32))


def holds_ends(source: Dtype, dtype: Dtype) -> bool:
    """Whether the type that a float is computed in holds the largest number of an integer type."""
    return dtype.bits <= (32 if source is Dtype.f64 else 16)


def ends(dtype: Dtype) -> tuple[str, str]:
    """The texts of the least and the largest number of an integer type."""
    low, high = dtype.range
    return (str(low), str(high)) if dtype.bits < 64 else ("-(2**63)", "2**63 - 1")


def after(dtype: Dtype) -> str:
    """The text of the first number beyond an integer type: a float where i64 does not hold it."""
    return str(dtype.range[1] + 1) if dtype.bits < 64 else "2.0**63"
