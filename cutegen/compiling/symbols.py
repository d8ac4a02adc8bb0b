"""Makes the compilation of host code faster: names in a module are found by MLIR's table of them.

For each text that host code may show, such as those of its checks of arguments, CuTeDSL looks for a name that is free,
and reads all that is in the module for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unittest import mock

_BUILDER, _EXISTS = "MLIRBuilder", "_module_symbol_exists"


@contextmanager
def tabled_symbols() -> Iterator[None]:
    """While it lasts, whether a module has a name for a text is asked of a table that MLIR makes of it.

    What is compiled is not changed by that. With a release of CuTeDSL that looks for names by another function, nothing
    is changed.
    """
    try:
        builder = getattr(import_module("cutlass.base_dsl.tvm_ffi_builder.mlir_builder"), _BUILDER, None)
    except ImportError:
        builder = None
    if not hasattr(builder, _EXISTS):
        yield
        return
    ir: Any = import_module("cutlass._mlir.ir")

    def exists(self: object, module: Any, symbol: str) -> bool:
        return symbol in ir.SymbolTable(module.operation)

    with mock.patch.object(builder, _EXISTS, exists):
        yield
