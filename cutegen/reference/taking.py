"""The elements of tensors in memory: views of packed arguments, and what indexing by tensors of places makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cutegen.language.model import KernelSpec
from cutegen.language.tensor import Tensor
from cutegen.reference.segmented import by_rows, rows_of
from cutegen.views.cuts import cuts
from cutegen.views.sizes import sizes_of

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
    """The tensors of `spec.by_element`: `tensors` as they are, of packed arguments the views, and of those taken at
    places the elements, copied; of rows that are cut into segments those that belong to one.

    Raises IndexError for a place that a tensor does not have, and ValueError for sizes that disagree.
    """
    tensors = views(spec, tensors)
    spec = spec.by_view
    taken = {
        name: values[index] if (tensor := spec.tensor(name)).at and (index := index_of(tensor, tensors)) else values
        for name, values in tensors.items()
    }
    return by_rows(spec, taken)


def views(spec: KernelSpec, tensors: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
    """The tensors of `spec.by_view`: `tensors` as they are, and the views of those that are packed, not copied."""
    spec = spec.by_argument
    packed = [argument for argument in spec.tensors if argument.views and argument.name in tensors]
    if not packed:
        return tensors
    sizes = sizes_of(spec.tensors, spec.static, {name: x.shape for name, x in tensors.items()})
    found = {name: x for name, x in tensors.items() if not spec.tensor(name).views}
    for argument in packed:
        for view in argument.views:
            found[view.name] = view_of(spec, argument, view, tensors[argument.name], sizes)
    return found


def view_of(
    spec: KernelSpec, argument: Tensor, view: Tensor, values: torch.Tensor, sizes: Mapping[str, int]
) -> torch.Tensor:
    """A view of an argument's values, which shares their memory."""
    own = cuts(argument, view, spec.static)
    index: list[slice | int] = []
    for cut in own:
        start = cut.start.at(sizes)
        index.append(slice(start, start + cut.size.at(sizes) * cut.step, cut.step) if cut.modes else start)
    found, axis = values[tuple(index)], 0
    for cut in (cut for cut in own if cut.modes):
        if len(cut.modes) > 1:
            split = [sizes[mode] for mode in cut.modes]
            found = found.view(*found.shape[:axis], *split, *found.shape[axis + 1 :])
        axis += len(cut.modes)
    return found
