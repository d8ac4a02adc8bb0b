"""Runs a generated module as the program that it also is, in this process."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from cutegen.language.model import KernelSpec

if TYPE_CHECKING:
    import torch


class Program(NamedTuple):
    """How a module ended that was run as a program, and what it printed."""

    code: int
    said: str


def run_program(module: ModuleType, spec: KernelSpec, flags: Sequence[str], broken: bool) -> Program:
    """Runs a module's `main` in this process with these flags; with `broken` its function leaves wrong outputs."""
    function, said = getattr(module, spec.kernel), io.StringIO()

    def spoiled(*places: Any, **named: Any) -> object:
        result = function(*places, **named)
        for x in result if isinstance(result, tuple) else (result,):
            _spoil(x)
        return result

    patched = mock.patch.object(module, spec.kernel, spoiled if broken else function)
    argv = mock.patch.object(sys, "argv", [f"{spec.kernel}.py", *flags])
    with patched, argv, no_distributed_tensors(), redirect_stdout(said), redirect_stderr(said):
        try:
            code = int(module.main() or 0)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except AssertionError as error:  # of its comparison
            return Program(1, f"{said.getvalue()}{error}")
        except Exception as error:
            return Program(-1, f"{said.getvalue()}{type(error).__name__}: {error}")
    return Program(code, said.getvalue())


@contextmanager
def no_distributed_tensors() -> Iterator[None]:
    """Spares `torch.testing.assert_close` the import of `torch.distributed.tensor`, which takes most of a second.

    It asks whether what it compares is a `DTensor`. Where that module has not been imported, nothing is one, so that an
    empty class of that name stands in for it.
    """
    name = "torch.distributed.tensor"
    if name in sys.modules:
        yield
        return
    sys.modules[name] = stand_in = ModuleType(name)
    vars(stand_in)["DTensor"] = type("DTensor", (), {})
    try:
        yield
    finally:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]


def _spoil(x: torch.Tensor) -> None:
    """Makes all elements of an output others, but for the first of several: NaN, numbers far off, the other truth."""
    import torch

    x = x.as_subclass(torch.Tensor)
    if x.is_floating_point():
        wrong = torch.where(x.isnan(), torch.zeros_like(x), torch.full_like(x, float("nan")))
    elif x.dtype is torch.bool:
        wrong = ~x
    else:
        if not x.dtype.is_signed and x.dtype is not torch.uint8:
            x = x.view(getattr(torch, f"int{8 * x.itemsize}"))  # torch has no xor of unsigned words on a GPU
        wrong = x ^ (1 << (8 * x.itemsize - 2))  # by a quarter of the range, one bit
    first = torch.zeros(x.shape, dtype=torch.bool, device=wrong.device)
    first[(0,) * x.dim()] = x.numel() > 1
    x.copy_(torch.where(first, x, wrong))
