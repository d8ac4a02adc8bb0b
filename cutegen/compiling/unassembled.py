"""Compiles modules to PTX that the assembler checks, but makes no code of.

Where only the PTX is wanted, ptxas takes up to a third of the time of a compilation, and an option for less than all of
its work is not to be had: it is told how to optimise by CuTeDSL. But it makes code of those kernels only that it is
asked for, and still reads all others and refuses what is wrong in them. So it is asked for an empty one.
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
      return
    }}
  }}
}}
"""
_IN_PTX = re.compile(
    rf"^[ \t]*// \.globl[ \t]+{_EMPTY}\n|^[^\n]*\.entry {_EMPTY}\(\)[^{{]*\{{[^}}]*\}}\n?", re.MULTILINE
)
_OPTIONS = "ptx-options='"  # in a pipeline of passes


@contextmanager
def unassembled_code() -> Iterator[None]:
    """While it lasts, CuTeDSL has code made of an empty kernel only, which it adds to those of the module.

    `without_empty_kernel` takes it out of their PTX, which is otherwise not changed. Only compilations with options for
    ptxas are concerned, and only by a release of CuTeDSL that takes them in the way that is known here; others compile
    as they would.
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
    """PTX that was compiled under `unassembled_code`, with the kernels of the module only."""
    return _IN_PTX.sub("", ptx)


def _add_empty_kernel(module: Any) -> bool:
    """Adds the empty kernel to a module's code for the GPU; whether there is some, and it could be added."""
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
