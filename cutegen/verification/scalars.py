"""The values of scalars that a kernel is run with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.language.model import KernelSpec

if TYPE_CHECKING:
    from cutegen.verification.cases import Case


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
