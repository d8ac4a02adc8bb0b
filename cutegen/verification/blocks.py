"""Modules of persistent kernels, launched with another number of blocks."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType

from cutegen.compiling.loading import load


@cache
def with_blocks(module: ModuleType, blocks: int) -> ModuleType:
    """The same module, whose persistent kernel is launched with no more than so many blocks: nothing but its constant
    BLOCKS, which the host reads as it compiles, is another one.
    """
    assert module.__file__ is not None
    found = load(Path(module.__file__), f"{module.__name__}_in_{blocks}_blocks")
    assert "BLOCKS" in vars(found), "a kernel that is not persistent"
    vars(found)["BLOCKS"] = blocks
    return found
