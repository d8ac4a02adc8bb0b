"""Checks that a call of a generated function returns the outputs that it was given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cutegen.errors import CutegenError
from cutegen.language.model import KernelSpec

if TYPE_CHECKING:
    import torch


class WrongReturn(CutegenError):
    """Raised for a call that returns something else than the outputs; the message says what."""


def outputs_of(spec: KernelSpec, given: Sequence[object], result: object) -> tuple[torch.Tensor, ...]:
    """The outputs that a call has returned. Raises WrongReturn if they are not the ones that it was given.

    Those that it was not given must be tensors of their own.
    """
    import torch

    spec = spec.by_argument
    names = [tensor.name for tensor in spec.outputs]
    results = result if isinstance(result, tuple) and len(names) > 1 else (result,)
    if len(results) != len(names):
        raise WrongReturn(f"returned {type(result).__name__}, not {len(names)} tensors")
    arguments = dict(zip((tensor.name for tensor in spec.tensors), given, strict=False))
    for name, found in zip(names, results, strict=True):
        argument, wanted = arguments[name], spec.tensor(name).argument
        if not isinstance(found, torch.Tensor):
            raise WrongReturn(f"returned {type(found).__name__} as {wanted}, not a tensor")
        if argument is not None and found is not argument:
            raise WrongReturn(f"returned another tensor than {wanted}, which it was given")
    return tuple(results)
