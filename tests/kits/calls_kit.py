"""Calls of generated modules with all tensors, outputs too, and then scalars: in the order of the compiled function."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any


def arguments_of(module: ModuleType, device: str = "cpu", **sizes: int) -> list[Any]:
    """The arguments from `make_inputs` and `make_outputs`."""
    inputs = module.make_inputs(**sizes, device=device)
    count = len(module.INPUTS)
    tensors = dict(zip(module.INPUTS, inputs, strict=False)) | module.make_outputs(**sizes, device=device)
    return [*(tensors[name] for name in module.TENSORS), *inputs[count:]]


def call(module: ModuleType, name: str, arguments: Sequence[Any]) -> Any:
    """The result of a function of the module, such as the kernel's own or `reference`."""
    given = dict(zip(module.TENSORS, arguments, strict=False))
    places = [given[name] for name in module.INPUTS]
    named = {name: x for name, x in given.items() if name not in module.INPUTS}
    return getattr(module, name)(*places, *arguments[len(given) :], **named)
