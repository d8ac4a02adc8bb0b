"""Arguments as compiled host code takes them: packed as TVM FFI passes values of any type."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Union

_CPU, _CUDA = 1, 2  # kDLCPU, kDLCUDA
_NONE, _INT, _BOOL, _FLOAT, _HANDLE, _DL_TENSOR, _ARRAY = 0, 1, 2, 3, 4, 7, 71  # TVMFFITypeIndex
# V: bfloat16, which numpy lacks, as it does e4m3fn and e5m2
_DLPACK_CODES = {"i": 0, "u": 1, "f": 2, "b": 6, "V": 4, "e4m3fn": 10, "e5m2": 12}


@dataclass(frozen=True)
class TensorArgument:
    """A tensor as host code sees it: a byte address, a shape, and strides in elements.

    `kind` and `bits` say the type of the elements, as numpy and DLPack name types: f 32, i 8, u 8, b 8, V 16 for
    bfloat16, and e4m3fn 8 and e5m2 8. `on_device` says whether the tensor is on a CUDA device, and `device` on which
    one.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    kind: str
    bits: int
    on_device: bool = True
    device: int = 0


@dataclass(frozen=True)
class Handle:
    """A stream, or another pointer that host code passes on: its value as a number."""

    value: int


Argument = Union[TensorArgument, Handle, bool, int, float, None, "tuple[Argument, ...]"]
"""A value that can be passed for a parameter of host code; a tuple for a parameter that has parts."""


class AnyValue(ctypes.Structure):
    """A value of any type, as TVM FFI passes arguments and results (`TVMFFIAny`)."""

    _fields_ = [("type_index", ctypes.c_int32), ("padding", ctypes.c_int32), ("value", ctypes.c_int64)]


class _DLTensor(ctypes.Structure):
    """A tensor as DLPack describes it (`DLTensor`)."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Array(ctypes.Structure):
    """An array of values of any type, as TVM FFI lays one out (`TVMFFIObject`, then `TVMFFISeqCell`)."""

    _fields_ = [
        ("references", ctypes.c_uint64),
        ("type_index", ctypes.c_int32),
        ("padding", ctypes.c_int32),
        ("deleter", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("data_deleter", ctypes.c_void_p),
    ]


def pack(slot: AnyValue, argument: Argument, alive: list[object]) -> None:
    """Writes an argument to a `TVMFFIAny`; what that points to is added to `alive`, which must outlive it.

    Raises TypeError for a value of another type.
    """
    match argument:
        case TensorArgument():
            slot.type_index, slot.value = _DL_TENSOR, ctypes.addressof(_tensor(argument, alive))
        case Handle():
            slot.type_index, slot.value = _HANDLE, argument.value
        case None:
            slot.type_index, slot.value = _NONE, 0
        case bool():
            slot.type_index, slot.value = _BOOL, int(argument)
        case int():
            slot.type_index, slot.value = _INT, argument
        case float():
            slot.type_index, slot.value = _FLOAT, ctypes.c_int64.from_buffer(ctypes.c_double(argument)).value
        case tuple():
            items = (AnyValue * max(1, len(argument)))()
            for item, value in zip(items, argument, strict=False):
                pack(item, value, alive)
            count = len(argument)
            array = _Array(references=1 | 1 << 32, type_index=_ARRAY, size=count, capacity=count)
            array.data = ctypes.addressof(items)
            alive.extend((items, array))
            slot.type_index, slot.value = _ARRAY, ctypes.addressof(array)
        case _:
            raise TypeError(f"an argument of a compiled kernel is a tensor or a number, not {type(argument).__name__}")


def _tensor(argument: TensorArgument, alive: list[object]) -> _DLTensor:
    """A tensor as DLPack describes it, which is added to `alive` with all that it points to."""
    shape = (ctypes.c_int64 * max(1, len(argument.shape)))(*argument.shape)
    strides = (ctypes.c_int64 * max(1, len(argument.strides)))(*argument.strides)
    tensor = _DLTensor(
        data=argument.address,
        device_type=_CUDA if argument.on_device else _CPU,
        device_id=argument.device,
        ndim=len(argument.shape),
        code=_DLPACK_CODES[argument.kind],
        bits=argument.bits,
        lanes=1,
        shape=ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
        strides=ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64)),
        byte_offset=0,
    )
    alive.extend((shape, strides, tensor))
    return tensor
