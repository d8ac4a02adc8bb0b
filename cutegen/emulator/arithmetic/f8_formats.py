"""The floating-point formats of 8 bits: e4m3, which has no infinities, and e5m2 (PTX ISA 9.1, section 5.2.3).

Values are raw bits, one uint8 each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array

NAN8 = np.uint8(0x7F)
"""The bits of the NaN that a conversion gives in both formats."""


@dataclass(frozen=True)
class F8Format:
    """A format of 8 bits: a sign, an exponent, and `fraction` bits of a fraction.

    `largest` are the bits of its largest number. What lies above is NaN; the one between is infinity, if `infinite`.
    """

    fraction: int
    bias: int
    largest: int
    infinite: bool

    @cached_property
    def values(self) -> Array:
        """The float64 value of every pattern of bits."""
        return np.array([self._value(bits) for bits in range(256)])

    def _value(self, bits: int) -> float:
        sign, rest = (-1.0 if bits & 0x80 else 1.0), bits & 0x7F
        if rest > self.largest:
            return sign * np.inf if self.infinite and rest == self.largest + 1 else np.nan
        exponent, fraction = rest >> self.fraction, rest & ((1 << self.fraction) - 1)
        if exponent == 0:
            return sign * fraction * 2.0 ** (1 - self.bias - self.fraction)
        return sign * (1 + fraction / (1 << self.fraction)) * 2.0 ** (exponent - self.bias)

    def narrow(self, value: Array) -> Array:
        """Rounds float64, exact or rounded to odd, to the nearest, ties to even. Infinities and what is too large
        become the largest number; a NaN becomes `NAN8`.
        """
        value = np.asarray(value, dtype=np.float64)
        top = self.values[self.largest]
        size = np.minimum(np.abs(np.where(np.isnan(value), 0.0, value)), top)
        exponent = np.maximum(np.frexp(size)[1] - 1, 1 - self.bias)
        step = np.ldexp(1.0, exponent - self.fraction)
        rounded = np.rint(size / step) * step  # each operation here is exact
        bits = np.searchsorted(self.values[: self.largest + 1], rounded).astype(np.uint8)
        signed = bits | (np.signbit(value).astype(np.uint8) << np.uint8(7))
        result: Array = np.where(np.isnan(value), NAN8, signed)
        return result


F8_FORMATS = {"e4m3": F8Format(3, 7, 0x7E, False), "e5m2": F8Format(2, 15, 0x7B, True)}
"""The formats by the names of their types in PTX."""
