"""CPU tensors that say that they are on a CUDA device, and how they are passed to host code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cutegen.emulator.host import dlpack
from cutegen.emulator.host.packing import TensorArgument
from cutegen.emulator.memory.bound_tensors import NEAR, BoundTensor, Fold, Role, bind, place

if TYPE_CHECKING:
    import torch

_ALIGNMENT = 512  # bytes, of what torch's caching allocator gives on a GPU
KINDS = {
    "float64": ("f", 64),
    "float32": ("f", 32),
    "float16": ("f", 16),
    "bfloat16": ("V", 16),
    "float8_e4m3fn": ("e4m3fn", 8),
    "float8_e5m2": ("e5m2", 8),
    "int64": ("i", 64),
    "int32": ("i", 32),
    "int16": ("i", 16),
    "uint32": ("u", 32),
    "int8": ("i", 8),
    "uint8": ("u", 8),
    "bool": ("b", 8),
}
"""Types of elements as host code knows them, kind and bits, by the names that torch and TVM FFI have for them."""


def on_device(argument: Any, index: int = 0) -> Any:
    """A view of a CPU tensor that says that it is on the CUDA device of that index; anything else as it is."""
    import torch

    if not isinstance(argument, torch.Tensor) or argument.device.type != "cpu":
        return argument
    return argument.as_subclass(_device_tensor(index))


@lru_cache(maxsize=1)
def _made_on_device() -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    making = {torch.empty, torch.empty_strided}

    class MadeOnDevice(TorchFunctionMode):
        """Puts tensors that torch makes empty on a CUDA device into CPU memory; they report the device as theirs."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func not in making:
                return func(*args, **kwargs)
            device = torch.device(kwargs.get("device") or "cpu")
            if device.type != "cuda":
                return func(*args, **kwargs)
            return on_device(well_aligned(func(*args, **{**kwargs, "device": "cpu"})), device.index or 0)

    return MadeOnDevice


def made_on_device() -> AbstractContextManager[object]:
    """While it is entered, empty tensors that are made on a CUDA device are ones of the CPU's that are `on_device`."""
    context: AbstractContextManager[object] = _made_on_device()()
    return context


def well_aligned(tensor: torch.Tensor) -> torch.Tensor:
    """New memory like a tensor's on the CPU, with the alignment that torch gives memory of a GPU."""
    import torch

    room = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
    buffer = torch.empty(room * tensor.itemsize + _ALIGNMENT, dtype=torch.uint8)
    start = -buffer.data_ptr() % _ALIGNMENT
    flat = buffer[start : start + room * tensor.itemsize].view(tensor.dtype)
    return flat.as_strided(tensor.shape, tensor.stride())


def with_strides(tensor: torch.Tensor, strides: Mapping[int, int]) -> Any:
    """A tensor `on_device` that says that steps along some modes are so many elements.

    A kernel that is launched with it takes such steps, and finds the elements where they are.
    """
    placed = on_device(tensor.view(tensor.shape))
    placed.far = dict(strides)
    return placed


def far_apart(tensor: torch.Tensor, mode: int, stride: int) -> Any:
    """A tensor `on_device` that says that steps along a mode are `stride` elements, as `with_strides` does.

    What lies between the elements of `tensor` is not the kernel's.
    """
    placed = with_strides(tensor, {mode: stride})
    placed.part = (mode, range(tensor.shape[mode]), tensor, None)
    return placed


def part_of(
    whole: torch.Tensor, mode: int, coordinates: Sequence[int], part: torch.Tensor, elsewhere: range | None = None
) -> Any:
    """A tensor `on_device` of which only some coordinates of a mode exist, in rising order: they are in `part`.

    Of `whole` no element is read or written. A kernel that is launched with it finds nothing at other coordinates, or
    at all others the same as in the range `elsewhere`, which must exist completely.
    """
    placed = on_device(whole)
    placed.part = (mode, coordinates, part, elsewhere)
    return placed


@lru_cache(maxsize=8)
def _device_tensor(index: int) -> Any:
    """The class of tensors that say that they are on a CUDA device; torch is imported only for it."""
    import torch

    names = ("shape", "dtype", "layout", "itemsize", "requires_grad")
    telling = {getattr(torch.Tensor, name).__get__ for name in names}
    telling |= {getattr(torch.Tensor, name) for name in ("data_ptr", "stride", "untyped_storage", "numel", "dim")}

    class DeviceTensor(torch.Tensor):
        """A tensor in the CPU's memory that says that it is on a CUDA device."""

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in telling and not kwargs:  # torch would look for tensors in what these give
                with torch._C.DisableTorchFunctionSubclass():
                    return func(*args)
            return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]

        @property
        def is_cuda(self) -> bool:  # type: ignore[override]
            return True

        @property
        def device(self) -> torch.device:  # type: ignore[override]
            return torch.device("cuda", index)

        def get_device(self) -> int:
            return index

        def __dlpack__(self, **asked: Any) -> Any:
            asked.pop("stream", None)  # nothing runs on one
            strides = self.stride() if getattr(self, "far", None) else None
            return dlpack.on_device(self.as_subclass(torch.Tensor).__dlpack__(**asked), index, strides)

        def __dlpack_device__(self) -> Any:
            return dlpack.CUDA, index

        def stride(self, dim: int | None = None) -> Any:
            strides = list(super().stride())
            for mode, step in getattr(self, "far", {}).items():
                strides[mode] = step
            return tuple(strides) if dim is None else strides[dim]

        def as_strided(self, size: Any, stride: Any, *more: Any) -> Any:
            part, far = getattr(self, "part", None), getattr(self, "far", {})
            if not (part or far) or tuple(size) != tuple(self.shape):
                return super().as_strided(size, stride, *more)
            other = {mode: step for mode, step in enumerate(stride) if step != self.stride(mode)}
            if not other:
                return self
            apart = any(size[mode] > 1 for mode in other)  # else elements are where they were
            made: Any = super().as_strided(size, stride, *more) if apart else self.view(self.shape)
            made.part, made.far = part, {} if apart else {**far, **other}
            return made

    return DeviceTensor


def bind_argument(argument: torch.Tensor, name: str, role: Role, number: int) -> tuple[BoundTensor, TensorArgument]:
    """A tensor argument as a launch and as host code get it; `number` tells the tensors of a call apart.

    Raises TypeError for a type of elements that DLPack has not.
    """
    import torch

    kind = KINDS.get(str(argument.dtype).removeprefix("torch."))
    if kind is None:
        raise TypeError(f"{name}: no DLPack type for {argument.dtype}")
    whole, part = argument.as_subclass(torch.Tensor), getattr(argument, "part", None)
    mode, coordinates, near, elsewhere = part if part else (0, (), whole, None)
    at = place(0 if part else near.data_ptr(), number)  # where all lower bits are 0, once
    tensor = bind(near, name, role, at + NEAR if part else at)
    strides, device = tuple(argument.stride()), max(0, argument.get_device())
    if part:
        steps = tuple(stride * tensor.itemsize for stride in strides)
        tensor = replace(tensor, fold=Fold(at, steps, mode, np.asarray(coordinates, np.int64), elsewhere))
    return tensor, TensorArgument(at, tuple(argument.shape), strides, *kind, bool(argument.is_cuda), device)
