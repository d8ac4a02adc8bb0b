"""Compiles the kernels of a module for a further target from what they were traced to for the first one.

To compile a function, CuTeDSL first runs it, which makes MLIR of it: of the kernels, and of the host code that launches
them. Kernels seldom depend on the target there. So what is made of them for one target is kept, and the compiler's
passes bring it to PTX for another, with neither the function nor host code.

Only what is sure to be made again is taken: the same function is compiled for the same types and with the same values,
no name of its module stands for another value, and nothing but host code has asked for the target meanwhile.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any
from unittest import mock

_LAUNCHES = "generate_launch_op"  # the function that makes a launch in host code, and a check of its shared memory
_NEAR = 4  # calls between that one and the read of the target
_PLAIN = (bool, int, float, str, type(None))
_FAKES = ("_FakeTensor", "_FakeStream")  # whose text says of which type they are, strides and alignment included


class _Told(BaseException):
    """Ends a compilation: with the `problem` for which it cannot be done from traced kernels, or with none when done.

    It is no Exception, which CuTeDSL would turn into one of its own.
    """

    def __init__(self, problem: str = "") -> None:
        super().__init__(problem)
        self.problem = problem


class Traced:
    """The kernels of a module as they were traced, once a compilation inside `recording` has done so."""

    def __init__(self) -> None:
        self._kernels: bytes | None = None  # MLIR bytecode; None where the target was asked for
        self._of: tuple[object, ...] = ()
        self._names: Mapping[str, object] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Keeps the kernels that are traced inside."""
        from cutlass.base_dsl.compiler import GPUArch
        from cutlass.base_dsl.dsl import BaseDSL

        trace, target = BaseDSL.generate_original_ir, vars(GPUArch)["value"]
        asked: list[bool] = []

        def told(arch: Any) -> Any:
            asked.append(not _for_a_launch())
            return target.fget(arch)

        def traced(dsl: Any, *given: Any, **named: Any) -> Any:
            with mock.patch.object(GPUArch, "value", property(told, target.fset)):
                made = trace(dsl, *given, **named)
            function = given[2]
            self._kernels = None if any(asked) else _kernels_of(made[0])
            self._of, self._names = _what_is_traced(*given), dict(function.__globals__)
            return made

        with mock.patch.object(BaseDSL, "generate_original_ir", traced):
            yield

    def compiles(self, compile_module: Callable[[], Any]) -> bool:
        """Whether a compilation of the module for a further target was done with the kernels that were recorded. Then
        it leaves PTX where its options want it, and no other result.

        Raises what the compiler raises.
        """
        if self._kernels is None:
            return False
        from cutlass.base_dsl.compiler import Compiler
        from cutlass.base_dsl.dsl import BaseDSL

        run = Compiler.compile

        def traced_before(dsl: Any, *given: Any, **named: Any) -> Any:
            names = given[2].__globals__
            if _what_is_traced(*given) != self._of:
                raise _Told("other kernels are compiled for this target")
            if len(names) != len(self._names) or any(names.get(name) is not x for name, x in self._names.items()):
                raise _Told("a name of the module stands for something else")
            return import_module("cutlass._mlir.ir").Module.parse(self._kernels), None, None

        def passes(compiler: Any, *given: Any, **named: Any) -> Any:
            with mock.patch.object(compiler, "_post_compile_hook", None):  # which adds host code
                run(compiler, *given, **named)
            raise _Told

        with (
            mock.patch.object(BaseDSL, "generate_original_ir", traced_before),
            mock.patch.object(Compiler, "compile", passes),
        ):
            try:
                compile_module()
            except _Told as end:
                return not end.problem
        return False


def _for_a_launch() -> bool:
    """Whether host code asks for the target, where it looks whether a launch asks for too much shared memory."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_NEAR):
        if frame is None or frame.f_code.co_name == _LAUNCHES:
            return frame is not None
        frame = frame.f_back
    return False


def _what_is_traced(
    ir: Any, func: Any, function: Any, name: str, types: Any, attributes: Any, places: Any, named: Any, *others: Any
) -> tuple[object, ...]:
    """All that the kernels are made of: the function, the types of its arguments, and values that are known already."""
    values = [*places, *sorted(named.items())]
    return function, name, tuple(map(str, types)), str(attributes), tuple(map(_known, values))


def _known(value: Any) -> object:
    """The part of an argument that is known where a function is compiled. An argument of another kind than those of
    generated modules has one that equals nothing else.
    """
    from cutlass.base_dsl.typing import Numeric

    if isinstance(value, tuple | list):
        return type(value), tuple(map(_known, value))
    if isinstance(value, _PLAIN):
        return type(value), value
    if isinstance(value, Numeric):
        return type(value), _known(value.value)
    return (type(value), repr(value)) if type(value).__name__ in _FAKES else object()


def _kernels_of(module: Any) -> bytes:
    """A module with the kernels only, as bytecode."""
    ir: Any = import_module("cutlass._mlir.ir")
    alone = module.operation.clone()
    for operation in list(alone.regions[0].blocks[0].operations):
        if operation.operation.name != "gpu.module":
            operation.operation.erase()
    written = io.BytesIO()
    with module.context, ir.Location.unknown(module.context):
        alone.write_bytecode(written)
    return written.getvalue()
