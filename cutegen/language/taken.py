"""Tensors that are taken `at` places: how many places there are, and how many a call needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from cutegen.language.tensor import Tensor


def indices(tensors: Sequence[Tensor]) -> tuple[str, ...]:
    """The tensors of places, by name."""
    return tuple(dict.fromkeys(index for tensor in tensors for _, index in tensor.at))


def modes_at(tensors: Sequence[Tensor], index: str) -> tuple[str, ...]:
    """The modes that are taken at the places of a tensor, each once."""
    return tuple(dict.fromkeys(mode for tensor in tensors for mode, own in tensor.at if own == index))


def places(tensors: Sequence[Tensor], index: str, sizes: Mapping[str, int]) -> int:
    """The number of places in range, of which a tensor of places holds some: as many as every mode taken there has."""
    return min(sizes[mode] for mode in modes_at(tensors, index))


def needed(tensors: Sequence[Tensor], index: str, sizes: Mapping[str, int]) -> int:
    """The number of places that a tensor of them holds."""
    return prod(sizes[mode] for mode in next(t for t in tensors if t.name == index).shape)


def lacking(tensors: Sequence[Tensor], sizes: Mapping[str, int]) -> tuple[Tensor, int, int] | None:
    """A tensor that has too few places for calls of these sizes, with those that it has and those that it needs; None
    where none has.

    Each place that is written differs from the others; of those that are read one is enough.
    """
    for tensor in (tensor for tensor in tensors if tensor.at):
        together = {index for _, index in tensor.at}
        there = prod(places(tensors, index, sizes) for index in together)
        count = needed(tensors, tensor.at[0][1], sizes)
        if there < (count if tensor.writes else min(count, 1)):
            return tensor, there, count
    return None
