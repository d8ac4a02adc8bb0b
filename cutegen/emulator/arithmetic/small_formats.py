"""Formats of 4 and 6 bits, of scale factors, and how elements of these lie in 32 bytes (PTX ISA 9.1, sections 5.2.3 and
9.7.16.10.7).

Values are raw bits, one uint8 each.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.arithmetic.f8_formats import F8_FORMATS

_GROUP = 16
"""Bytes that 16 elements of 4 or 6 bits have where they are padded."""


def _values(exponent_bits: int, fraction_bits: int, bias: int) -> Array:
    """The float64 value of every pattern of bits of a format without infinities and NaNs."""
    bits = np.arange(1 << (1 + exponent_bits + fraction_bits))
    exponent, fraction = bits >> fraction_bits & (1 << exponent_bits) - 1, bits & (1 << fraction_bits) - 1
    size = np.where(exponent == 0, fraction * 2.0, fraction + 2.0**fraction_bits) * 2.0**-fraction_bits
    size = size * np.exp2(np.where(exponent == 0, 0.0, exponent) - bias)
    return np.where(bits >> (exponent_bits + fraction_bits), -size, size)


SMALL_FORMATS: Mapping[str, Array] = MappingProxyType(
    {"e2m1": _values(2, 1, 1), "e2m3": _values(2, 3, 1), "e3m2": _values(3, 2, 3)}
)
"""The values of formats of 4 and 6 bits by the names of their types in PTX."""

SCALES: Mapping[str, Array] = MappingProxyType(
    {
        "ue8m0": np.append(np.exp2(np.arange(255) - 127.0), np.nan),
        "ue4m3": np.abs(F8_FORMATS["e4m3"].values),
    }
)
"""The values of scale factors by the names of their types. The sign of ue4m3 is ignored, as MMA-Sim (arXiv 2511.10909)
found on a B200.
"""


def packed(raw: Array) -> Array:
    """The bits of elements of 4 bits, two in each byte along the last axis, the first one in its low half."""
    return np.stack([raw & 15, raw >> 4], axis=-1).reshape(*raw.shape[:-1], -1)


def padded(raw: Array, bits: int) -> Array:
    """The bits of elements of 4 or 6 bits, of which each 16 lie packed at the start of 16 bytes along the last axis."""
    groups = raw.reshape(*raw.shape[:-1], -1, _GROUP)
    if bits == 4:
        return packed(groups[..., :8]).reshape(*raw.shape[:-1], -1)
    threes = groups[..., :12].astype(np.uint32).reshape(*groups.shape[:-1], 4, 3)
    words = threes[..., 0] | threes[..., 1] << 8 | threes[..., 2] << 16
    elements = np.stack([words >> 6 * i & 63 for i in range(4)], axis=-1)
    return elements.reshape(*raw.shape[:-1], -1)
