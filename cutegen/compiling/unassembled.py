"""Compiles modules to PTX that ptxas checks, without machine code for their kernels.

Where only the PTX is wanted, ptxas takes up to a third of the compile time, and CuTeDSL overrides options for less
optimisation. With `--entry`, ptxas makes code for the named kernel only; it still parses the others and rejects errors
in them. So an empty kernel is added to each module, and ptxas is asked for that one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unittest import mock

_EMPTY = "cutegen_empty_kernel"
_TEXT = f"""module attributes {{gpu.container_module}} {{
  gpu.module @kernels {{
    cuda.kernel @{_EMPTY}() attributes {{cute.kernel, gpu.kernel}} {{
      return loc(unknown)
    }} loc(unknown)
  }}
}}
"""
_IN_PTX = re.compile(
    rf"^[ \t]*// \.globl[ \t]+{_EMPTY}\n|^[^\n]*\.entry {_EMPTY}\(\)[^{{]*\{{[^}}]*\}}\n?", re.MULTILINE
)
_OPTIONS = "ptx-options='"  # in a pipeline of passes


@contextmanager
def unassembled_code() -> Iterator[None]:
    """Inside this context, compilations add an empty kernel, the only one for which ptxas makes code.

    `without_empty_kernel` removes it from the PTX, which is otherwise the same. A compilation without options for ptxas
    is not changed, nor is one by a release of CuTeDSL that passes them in another way.
    """
    from cutlass.base_dsl.compiler import Compiler

    compiled = Compiler.compile

    def compile_unassembled(self: Any, module: Any, pipeline: str, *others: Any, **named: Any) -> Any:
        if _OPTIONS in pipeline and _add_empty_kernel(module):
            pipeline = pipeline.replace(_OPTIONS, f"{_OPTIONS}--entry {_EMPTY} ", 1)
        return compiled(self, module, pipeline, *others, **named)

    with mock.patch.object(Compiler, "compile", compile_unassembled):
        yield


def without_empty_kernel(ptx: str) -> str:
    """PTX that was compiled inside `unassembled_code`, without the kernel that was added."""
    return _IN_PTX.sub("", ptx)


def _add_empty_kernel(module: Any) -> bool:
    """Adds the empty kernel to a module's GPU code. Returns whether it did: there may be no such code."""
    ir = import_module("cutlass._mlir.ir")
    found = [op for op in module.body.operations if op.operation.name == "gpu.module"]
    if not found:
        return False
    with module.context, ir.Location.unknown(module.context):
        try:
            made = ir.Module.parse(_TEXT)
        except ir.MLIRError:
            return False
        (kernel,) = made.body.operations[0].regions[0].blocks[0].operations
        for kernels in found:
            kernels.regions[0].blocks[0].append(kernel.operation.clone())
    return True
