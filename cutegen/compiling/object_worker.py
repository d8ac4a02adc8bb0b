"""The process that makes object files of modules; its jobs are `Job`s.

    result: {"object": "base64", "toolchain": {...}}  or  {"failed": {...}, "unlocated": false}

The object has the host code of one kernel for one target, with the cubin in it, as a function by the calling convention
of TVM FFI that is called as `symbol` says.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from cutegen.compiling.objects import symbol
from cutegen.compiling.outcome import Job
from cutegen.compiling.worker import ModuleProblem, compile_function, done, import_compiler
from cutegen.workers import Tell, serve

RUNTIME = "libcuda_dialect_runtime_static.a"  # beside the compiler's runtime: what host code calls CUDA through


def main() -> None:
    """Makes object files for the process that started this one, until it asks for no more."""
    serve(start)


def start(tell: Tell) -> Callable[[Job], Any]:
    """Imports the compiler; returns the function that does a job. Raises Unusable."""
    import_compiler()
    numbers = itertools.count()
    return lambda job: run(job, next(numbers))


def run(job: Job, number: int) -> dict[str, Any]:
    """Does a job in a folder that has that number. Raises Refused."""

    def made(module: ModuleType, folder: Path) -> dict[str, Any]:
        compiled = compile_function(module)(arch=job.target)
        export = getattr(compiled, "export_to_c", None)
        if export is None:
            raise ModuleProblem("compile_for(arch, options) gave nothing that this release of the compiler can export")
        path = folder / "kernel.o"
        export(str(path), function_name=symbol(job.kernel, job.target), export_only_tvm_ffi_symbols=True)
        return {"object": base64.b64encode(path.read_bytes()).decode("ascii"), "toolchain": _toolchain()}

    return done(job, number, made)


def _toolchain() -> dict[str, Any]:
    """Where what an object is linked with is: folders of headers, the library of TVM FFI, the compiler's runtime."""
    from cutlass.runtime import find_runtime_libraries
    from tvm_ffi import libinfo

    runtimes = [Path(found).with_name(RUNTIME) for found in find_runtime_libraries(enable_tvm_ffi=False)]
    runtime = next((path for path in runtimes if path.is_file()), None)
    if runtime is None:
        raise ModuleProblem(f"the compiler has no {RUNTIME} beside its runtime; exporting needs it")
    headers = list(dict.fromkeys([libinfo.find_include_path(), libinfo.find_dlpack_include_path()]))
    return {"headers": headers, "tvm_ffi": libinfo.find_libtvm_ffi(), "runtime": str(runtime)}
