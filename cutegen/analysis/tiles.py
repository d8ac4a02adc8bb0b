"""The tiles that the blocks of a kernel take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tiles:
    """What blocks take one after the other: `count` tiles, each of `blocks` that work on it together; of all blocks
    `most` are launched, where that is limited.
    """

    count: int
    blocks: int = 1
    most: int | None = None
