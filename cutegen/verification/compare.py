"""Judges a result against the reference and its bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cutegen.reference.masks import (
    at_most,
    below,
    equal,
    every,
    extent,
    first_largest,
    is_nan,
    largest,
    some,
)

if TYPE_CHECKING:
    import torch

BLOCK = 1 << 17  # elements that are compared at a time, so that what is computed of them fits the caches
GPU_BLOCK = 1 << 24  # the same on a GPU, where fewer take as long, and each block is waited for


@dataclass(frozen=True)
class Comparison:
    """`ratio` is the largest error relative to its bound (at most 1 where all is well; infinite where an exact result
    was missed). `unbounded` counts elements about which nothing could be said: they are not judged.

    `worst` is the index of the failing element that is furthest off (of any element, if none fails); `reason` says
    what it broke, with the numbers, and is empty if nothing failed.
    """

    ok: bool
    count: int
    failed: int
    unbounded: int
    max_error: float
    max_bound: float
    ratio: float
    worst: tuple[int, ...] | None
    reason: str = ""

    @property
    def judged(self) -> int:
        return self.count - self.unbounded


def together(comparisons: Sequence[Comparison]) -> Comparison:
    """The comparisons of several outputs of one run as one: the counts of all, the place and reason of the worst."""
    if len(comparisons) == 1:
        return comparisons[0]
    worst = max(comparisons, key=lambda comparison: (not comparison.ok, comparison.ratio))
    return replace(
        worst,
        count=sum(c.count for c in comparisons),
        failed=sum(c.failed for c in comparisons),
        unbounded=sum(c.unbounded for c in comparisons),
        max_error=max(c.max_error for c in comparisons),
        max_bound=max(c.max_bound for c in comparisons),
        ratio=max(c.ratio for c in comparisons),
    )


def compare(
    actual: torch.Tensor,
    expected: torch.Tensor,
    bound: torch.Tensor,
    signed: bool = False,
    moved: torch.Tensor | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> Comparison:
    """Compares a result with what is expected, element by element; all tensors have one shape and device.

    Whole numbers are compared as such, however large. Every element must be within `bound` of `expected`, and also
    within atol + rtol |expected| if the spec gives these.
    NaN must meet NaN, an infinity the same infinity, with `signed` a zero that must be exact one of its sign, and all
    bits must be those of `moved` where it is given.
    Raises `ValueError` for another shape.
    """
    if actual.shape != expected.shape:
        raise ValueError(f"the result has shape {tuple(actual.shape)}, not {tuple(expected.shape)}")
    if actual.numel() == 0:
        return Comparison(True, 0, 0, 0, 0.0, 0.0, 0.0, None)
    plain = moved is None and rtol is None and atol is None
    rows = 0 if actual.dim() == 0 else max(1, len(actual) * _block(actual.is_cuda) // actual.numel())
    found = []
    for start in range(0, len(actual), rows) if rows else ():
        a, e, b, m = (x if x is None else x[start : start + rows] for x in (actual, expected, bound, moved))
        assert a is not None and e is not None and b is not None
        one = _mostly_near(a, e, b, signed) if plain else compare_fully(a, e, b, signed, m, rtol, atol)
        if not one.ok:
            break
        assert one.worst is not None
        found.append(replace(one, worst=(start + one.worst[0], *one.worst[1:])))
    else:
        if found:
            return together(found)
    return compare_fully(actual, expected, bound, signed, moved, rtol, atol)  # the reason is that of the whole


def _block(on_gpu: bool) -> int:
    """How many elements are compared at a time."""
    return GPU_BLOCK if on_gpu else BLOCK


def _mostly_near(actual: torch.Tensor, expected: torch.Tensor, bound: torch.Tensor, signed: bool) -> Comparison:
    """Compares a block as `compare` does without a tolerance, in few passes. If elements fail, the reason refers
    only to those that were compared fully.

    Elements within their bound are done with, and so are those about which nothing is known. The others are compared
    fully: elements that fail, and zeros whose sign counts.
    """
    import torch

    whole = not expected.is_floating_point()
    if whole and actual.itemsize > 4:  # differences may overflow
        return compare_fully(actual, expected, bound, signed)
    found = actual.to(expected.dtype)  # floats of 8 bits are compared with no others
    error = (found - expected).abs_().to(torch.float64)
    most, (low, allowed) = largest(error), extent(bound)
    open_zeros = signed and not low > 0
    if open_zeros or not allowed < math.inf or not (most <= low or most < math.inf and every(at_most(error, bound))):
        judged = below(bound, math.inf)
        near = at_most(error, bound) & judged
        if not whole and not most < math.inf:
            same = equal(found, expected) | (is_nan(found) & is_nan(expected))
            near |= same & judged
            error = error.masked_fill_(same, 0.0)
        if open_zeros:
            near &= ~at_most(bound, 0.0) | ~equal(expected, 0.0)
        far = ~near
        error, kept = error.masked_fill_(far, 0.0), bound.masked_fill(far, 0.0)
        own = _of_near(error, kept, largest(error), largest(kept))
        others = judged & far
        unbounded = bound.numel() - int(torch.count_nonzero(judged))
        if not some(others):
            return replace(own, unbounded=unbounded)
        if not some(near):
            return compare_fully(actual, expected, bound, signed)
        again = compare_fully(actual[others], expected[others], bound[others], signed)
        if not again.ok:
            return again
        assert again.worst is not None
        place = int(others.flatten().nonzero()[again.worst[0]])
        again = replace(again, worst=_index(place, actual.shape))
        own = replace(own, count=actual.numel() - again.count, unbounded=unbounded)
        return together(sorted((own, again), key=lambda one: one.worst or ()))
    return _of_near(error, bound, most, allowed)


def _of_near(error: torch.Tensor, bound: torch.Tensor, most: float, allowed: float) -> Comparison:
    """The comparison of elements within finite bounds; `most` is their largest error, `allowed` the largest bound."""
    if not most:
        return Comparison(True, error.numel(), 0, 0, most, allowed, 0.0, _index(0, error.shape))
    ratios = (error / bound).nan_to_num_(0.0)  # of no error where none is allowed
    flat = first_largest(ratios)
    ratio = float(ratios.flatten()[flat])
    return Comparison(True, error.numel(), 0, 0, most, allowed, ratio, _index(flat, error.shape))


def _index(flat: int, shape: torch.Size) -> tuple[int, ...]:
    """The index of an element, from its number in their order."""
    import numpy as np  # its unravel_index is there at once, torch's imports sympy

    return tuple(int(i) for i in np.unravel_index(flat, shape))


def compare_fully(
    actual: torch.Tensor,
    expected: torch.Tensor,
    bound: torch.Tensor,
    signed: bool,
    moved: torch.Tensor | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> Comparison:
    """Compares elements of any kind as `compare` does, all of them at once."""
    import torch

    a, e = actual.to(torch.float64), expected.to(torch.float64)
    judged = bound.isfinite()
    whole = not expected.is_floating_point()
    same = actual.to(torch.int64) == expected if whole else (a == e) | (a.isnan() & e.isnan())
    if signed:
        same &= (bound != 0) | (e != 0) | (a.signbit() == e.signbit())
    if moved is not None:
        same &= bits_of(actual) == bits_of(moved)
    error = (a - e).abs()
    if whole:  # of large ones float64 has no difference
        exact = (actual.to(torch.int64) - expected).abs().to(torch.float64)
        error = torch.where(error < 2.0**62, exact, error)
    error = torch.where(same, 0.0, error.nan_to_num(torch.inf, torch.inf))
    outside = judged & ((error > bound) | (~same & (bound == 0)))
    failing = outside
    if rtol is not None or atol is not None:
        room = (atol or 0.0) + (rtol or 0.0) * torch.where(e.isfinite(), e.abs(), 0.0)
        failing = outside | (judged & (error > room))
    ratios = torch.where(same, 0.0, torch.where(bound == 0, torch.inf, error / bound))
    ratios = torch.where(judged, ratios, -1.0)
    failed = int(failing.sum())
    rank = torch.where(failing, error, -1.0) if failed else ratios
    flat = int(rank.contiguous().flatten().argmax())
    index = _index(flat, a.shape)
    finite_bound = bound[judged]
    reason = ""
    if failed:
        got, want, limit, off = (float(x[index]) for x in (a, e, bound, error))
        allowed = f"the bound is {limit:.3g}"
        if not bool(outside[index]):
            allowed = f"the spec's tolerance is {float(room[index]):.3g}"
        place = ", ".join(map(str, index))
        values = (int(actual[index]), int(expected[index])) if whole else (f"{got:.9g}", f"{want:.9g}")
        far = "" if not math.isfinite(off) else f", off by {off:.3g}"
        if moved is not None and math.isnan(got) and math.isnan(want):
            found, wanted = (f"{int(bits_of(x)[index]) & (1 << 8 * x.itemsize) - 1:#x}" for x in (actual, moved))
            far, allowed = "", f"its bits are {found}, not {wanted}: a tensor that is only moved keeps them"
        reason = f"[{place}] is {values[0]}, expected {values[1]}{far}; {allowed} ({failed} of {a.numel()} elements)"
    kept = error[judged]
    return Comparison(
        ok=failed == 0,
        count=a.numel(),
        failed=failed,
        unbounded=int((~judged).sum()),
        max_error=float(kept.max()) if kept.numel() else 0.0,
        max_bound=float(finite_bound.max()) if finite_bound.numel() else 0.0,
        ratio=max(0.0, float(ratios.max())),
        worst=index,
        reason=reason,
    )


def bits_of(values: torch.Tensor) -> torch.Tensor:
    """The bits of each element as a whole number."""
    import torch

    return values.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[values.itemsize])
