"""DLPack capsules that say of memory in this process that it is on a CUDA device, with other strides if need be."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

CUDA = 2  # kDLCUDA
_NAMES = (b"dltensor", b"dltensor_versioned")
_DEVICE = (8, 40)  # bytes from the start of DLManagedTensor, and of its versioned kind, to the DLDevice of its tensor


_STRIDES = 24  # bytes from the DLDevice to the pointer to the strides


def on_device(capsule: Any, index: int, strides: Sequence[int] | None = None) -> Any:
    """The same capsule, whose tensor is on the CUDA device of that index from now on, and has these strides, if any.

    Raises TypeError for what is no DLPack capsule that nobody has used.
    """
    valid, pointer = ctypes.pythonapi.PyCapsule_IsValid, ctypes.pythonapi.PyCapsule_GetPointer
    valid.argtypes, valid.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
    pointer.argtypes, pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    for name, offset in zip(_NAMES, _DEVICE, strict=True):
        if valid(capsule, name):
            at = pointer(capsule, name) + offset
            device = (ctypes.c_int32 * 2).from_address(at)
            device[0], device[1] = CUDA, index
            if strides:
                told = ctypes.POINTER(ctypes.c_int64).from_address(at + _STRIDES)
                for mode, stride in enumerate(strides):
                    told[mode] = stride
            return capsule
    raise TypeError("expected a DLPack capsule that nobody has used")
