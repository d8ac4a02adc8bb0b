"""The types of PTX, and the numpy types that hold the bits of registers.

A register always holds raw bits: one unsigned array entry for each lane (bool for predicates). Signed integers and
floats are views of those bits, which the instruction chooses, as on the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bits: TypeAlias = NDArray[Any]
"""The raw bits of a register in the lanes: bool, uint16, uint32 or uint64 (uint8 where an instruction names .b8)."""

STORAGE: Mapping[int, np.dtype[Any]] = {
    1: np.dtype(np.bool_),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}
"""The width of a register in bits -> the numpy type that holds it."""


def constant_array(bits: int, width: int) -> Bits:
    """A constant, cut to `width` bits, as an array of raw bits with no dimensions."""
    return np.asarray(bits & ((1 << width) - 1), dtype=STORAGE[width])


@dataclass(frozen=True, slots=True)
class Type:
    """A type of PTX (PTX ISA 9.1, section 5.2), without its dot.

    `kind` is "s", "u", "b", "f", "bf", "tf", "e" or "pred", `width` the width in bits, and `lanes` the number of values
    that are packed in it. `dtype` is how its values are seen in numpy: bf16, tf32, floats of 8 bits and packed types as
    raw bits.
    """

    name: str
    kind: str
    width: int
    lanes: int
    dtype: np.dtype[Any]

    @property
    def element(self) -> Type:
        """The type of each value that is packed in this type; the type itself if it is not packed."""
        return TYPES[self.name.split("x")[0]] if self.lanes > 1 else self


def _type(name: str, kind: str, width: int, dtype: Any, lanes: int = 1) -> Type:
    """A type whose numpy type is given by anything that numpy takes for one."""
    return Type(name, kind, width, lanes, np.dtype(dtype))


TYPES = {
    t.name: t
    for t in (
        _type("pred", "pred", 1, np.bool_),
        *(_type(f"{k}{w}", k, w, f"{'i' if k == 's' else 'u'}{w // 8}") for k in "sub" for w in (8, 16, 32, 64)),
        *(_type(f"f{w}", "f", w, f"f{w // 8}") for w in (16, 32, 64)),
        _type("bf16", "bf", 16, np.uint16),
        _type("tf32", "tf", 32, np.uint32),
        _type("e4m3", "e", 8, np.uint8),
        _type("e5m2", "e", 8, np.uint8),
        _type("e4m3x2", "e", 16, np.uint16, 2),
        _type("e5m2x2", "e", 16, np.uint16, 2),
        _type("f16x2", "f", 32, np.uint32, 2),
        _type("bf16x2", "bf", 32, np.uint32, 2),
        _type("s16x2", "s", 32, np.uint32, 2),
        _type("u16x2", "u", 32, np.uint32, 2),
        _type("f32x2", "f", 64, np.uint64, 2),
    )
}
"""All types that instructions may name, by name."""
