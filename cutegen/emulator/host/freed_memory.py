"""Makes this process keep the memory that numpy frees, for its next arrays."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of <malloc.h>
_BYTES = 1 << 28


def keep_freed_memory() -> bool:
    """Asks glibc to keep freed memory instead of handing it back to the system. Returns whether glibc agreed.

    Arrays of some 10,000 lanes have the size that glibc by default unmaps or trims at each release. Mapping them again
    page by page costs several times what the arithmetic costs (fma.rn.f64: 62 instead of 10 ns a lane).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _BYTES)) and bool(mallopt(_M_MMAP_THRESHOLD, _BYTES))
