"""Rows that are cut into segments: which row belongs to which, and products of each segment with its own matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from cutegen.language.model import KernelSpec
from cutegen.language.modes import Segments
from cutegen.language.tensor import Tensor

if TYPE_CHECKING:
    import torch

Multiply = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]


def cuts(segments: Segments, tensors: Mapping[str, torch.Tensor], rows: int) -> list[int]:
    """The first row of each segment, and the end of the last one: ends beyond the rows count as the number of rows."""
    return [0, *(min(max(end, 0), rows) for end in tensors[segments.ends].tolist())]


def rows_of(tensor: Tensor, tensors: Mapping[str, torch.Tensor]) -> tuple[slice, ...]:
    """The index of the rows of a tensor that belong to a segment; `tensors` has it and the ends by name."""
    (segments,) = tensor.segments
    axis = tensor.shape.index(segments.mode)
    last = cuts(segments, tensors, tensors[tensor.name].shape[axis])[-1]
    return (*[slice(None)] * axis, slice(0, last))


def by_rows(spec: KernelSpec, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors of `spec.by_element`, where a mode is cut into segments: those with its rows have the rows that
    belong to a segment, and those with one row for each segment have it once for each row of the segment.
    """
    segments, found = spec.segments, dict(tensors)
    if segments is None:
        return found
    rows = next(
        tensors[t.name].shape[t.shape.index(segments.mode)] for t in spec.tensors if t.segments and t.name in tensors
    )
    edges = cuts(segments, tensors, rows)
    lengths = tensors[segments.ends].new_tensor([max(0, end - start) for start, end in pairwise(edges)])
    for tensor in (spec.tensor(name) for name in tensors):
        if tensor.segments:
            found[tensor.name] = tensors[tensor.name][rows_of(tensor, tensors)]
        elif segments.of in tensor.shape and tensor.name not in {*spec.factors, segments.ends}:
            axis = tensor.shape.index(segments.of)
            found[tensor.name] = tensors[tensor.name].repeat_interleave(lengths, axis)
    return found


def each_segment(
    spec: KernelSpec, left: Tensor, right: Tensor, tensors: Mapping[str, torch.Tensor], multiply: Multiply
) -> Multiply:
    """A function that multiplies the rows of each segment by the segment's matrix, by `multiply` of these two, and puts
    the results together. It is `multiply` itself where no mode of the product is cut into segments.
    """
    segments = spec.segments
    if segments is None or segments.of not in right.shape:
        return multiply
    axis, of = left.shape.index(segments.mode), right.shape.index(segments.of)
    edges = cuts(segments, tensors, tensors[left.name].shape[axis])
    place = spec.lead.shape.index(segments.mode)

    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        import torch

        found = [
            multiply(x.narrow(axis, start, max(0, end - start)), y.select(of, number))
            for number, (start, end) in enumerate(pairwise(edges))
        ]
        return torch.cat(found, place)

    return product
