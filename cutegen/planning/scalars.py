"""The values of scalars with which a kernel is measured."""

from __future__ import annotations

import struct
from itertools import cycle

from cutegen.dtypes import Dtype
from cutegen.language.model import KernelSpec

_FLOATS = (0.75, 0.375, 0.625, 0.875)  # exact in every float; below 1, so that `C = a * X + b * C` stays bounded


def measured_scalars(spec: KernelSpec) -> dict[str, int | float | bool]:
    """A value for each scalar, representable in its dtype: the one that `bench.scalars` has, or one of our own."""
    floats, found = cycle(_FLOATS), dict[str, int | float | bool]()
    for scalar in spec.scalars:
        default = next(floats) if scalar.dtype.is_float else 1 if scalar.dtype is Dtype.bool else 2
        value = spec.bench.scalars.get(scalar.name, default)
        if scalar.dtype is Dtype.bool:
            found[scalar.name] = bool(value)
        elif scalar.dtype is Dtype.f32:
            (found[scalar.name],) = struct.unpack("f", struct.pack("f", value))
        elif scalar.dtype.is_float:
            found[scalar.name] = float(value)
        else:
            found[scalar.name] = int(value)
    return found
