"""The arguments of a call of an emulated function: the tensors among them, and what host code gets for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from cutegen.emulator.calls.marked import Marked
from cutegen.emulator.calls.memory import region_of
from cutegen.emulator.host.capture import CaptureError
from cutegen.emulator.host.device_tensors import KINDS
from cutegen.emulator.host.packing import Argument, Handle, TensorArgument

if TYPE_CHECKING:
    import torch

    from cutegen.emulator.calls.memory import Memory, Region


def tensors_of(arguments: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors among the arguments of a call, with their parameters' names; those inside of tuples, too."""
    for name, value in arguments.items():
        for part, each in _parts(name, value):
            found = torch_tensor(each)
            if found is not None:
                yield part, found


def passed(value: Any, regions: Sequence[Region]) -> Argument:
    """An argument as host code gets it. Raises CaptureError for one that cannot be passed."""
    from cutlass.base_dsl.typing import Numeric

    source = torch_tensor(value)
    if source is not None:
        return _passed_tensor(value, source, regions)
    if isinstance(value, Numeric):
        return _placed(_number(value.value), regions)
    if value is None or isinstance(value, (bool, int, float)):
        return _placed(value, regions)
    if isinstance(value, (tuple, list)):
        return tuple(passed(each, regions) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(passed(getattr(value, field.name), regions) for field in fields(value))
    stream = _stream(value)
    if stream is not None:
        return Handle(stream)
    if hasattr(value, "_pointer"):
        return Handle(_told(int(value._pointer), regions))
    raise CaptureError(
        f"an argument of type {type(value).__name__} cannot be passed to an emulated function",
        "tensors, numbers, pointers into tensors that are arguments, streams, None, and tuples and dataclasses of "
        "these can",
    )


def settled(value: Any) -> Any:
    """An argument that CuTeDSL does not change while it compiles for it: a dataclass as a tuple of its fields."""
    if isinstance(value, (Marked, type)):
        return value
    if is_dataclass(value):
        return tuple(settled(getattr(value, field.name)) for field in fields(value))
    if type(value) in (tuple, list):
        return type(value)(settled(each) for each in value)
    return value


def _number(value: Any) -> Argument:
    if not isinstance(value, (bool, int, float)):
        raise CaptureError(f"a number of CuTeDSL without a value cannot be passed ({type(value).__name__})")
    return value


def _placed(value: Argument, regions: Sequence[Region]) -> Argument:
    """A number as host code gets it: where it is the address of a tensor of the call, the one that kernels know."""
    home = next((r for r in regions if r.low == value), None) if _may_be_address(value) else None
    return value if home is None else home.at


def _may_be_address(value: Any) -> bool:
    return type(value) is int and value >= 1 << 32


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of an argument, each with its name; the argument itself if it has none."""
    if isinstance(value, (tuple, list)):
        names = getattr(value, "_fields", None)
        for index, each in enumerate(value):
            yield from _parts(f"{name}.{names[index]}" if names else f"{name}[{index}]", each)
    elif is_dataclass(value) and not isinstance(value, (type, Marked)):
        for field in fields(value):
            yield from _parts(f"{name}.{field.name}", getattr(value, field.name))
    else:
        yield name, value


def torch_tensor(value: Any) -> torch.Tensor | None:
    """The torch tensor that an argument is, or stands for; None for what is no tensor."""
    import torch

    if isinstance(value, Marked):
        return value.tensor
    if isinstance(value, torch.Tensor):
        return value
    if hasattr(value, "_dlpack_data"):  # a tensor of CuTeDSL's runtime
        found = getattr(value, "_cutegen_source", None)
        if not isinstance(found, torch.Tensor):
            raise CaptureError(
                "a tensor of CuTeDSL that was made before the emulation began cannot be passed",
                "make it with from_dlpack within make_inputs or the function, or pass the torch tensor, with "
                "emulator.tensor(t, align=16) where it needs more than its elements' alignment",
            )
        return found
    return None


def _passed_tensor(value: Any, source: torch.Tensor, regions: Sequence[Region]) -> TensorArgument:
    kind = None
    if hasattr(value, "_dlpack_data"):  # its type may be said to be another one than the storage's
        from cutlass.cute._tvm_ffi_args_spec_converter import NumericToTVMFFIDtype

        kind = KINDS.get(NumericToTVMFFIDtype.get(value.element_type, ""))
    kind = kind or KINDS.get(str(source.dtype).removeprefix("torch."))
    if kind is None or kind[1] != source.element_size() * 8:
        said = getattr(value, "element_type", source.dtype)
        raise CaptureError(f"tensors of {getattr(said, '__name__', said)} are not emulated")
    pointer = int(source.data_ptr())
    home = region_of(pointer, regions)
    address = pointer if home is None else home.told(pointer)  # which is nowhere for a tensor without elements
    return TensorArgument(address, tuple(source.shape), tuple(source.stride()), *kind)


def _told(pointer: int, regions: Sequence[Region]) -> int:
    """The address that a kernel gets for a pointer of this process, which must be into a tensor of the call."""
    home = region_of(pointer, regions)
    if home is None and pointer:
        raise CaptureError(
            f"the pointer {pointer:#x} is in none of the tensors of the call",
            "pass the tensor itself to the function that is run, so that its bounds are known",
        )
    return 0 if home is None else home.told(pointer)


def pointers_of(arguments: Mapping[str, Any], memory: Memory) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that pointers among the arguments of a call lie in, with the names of the parameters."""
    for name, value in arguments.items():
        for part, each in _parts(name, value):
            if hasattr(each, "_pointer") and (known := memory.containing(int(each._pointer))):
                yield part, known.tensor


def addressed(arguments: Mapping[str, Any], memory: Memory) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors whose memory begins at the addresses that numbers among the arguments of a call are, with the names
    of the parameters.
    """
    for name, value in arguments.items():
        for part, each in _parts(name, value):
            number = getattr(each, "value", each)
            if _may_be_address(number) and (known := memory.storages.get(number)):
                yield part, known.tensor


def _stream(value: Any) -> int | None:
    """The handle of a stream of torch or of CUDA's bindings; None for what is no stream."""
    if hasattr(value, "cuda_stream"):
        return int(value.cuda_stream)
    if type(value).__name__ in ("CUstream", "cudaStream_t"):
        return int(value)
    return None
