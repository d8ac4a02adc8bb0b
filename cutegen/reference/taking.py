"""Elements that are taken `at` places: what indexing by the tensors of places makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cutegen.language.model import KernelSpec
from cutegen.language.tensor import Tensor
from cutegen.reference.segmented import by_rows, rows_of

if TYPE_CHECKING:
    import torch

Index = tuple["slice | torch.Tensor", ...]


def index_of(tensor: Tensor, tensors: Mapping[str, torch.Tensor]) -> Index | None:
    """The index that takes the elements of a tensor from its memory, where these are not all that lie there; `tensors`
    has all by name, those of places and of the ends of segments among them.
    """
    if tensor.segments:
        return rows_of(tensor, tensors)
    if not tensor.at:
        return None
    at = dict(tensor.at)
    return tuple(tensors[at[mode]].long() if mode in at else slice(None) for mode in tensor.shape)


def elements(spec: KernelSpec, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors of `spec.by_element`: `tensors` as they are, and of those taken at places the elements, copied; of
    rows that are cut into segments those that belong to one.

    Raises IndexError for a place that a tensor does not have.
    """
    taken = {
        name: values[index] if (tensor := spec.tensor(name)).at and (index := index_of(tensor, tensors)) else values
        for name, values in tensors.items()
    }
    return by_rows(spec, taken)
