"""Ends of segments to run a kernel on: empty ones, one of one row, all rows in one, and rows that belong to none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cutegen.language.model import KernelSpec

if TYPE_CHECKING:
    import torch

PATTERNS = ("alike", "one and none", "last", "few and the rest")
"""How rows are dealt out, by turns of the seed: as many to each segment as to the others; one row, none, and random
numbers of them; all but one row to the last segment that is not empty; a row to each but the first, which has most of
the others, and the rest belong to none."""


def ends_for(spec: KernelSpec, sizes: Mapping[str, int], seed: int) -> torch.Tensor:
    """The ends of the segments of a spec for the size of each mode: i32, ascending, at most the number of rows."""
    import torch

    assert spec.segments is not None
    rows, count = sizes[spec.segments.mode], sizes[spec.segments.of]
    return torch.tensor(_ends(rows, count, seed), dtype=torch.int32)


def uneven_ends(rows: int, count: int, seed: int) -> torch.Tensor:
    """Ends of segments that have all rows, as a router deals them out: the shares are the softmax of half of normal
    numbers, so that the largest of 64 segments has about three times the rows of the mean one. They are i32.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    shares = torch.softmax(torch.randn(count, generator=generator) / 2, 0)
    ends = (shares.cumsum(0) * rows).round().clamp(0, rows).to(torch.int32)
    ends[-1:] = rows
    return ends


def _ends(rows: int, count: int, seed: int) -> list[int]:
    import torch

    pattern = PATTERNS[seed % len(PATTERNS)]
    if pattern == "alike":
        return [rows * (number + 1) // count for number in range(count)]
    if pattern == "last":
        cut = min(1, rows)  # a row to the first, none to those between, and nothing behind the last but one
        return [cut] * (count - 1) + [rows] if count < 3 else [cut] * (count - 2) + [rows, rows]
    if pattern == "few and the rest":
        kept = max(0, rows - max(1, rows // 8))
        first = max(0, kept - (count - 1))
        return [min(kept, first + number) for number in range(count)]
    generator = torch.Generator().manual_seed(seed)
    inner = torch.randint(0, rows + 1, (max(0, count - 3),), generator=generator).sort().values.tolist()
    found = [min(1, rows), *[min(1, rows)] * (count > 2), *(max(min(1, rows), end) for end in inner)]
    return [*found[: count - 1], rows]
