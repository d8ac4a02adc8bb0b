"""Makes the compilation of modules with several kernels faster.

CuTeDSL writes all of a module's code for the GPU into a line for its log before each kernel, also where it keeps no
log: the time for that grows with the square of the number of kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock


@contextmanager
def unprinted_code() -> Iterator[None]:
    """While it lasts, code for the GPU is printed as a short name, as Python's objects are by default.

    What is compiled is not changed by that. A release of CuTeDSL without this class of MLIR's is left as it is.
    """
    from cutlass._mlir.dialects import gpu

    found = getattr(gpu, "GPUModuleOp", None)
    if found is None:
        yield
    else:
        with mock.patch.object(found, "__str__", object.__repr__):
            yield
