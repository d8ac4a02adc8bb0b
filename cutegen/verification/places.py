"""Data for tensors of places, `at` which elements of others are taken: all are in range, and those written once."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

from cutegen.language.model import KernelSpec
from cutegen.language.tensor import Tensor
from cutegen.verification.case_request import Data
from cutegen.verification.data import data_for

if TYPE_CHECKING:
    import torch


def input_for(spec: KernelSpec, tensor: Tensor, sizes: Mapping[str, int], kind: Data, seed: int) -> torch.Tensor:
    """Data of that kind for a tensor of a spec, which has its size for each mode; of places for a tensor of them."""
    places = places_for(spec, tensor.name, sizes, seed)
    return data_for(tensor, tuple(sizes[m] for m in tensor.shape), kind, seed) if places is None else places


def places_for(spec: KernelSpec, name: str, sizes: Mapping[str, int], seed: int) -> torch.Tensor | None:
    """Places for a tensor of integers, in its shape; None where elements are taken at none of its numbers.

    The first and the last place are among them, in no order. Where elements are written, no two are alike, unless there
    are fewer places than numbers; where they are only read, half of the places are there twice or more. Of a tensor
    taken along several modes the places together differ: they are drawn together, for any seed.
    """
    import torch

    users = [t for t in spec.tensors if any(index == name for _, index in t.at)]
    if not users:
        return None
    shape = [sizes[mode] for mode in spec.tensor(name).shape]
    count, user = prod(shape), min(users, key=lambda t: (-len(t.at), min(sizes[m] for m, i in t.at if i == name)))
    modes = [mode for mode, _ in user.at]
    places = max(1, prod(sizes[mode] for mode in modes))
    generator = torch.Generator().manual_seed(seed if len(modes) == 1 else 977 + spec.tensors.index(user))
    order = torch.randperm(places, generator=generator)
    if places > 1:  # the ends first
        order = torch.cat([torch.tensor([places - 1, 0]), order[(order > 0) & (order < places - 1)]])
    chosen = torch.arange(count) % places
    if not any(t.writes for t in users):
        chosen[(count + 1) // 2 :] = chosen[: count // 2].clone()
    found = order[chosen][torch.randperm(count, generator=generator)]
    own = next(i for i, (_, index) in enumerate(user.at) if index == name)
    found = found // prod(sizes[mode] for mode in modes[own + 1 :]) % max(1, sizes[modes[own]])
    return found.reshape(shape).to(getattr(torch, spec.tensor(name).dtype.torch))
