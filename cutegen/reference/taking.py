"""Elements that are taken `at` places: what indexing by the tensors of places makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cutegen.language.model import KernelSpec
from cutegen.language.tensor import Tensor

if TYPE_CHECKING:
    import torch

Index = tuple["slice | torch.Tensor", ...]


def index_of(tensor: Tensor, tensors: Mapping[str, torch.Tensor]) -> Index:
    """The index that takes the elements of a tensor from its memory; `tensors` has those of places by name."""
    at = dict(tensor.at)
    return tuple(tensors[at[mode]].long() if mode in at else slice(None) for mode in tensor.shape)


def elements(spec: KernelSpec, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors of `spec.by_element`: `tensors` as they are, and of those taken at places the elements, copied.

    Raises IndexError for a place that a tensor does not have.
    """
    return {
        name: values[index_of(tensor, tensors)] if (tensor := spec.tensor(name)).at else values
        for name, values in tensors.items()
    }
