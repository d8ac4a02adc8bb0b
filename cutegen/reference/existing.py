"""The elements that exist, of tensors with a mode of which only some do: one computation for each length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from cutegen.language.lengths import lengths_of
from cutegen.language.model import KernelSpec
from cutegen.language.modes import Lengths

if TYPE_CHECKING:
    import torch


class Existing(NamedTuple):
    """A spec without lengths, the tensors, and the coordinates and sizes as `bounds.evaluate` takes them, that have
    what a call with lengths computes for one place along the mode `of`.
    """

    of: str
    spec: KernelSpec
    tensors: Mapping[str, torch.Tensor]
    coordinates: Mapping[str, Sequence[int]]
    whole: Mapping[str, int]


def existing(
    spec: KernelSpec,
    tensors: Mapping[str, torch.Tensor],
    coordinates: Mapping[str, Sequence[int]],
    whole: Mapping[str, int],
) -> list[Existing]:
    """For each place along the mode that lengths are for, the elements that exist; nothing where no mode has lengths,
    or no place is there. `whole` says how many of a mode with `coordinates` there are in all.
    """
    lengths = lengths_of(spec.tensors)
    return [] if lengths is None else [*_existing(spec, lengths, tensors, coordinates, whole)]


def _existing(
    spec: KernelSpec,
    lengths: Lengths,
    tensors: Mapping[str, torch.Tensor],
    coordinates: Mapping[str, Sequence[int]],
    whole: Mapping[str, int],
) -> Iterator[Existing]:
    plain = replace(spec, tensors=tuple(replace(tensor, lengths=()) for tensor in spec.tensors))
    shapes = {tensor.name: tensor.shape for tensor in spec.tensors}
    having = next(name for name, x in tensors.items() if lengths.mode in shapes[name])
    there = tensors[having].shape[shapes[having].index(lengths.mode)]
    along = coordinates.get(lengths.mode, range(there))
    for number, used in enumerate(tensors[lengths.used].tolist()):
        length = min(max(used, 0), whole.get(lengths.mode, there))
        kept = sum(place < length for place in along)
        found = {}
        for name, x in tensors.items():
            if lengths.of in shapes[name]:
                x = x.narrow(shapes[name].index(lengths.of), number, 1)
            if lengths.mode in shapes[name]:
                x = x.narrow(shapes[name].index(lengths.mode), 0, kept)
            found[name] = x
        own, sizes = dict(coordinates), {**whole, lengths.mode: length}
        if lengths.mode in own:
            own[lengths.mode] = own[lengths.mode][:kept]
        if lengths.of in own:
            own[lengths.of] = own[lengths.of][number : number + 1]
        else:
            own[lengths.of] = [number]
            sizes.setdefault(lengths.of, len(tensors[lengths.used]))
        yield Existing(lengths.of, plain, found, own, sizes)
