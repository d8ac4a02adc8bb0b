"""Text of the host for tensors whose elements are taken `at` places that other tensors have."""

from __future__ import annotations

from cutegen.language.model import KernelSpec, Tensor


def place_index(spec: KernelSpec, tensor: Tensor) -> str:
    """The index that takes a tensor's elements, such as `:, ids`."""
    at = dict(tensor.at)
    last = max(axis for axis, mode in enumerate(tensor.shape) if mode in at)
    return ", ".join(spec.tensor(at[m]).argument if m in at else ":" for m in tensor.shape[: last + 1])


def with_places(spec: KernelSpec, tensor: Tensor, values: str, *, inplace: bool = False) -> str:
    """The expression of a tensor like an output with `values` at its places, or of the output itself, `inplace`.

    The modes that are taken come first in its shape.
    """
    indices = [spec.tensor(index).argument for _, index in tensor.at]
    put = "index_put_" if inplace else "index_put"
    return f"{tensor.argument}.{put}(({', '.join(indices)}{',' if len(indices) == 1 else ''}), {values})"


def place_modes(spec: KernelSpec) -> dict[str, tuple[str, ...]]:
    """By argument, of each tensor of places the modes along which they are taken."""
    found: dict[str, tuple[str, ...]] = {}
    for tensor in spec.tensors:
        for mode, index in tensor.at:
            argument = spec.tensor(index).argument
            found[argument] = tuple(dict.fromkeys((*found.get(argument, ()), mode)))
    return found
