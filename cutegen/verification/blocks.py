"""Modules of persistent kernels, launched with another number of blocks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from functools import cache, wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from cutegen.compiling.loading import load
from cutegen.contract import asks_multiprocessors

_BLOCKS = re.compile(r"BLOCKS(_\d+)?")  # the numbers of several cases end in those of the cases


@cache
def with_blocks(module: ModuleType, blocks: int) -> ModuleType:
    """The same module, whose persistent kernels are launched with no more than so many blocks: nothing but its constant
    BLOCKS, which the host reads as it compiles, is another one, of cases that of each one; where the number follows
    from the GPU, it is compiled for one of so many multiprocessors.
    """
    assert module.__file__ is not None
    found = load(Path(module.__file__), f"{module.__name__}_in_{blocks}_blocks")
    changed: dict[str, object] = {}
    for name, value in vars(found).items():
        if _BLOCKS.fullmatch(name):
            changed[name] = blocks
        elif _has_blocks(value):  # of cases that share functions
            changed[name] = replace(value, BLOCKS=blocks)
        elif isinstance(value, tuple) and any(map(_has_blocks, value)):
            changed[name] = tuple(replace(one, BLOCKS=blocks) if _has_blocks(one) else one for one in value)
    if asks_multiprocessors(found):
        changed["compile_for"] = _on(blocks, found.compile_for)
    assert changed, "a kernel that is not persistent"
    vars(found).update(changed)
    return found


def _has_blocks(value: object) -> bool:
    return is_dataclass(value) and not isinstance(value, type) and hasattr(value, "BLOCKS")


def _on(multiprocessors: int, own: Callable[..., Any]) -> Callable[..., Any]:
    """A module's function that compiles it, for that many multiprocessors, independent of its argument."""

    @wraps(own)
    def compile_for(*arguments: Any, **named: Any) -> Any:
        return own(*arguments, **{**named, "multiprocessors": multiprocessors})

    return compile_for
