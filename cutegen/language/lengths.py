"""Modes of which only the first elements exist, so many for each place along another mode: padded batches, and caches
of keys and values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from cutegen.language.modes import Lengths, Mode
from cutegen.language.tensor import Tensor


def with_lengths(tensors: Sequence[Tensor], modes: Sequence[Mode]) -> tuple[Tensor, ...]:
    """The tensors, each with the lengths that its modes have."""
    every = [Lengths(mode.name, mode.of, mode.lengths) for mode in modes]
    return tuple(replace(t, lengths=tuple(one for one in every if one.mode in t.shape)) for t in tensors)


def lengths_of(tensors: Iterable[Tensor]) -> Lengths | None:
    """The mode of which only some elements exist for each place along another one, if there is one."""
    return next((lengths for tensor in tensors for lengths in tensor.lengths), None)


def ends_and_lengths(tensors: Iterable[Tensor]) -> Iterator[str]:
    """The tensors with the ends of segments and with lengths, by name, once for each tensor that is cut so."""
    for tensor in tensors:
        yield from (one.ends for one in tensor.segments)
        yield from (one.used for one in tensor.lengths)
