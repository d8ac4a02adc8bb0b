"""Emulates any function: kernels that it compiles with CuTeDSL run on the emulator, with all of its checks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from cutegen.compiling.symbols import tabled_symbols
from cutegen.compiling.unassembled import unassembled_code, without_empty_kernel
from cutegen.compiling.unprinted import unprinted_code
from cutegen.emulator.calls.arguments import settled
from cutegen.emulator.calls.compiled import EmulatedFunction, Signature
from cutegen.emulator.calls.emulation import Emulation, as_current, current
from cutegen.emulator.calls.marked import Marked, as_cute
from cutegen.emulator.calls.pretended_gpu import pretended_gpu
from cutegen.emulator.host.builds import make_build, own_folder
from cutegen.emulator.host.capture import CaptureError
from cutegen.emulator.host.source_lines import cached_line_tables
from cutegen.errors import CutegenError

TARGET = "sm_90a"  # by default


class CompileError(CutegenError):
    """CuTeDSL has refused to compile a function; `cause` is what it raised."""

    def __init__(self, function: str, cause: Exception) -> None:
        super().__init__(f"{function} does not compile: {type(cause).__name__}: {cause}")
        self.function, self.cause = function, cause


@contextmanager
def emulating(
    target: str = TARGET, *, orders: int = 1, seed: int = 0, multiprocessors: int | None = None
) -> Iterator[Emulation]:
    """While it is entered, what is compiled by CuTeDSL runs on the emulator, and torch has a GPU of that target.

        with emulating("sm_90a", orders=3) as emulation:
            x = torch.randn(64, 1000, device="cuda", dtype=torch.bfloat16)
            y = softmax(x)
        print(emulation.ran[0].report)

    This holds for `cute.compile` and what it returns, for functions of `cute.jit` that are called, and for functions
    that do either inside, however deep. Tensors that are made on `cuda` lie in the CPU's memory; reading uninitialised
    parts of those that torch makes empty is a fault. `orders` and `seed` are as for `launch`. A call in which a fault
    is found raises FaultError; CompileError is raised where CuTeDSL does not compile. The GPU has so many
    `multiprocessors`; None: as many as the one that stands for the target.

    Raises CaptureError for a target that is not known. One process should emulate one target: libraries keep what they
    have compiled.
    """
    emulation = Emulation(target, orders, seed)
    with ExitStack() as stack:
        stack.enter_context(pretended_gpu(target, emulation.memory, multiprocessors))
        stack.enter_context(_compiler())
        stack.enter_context(as_current(emulation))
        yield emulation


@contextmanager
def _compiler() -> Iterator[None]:
    """While it is entered, what CuTeDSL compiles is for the emulation that is current."""
    from cutlass.base_dsl.dsl import BaseDSL
    from cutlass.cute import runtime

    kept: Any = runtime
    compile_or_call, make_tensor = BaseDSL._func, kept._Tensor.__init__

    def func(self: Any, body: Any, *arguments: Any, **named: Any) -> Any:
        emulation = current()
        if emulation is None or _tracing():
            return compile_or_call(self, body, *arguments, **named)
        only = named.pop("compile_only", False)
        named.pop("no_cache", None)
        cute = [_cute_argument(value) for value in arguments]
        cute_named = {name: _cute_argument(value) for name, value in named.items()}
        made, given = _compiled(compile_or_call, self, body, cute, cute_named, emulation)
        if not only:
            emulation.run(made.build, given, made.__name__)
            return None
        return made

    def tensor(self: Any, source: Any, *arguments: Any, **named: Any) -> None:
        import torch

        from cutegen.emulator.host.device_tensors import on_device

        if isinstance(source, torch.Tensor) and current() is not None:
            source = on_device(source)
            named["enable_tvm_ffi"] = False
        make_tensor(self, source, *arguments, **named)
        self._cutegen_source = source

    with mock.patch.object(BaseDSL, "_func", func), mock.patch.object(kept._Tensor, "__init__", tensor):
        yield


def _tracing() -> bool:
    """Whether a function is called by one that CuTeDSL compiles right now, and so is a part of it."""
    from cutlass._mlir import ir

    library: Any = ir
    return library.Context.current is not None


def _compiled(
    compile_or_call: Callable[..., Any],
    dsl: Any,
    body: Any,
    arguments: list[Any],
    named: dict[str, Any],
    emulation: Emulation,
) -> tuple[EmulatedFunction, dict[str, Any]]:
    """Compiles a function with CuTeDSL for an emulation's target.

    Returns it with the arguments that are left at run time, by name. Raises CompileError, CaptureError and
    UnsupportedInstruction.
    """
    from cutlass.base_dsl.compiler import EnableTVMFFI, GenerateLineInfo, GPUArch, KeepPTX, PtxasOptions

    name = body.__qualname__
    emulation.compiling(name)
    keep = KeepPTX(True)
    before = dsl.compile_options
    options = copy.copy(before)
    options.options = dict(before.options)
    own = {key: value for key, value in named.items() if key not in _CONTROLS}
    kept, kept_named = [settled(value) for value in arguments], {key: settled(value) for key, value in own.items()}
    for option in (keep, GPUArch(emulation.target), EnableTVMFFI(True), GenerateLineInfo(True), PtxasOptions("-O0")):
        options.options[type(option)] = option
    try:
        dsl.compile_options = options
        with own_folder(dsl) as folder, cached_line_tables(), unprinted_code(), tabled_symbols(), unassembled_code():
            compiled = compile_or_call(dsl, body, *arguments, compile_only=True, no_cache=True, **named)
            written = Path(getattr(keep, "full_ptx_path", ""))
            if written.parent != folder:
                raise ValueError(f"the compiler wrote its PTX to {written}, where another process may overwrite it")
            ptx = getattr(getattr(compiled, "artifacts", None), "PTX", None)
    except CutegenError:
        raise
    except Exception as error:
        raise CompileError(name, error) from error
    finally:
        dsl.compile_options = before
    if not isinstance(ptx, str):
        raise CaptureError(f"{name}: CuTeDSL gives no PTX for it")
    ptx = without_empty_kernel(ptx.rstrip("\0"))
    if "vprintf" in ptx:
        raise CaptureError(f"{name}: printf in a kernel is not emulated", "take the calls of cute.printf out")
    build = make_build(emulation.target, ptx, compiled.ir_module)
    signature = Signature.of(compiled, kept, kept_named, name)
    return EmulatedFunction(build, signature), signature.given(compiled, kept, kept_named)


_CONTROLS = frozenset(("pipeline", "gpu_module_attrs", "no_jit_engine", "export_name", "compile_to_precompiled_mlir"))
"""Names of arguments that CuTeDSL takes for itself when it compiles a function, beside the function's own."""


def _cute_argument(value: Any) -> Any:
    """An argument as CuTeDSL takes it: torch tensors as tensors of its own, also where they are parts of a tuple."""
    import torch

    if isinstance(value, torch.Tensor):
        return as_cute(Marked(value))
    if isinstance(value, Marked):
        return as_cute(value)
    if type(value) in (tuple, list):
        return type(value)(_cute_argument(each) for each in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_cute_argument(each) for each in value))
    return value
