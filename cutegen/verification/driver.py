"""Asks NVIDIA's driver whether there is a GPU, without torch."""

from __future__ import annotations

import ctypes


def gpu_missing() -> str | None:
    """Why there is no CUDA device to run on, or None if there is one. Asks the driver only, without torch."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "libcuda.so.1, the NVIDIA driver's library, does not load"
    code = int(driver.cuInit(0))
    if code != 0:
        return f"cuInit answers {code}"
    count = ctypes.c_int(0)
    code = int(driver.cuDeviceGetCount(ctypes.byref(count)))
    if code != 0 or count.value < 1:
        return f"the driver finds no device (answer {code})"
    return None


def gpu_available() -> bool:
    """Whether the driver finds a CUDA device. Cheap: torch is not imported."""
    return gpu_missing() is None
