"""The types that wgmma multiplies: how large they are, their values, and what is left of a sum of their products."""

from __future__ import annotations

import numpy as np

from cutegen.atoms.mma import HOPPER_F8
from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.arithmetic.f8_formats import F8_FORMATS
from cutegen.emulator.arithmetic.formats import widen_bf16

KINDS = {"bf16": (2, 16), "f16": (2, 16), "tf32": (4, 8), "e4m3": (1, 32), "e5m2": (1, 32)}
"""The type of A or B -> the bytes of an element, and the depth of one product."""

_DROPPED = np.uint32((1 << 24 - HOPPER_F8.bits) - 1)
"""The bits of a float32 that are 0 in sums of products of 8 bits."""


def widened(raw: Array, kind: str) -> Array:
    """The bits of elements as float64."""
    if kind == "tf32":
        return (raw & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if kind == "bf16":
        return widen_bf16(raw).astype(np.float64)
    if kind in F8_FORMATS:
        return F8_FORMATS[kind].values[raw]
    return raw.view(np.float16).astype(np.float64)


def cut(total: Array) -> Array:
    """float64 cut toward zero to the bits that sums of products of 8 bits have, as float32."""
    single = total.astype(np.float32)
    beyond = np.abs(single.astype(np.float64)) > np.abs(total)  # rounded away from zero
    single = np.where(beyond, np.nextafter(single, np.float32(0)), single)
    return np.ascontiguousarray((single.view(np.uint32) & ~_DROPPED).view(np.float32))
