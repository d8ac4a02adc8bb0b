"""Functions that kernels of another file call."""

from __future__ import annotations

from typing import Any


def element_behind(tensor: Any, index: Any) -> Any:
    return tensor[index + 1]
