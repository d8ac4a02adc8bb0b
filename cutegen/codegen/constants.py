"""The constants at the top of a module."""

from __future__ import annotations

Constants = list[tuple[str, str, str, str]]  # name, value, comment, key of the spec
LARGEST = ("LARGEST", "2**31 - 2**21", "size: 32-bit coordinates reach a tile beyond it", "")
