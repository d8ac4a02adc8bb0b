"""The work of a kernel, independent of its schedule."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """The least work that a computation takes: operations, and bytes of memory that are moved."""

    operations: int
    bytes: int
