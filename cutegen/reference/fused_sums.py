"""How far a matrix product may be off that tensor cores sum in fewer bits than their accumulators have."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from cutegen.atoms.mma import FusedSum, SumOrder

if TYPE_CHECKING:
    import torch

F32 = 2.0**-23
"""More than one addition of f32 errs by, relatively, with what those before it may have."""
SLACK = 1 + 2.0**-20
"""For what float64 itself rounds: of K products at most K 2^-53 of their magnitudes' sum, which is less than 32 times
the sum of each instruction's largest; the bound has more than 2^-9 of that: below 2^-20 of it for K up to 2^19.
"""


def spans(order: SumOrder, size: int, coordinates: Sequence[int] | None = None) -> list[list[tuple[int, int]]]:
    """The ranges of the summed mode that go through one instruction, for each share of the sum.

    The sum has `size` terms; only those with these `coordinates` are given, and all others are zeros. The first term
    that is given has the number 0, at any coordinate.
    """
    given, terms = range(size) if coordinates is None else coordinates, order.fused.terms
    tiles, shift = -(-size // order.tile), -size % terms if order.ends_whole else 0
    firsts = [tiles * i // order.shares * order.tile for i in range(1, order.shares)]
    steps = [(bisect_right(firsts, at), (at + shift) // terms) for at in given]
    starts = [at for at, step in enumerate(steps) if at == 0 or step != steps[at - 1]]
    found: list[list[tuple[int, int]]] = [[] for _ in range(order.shares)]
    for start, stop in pairwise([*starts, len(steps)]):
        found[steps[start][0]].append((start, stop))
    return found


def error(
    a: torch.Tensor,
    b: torch.Tensor,
    axes: tuple[int, int],
    least: tuple[float, float],
    product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    fused: FusedSum,
    shares: Sequence[Sequence[tuple[int, int]]],
) -> torch.Tensor:
    """The most by which such a product of finite factors may differ from the exact one, of the shape of `product`.

    `axes` are those of `a` and `b` that are summed over, in `shares` that start from zero and that f32 adds, each in
    parts of one instruction; `least` are the smallest normal numbers of their types.

    An instruction adds n products p to a sum c. With u = 2^(1 - bits), v the same of the result's bits, and 2^e the
    power of two to which all are aligned, each of the n + 1 terms loses less than u 2^e, and their sum s at most v |s|.
    The exponent of a product is the sum of its factors' exponents, so 2^e is no more than the largest of |c| and of all
    |p|; subnormal factors count as the least normal number. An analysis of running errors (N. Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd ed., section 3.3) adds this up, with what each c may already be off by.
    """
    import torch

    u, v = 2.0 ** (1 - fused.bits), 2.0 ** (1 - fused.result_bits)
    nothing = product(a.narrow(axes[0], 0, 0), b.narrow(axes[1], 0, 0))
    total = torch.zeros_like(nothing)
    for parts in shares:
        value, off = nothing, torch.zeros_like(nothing)
        for start, stop in parts:
            x, y = (t.narrow(axis, start, stop - start) for t, axis in zip((a, b), axes, strict=True))
            tops = [t.abs().amax(axis, True).clamp(min=m) for t, axis, m in zip((x, y), axes, least, strict=True)]
            largest = torch.maximum(value.abs() + off, product(*tops))
            value = value + product(x, y)
            off = off + (fused.terms + 1) * u * largest
            off = off + v * (value.abs() + off)
        total = total + off + (len(shares) - 1) * F32 * (value.abs() + off)
    return total * SLACK
