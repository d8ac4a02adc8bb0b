"""Reductions that are neither sums nor extremes: torch's own values, with the errors of what a kernel computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from cutegen.dtypes import Dtype
from cutegen.expressions.reducing import DEFINITIONS, defined
from cutegen.expressions.spans import Spans
from cutegen.expressions.tree import Expr, Local, Reduce, Scan, Select
from cutegen.language.model import KernelSpec
from cutegen.reference import arithmetic, contractions, selections, sums
from cutegen.reference.rounding import Bounded, overflow

OTHERS = (*DEFINITIONS, "var", "prod")


class Evaluating(Protocol):
    """An evaluator of a spec's expressions."""

    spec: KernelSpec
    axes: tuple[str, ...]
    by_torch: bool
    computed: dict[str, Bounded]
    signed: dict[str, bool]

    @property
    def spans(self) -> Spans:
        """The modes of every tensor and of what each statement computes."""

    def expr(self, node: Expr) -> Bounded:
        """The value of an expression."""

    def number(self, value: float, dtype: Dtype) -> Bounded:
        """A number."""

    def size(self, mode: str) -> int:
        """The size of a mode."""

    def is_signed(self, value: Expr) -> bool:
        """Whether the sign of a zero is known."""

    def most_additions(self, modes: Sequence[str]) -> int | None:
        """The additions that a term of a sum goes through at most, where that is known."""


def reduced(node: Reduce, evaluator: Evaluating) -> Bounded:
    """The value of a reduction."""
    assert node.dtype is not None
    if node.function in OTHERS:
        return other(node, evaluator)
    if contractions.is_contraction(node, evaluator.spans):
        return contractions.contraction(node, evaluator)
    modes = [reduction.mode for reduction in node.nested]
    x, axes = evaluator.expr(node.nested[-1].x), tuple(map(evaluator.axes.index, modes))
    if node.function in ("max", "min"):
        return sums.extreme(x, axes, node.function)
    total = sums.total(x, axes, evaluator.most_additions(modes))
    if node.function == "sum":
        return total
    size = evaluator.number(math.prod(map(evaluator.size, modes)), node.dtype)
    if evaluator.by_torch:
        share = arithmetic.divide(evaluator.number(1, node.dtype), size, node.dtype)
        return arithmetic.multiply(total, share, node.dtype)
    return arithmetic.divide(total, size, node.dtype)


def other(node: Reduce, evaluator: Evaluating) -> Bounded:
    """The value of one of `OTHERS`."""
    axes, x = evaluator.axes, evaluator.expr(node.nested[-1].x)
    if node.function == "prod":
        for reduction in reversed(node.nested):
            x = sums.product(x, axes.index(reduction.mode))
        return x
    axis = axes.index(node.mode)
    if node.function == "var":
        size = evaluator.size(node.mode)
        counts = (evaluator.number(count, x.dtype) for count in (size, max(0, size - 1)))
        return variance(x, axis, evaluator.most_additions([node.mode]), *counts)
    name = f"{node.function} {node.mode}"  # no statement's
    evaluator.computed[name], evaluator.signed[name] = x, evaluator.is_signed(node.x)
    found = valued(node.function, x, axis, evaluator.expr(defined(node, Local(name, dtype=x.dtype))))
    assert node.dtype is not None
    return replace(found, dtype=node.dtype)


def scanned(node: Scan, evaluator: Evaluating) -> Bounded:
    """The value of a scan, at each place."""
    x, axis = evaluator.expr(node.x), evaluator.axes.index(node.mode)
    if node.function == "cumprod":
        return sums.running_product(x, axis)
    return sums.running_total(x, axis, evaluator.most_additions([node.mode]))


def selected(node: Select, evaluator: Evaluating) -> Bounded:
    """The value of a selection: along the mode of what is kept, which is the last axis but for others of that kind."""
    assert node.dtype is not None
    x, axis, kept = evaluator.expr(node.x), evaluator.axes.index(node.mode), evaluator.axes.index(node.kept)
    count = evaluator.size(node.kept)
    found = selections.largest(x, axis, count)
    if node.function == "argtopk":
        found = selections.places(x, axis, count, node.dtype)
    value, error = (one.transpose(axis, kept) for one in (found.value, found.error.expand_as(found.value)))
    return replace(found, value=value, error=error)


def variance(x: Bounded, axis: int, additions: int | None, size: Bounded, fewer: Bounded) -> Bounded:
    """Torch's variance, with the error of a sum of squares around the mean; each square is computed first.

    `fewer` is one less than the `size`, and `additions` as for a sum.
    """
    mean = arithmetic.divide(sums.total(x, (axis,), additions), size, x.dtype)
    squares = arithmetic.power(arithmetic.add(x, mean, x.dtype, -1), 2, x.dtype)
    found = arithmetic.divide(sums.total(squares, (axis,), additions), fewer, x.dtype)
    return valued("var", x, axis, found)


def valued(function: str, x: Bounded, axis: int, defined: Bounded) -> Bounded:
    """The value of torch's reduction of that name, with the error of its definition.

    Torch's own rounding in float64 does not count, and nothing is known where the definition alone leaves the range of
    numbers on the way: of the largest numbers the sum is infinite, and their variance is not.
    """
    import torch

    if function in ("var", "std") and (x.value.shape[axis] < 2 or not x.value.numel()):  # of which torch warns
        found = torch.full_like(defined.value, torch.nan)
    elif function in ("argmax", "argmin") and not x.value.shape[axis]:  # which torch rejects
        found = defined.value
    else:
        found = getattr(torch, function)(x.value, axis, keepdim=True)
    if not defined.dtype.is_float:
        return replace(defined, value=found.to(torch.int64))
    found, value = found.double(), defined.value
    left = ~value.isfinite() & found.isfinite()
    found = torch.where((found - value).abs() <= 2.0**-40 * value.abs(), value, found)
    if defined.dtype is not Dtype.f64:
        most = found.abs() >= overflow(defined.dtype)
        found = torch.where(most, torch.copysign(torch.full_like(found, torch.inf), found), found)
    return replace(defined, value=found, error=defined.error.masked_fill(left, torch.inf))
