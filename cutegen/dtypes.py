"""The element types of the language."""

from __future__ import annotations

import builtins
from enum import Enum


class Dtype(Enum):
    """An element type. `value` is its name in a spec."""

    f64 = "f64"
    f32 = "f32"
    f16 = "f16"
    bf16 = "bf16"
    f8e4m3 = "f8e4m3"
    f8e5m2 = "f8e5m2"
    i64 = "i64"
    i32 = "i32"
    i16 = "i16"
    u32 = "u32"
    i8 = "i8"
    u8 = "u8"
    bool = "bool"

    @property
    def bits(self) -> int:
        """Width in memory. A bool takes a byte, as in torch."""
        return _BITS[self]

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def is_float(self) -> builtins.bool:
        return self in (Dtype.f64, Dtype.f32, Dtype.f16, Dtype.bf16) or self.is_f8

    @property
    def is_f8(self) -> builtins.bool:
        """Whether it is a float of 8 bits. What is too large for one becomes its largest number, not infinity."""
        return self in (Dtype.f8e4m3, Dtype.f8e5m2)

    @property
    def largest(self) -> float:
        """The largest number of a float of 8 bits."""
        return {Dtype.f8e4m3: 448.0, Dtype.f8e5m2: 57344.0}[self]

    @property
    def least_normal(self) -> float:
        """The least positive normal number of a float of 8 or 16 bits."""
        return {Dtype.f8e4m3: 2.0**-6, Dtype.f8e5m2: 2.0**-14, Dtype.f16: 2.0**-14, Dtype.bf16: 2.0**-126}[self]

    @property
    def is_integer(self) -> builtins.bool:
        return self in (Dtype.i64, Dtype.i32, Dtype.i16, Dtype.u32, Dtype.i8, Dtype.u8)

    @property
    def is_unsigned(self) -> builtins.bool:
        return self in (Dtype.u32, Dtype.u8)

    @property
    def range(self) -> tuple[int, int]:
        """The least and the largest number of an integer type; of bool, 0 and 1."""
        if self is Dtype.bool:
            return 0, 1
        low = 0 if self.is_unsigned else -(1 << (self.bits - 1))
        return low, low + (1 << self.bits) - 1

    @property
    def compute(self) -> Dtype:
        """The type that arithmetic on this type happens in: narrow floats in f32, bool and integers that i32 holds in
        i32, others in i64.
        """
        if self is Dtype.f64:
            return self
        if self in (Dtype.i64, Dtype.u32):
            return Dtype.i64
        return Dtype.f32 if self.is_float else Dtype.i32

    @property
    def torch(self) -> str:
        """Name in torch, without the module."""
        return _TORCH[self]

    @property
    def cutlass(self) -> str:
        """Name in CuTeDSL, without the module."""
        return _CUTLASS[self]


_BITS = {
    Dtype.f64: 64,
    Dtype.f32: 32,
    Dtype.f16: 16,
    Dtype.bf16: 16,
    Dtype.f8e4m3: 8,
    Dtype.f8e5m2: 8,
    Dtype.i64: 64,
    Dtype.i32: 32,
    Dtype.i16: 16,
    Dtype.u32: 32,
    Dtype.i8: 8,
    Dtype.u8: 8,
    Dtype.bool: 8,
}
_TORCH = {
    Dtype.f64: "float64",
    Dtype.f32: "float32",
    Dtype.f16: "float16",
    Dtype.bf16: "bfloat16",
    Dtype.f8e4m3: "float8_e4m3fn",
    Dtype.f8e5m2: "float8_e5m2",
    Dtype.i64: "int64",
    Dtype.i32: "int32",
    Dtype.i16: "int16",
    Dtype.u32: "uint32",
    Dtype.i8: "int8",
    Dtype.u8: "uint8",
    Dtype.bool: "bool",
}
_CUTLASS = {
    Dtype.f64: "Float64",
    Dtype.f32: "Float32",
    Dtype.f16: "Float16",
    Dtype.bf16: "BFloat16",
    Dtype.f8e4m3: "Float8E4M3FN",
    Dtype.f8e5m2: "Float8E5M2",
    Dtype.i64: "Int64",
    Dtype.i32: "Int32",
    Dtype.i16: "Int16",
    Dtype.u32: "Uint32",
    Dtype.i8: "Int8",
    Dtype.u8: "Uint8",
    Dtype.bool: "Boolean",
}
