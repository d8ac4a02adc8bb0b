"""The values of scalars that a kernel is run with: ordinary ones, and those at which kernels are written to differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.language.model import KernelSpec

if TYPE_CHECKING:
    from cutegen.verification.cases import Case

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


def scalar_values(spec: KernelSpec, case: Case) -> dict[str, int | float | bool]:
    """A value for each scalar, representable in its dtype: the case's own, or one that follows from its seed.

    The latter need all bits of their type, or are whole numbers where the data are and results are exact.
    """
    import torch

    values: dict[str, int | float | bool] = {}
    for index, scalar in enumerate(spec.scalars):
        generator = torch.Generator().manual_seed(case.seed * 89 + index + 1000)
        number = int(torch.randint(1, 16, (1,), generator=generator))
        signed = scalar.dtype.is_float or scalar.dtype.range[0] < 0
        sign = (-1) ** (number + index) if signed and case.data != "special" else 1
        if scalar.name in case.scalars:
            value = case.scalars[scalar.name]
            values[scalar.name] = float(value) if scalar.dtype.is_float else int(value)
        elif scalar.dtype is Dtype.bool:
            values[scalar.name] = number % 2 == 0
        elif scalar.dtype.is_float:
            uneven = torch.tensor(number / 8 + 0.01, dtype=getattr(torch, scalar.dtype.torch)).item()
            values[scalar.name] = sign * (float(1 + number % 3) if case.data == "integers" else uneven)
        else:
            values[scalar.name] = sign * (1 + number % 3)
    return values
