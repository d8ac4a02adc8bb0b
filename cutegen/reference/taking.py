"""The elements of tensors in memory: views of packed arguments, what indexing by tensors of places makes, and those of
blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
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


def elements(
    spec: KernelSpec,
    tensors: Mapping[str, torch.Tensor],
    coordinates: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> dict[str, torch.Tensor]:
    """The tensors of `spec.by_element`: `tensors` as they are, of packed arguments the views, and of those taken at
    places the elements, copied; of rows that are cut into segments those that belong to one; of those with modes of
    blocks each element repeated along its block. Along a mode in `coordinates` the tensors have only those, and blocks
    only the ones that have some of them.

    Raises IndexError for a place that a tensor does not have, or a block, and ValueError for sizes that disagree.
    """
    tensors = views(spec, tensors)
    spec, found = spec.by_view, {}
    for name, values in tensors.items():
        tensor = spec.tensor(name)
        if tensor.at and (index := index_of(tensor, tensors)):
            values = values[index]
        for block in tensor.blocks:
            there = coordinates.get(block.of)
            there = range(_size(spec, tensors, block.of)) if there is None else there
            axis = tensor.shape.index(block.mode)  # index_select has no u32
            values = values[(slice(None),) * axis + (_blocks(there, block.size, values),)]
        found[name] = values
    return by_rows(spec, found)


def _size(spec: KernelSpec, tensors: Mapping[str, torch.Tensor], mode: str) -> int:
    """The size of a mode as the first tensor has it that has the mode itself, or as it is fixed."""
    for name, values in tensors.items():
        if mode in (shape := spec.tensor(name).shape):
            return int(values.shape[shape.index(mode)])
    return spec.static[mode]


def _blocks(coordinates: Sequence[int], size: int, like: torch.Tensor) -> torch.Tensor:
    """The block of each coordinate, by its number among those that have some."""
    import torch

    there = torch.tensor(coordinates, device=like.device) // size
    found: torch.Tensor = torch.unique(there, return_inverse=True)[1]
    return found


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
