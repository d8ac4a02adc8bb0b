"""Makes the compilation of modules with several kernels faster.

CuTeDSL writes all of a module's code for the GPU into a line for its log before each kernel, also where it keeps no
log: the time for that grows with the square of the number of kernels. So does the time for a line with the kernel
itself, whose values are numbered as they would be in a print of the whole module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from unittest import mock

_PRINTED = (("gpu", "GPUModuleOp"), ("cuda", "KernelOp"))  # MLIR's dialects and their classes


@contextmanager
def unprinted_code() -> Iterator[None]:
    """While it lasts, code for the GPU is printed as a short name, as Python's objects are by default.

    What is compiled is not changed by that. A release of CuTeDSL without one of these classes of MLIR's prints the rest
    as before.
    """
    with ExitStack() as stack:
        for dialect, name in _PRINTED:
            try:
                found = getattr(import_module(f"cutlass._mlir.dialects.{dialect}"), name, None)
            except ImportError:
                continue
            if found is not None:
                stack.enter_context(mock.patch.object(found, "__str__", object.__repr__))
        yield
