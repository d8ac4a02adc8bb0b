"""The values that tensors are filled with, from a seed: ordinary ones, and those that kernels are often wrong for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.language.model import Tensor
from cutegen.verification.case_request import Data

if TYPE_CHECKING:
    import torch

SMALL = 4  # whole numbers whose products are exact in every type, and sums of a few
_INTEGERS = {
    Dtype.i64: (-100, 400),
    Dtype.i32: (-1000, 1000),
    Dtype.i16: (-(2**15), 2**15 - 1),
    Dtype.u32: (0, 1000),
    Dtype.i8: (-128, 127),
    Dtype.u8: (0, 255),
}
"""Least and largest of random integers: products of two of i32 are far from overflow."""
_HIGH = {
    Dtype.i64: (2**32, -(2**32), 3 * 2**31, 2**40 + 2**32, 2**53 + 1, -(2**62) - 1),
    Dtype.u32: (2**31, 2**31 + 2**16, 2**32 - 1024, 2**24 + 1),
}
"""Added to half of the random integers: of 64 bits they then are small again in their low 32, or not in f64."""
_BETWEEN = {
    Dtype.i64: (2**31, -(2**31) - 1, 2**32, 2**32 + 1, 2**24 + 1, 2**53 + 1, -(2**53) - 1),
    Dtype.u32: (2**31, 2**31 - 1, 2**24 + 1, 2**16),
    Dtype.i16: (127, 128, -128, -129, 255, 256),
}
"""Numbers that the next narrower integers, those with a sign, or floats do not hold."""
# Where functions and conversions overflow or flush: exp of f16, f32 and f64; f16, i8, u8 and i32 as targets,
_THRESHOLDS = (
    *(11.0, 12.0, -17.5, 88.5, 89.0, -88.0, -104.0, 710.0, -746.0, 65504.0, 65520.0, -1e5, 127.5, 255.5, -0.5),
    # and where floats of 8 bits round: halfway, to the largest, to the least or to 0
    *(17.0, 19.0, 464.0, -480.0, 61440.0, -65536.0, 2.0**-10, -3 * 2.0**-10, 2.0**-17, -3 * 2.0**-17),
)


def data_for(
    tensor: Tensor, shape: tuple[int, ...], kind: Data, seed: int, summed: tuple[int, ...] = (), most: int = SMALL
) -> torch.Tensor:
    """Test data for a tensor, on the CPU.

    `summed` are the positions of the modes that are summed over. There a NaN or an infinity fills a whole result, so
    that of `special` data some rows along them have one such value and others none. Floats of `integers` are whole
    numbers up to `most`.
    """
    import torch

    kept = tensor.dtype
    dtype = getattr(torch, kept.torch)
    generator = torch.Generator().manual_seed(seed)

    def whole(low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high + 1, shape, generator=generator)

    if kept is Dtype.bool:
        values = whole(0, 1)
        if kind in ("special", "rows") and values.numel():
            values = _telling_rows(values, kept, summed, generator)
        return values.to(dtype)
    if kind == "integers":
        largest = most if kept.is_float else SMALL
        return whole(0 if kept.is_unsigned else -largest, largest).to(dtype)
    if kept.is_integer:
        values = whole(*_INTEGERS[kept])
        if kind == "rows" and not summed:  # few, so that scalars which they are compared with are among them
            return whole(0 if kept.is_unsigned else -3, 3).to(dtype)
        if kept in _HIGH:
            high = torch.tensor([0] * len(_HIGH[kept]) + list(_HIGH[kept]))
            values = values + high[whole(0, len(high) - 1)]
    else:
        normal = torch.randn(shape, generator=generator, dtype=torch.float64 if kept is Dtype.f64 else torch.float32)
        # of 8 bits, on which torch has few functions, in f32 until all is there
        values = normal if kept.is_f8 else normal.to(dtype)
    if kind == "magnitudes" and values.numel() and kept.is_float:
        values = _swept(values, kept, summed)
    if kind == "peaks" and values.numel() and summed:
        values = _peaked(values, kept, summed, generator)
    if kind in ("special", "rows") and values.numel():
        if kind == "rows":
            values = _telling_rows(values, kept, summed, generator)
        elif not summed:
            table = _table(kept)
            values = values if kept.is_integer else torch.where(whole(0, 1) == 0, _swept(values, kept, ()), values)
            values = torch.where(whole(0, 1) == 0, table[whole(0, len(table) - 1)], values)
        else:
            values = _rows(values, kept, _table(kept), summed, generator)
    return _with_other_nans(values, dtype) if kept.is_f8 else values.to(dtype)


def _swept(values: torch.Tensor, kept: Dtype, summed: tuple[int, ...]) -> torch.Tensor:
    """`values` with each row along `summed` multiplied by a power of two of its own: neighbours far apart, and in all
    from where numbers of the type are subnormal to where they overflow. Without modes that are summed over it is each
    element that has its own.
    """
    import torch

    rows, back = _as_rows(values, summed) if summed else (values.flatten()[:, None], lambda x: x.reshape(values.shape))
    info = torch.finfo(getattr(torch, kept.torch))
    low, high = math.frexp(info.smallest_normal)[1] - 1, math.frexp(info.max)[1] - 3  # normal numbers are below 2^3
    place = torch.arange(len(rows)) * _APART % MAGNITUDES
    powers = (low + place * (high - low) / (MAGNITUDES - 1)).round()
    swept = rows.to(torch.float64) * torch.exp2(powers.to(torch.float64))[:, None]
    return back(swept.clamp(-info.max, info.max).to(rows.dtype))


@cache
def _table(kept: Dtype) -> torch.Tensor:
    """Numbers of a type that kernels treat apart, not to be changed: of floats of 8 bits in f32, of integers in i64."""
    import torch

    if kept.is_integer:
        least, largest = kept.range
        return torch.tensor([0, 1, least, least + 1, largest, largest - 1, *_BETWEEN.get(kept, ())])
    dtype = torch.float32 if kept.is_f8 else getattr(torch, kept.torch)
    table = torch.tensor(_special(kept), dtype=torch.float64).to(dtype)
    table[table.isnan()] = math.nan  # of which torch otherwise makes several NaNs, those of all ones among them
    return torch.cat([table, _nans(kept).to(dtype)])


def _special(kept: Dtype) -> list[float]:
    """Numbers of a float type: what is not finite, both zeros, ones, subnormals, the largest, and those between."""
    import torch

    info = torch.finfo(getattr(torch, kept.torch))
    subnormal = info.smallest_normal * info.eps
    fixed = [
        math.inf,
        math.nan,
        0.0,
        1.0,
        info.max,
        info.max / 2,
        0.75 * info.max,
        info.tiny,
        subnormal,
        3 * subnormal,
        _large(kept),
    ]
    found = [*fixed, *(-x for x in fixed if not math.isnan(x)), *_THRESHOLDS]
    if not kept.is_f8:
        return found
    return [x for x in found if math.isnan(x) or (math.isinf(x) and kept is Dtype.f8e5m2) or abs(x) <= info.max]


def _nans(kept: Dtype) -> torch.Tensor:
    """Two quiet NaNs of other bits than the one that arithmetic gives, of either sign; e4m3 has one of each sign."""
    import torch

    dtype = getattr(torch, kept.torch)
    if kept.is_f8:
        return torch.tensor([0x7F, 0xFF], dtype=torch.uint8).view(dtype)
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    bits = torch.tensor([math.nan, math.nan], dtype=dtype).view(whole)
    bits |= 5
    bits[1] |= torch.iinfo(whole).min
    return bits.view(dtype)


def _with_other_nans(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Numbers as floats of 8 bits; of e5m2 every other NaN has other bits than the one that conversions give."""
    import torch

    bits = values.to(dtype).view(torch.uint8)
    if dtype is torch.float8_e5m2:
        nans = values.isnan()
        odd = nans & (nans.flatten().cumsum(0).reshape(nans.shape) % 2 == 1)
        bits = torch.where(odd, (bits & 0x80) | 0x7D, bits)
    return bits.view(dtype)


def _large(kept: Dtype) -> float:
    """The least power of two whose square overflows; of i64 and u32 one that i32 does not hold."""
    import torch

    if kept.is_float:
        return float(2.0 ** (math.frexp(torch.finfo(getattr(torch, kept.torch)).max)[1] // 2))
    return {Dtype.i64: 2.0**33, Dtype.u32: 2.0**31}.get(kept, 2.0**6)


def _telling_rows(
    values: torch.Tensor, kept: Dtype, summed: tuple[int, ...], generator: torch.Generator
) -> torch.Tensor:
    """`values` whose rows along `summed` take turns in what reductions treat apart, the first at a random one.

    Each time all kinds have had their turn the next is passed over, so that rows which are a fixed distance apart, as
    those that one block walks, are of different kinds. Without modes that are summed over they are ordinary numbers:
    what scales rows should not hide them.
    """
    import torch

    if not summed:
        return values
    rows, back = _as_rows(values, summed)
    lowest, largest = -math.inf, math.inf
    if kept is Dtype.f8e4m3:
        lowest, largest = -kept.largest, kept.largest
    elif not kept.is_float:
        lowest, largest = kept.range
    start = int(torch.randint(len(_ROWS), (), generator=generator))
    for number, (row, place) in enumerate(zip(rows, _spread(len(rows), rows.shape[1], generator), strict=True)):
        match _ROWS[(number + number // len(_ROWS) + start) % len(_ROWS)]:
            case "equal":
                row.fill_(row[0].item())
            case "lowest":
                row.fill_(lowest)
            case "lowest but one":
                saved = row[place].item()
                row.fill_(lowest)
                row[place] = saved
            case "lowest from there on":
                row[place:] = lowest
            case "one NaN" if kept.is_float:
                row[place] = math.nan
            case "one largest":
                row[place] = largest
            case "largest":
                row.fill_(torch.finfo(getattr(torch, kept.torch)).max if kept.is_float else largest)
            case "large":
                row.fill_(_large(kept))
            case "far below zero" if kept.is_float:  # where a maximum that starts at 0 leaves nothing of exponentials
                row.copy_(-30 * row.abs() - (1000 if kept is Dtype.f64 else 200))
            case "tiny" if kept.is_float:
                row.mul_(10.0 ** -(10 + 12 * (number // len(_ROWS) % 3)))
            case "cancelling":
                row[1::2] = 0 if kept.is_unsigned else -row[: len(row) // 2 * 2 : 2]
            case "whole numbers" if kept.is_float:  # whose sums need more bits than half a float has
                row.copy_((row * largest_whole(kept, len(row), 20) / 4).round())
            case "cancelling at the end" if kept.is_float:  # so that what was rounded on the way is left
                half = len(row) // 2
                row.copy_((row * min(largest_whole(kept, len(row), 20), 2 ** (precision(kept) - 2)) / 4).round())
                row[len(row) - half :] = 1 - row[:half].flip(0)
            case "zero but one":
                saved = row[place].item()
                row.zero_()
                row[place] = saved
    return back(rows)


def _peaked(values: torch.Tensor, kept: Dtype, summed: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """`values` with one element of each row along `summed` far above all others and one far below. Of as many equal
    parts as there are rows, each has the largest element of one row and the least of another.
    """
    import torch

    rows, back = _as_rows(values, summed)
    if not kept.is_float:
        rows //= 2  # so that no other one is the largest of its type
    far = 1000.0 if kept is Dtype.f64 else 200.0  # exponentials of it overflow
    low, high = (-far, far) if kept.is_float else kept.range
    chance = torch.rand(len(rows), generator=generator, dtype=torch.float64).tolist()
    for number, (row, x) in enumerate(zip(rows, chance, strict=True)):
        place = min(len(row) - 1, int((number + x) / len(rows) * len(row)))
        row[len(row) - 1 - place] = low
        row[place] = high
    return back(rows)


def _spread(rows: int, size: int, generator: torch.Generator) -> list[int]:
    """A place in each of some rows of that size: rows of one kind have theirs in parts of the row that are as many, at
    random in each, so that a kernel that reads only a part of a row misses one.
    """
    import torch

    parts = max(1, rows // len(_ROWS))
    chance = torch.rand(rows, generator=generator, dtype=torch.float64).tolist()
    return [min(size - 1, int((i // len(_ROWS) % parts + x) / parts * size)) for i, x in enumerate(chance)]


_ROWS = (
    "ordinary",
    "one NaN",
    "lowest",
    "lowest but one",
    "equal",
    "large",
    "one largest",
    "cancelling",
    "zero but one",
    "largest",
    "lowest from there on",
    "far below zero",
    "tiny",
    "whole numbers",
    "cancelling at the end",
)
KINDS_OF_ROWS = len(_ROWS)
MAGNITUDES = 37
"""Rows of different magnitudes."""
_BETWEEN_INFINITIES = 7  # places of a row
_APART = 10  # numbers of magnitudes between those of neighbours, which has no divisor in common with that


def precision(kept: Dtype) -> int:
    """Bits of a number of a float type, with the leading one."""
    import torch

    return 1 - round(math.log2(torch.finfo(getattr(torch, kept.torch)).eps))


def largest_whole(kept: Dtype, terms: int, bits: int) -> int:
    """The largest whole number of a float type so that the products of two of each of so many terms, all together,
    have no more bits.
    """
    return max(1, min(1 << precision(kept), math.isqrt(2**bits // max(1, terms))))


def _rows(
    values: torch.Tensor, kept: Dtype, table: torch.Tensor, summed: tuple[int, ...], generator: torch.Generator
) -> torch.Tensor:
    """`values` with every other row along `summed` made special.

    Of eight rows two have one number of the table each, one is all zeros of both signs, one is all so large that sums
    of products overflow, two are of all magnitudes, from row to row, and two stay.
    """
    import torch

    swept, back = _as_rows(_swept(values, kept, summed) if kept.is_float else values, summed)
    rows, back = _as_rows(values, summed)
    start = int(torch.randint(8, (), generator=generator))
    places = torch.randint(rows.shape[1], (len(rows),), generator=generator).tolist()
    chosen = torch.randint(len(table), (len(rows),), generator=generator)
    for number, (row, place) in enumerate(zip(rows, places, strict=True)):
        kind = (number + start) % 8
        if kind in (0, 4):
            row[place] = table[chosen[number]]
        elif kind == 2:
            row.copy_(torch.copysign(torch.zeros_like(row), row) if row.is_floating_point() else torch.zeros_like(row))
        elif kind == 6:
            row.fill_(_large(kept))
        elif kind % 4 == 1:
            row.copy_(swept[number])
    return back(rows)


def with_infinities(values: torch.Tensor, row: tuple[int, ...], number: int) -> torch.Tensor:
    """A copy of floats with infinities of both signs in the last row, at one place of every few.

    `row` are the positions of the modes of a row. Tensors of different numbers have theirs at different places.
    """
    import torch

    rows, back = _as_rows(values, row)
    last = rows[-1, min(number, rows.shape[1] - 1) :: _BETWEEN_INFINITIES]
    last.copy_(torch.where(torch.arange(len(last)) % 2 == 0, math.inf, -math.inf))
    return back(rows)


def _as_rows(
    values: torch.Tensor, summed: tuple[int, ...]
) -> tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor]]:
    """A copy of `values` as a matrix whose rows lie along `summed`, and what makes it a tensor of their shape again."""
    last = tuple(range(-len(summed), 0))
    moved = values.movedim(summed, last)
    rows = moved.reshape(-1, math.prod(values.shape[i] for i in summed)).clone()
    return rows, lambda changed: changed.reshape(moved.shape).movedim(last, summed)
