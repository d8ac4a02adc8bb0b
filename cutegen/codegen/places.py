"""Text of the host for tensors whose elements are taken `at` places that other tensors have."""

from __future__ import annotations

from cutegen.codegen.segmented import put_in_rows
from cutegen.dtypes import Dtype
from cutegen.language.model import KernelSpec, Tensor
from cutegen.language.taken import indices, modes_at


def place_index(spec: KernelSpec, tensor: Tensor) -> str:
    """The index that takes a tensor's elements, such as `:, ids`."""
    at = dict(tensor.at)
    last = max(axis for axis, mode in enumerate(tensor.shape) if mode in at)
    return ", ".join(spec.tensor(at[m]).argument if m in at else ":" for m in tensor.shape[: last + 1])


def put_in(spec: KernelSpec, tensor: Tensor, values: str, *, inplace: bool = False) -> str | None:
    """The torch expression for an output with `values` at its places, or in its rows that belong to segments: a new
    tensor, or the output itself if `inplace`. None for one that has a value for each element.
    """
    if tensor.segments:
        return put_in_rows(tensor, values, inplace=inplace)
    return put_at_places(spec, tensor, values, inplace=inplace) if tensor.at else None


def put_at_places(spec: KernelSpec, tensor: Tensor, values: str, *, inplace: bool = False) -> str:
    """The torch expression for an output with `values` at its places: a new tensor, or the output itself if `inplace`.

    The modes that are taken come first in the shape of an output.
    """
    put, index = "index_put_" if inplace else "index_put", place_index(spec, tensor)
    # Of u32, which torch puts nowhere, the same bits as numbers with a sign
    put_as, back = (".view(torch.int32)", ".view(torch.uint32)") if tensor.dtype is Dtype.u32 else ("", "")
    index = f"({index}{',' if len(tensor.at) == 1 else ''})"
    return f"{tensor.argument}{put_as}.{put}({index}, {values}{put_as}){back}"


def place_modes(spec: KernelSpec) -> dict[str, tuple[str, ...]]:
    """By argument, of each tensor of places the modes along which they are taken."""
    return {spec.tensor(index).argument: modes_at(spec.tensors, index) for index in indices(spec.tensors)}


def said_of_places(spec: KernelSpec, tensor: Tensor) -> str:
    """Notes that what a tensor of places holds is not checked, and what it must be."""
    modes = modes_at(spec.tensors, tensor.name)
    if not modes:
        return ""
    written = any(t.writes for t in spec.tensors if tensor.name in dict(t.at).values())
    said = f"; in 0 ... {' - 1 and 0 ... '.join(modes)} - 1"
    return f"{said}{', no two alike' * written}: not checked"
