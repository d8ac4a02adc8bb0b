"""Data for tensors of places, `at` which elements of others are taken: all are in range, and those written once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from cutegen.language.lengths import ends_and_lengths, lengths_of
from cutegen.language.model import KernelSpec
from cutegen.language.taken import places
from cutegen.language.tensor import Tensor
from cutegen.verification.case_request import Data
from cutegen.verification.data import data_for
from cutegen.verification.lengths import lengths_for, with_nothing_beyond
from cutegen.verification.segments import ends_for

if TYPE_CHECKING:
    import torch

    from cutegen.verification.cases import Case


def input_for(spec: KernelSpec, tensor: Tensor, sizes: Mapping[str, int], kind: Data, seed: int) -> torch.Tensor:
    """Data of that kind for a tensor of a spec, which has its size for each mode; of places for a tensor of them."""
    found = places_for(spec, tensor.name, sizes, seed)
    return data_for(tensor, tensor.extents(sizes), kind, seed) if found is None else found


def places_for(
    spec: KernelSpec, name: str, sizes: Mapping[str, int], seed: int, ends: Sequence[int] = ()
) -> torch.Tensor | None:
    """Places for a tensor of integers, in its shape, or the ends of segments, or lengths; None where elements are taken
    at none of its numbers, and it has neither.

    All tensors taken there have them, and the first and the last are among them, in no order. Where elements are
    written, no two are alike, unless there are fewer places than numbers; where they are only read, half of the places
    are there twice or more. Of a tensor taken along several modes the places together differ: they are drawn together,
    independent of the seed. Where there are `ends`, the ends of segments and lengths are these.
    """
    import torch

    if ends and name in ends_and_lengths(spec.tensors):
        return torch.tensor(ends, dtype=torch.int32)
    if (lengths := lengths_of(spec.tensors)) is not None and lengths.used == name:
        return lengths_for(sizes[lengths.mode], sizes[lengths.of], seed)
    if spec.segments is not None and spec.segments.ends == name:
        return ends_for(spec, sizes, seed)
    users = [t for t in spec.tensors if any(index == name for _, index in t.at)]
    if not users:
        return None
    together = [list(dict.fromkeys(index for _, index in t.at)) for t in users]
    writing = [own for own, t in zip(together, users, strict=True) if t.writes]
    own = min(writing, key=len) if writing else max(together, key=len)
    sizes_of = [max(1, places(spec.tensors, index, sizes)) for index in own]
    shape = [sizes[mode] for mode in spec.tensor(name).shape]
    count, there, number = prod(shape), prod(sizes_of), own.index(name)
    first = users[together.index(own)]
    generator = torch.Generator().manual_seed(seed if len(own) == 1 else 977 + spec.tensors.index(first))
    order = torch.randperm(there, generator=generator)
    if there > 1:  # the ends first
        order = torch.cat([torch.tensor([there - 1, 0]), order[(order > 0) & (order < there - 1)]])
    chosen = torch.arange(count) % there
    if not writing:
        chosen[(count + 1) // 2 :] = chosen[: count // 2].clone()
    found = order[chosen][torch.randperm(count, generator=generator)]
    found = found // prod(sizes_of[number + 1 :]) % sizes_of[number]
    return found.reshape(shape).to(getattr(torch, spec.tensor(name).dtype.torch))


def without_the_rest(spec: KernelSpec, tensor: Tensor, case: Case, data: torch.Tensor) -> torch.Tensor:
    """The data of a tensor in a case, with NaN in the place of elements that do not exist."""
    lengths = next(iter(tensor.lengths), None)
    if lengths is None:
        return data
    number = [one.name for one in spec.tensors].index(lengths.used)
    used = places_for(spec, lengths.used, case.sizes, case.seed * 83 + number, case.ends)
    assert used is not None
    return with_nothing_beyond(tensor, lengths, data, used)
