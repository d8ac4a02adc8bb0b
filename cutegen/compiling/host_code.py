"""The host code of a compiled kernel, without what only a GPU needs, as bytes that can be kept."""

from __future__ import annotations

import io
import traceback
from typing import Any


def host_code(compiled: Any, cubin: bytes) -> bytes:
    """The host code of what `cute.compile` returned, as MLIR bytecode, by which its launches can be found without a
    GPU; empty where this release of the compiler has none in this form.

    It has neither the cubin, which is most of it, nor places in the source, which name a temporary folder. So it is the
    same whenever the same module is compiled.
    """
    # Neither the module nor its form is part of the DSL's public face: if they move, whoever runs it compiles again.
    try:
        from cutlass._mlir import ir as untyped
        from cutlass._mlir import passmanager

        ir: Any = untyped
        passes: Any = passmanager
        module = compiled.ir_module
        with module.context:
            copied = module.operation.clone()
            for operation in copied.body:
                given = operation.attributes
                value = given["value"] if operation.operation.name == "llvm.mlir.global" and "value" in given else None
                if isinstance(value, ir.StringAttr) and cubin in value.value_bytes:
                    given["value"] = ir.StringAttr.get("")
                    given["global_type"] = ir.TypeAttr.get(ir.Type.parse("!llvm.array<0 x i8>"))
            passes.PassManager.parse("builtin.module(strip-debuginfo)").run(copied.operation)
            written = io.BytesIO()
            copied.operation.write_bytecode(written)
        return written.getvalue()
    except Exception:
        traceback.print_exc()
        return b""
