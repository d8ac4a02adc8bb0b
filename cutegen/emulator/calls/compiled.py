"""The stand-in for a function that CuTeDSL has compiled: it is called in the same way, and runs on the emulator."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutegen.emulator.calls.emulation import current
from cutegen.emulator.host.builds import Build
from cutegen.emulator.host.capture import CaptureError


@dataclass(frozen=True)
class Signature:
    """The parameters that a compiled function has at run time, and those of them for a stream that nobody passes."""

    parameters: inspect.Signature
    function: str
    hidden: frozenset[str] = frozenset()

    @classmethod
    def of(cls, compiled: Any, arguments: Sequence[Any], named: Mapping[str, Any], function: str) -> Signature:
        """The signature of what was compiled for these arguments: all of its parameters but the constants."""
        given = _at_run_time(compiled, arguments, named)
        hidden = (name for name, value in given.items() if getattr(value, "use_tvm_ffi_env_stream", False))
        return cls(compiled.execution_args.signature, function, frozenset(hidden))

    def given(self, compiled: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Which of the arguments that something was compiled for are left at run time, by their parameters' names."""
        left = _at_run_time(compiled, arguments, named)
        return {name: value for name, value in left.items() if name not in self.hidden}

    def bind(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by the names of parameters. Raises TypeError for too few or too many."""
        shown = [p for name, p in self.parameters.parameters.items() if name not in self.hidden]
        try:
            bound = inspect.Signature(shown).bind(*arguments, **named)
        except TypeError as error:
            raise TypeError(f"{self.function}: {error}") from None
        bound.apply_defaults()
        return dict(bound.arguments)


def _at_run_time(compiled: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    execution = compiled.execution_args
    given = execution.get_rectified_args_from_original_args(arguments, dict(named))
    return dict(zip(execution.signature.parameters, given, strict=False))


class EmulatedFunction:
    """The result of `cute.compile` while functions are emulated.

    A call takes the compiled function's arguments, and runs its launches on the emulation that is entered then. Raises
    CaptureError if none is entered, or one for a target other than that of the compilation.
    """

    def __init__(self, build: Build, signature: Signature) -> None:
        self.build, self.signature = build, signature
        self.__name__ = signature.function

    def __call__(self, *arguments: Any, **named: Any) -> None:
        emulation = current()
        if emulation is None:
            raise CaptureError(
                f"{self.__name__} was compiled for the emulator, and is called where nothing is emulated",
                "compile it anew there, or call it within `emulator.emulating()`",
            )
        if self.build.target != emulation.target:
            raise CaptureError(
                f"{self.__name__} was compiled for {self.build.target}, and is emulated for {emulation.target}",
                "something has kept it from an earlier call: emulate one target in each process",
            )
        emulation.run(self.build, self.signature.bind(arguments, named), self.__name__)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"what is compiled for the emulator has no {name!r}: it cannot run on this machine, and cannot be exported"
        )
