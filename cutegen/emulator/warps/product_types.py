"""The types that tensor cores multiply: their sizes in wgmma, their values, and what is left of sums of products."""

from __future__ import annotations

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.arithmetic.f8_formats import F8_FORMATS
from cutegen.emulator.arithmetic.formats import widen_bf16

KINDS = {"bf16": (2, 16), "f16": (2, 16), "tf32": (4, 8), "e4m3": (1, 32), "e5m2": (1, 32)}
"""The type of A or B -> the bytes of an element, and the depth of one product."""

SINGLE_BITS = 24
"""Of a float32, with the leading one."""


def widened(raw: Array, kind: str) -> Array:
    """The bits of elements as float64."""
    if kind == "tf32":
        kept: Array = (raw & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
        return kept
    if kind == "bf16":
        return widen_bf16(raw).astype(np.float64)
    if kind in F8_FORMATS:
        return F8_FORMATS[kind].values[raw]
    return raw.view(np.float16).astype(np.float64)


def cut(total: Array, bits: int) -> Array:
    """float64 cut toward zero to some bits with the leading one, 24 at most, as float32."""
    single = total.astype(np.float32)
    beyond = np.abs(single.astype(np.float64)) > np.abs(total)  # rounded away from zero
    single = np.where(beyond, np.nextafter(single, np.float32(0)), single)
    dropped = np.uint32((1 << SINGLE_BITS - bits) - 1)
    return np.ascontiguousarray((single.view(np.uint32) & ~dropped).view(np.float32))
