"""Values of scalars at which kernels are written to differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from cutegen.dtypes import Dtype
from cutegen.language.model import KernelSpec

Values = Mapping[str, float]
_FLOATS = (0.0, 1.0, -2.5, -5e-4, 7e4, 1e-39, math.inf, math.nan)  # 1e-39 is subnormal in f32
_INTEGERS = {Dtype.i32: (0, 1, -(2**31), 2**31 - 1), Dtype.i64: (0, 1, -(2**63), 2**63 - 1, 2**32 + 1)}


def telling_scalars(spec: KernelSpec) -> Iterator[tuple[str, Values]]:
    """Values of some scalars, a case each, with its name: those at which factors and divisors are often treated apart.

    Each scalar is 0, 1, negative, small, large, subnormal, infinite and NaN, or 0, 1, the least and the largest
    integer, beside ordinary values of the others; 0 with all others 1, and 1 with all others 0; all are 0, and all 1.
    """
    names = [scalar.name for scalar in spec.scalars]
    for scalar in spec.scalars:
        for value in _FLOATS if scalar.dtype.is_float else _INTEGERS[scalar.dtype]:
            yield f"{scalar.name} = {value if isinstance(value, int) else f'{value:.10g}'}", {scalar.name: value}
    for name in names if len(names) > 1 else ():
        for value in (0, 1):
            rest = {other: 1 - value for other in names if other != name}
            others = f"{next(iter(rest))} = {1 - value}" if len(rest) == 1 else f"all others {1 - value}"
            yield f"{name} = {value}, {others}", {name: value, **rest}
    for value in (0, 1) if len(names) > 1 else ():
        yield f"{', '.join(names)} = {value}" if len(names) < 4 else f"all scalars {value}", dict.fromkeys(names, value)
