"""Outputs beside what a reference gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cutegen.verbs.running.job import Compared

if TYPE_CHECKING:
    import torch

TOLERANCES: Mapping[str, tuple[float, float]] = {
    # relative, absolute: those of torch.testing.assert_close, and for 8 bits one step of the type
    "float64": (1e-7, 1e-7),
    "float32": (1.3e-6, 1e-5),
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float8_e4m3fn": (0.125, 2.0**-9),
    "float8_e5m2": (0.25, 2.0**-16),
}
"""By the type of the output, independent of the reference's; integers must be equal."""


def compare(
    got: torch.Tensor, expected: torch.Tensor, rtol: float | None = None, atol: float | None = None
) -> Compared:
    """How an output differs from what was expected, in float64, or in int64 if both are whole numbers.

    NaN is equal to NaN, and an infinity to the same one.
    """
    import torch

    usual = TOLERANCES.get(str(got.dtype).removeprefix("torch."), (0.0, 0.0))
    rtol, atol = usual[0] if rtol is None else rtol, usual[1] if atol is None else atol
    if got.shape != expected.shape:
        problem = f"the shape is {_shape(got)}, and {_shape(expected)} was expected"
        return Compared(got.numel(), 0, 0.0, 0.0, rtol, atol, problem=problem)
    if got.numel() == 0:
        return Compared(0, 0, 0.0, 0.0, rtol, atol)
    whole = not (got.dtype.is_floating_point or expected.dtype.is_floating_point)
    kind = torch.int64 if whole else torch.float64
    one, other = got.detach().cpu().to(kind), expected.detach().cpu().to(kind)
    same = one == other
    if not whole:
        same |= one.isnan() & other.isnan()
    finite = torch.ones_like(same) if whole else one.isfinite() & other.isfinite()
    difference = torch.where(finite, (one - other).abs(), 0).to(torch.float64)
    size = torch.where(finite, other.abs(), 0).to(torch.float64)
    wrong = ~same & (~finite | (difference > atol + rtol * size))
    first = None
    if wrong.any():
        first = tuple(int(i) for i in wrong.nonzero()[0])
    relative = torch.where(size > 0, difference / size.clamp(min=torch.finfo(torch.float64).tiny), 0)
    return Compared(
        got.numel(),
        int(wrong.sum()),
        float(difference.max()),
        float(relative.max()),
        rtol,
        atol,
        first,
        f"{one[first].item():.9g}" if first is not None else "",
        f"{other[first].item():.9g}" if first is not None else "",
    )


def _shape(tensor: torch.Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"
